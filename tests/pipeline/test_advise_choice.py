"""What follows from the answers, without Spark: the choice of tables, the size, the settings file."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.errors import AdviceError
from hms_cache_proxy.pipeline.advise import catalogue, plots, wording
from hms_cache_proxy.pipeline.advise.advice import (
    HEADROOM,
    LEAST_CACHE_BYTES,
    MIB,
    REMEDIES,
    SETTINGS,
    advise,
    cache_bytes,
    choose,
)
from hms_cache_proxy.pipeline.advise.lines import LinesRead
from hms_cache_proxy.pipeline.advise.patterns import KnownTable
from hms_cache_proxy.pipeline.advise.questions import (
    CURABLE,
    NO_CACHE,
    Answers,
    ObjectTraffic,
    Overview,
    Relayed,
    Traffic,
)
from hms_cache_proxy.pipeline.advise.report import report
from hms_cache_proxy.pipeline.advise.snippet import snippet

FROM, TO = datetime(2026, 11, 22, 16, 0, tzinfo=UTC), datetime(2026, 11, 22, 17, 0, tzinfo=UTC)


def item(name: str | None, reads: float, served: float, size: int, hits: float = 0) -> ObjectTraffic:
    of_table = name is not None and name.count(".") == 2
    return ObjectTraffic(name, of_table, reads, served, hits, 0, 1, size)


def answers(*items: ObjectTraffic, relayed: list[Relayed] | None = None, several: float = 0) -> Answers:
    reads, served = sum(one.reads for one in items) + several, sum(one.served for one in items) + several
    tables = sum(one.of_table for one in items)
    hits = sum(one.hits for one in items)
    overview = Overview(FROM, TO, 10, reads, 100, reads, hits, served, tables, 1, 1, several, False)
    return Answers(overview, [], 60, [], list(items), relayed or [], [], [])


SKEWED = answers(
    item("hive", 100, 100, 1000),
    item("hive.a.hot", 600, 600, 10 * MIB, hits=600),
    item("hive.a.warm", 200, 200, 10 * MIB),
    item("hive.a.huge", 60, 60, 1000 * MIB),
    item("hive.b.refused", 40, 0, 5 * MIB),
)


@pytest.mark.parametrize(
    ("wanted", "tables", "reached"),
    [
        (0.05, [], 0.1),
        (0.5, ["hot"], 0.7),
        (0.7, ["hot"], 0.7),
        (0.71, ["hot", "warm"], 0.9),
        (0.9, ["hot", "warm"], 0.9),
        (0.95, ["hot", "warm", "huge"], 0.96),
        (0.99, ["hot", "warm", "huge"], 0.96),
    ],
)
def test_the_tables_that_give_most_for_their_size(wanted: float, tables: list[str], reached: float) -> None:
    choice = choose(SKEWED, wanted)
    assert [one.object for one in choice.tables] == [f"hive.a.{name}" for name in tables]
    assert choice.reached == pytest.approx(reached)
    assert (choice.now, choice.best) == (pytest.approx(0.6), pytest.approx(0.96))
    sizes = {"hot": 10 * MIB, "warm": 10 * MIB, "huge": 1000 * MIB}
    assert choice.size == 1000 + sum(sizes[name] for name in tables)
    assert [ratio for _, ratio in choice.curve] == pytest.approx([0.1, 0.7, 0.9, 0.96])
    assert [size for size, _ in choice.curve] == sorted(size for size, _ in choice.curve)


def test_calls_about_several_tables_are_served_too() -> None:
    choice = choose(answers(item("hive.a.t", 10, 10, MIB), several=30), 0.7)
    assert (choice.tables, choice.reached) == ((), pytest.approx(0.75))


def test_the_curve_of_many_tables_ends_where_it_ends() -> None:
    many = answers(*(item(f"hive.d.t{number}", 1, 1, 100) for number in range(5000)))
    choice = choose(many, 0.5)
    assert len(choice.tables) == 2500
    assert len(choice.curve) < 500 and choice.curve[-1] == (500_000, pytest.approx(1.0))


def test_the_size_is_whole_mebibytes_with_room() -> None:
    assert cache_bytes(0) == LEAST_CACHE_BYTES
    assert cache_bytes(1000 * MIB) == 1000 * MIB * HEADROOM
    assert cache_bytes(1000 * MIB + 1) == 1251 * MIB


def test_settings_that_the_proxy_reads(tmp_path: Path) -> None:
    missed = Relayed("get_all_tables", "miss", "order", 40, 1, 1, True, "hive.b")
    given = replace(SKEWED, relayed=[missed, replace(missed, method="get_tables", calls=10)])
    advice = advise(["log"], LinesRead(10, ()), given, None, 0.9)
    text = snippet(advice)
    file = tmp_path / "advice.toml"
    file.write_text(text)
    config = load(file, {}, {"upstream": "thrift://m:9083"})
    assert config.include == ("a.hot", "a.warm") and config.exclude == ()
    assert config.cache.max_bytes == advice.cache_bytes == 64 * MIB
    assert config.list_order == "metastore", "what changes answers is a comment"
    assert '\n#list_order = "name"\n' in text and "5.0% of reads" in text
    for setting, _ in SETTINGS.values():
        file.write_text(setting)
        load(file, {}, {})


def test_what_each_suggestion_is_worth() -> None:
    """The best first; misses that caching cures are the tables', and what nobody can cure is no suggestion."""
    missed = Relayed("get_tables", "miss", Reason.ORDER.value, 30, 1, 1, True, "hive.b")
    given = replace(
        SKEWED,
        relayed=[
            *(missed, replace(missed, method="get_all_tables", calls=10)),
            replace(missed, reason=Reason.FULL.value, calls=200),
            replace(missed, reason="nothing helps", calls=100),
            replace(missed, outcome="relay", calls=100),
        ],
    )
    advice = advise(["log"], LinesRead(10, ()), given, None, 0.9)
    assert [(one.reason, one.calls, round(one.after, 4)) for one in advice.worth] == [
        (None, pytest.approx(300), 0.9),
        (Reason.ORDER.value, 40, 0.64),
    ]
    assert advice.summary()["worth"][1]["hit_ratio"] == {"before": 0.6, "after": 0.64}
    page = report(advice, "", [])
    assert "What each suggestion is worth" in page and "64.0%" in page


def test_names_that_need_quotes(tmp_path: Path) -> None:
    odd = answers(item('hive.we"ird.x*', 10, 10, MIB), item("hive.other.t", 1, 0, MIB))
    advice = advise(["log"], LinesRead(10, ()), odd, frozenset({KnownTable('we"ird', "y")}), 0.9)
    file = tmp_path / "advice.toml"
    file.write_text(snippet(advice))
    selection = load(file, {}, {}).selection
    assert selection.admits(b'we"ird', b"x*") and not selection.admits(b'we"ird', b"y")
    assert not selection.admits(b"other", b"t")


def test_a_table_of_two_catalogs_is_one_for_patterns() -> None:
    twice = answers(item("hive.a.t", 10, 10, MIB), item("other.a.t", 0, 0, 0), item("hive.a.u", 5, 0, MIB))
    advice = advise(["log"], LinesRead(10, ()), twice, frozenset({KnownTable("a", "t"), KnownTable("a", "z")}), 0.6)
    assert advice.patterns.admitted == {KnownTable("a", "t")}
    assert advice.never.names == (KnownTable("a", "z"),)


def test_what_cannot_be_said_is_not_said() -> None:
    unknown = advise(["log"], LinesRead(10, ()), SKEWED, None, 0.9)
    assert unknown.never.known is None and "a list of all tables is needed" in wording.never(unknown)
    catalogue = frozenset({KnownTable("a", "hot"), KnownTable("a", "cold"), KnownTable("b", "refused")})
    known = advise(["log"], LinesRead(10, ()), SKEWED, catalogue, 0.9)
    assert known.never.names == (KnownTable("a", "cold"),)
    assert wording.never(known) == "1 of 3 tables was never read: a.cold."
    nothing = advise(["log"], LinesRead(1, ()), answers(item(None, 0, 0, 0)), None, 0.9)
    assert any("no advice on the size" in sentence for sentence in wording.sentences(nothing))
    assert nothing.patterns.include == nothing.patterns.exclude == ()


def test_a_log_without_reads_leaves_nothing_out() -> None:
    """Writes of a job, or a metastore that was away, say nothing of what should be cached."""
    silent = advise(
        ["log"], LinesRead(9, ()), answers(item("hive.a.t", 0, 0, 0)), frozenset({KnownTable("a", "u")}), 0.9
    )
    assert silent.patterns.include == silent.patterns.exclude == ()


@pytest.mark.usefixtures("pipeline_extra")
def test_names_that_would_be_obeyed() -> None:
    """By a terminal, or as a formula of a plot; and two that are too long to be told apart."""
    assert wording.printable("Jürgen\x1b[2J\u202e") == "Jürgen\\u001b[2J\\u202e"
    long = "x" * 60
    odd = [r"hive.a.$\frac$", "hive.a.\t", f"hive.a.{long}", f"hive.b.{long}"]
    found = replace(answers(*(item(name, 9, 9, 9) for name in odd)), traffic=[Traffic(FROM, "hit", 1.0)])
    advice = advise(["log"], LinesRead(9, ()), found, None, 0.9)
    with warnings.catch_warnings(action="error"):
        assert all(plot.png.startswith(b"\x89PNG") for plot in plots.plots(advice))


def test_reasons_are_the_proxys() -> None:
    known = {reason.value for reason in Reason} | {NO_CACHE}
    assert set(REMEDIES) | set(SETTINGS) | set(CURABLE) <= known


def test_a_list_of_tables(tmp_path: Path) -> None:
    file = tmp_path / "tables"
    file.write_text("# all\nSales.Orders\n\nhive.crm.x\n")
    assert catalogue.from_file(str(file)) == {KnownTable("sales", "orders"), KnownTable("crm", "x")}
    file.write_text("sales.orders\norders\n")
    with pytest.raises(AdviceError, match=r"tables:2: 'orders' is not database.table"):
        catalogue.from_file(str(file))
    with pytest.raises(AdviceError, match="cannot read"):
        catalogue.from_file(str(tmp_path / "none"))


def test_sizes_read_well() -> None:
    sizes = [wording.size(number) for number in (0, 1023, 1024, 1536, 100 * 1024, 5 << 40, 9 << 50)]
    assert sizes == ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "100 KiB", "5.0 TiB", "9216 TiB"]
