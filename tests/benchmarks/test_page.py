"""What a run keeps is what the page shows: every part of docs/benchmarks.md is made of one run's figures."""

from __future__ import annotations

import json

import pytest

from benchmarks import million, single
from benchmarks.contents import CASES
from benchmarks.filters import ROWS
from benchmarks.freshness import Burst, Freshness
from benchmarks.goals import verdicts
from benchmarks.measure import Result
from benchmarks.report import VARIED_CASES, document_of
from benchmarks.run import Run
from benchmarks.servers import BARE, CACHED_STORE, HIT, HIVE, MISS, SERVERS
from docs import benchmark_page, gains
from docs.pages import SINGLE
from tests.figures import ROOT, Figures

HITS, MISSES = {"hit": 1234}, {"miss": 1234}


def result(server: str, rps: float) -> Result:
    counted = {HIT: HITS, MISS: MISSES}.get(server, {})
    return Result(rps, 0.5, 0.9, 2.0, 1e6 / rps, 1.0, 100.0, 1234, dict(counted))


def a_run() -> Run:
    rates = {HIVE: 500.0, CACHED_STORE: 20_000.0, MISS: 400.0, HIT: 90_000.0, BARE: 110_000.0}
    everywhere = {case.key: {server: result(server, rates[server]) for server in SERVERS} for case in CASES}
    fresh = Freshness([10.0, 20.0], 15.0, 20.0, 20.0, 100.0, 1.0, 1.0)
    both = {HIVE: result(HIVE, 100.0), HIT: result(HIT, 3000.0)}
    return Run(
        results=everywhere,
        first={"many_tables": everywhere["many_tables"]},
        half={case.key: result(HIT, 45_000.0) for case in CASES if case.hot},
        varied={case: both for case in VARIED_CASES},
        relay={"get_database": single.Relay(0.5, 0.6), "get_table": single.Relay(3.0, 3.1)},
        beside=result(HIT, 200.0),
        slow=single.Slow(130_000_000, 60_000_000, 61_000_000),
        freshness={"nothing else changes": fresh, benchmark_page.BUSY: fresh},
        burst=Burst(100, 5.0, 4.0),
        prewarm=million.Prewarm(1_000_000, 25.0, 20.0, 20.0, 200_000_000, [(0, 50), (1_000_000, 60)], 9, 9, 1.0, 2.0),
        restart=million.Restart(1_000_000, 500.0, 700.0),
        filters={row.label: both for row in ROWS},
        shape={"bytes_per_partition": 213.0},
        missing={"this, CachedStore": "it takes minutes"},
        seconds={"all": 600.0},
    )


def page_of(run: Run) -> dict[str, str]:
    document = json.loads(json.dumps(document_of(run)))
    found = Figures("benchmarks", "c", ("benchmarks",), "abcdef01", False, "2030-01-01", {}, document)
    return {name: "\n".join(part(found)) for name, part in benchmark_page.PARTS.items()}


def test_every_part_shows_what_was_measured() -> None:
    page = page_of(a_run())
    assert "90,000 `get_table_req` per second of one table" in page["answers"]
    assert "at once" not in page["answers"] and "15 ms" in page["answers"]
    for case in CASES:
        assert page["calls"].count(f"| {case.label} |") == len(SERVERS)
    assert page["first"].count("tables in turn") == len(SERVERS)
    assert page["calls"].count("| 1,234 | 0 |") == len(CASES)
    assert "| 0 | 1,234 |" in page["calls"]
    assert "**no**" in page["goals"] and "| yes |" in page["goals"]
    assert "CachedStore reloads everything every" in page["calls"]
    assert "it takes minutes" in page["missing"]


def test_each_missed_goal_has_its_reason_and_no_other() -> None:
    run = a_run()
    told = page_of(run)["goals"].partition("Why goals were missed:")[2]
    missed = {verdict.key for verdict in verdicts(run) if not verdict.reached}
    assert missed and missed < benchmark_page.REASONS.keys()
    assert [key for key, why in benchmark_page.REASONS.items() if (why in told) != (key in missed)] == []
    assert benchmark_page.REASONS.keys() <= {verdict.key for verdict in verdicts(run)}


def test_a_missed_goal_without_a_reason_is_an_error() -> None:
    run = a_run()
    run.slow = single.Slow(130_000_000, 60_000_000, 190_000_000)
    with pytest.raises(ValueError, match="missed the goal 'slow': find out why"):
        page_of(run)


def test_a_hit_that_was_relayed_is_shown_as_what_it_was() -> None:
    run = a_run()
    run.results["get_database"][HIT].counted["miss"] = 3
    page = page_of(run)
    assert "proxy, 1,234 of 1,237 hits" in page["calls"]
    assert "| get_database, hot | >= 75 % of a bare uvloop server |" in page["goals"]
    (row,) = (line for line in page["goals"].splitlines() if line.startswith("| get_database, hot | >= 75"))
    assert row.endswith("| **no** |")


def test_a_run_without_the_last_part_has_a_page() -> None:
    run = a_run()
    run.prewarm = run.restart = None
    run.filters = {}
    assert "How long does it take to fill" not in page_of(run)["answers"]


def test_what_the_readme_shows_of_a_run() -> None:
    document = json.loads(json.dumps(document_of(a_run())))
    rows = list(gains.speed(Figures("benchmarks", "c", ("benchmarks",), "abcdef01", False, "2030-01-01", {}, document)))
    assert [row[1] for row in rows] == ["500", "2,000", "at once"]
    assert [row[2] for row in rows] == ["90,000", "11.1", "15 ms (median; 95 %: 20 ms)"]
    assert {row[3] for row in rows} == {"`c` at abcdef01, 2030-01-01"}


def test_what_the_readme_shows_of_the_bridge() -> None:
    counts = {"steps": 30, "through": 30, "without": 4, "spark": "pyspark-4.1", "iceberg": "iceberg-spark-1.12.0"}
    row = gains.steps(Figures("with-and-without", "c", ("tests",), "abcdef01", False, "2030-01-01", {}, counts))
    assert row[:3] == ["steps of a job that succeed: Spark 4.1 with Iceberg 1.12.0", "4 of 30", "30 of 30"]


def test_make_bench_all_measures_what_the_pages_show() -> None:
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    (listed,) = (line for line in text.splitlines() if line.startswith("BENCHMARKS ="))
    assert sorted(listed.split()[2:]) == sorted([*SINGLE, "curves"])
