"""Audits without Spark, of caches of a database that cannot show one state to several connections: whole, sampled,
interrupted and resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner

from hms_cache_proxy.cli.audit import AuditOptions, audit
from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import AuditError
from hms_cache_proxy.pipeline import audit as audits
from hms_cache_proxy.pipeline import ranges
from hms_cache_proxy.pipeline.audit import Audit
from hms_cache_proxy.pipeline.audit_plan import AuditPlan, Sample
from hms_cache_proxy.pipeline.audit_progress import NAME, AuditProgress, AuditResult
from hms_cache_proxy.pipeline.findings import TaskResult
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.ranges import Partitioned, PartitionStretch
from hms_cache_proxy.snapshots.place import Place
from tests.follower.harness import Followed
from tests.pipeline.conftest import Follow, World
from tests.pipeline.test_audit import plant

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
SILENT = LineReport(lambda line: None)
LOADED_S = 900.0
"""However slow the machine."""


@pytest.fixture
def loaded(embedded_world: World, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> Followed:
    monkeypatch.setattr(audits, "AT_EVENT_S", LOADED_S)
    followed: Followed = follow(embedded_world.metastore)
    followed.loaded(LOADED_S)
    return followed


@pytest.fixture
def wrong(embedded_world: World, loaded: Followed) -> tuple[Config, Counter[tuple[str, str, str | None]]]:
    """A cache with planted differences, and what they are."""
    loaded.kill()
    return loaded.config, Counter(plant(embedded_world, loaded))


def kinds(found: AuditResult) -> Counter[tuple[str, str, str | None]]:
    return Counter((row.kind, row.difference, row.field) for row in found.shown)


def rows_of(out: Path) -> Counter[tuple[str, str, str | None]]:
    """The same of the files."""
    found = pyarrow.parquet.read_table(out).to_pylist()
    return Counter((row["kind"], row["difference"], row["field"]) for row in found)


def test_nothing_while_it_changes(embedded_world: World, loaded: Followed) -> None:
    """The proxy and the metastore go on, after the cache was copied."""
    told = list[str]()

    def tell(line: str) -> None:
        told.append(line)
        for _ in range(3):
            embedded_world.changes.one()

    found = Audit(AuditPlan(loaded.config), 1, LineReport(tell)).run()
    assert not found.differences, found
    assert found.compared["tables"] > 50 and found.compared["partitions"] > 100
    assert found.first_event_id == found.event_id > 0 and len(told) > 2
    assert not list(Path(loaded.config.data_dir).glob("audit-*")), "the copy is removed"


def test_planted_differences(wrong: tuple[Config, Counter[tuple[str, str, str | None]]], tmp_path: Path) -> None:
    config, planted = wrong
    found = Audit(AuditPlan(config, (tmp_path / "out").as_uri()), 1, SILENT).run()
    assert kinds(found) == planted == rows_of(tmp_path / "out")
    assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".parquet"] * len(
        list((tmp_path / "out").iterdir())
    )


@pytest.mark.parametrize("rounds", [1, 4, 9, 20])
def test_resumed(
    wrong: tuple[Config, Counter[tuple[str, str, str | None]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rounds: int,
) -> None:
    """What was compared before an interruption is not compared again, and nothing is found twice or lost."""
    config, planted = wrong
    monkeypatch.setattr(audits, "ROUND_COST", 1)
    monkeypatch.setattr(ranges, "TABLES_PER_STRETCH", 12)
    monkeypatch.setattr(ranges, "PARTITIONS_PER_STRETCH", 20)
    whole = Audit(AuditPlan(config), 1, SILENT).run()
    left, kept = rounds, AuditProgress.keep

    def interrupted(progress: AuditProgress, results: Sequence[TaskResult]) -> None:
        nonlocal left
        kept(progress, results)
        left -= 1
        if not left:
            raise KeyboardInterrupt

    plan = AuditPlan(config, (tmp_path / "out").as_uri())
    monkeypatch.setattr(AuditProgress, "keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Audit(plan, 1, SILENT).run()
    monkeypatch.setattr(AuditProgress, "keep", kept)
    Place(plan.out).write("part-torn.parquet", b"PAR1")  # of the round that was interrupted
    with pytest.raises(AuditError, match="is not empty: --out must name a new directory, or one of an audit"):
        Audit(plan, 1, SILENT).run()
    with pytest.raises(AuditError, match="differs in: sample; it cannot be resumed"):
        Audit(AuditPlan(config, plan.out, Sample(0.5), resume=True), 1, SILENT).run()
    with pytest.raises(AuditError, match="differs in: proxy; it cannot be resumed"):
        Audit(AuditPlan(replace(config, data_dir=str(tmp_path)), plan.out, resume=True), 1, SILENT).run()
    found = Audit(AuditPlan(config, plan.out, resume=True), 1, SILENT).run()
    assert kinds(found) == planted == rows_of(tmp_path / "out")
    assert found.compared == whole.compared
    assert not (tmp_path / "out" / NAME).exists()


def test_a_damaged_document(loaded: Followed, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / NAME).write_text("{}")
    with pytest.raises(AuditError, match="is damaged"):
        Audit(AuditPlan(loaded.config, (tmp_path / "out").as_uri(), resume=True), 1, SILENT).run()


def test_samples(loaded: Followed) -> None:
    """Of each seed another one; together they are everything."""
    whole = Audit(AuditPlan(loaded.config), 1, SILENT).run().compared
    some = [Audit(AuditPlan(loaded.config, "", Sample(0.3, seed)), 1, SILENT).run().compared for seed in range(3)]
    for compared in some:
        assert compared["databases"] == whole["databases"]
        for kind in ("tables", "partitions"):
            assert 0 < compared[kind] < whole[kind], kind
    assert len({compared["tables"] for compared in some} | {compared["partitions"] for compared in some}) > 2


def test_the_share_of_a_sample() -> None:
    sample = Sample(0.1, 7)
    assert 800 < sum(sample.takes(b"hive", b"sales", b"t%d" % number) for number in range(10_000)) < 1200


def stretch(names: str, after: str = "", until: str = "") -> PartitionStretch:
    tables = tuple(Partitioned(b"hive", b"sales", name.encode(), 1, False) for name in names)
    return PartitionStretch(0, tables, 1, after.encode() or None, until.encode() or None)


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ((), [("ab", "", ""), ("c", "", "k"), ("c", "k", "p"), ("c", "p", ""), ("de", "", "")]),
        ((b"a",), [("b", "", ""), ("c", "", "k"), ("c", "k", "p"), ("c", "p", ""), ("de", "", "")]),
        ((b"b",), [("c", "", "k"), ("c", "k", "p"), ("c", "p", ""), ("de", "", "")]),
        ((b"c", b"k"), [("c", "k", "p"), ("c", "p", ""), ("de", "", "")]),
        ((b"c", b"m"), [("c", "m", "p"), ("c", "p", ""), ("de", "", "")]),
        ((b"c",), [("de", "", "")]),
        ((b"d", b"x"), [("d", "x", ""), ("e", "", "")]),
        ((b"e",), []),
    ],
)
def test_what_is_left(after: tuple[bytes, ...], left: list[tuple[str, str, str]]) -> None:
    """Stretches may be others than those of the audit that was interrupted."""
    progress = AuditProgress("", {}, resume=False)
    progress.partitions_after = (b"hive", b"sales", *after) if after else ()
    everything = [stretch("ab"), stretch("c", "", "k"), stretch("c", "k", "p"), stretch("c", "p"), stretch("de")]
    assert progress.partitions_left(everything) == [stretch(*one) for one in left]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resume": True}, "--resume needs --out"),
        ({"proxy": "thrift://a:1", "data_dir": "d"}, "give --data-dir or --proxy, not both"),
    ],
)
def test_options_that_do_not_go_together(change: dict[str, object], words: str) -> None:
    given: dict[str, object] = dict(data_dir=None, proxy=None, out="", sample=100.0, seed=0, resume=False)
    make: Callable[..., AuditOptions] = AuditOptions
    with pytest.raises(Exception, match=words):
        make(**{**given, "connections": None, **change}).plan(Config())


@pytest.mark.parametrize(
    ("url", "proxy", "connections", "many"),
    [
        ("postgresql://a/b", None, None, 4),
        ("postgresql+psycopg2://a/b", None, 1, 1),
        ("mysql://a/b", None, None, 1),
        ("sqlite:////a", None, 1, 1),
        ("postgresql://a/b", "thrift://a:1", None, 1),
        ("mysql://a/b", None, 2, 0),
        ("postgresql://a/b", "thrift://a:1", 2, 0),
    ],
)
def test_connections(url: str, proxy: str | None, connections: int | None, many: int) -> None:
    """`many` 0: refused."""
    options = AuditOptions(None, proxy, "", 100.0, 0, False, connections)
    config = Config(store_url=url)
    if many:
        assert options.at_once(config) == many
    else:
        with pytest.raises(Exception, match="an audit has one"):
            options.at_once(config)


def test_spark_that_is_not_used(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/none.db"
    found = CliRunner().invoke(audit, ["--store-url", url, "--master", "local[2]"])
    assert found.exit_code == 2 and "an audit over one connection does not use it" in found.output
