"""`hms-cache-proxy advise` as an operator runs it, on logs whose right advice is known by construction."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.cli.main import main
from hms_cache_proxy.pipeline.advise import lines, questions
from hms_cache_proxy.pipeline.advise.questions import Answers
from hms_cache_proxy.pipeline.session import session
from tests.pipeline import skewed_log
from tests.pipeline.conftest import SMALL
from tests.pipeline.skewed_log import MIB, Log

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark's sockets

COMMAND_S = 300
MAIN = "from hms_cache_proxy.cli import main; main()"


@dataclass(frozen=True)
class Run:
    """One run: what it said, where it wrote."""

    code: int
    out: str
    err: str
    directory: Path

    @property
    def advice(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "advice.json").read_text())
        return found


def command(*arguments: str, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", before + MAIN, *arguments],
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def spark(pipeline_extra: None) -> Iterator[None]:
    """One Spark for all runs, which are done in this process: a start takes longer than the rest."""
    with session("local[2]", SMALL):
        yield


def advise(directory: Path, *arguments: str) -> Run:
    """The command line, in this process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["hms-cache-proxy", "advise", "--out", str(directory / "advice"), "--master", "local[2]", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = before
    return Run(int(ended.value.code or 0), out.getvalue(), err.getvalue(), directory / "advice")


@pytest.fixture(scope="module")
def run(spark: None, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The skewed log in two files, one of them compressed, among lines that are none, and a list of all tables."""
    directory = tmp_path_factory.mktemp("advise")
    log = skewed_log.skewed()
    half = len(log.lines) // 2
    skewed_log.Log(lines=log.lines[:half] + skewed_log.BAD).write(directory / "access-0.jsonl")
    skewed_log.Log(lines=log.lines[half:]).write(directory / "access-1.jsonl.gz")
    tables = directory / "tables"
    tables.write_text("\n".join(skewed_log.catalogue()))
    made = advise(directory, "--tables", str(tables), f"{directory}/access-*")
    assert made.code == 0, made.err
    return made


def test_the_counts(run: Run) -> None:
    advice = run.advice
    total = len(skewed_log.skewed().lines)
    assert advice["lines"] == {"read": total, "empty": 2, "invalid": 4}
    assert (advice["calls"], advice["reads"], advice["sampled"]) == (total, skewed_log.READS, False)
    assert (advice["from"], advice["to"]) == ("2026-11-22T16:00:00+00:00", "2026-11-22T17:00:00+00:00")
    ratios = advice["hit_ratio"]
    assert ratios["best"] == round(skewed_log.SERVED / skewed_log.READS, 4)
    assert ratios["now"] == round(skewed_log.HITS / skewed_log.READS, 4)


def test_the_tables_the_patterns_and_the_size(run: Run) -> None:
    """Ten hot ones and nine of the warm ones reach 90 %; tables of the list that nobody reads are left out."""
    advice = run.advice
    assert advice["hit_ratio"]["reached"] == round(skewed_log.REACHED / skewed_log.READS, 4)
    assert advice["cached_tables"] == 19
    assert sorted(advice["include"]) == ["sales.hot_*", *(f"sales.warm_{number:02}" for number in range(9))]
    assert advice["exclude"] == []
    wanted = 10 * MIB + 9 * 10 * MIB + skewed_log.DATABASE_BYTES
    assert advice["cache_max_bytes"] == -(-int(wanted * 1.25) // MIB) * MIB
    assert [one["object"] for one in advice["hot"][:10]] == [f"hive.sales.{table}" for table in skewed_log.HOT]
    assert advice["hot"][0] == {"object": "hive.sales.hot_00", "reads": 1000, "bytes": MIB}
    assert advice["never_read"] == {"known": 134, "tables": sorted(skewed_log.NEVER)}


def test_who_hammers_what_is_relayed_and_what_should_be_a_filter(run: Run) -> None:
    advice = run.advice
    (hammer,) = advice["hammering"]
    assert (hammer["host"], hammer["user"], hammer["in_one_minute"]) == ("10.0.0.9", "poller", 900)
    assert hammer["method"] == "get_current_notificationEventId"
    relayed = {(one["method"], one["reason"]): one for one in advice["relayed"]}
    assert {key: one["calls"] for key, one in relayed.items()} == {
        ("get_current_notificationEventId", "events"): 900,
        ("get_partitions_by_names", "not_loaded"): 1000,
        ("get_table", "no_write_id"): 500,
        ("get_table", "full"): 100,
    }
    assert {one["method"] for one in relayed.values() if one["always"]} == {
        "get_current_notificationEventId",
        "get_partitions_by_names",
    }
    assert "transactional_reads" in relayed["get_table", "no_write_id"]["remedy"]
    (listing,) = advice["listings"]
    assert listing == {
        **{"table": "hive.sales.hot_00", "method": "get_partitions", "calls": 40, "bytes": 40 * (MIB - 4096)},
        **{"host": "10.0.0.8", "user": "bi"},
    }


def test_the_settings_are_accepted(run: Run) -> None:
    checked = command(
        *("check-config", "--config", str(run.directory / "advice.toml")),
        *("--upstream", "thrift://metastore:9083", "--json"),
    )
    assert checked.returncode == 0, checked.stderr
    settings = json.loads(checked.stdout)
    advice = run.advice
    assert (settings["include"], settings["exclude"]) == (advice["include"], advice["exclude"])
    assert settings["cache"]["max_bytes"] == advice["cache_max_bytes"]
    lines = (run.directory / "advice.toml").read_text().splitlines()
    said = [line for line in lines if "transactional_reads" in line]
    assert said == ['#transactional_reads = "strict"'], "what changes answers is only a comment"


def test_what_people_see(run: Run) -> None:
    said = " ".join(run.out.split())
    for words in (
        "2 empty and 4 invalid lines were ignored",
        "access-0.jsonl: 2 empty, 4 invalid",
        "19 of 131 tables give a hit ratio of 90.3%",
        "3 of 134 tables were never read: old.a, old.b, sales.forgotten.",
        "poller at 10.0.0.9 calls get_current_notificationEventId 900 times in one minute",
        "get_partitions lists all of hive.sales.hot_00: 40 times",
        "report.html",
    ):
        assert words in said, run.out
    page = (run.directory / "report.html").read_text()
    assert page.count("<img ") == page.count("data:image/png;base64,") == 4
    for words in ("hive.sales.hot_00", "old.b", "sales.hot_*", "poller at 10.0.0.9", "no_write_id", "not json"):
        assert words in page, words
    for name in ("traffic", "hit_ratio", "tables", "reasons"):
        picture = (run.directory / f"{name}.png").read_bytes()
        width, height = struct.unpack(">II", picture[16:24])
        assert picture[:8] == b"\x89PNG\r\n\x1a\n" and width > 800 and height > 300


def test_a_sample_without_a_cache_and_a_list_of_tables(spark: None, tmp_path: Path) -> None:
    """Lines stand for more than one call; relays of a proxy without a cache are what a cache would have served."""
    skewed_log.relayed_sample().write(tmp_path / "access.jsonl")
    made = advise(tmp_path, "--hit-ratio", "0.75", "--json", str(tmp_path / "access.jsonl"))
    assert made.code == 0, made.err
    advice = json.loads(made.out)
    assert advice == made.advice
    assert (advice["lines"]["read"], advice["calls"], advice["reads"], advice["sampled"]) == (100, 500, 500, True)
    assert advice["hit_ratio"] == {"now": 0.0, "best": 1.0, "wanted": 0.75, "reached": 0.8}
    assert (advice["include"], advice["exclude"]) == (["d.t"], [])
    assert advice["cache_max_bytes"] == 64 * MIB, "never less"
    assert advice["never_read"] == {"known": None, "tables": []}


def ask(logs: Sequence[Path], **settings: object) -> Answers:
    """The answers themselves, of the session that runs, with these settings of Spark SQL."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    assert running is not None
    running.catalog.clearCache()
    before = {name: running.conf.get(f"spark.sql.{name}") for name in settings}
    try:
        for name, value in settings.items():
            running.conf.set(f"spark.sql.{name}", str(value))
        lines.read(running, [str(log) for log in logs])
        return questions.ask(running)
    finally:
        for name, value in before.items():
            running.conf.set(f"spark.sql.{name}", value)  # type: ignore[arg-type]


def test_the_answers_do_not_depend_on_how_spark_divides_the_log(spark: None, tmp_path: Path) -> None:
    log = Log()
    for number in range(60):  # more than are shown, and all alike
        table, client = f"hive.sales.t{number:02}", {"client": f"10.0.1.{number}:1", "user": f"u{number % 7}"}
        log.add(4, "get_partitions", table, bytes=300_000, **client)
        log.add(4, "drop_table", table, "write", **client)
        log.add(4, "get_table", table, "miss", reason="no_write_id", **client)
    files = [tmp_path / f"access-{number}.jsonl" for number in range(6)]
    for number, file in enumerate(files):
        Log(lines=log.lines[number::6]).write(file)
    divided = {"adaptive.enabled": False, "files.maxPartitionBytes": 5000}
    one, other = ask(files, **{"shuffle.partitions": 1}), ask(files[::-1], **divided, **{"shuffle.partitions": 7})
    for answers in (one, other):
        answers.items.sort(key=str)
    assert one == other
    assert len(one.clients) == len(one.listings) == questions.SHOWN


def test_who_asked_most_and_about_what(spark: None, tmp_path: Path) -> None:
    """In all minutes together, not in the busiest one; and who hammers is named among many who do not."""
    log = Log(sample=0.1)
    for minute in range(10):
        log.add(4, "get_table", "hive.sales.often", "miss", reason="no_write_id", minute=minute)
        log.add(2, "get_partitions", "hive.sales.often", bytes=300_000, client="10.0.0.1:1", user="a", minute=minute)
    log.add(9, "get_table", "hive.sales.once", "miss", reason="no_write_id", minute=3)
    log.add(5, "get_partitions", "hive.sales.often", bytes=300_000, client="10.0.0.2:1", user="z", minute=3)
    for number in range(questions.SHOWN + 1):
        log.add(80, "get_table", "hive.sales.t", client=f"10.0.1.{number}:1")
    log.add(70, "get_table", "hive.sales.t", client="10.0.0.9:1", minute=7)
    log.write(tmp_path / "access.jsonl")
    found = ask([tmp_path / "access.jsonl"])
    assert [(one.most, one.objects) for one in found.relayed] == [("hive.sales.often", 2)]
    assert [(one.host, one.user) for one in found.listings] == [("10.0.0.1", "a")]
    assert [one.host for one in found.clients if one.hammers] == ["10.0.0.9"]


def test_the_other_logs_of_a_directory(spark: None, tmp_path: Path) -> None:
    """A slow call is in the access log and in the slow log; and every call in the audit log."""
    log, slow = Log(), Log()
    log.add(9, "get_table", "hive.sales.t")
    log.add(3, "get_table", "hive.sales.t", "miss", reason="no_write_id", us=2_000_000)
    slow.add(3, "get_table", "hive.sales.t", "miss", reason="no_write_id", us=2_000_000, metastore_us=1_900_000)
    audit = {"time": "2026-11-22T16:00:00.000Z", "event": "call", "method": "get_table", "outcome": "hit", "reason": ""}
    log.write(tmp_path / "access-0.jsonl")
    slow.write(tmp_path / "slow-0.jsonl")
    (tmp_path / "audit-0.jsonl").write_text(json.dumps(audit) + "\n")
    overview = ask([tmp_path]).overview
    assert (overview.lines, overview.calls, overview.reads, overview.hits) == (12, 12, 12, 9)


def test_nothing_but_other_lines(spark: None, tmp_path: Path) -> None:
    (tmp_path / "proxy.log").write_text("2026-11-22T16:00:00Z [info] worker listens\n\n")
    made = advise(tmp_path, str(tmp_path / "proxy.log"))
    assert made.code == 1 and "Traceback" not in made.err
    assert "no line is of an access log; 1 line is invalid, as in" in made.err
    assert "[info] worker listens" in made.err


def test_a_file_that_was_cut_off_is_named(spark: None, tmp_path: Path) -> None:
    """As one is that is being compressed."""
    file = tmp_path / "access-0.jsonl.1.gz"
    skewed_log.skewed().write(file)
    file.write_bytes(file.read_bytes()[:5000])
    made = advise(tmp_path, str(tmp_path / "access-*"))
    assert made.code == 1 and made.err.count("\n") == 1, made.err
    assert f"{file}: java.io.EOFException" in made.err


@pytest.mark.usefixtures("pipeline_extra")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "Missing argument 'LOG...'"),
        (("log", "--hit-ratio", "1.5"), 2, "1.5 is not in the range 0<=x<=1"),
        (("log", "--conf", "nothing"), 2, "--conf nothing: is not KEY=VALUE"),
        (("log", "--metastore", "http://x:1"), 2, "only thrift://HOST:PORT is supported"),
        (("log", "--tables", "/nowhere"), 1, "cannot read /nowhere"),
        (("log", "--out", "/dev/null/x"), 1, "/dev/null/x: cannot create this directory"),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    out = () if "--out" in arguments else ("--out", str(tmp_path / "out"))
    done = command("advise", *out, *arguments)
    assert done.returncode == code and words in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.usefixtures("pipeline_extra")
def test_what_is_missing(tmp_path: Path) -> None:
    out = ("advise", "--out", str(tmp_path), "log")
    for module in ("pyspark", "matplotlib"):
        done = command(*out, before=f"import sys; sys.modules['{module}'] = None; ")
        assert done.returncode == 2 and f"{module} is missing: pip install 'hms-cache-proxy[pipeline]'" in done.stderr
    done = command(*out, JAVA_HOME=str(tmp_path / "none"))
    assert done.returncode == 2 and "Java 17 or newer is needed" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
