"""Tables of docs/testing.md and docs/test-results.md are made of what the runs keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docs import pages, results_page
from tests.figures import Figures

ROOT = Path(__file__).parents[1]
MACHINE = {"cores": 2, "processor": "one", "python": "3.11", "load": 1.0}


def kept(name: str, command: str, figures: dict[str, Any], *, changed: bool = False) -> Figures:
    return Figures(name, command, ("tests",), "abcdef01", changed, "2030-01-01", MACHINE, figures)


def test_a_run_of_the_tests() -> None:
    run = {
        "slowdown": 2.34,
        "wall_s": 200.0,
        "tests_s": 350.0,
        "outcomes": {"passed": 4000, "skipped": 2},
        "folders": {"tests/store": {"seconds": 300.0, "items": 12}, "tests/wire": {"seconds": 50.0, "items": 3}},
        "started": {"metastore": {"starts": 7, "seconds": 30.0}, "PostgreSQL": {"starts": 2, "seconds": 1.0}},
    }
    lines = list(pages.test_runs([kept("tests-test", "make test FIGURES=1", run, changed=True)]))
    assert (
        "| `make test FIGURES=1` | 3.3 min | 2.3 | 5.8 min | 4,000 | 0 | 2 | 9 | abcdef01 with changes |"
        " 2030-01-01 | 2 |"
    ) in lines
    assert not any(line.startswith("Failed") for line in lines)
    lines = list(pages.test_times([kept("tests-test", "make test FIGURES=1", run)]))
    assert "| `tests/store` | 300 | 12 |" in lines
    assert lines[-2] == "Started, with the seconds until they answered: metastore 7 (30 s), PostgreSQL 2 (1 s)."


def test_a_run_of_the_tests_names_those_that_failed() -> None:
    run: dict[str, Any] = {"wall_s": 200.0, "tests_s": 350.0, "folders": {}, "started": {}}
    run |= {"slowdown": None, "outcomes": {"passed": 40, "failed": 1, "failed at teardown": 1}}
    named = {**run, "failed": ["tests/a.py::test_b", "tests/c.py::test_d[N-get_table]"]}
    found = [kept("tests-all", "make test-all FIGURES=1", named), kept("tests-test", "make test FIGURES=1", run)]
    lines = list(pages.test_runs(found))
    assert "| `make test FIGURES=1` | 3.3 min |  | 5.8 min | 40 | 2 | 0 | 0 | abcdef01 | 2030-01-01 | 2 |" in lines
    assert [line for line in lines if line.startswith("Failed")] == [
        "Failed in `make test-all FIGURES=1`: `tests/a.py::test_b`, `tests/c.py::test_d[N-get_table]`.",
        "Failed in `make test FIGURES=1`: 2 tests; the run did not keep names.",
    ]


def test_long_runs() -> None:
    run = {"what": "histories", "seeds": [5, 6, 7], "seconds": 60.0, "outcome": "3 runs, nothing found"}
    lines = list(pages.long_runs([kept("long-runs/history", "python -m tests.long_runs history", run)]))
    assert lines[-1] == (
        "| `python -m tests.long_runs history` | histories | 5 to 7 | 60 s | 3 runs, nothing found"
        " | abcdef01 | 2030-01-01 |"
    )


def test_torture() -> None:
    run = {
        "seed": 3,
        "wrong": 0,
        "slow": 1,
        "slowdown": {"at the start": 3.5, "in the mean": 1.25},
        "counts": {
            "reads": 5000,
            "hits": 4000,
            "writes": 300,
            "objects under a lost write": 7,
            "most memory, MiB": 171,
        },
        "kinds": {"cut": {"times": 4, "recovery_s": 1.2}, "deaf": {"times": 3, "recovery_s": None}},
    }
    other = {**run, "seed": 12, "kinds": {"cut": {"times": 1, "recovery_s": 2.6}}}
    found = [kept("torture/seed-12", "make torture SEED=12", other), kept("torture/seed-3", "make torture SEED=3", run)]
    lines = list(pages.torture(found))
    assert lines[2] == (
        "| `make torture SEED=3` | 7 | 2 | 3 | 5,000 | 4,000 | 300 | 7 | 0 | 1 | inf | 171 | 1.2"
        " | abcdef01 | 2030-01-01 |"
    )
    assert lines[-2:] == ["| `cut` | 5 | 2.6 |", "| `deaf` | 3 | inf |"]


def test_faults_that_were_put_back() -> None:
    one = {"fault": "a leaked fence", "planted": "fence_leaked", "kinds": "cut,deaf", "says": "fences", "seed": 1}
    one |= {"minutes": 1.5, "found": True, "said": "fences stand", "commit": "12345678"}
    other = {**one, "found": False}
    elsewhere = [{"fault": "revokes", "why": "nobody revokes", "test": "tests/test_x.py"}]
    document = {"faults": [one, other], "elsewhere": elsewhere}
    lines = list(pages.torture_planted(kept("torture-planted", "python -m tests.torture.planted", document)))
    assert lines[2:4] == [
        "| a leaked fence | `fence_leaked` | `cut`, `deaf` | fences stand | 1 | 1.50 | 12345678 |",
        "| a leaked fence | `fence_leaked` | `cut`, `deaf` | **not found** | 1 | 1.50 | 12345678 |",
    ]
    assert lines[-1] == "| revokes | nobody revokes | `tests/test_x.py` |"


def test_coverage_by_tier_and_package() -> None:
    told = {
        "tiers": {"test": {"lines": 200, "covered": 180}, "all": {"lines": 200, "covered": 190}},
        "share_of_all": {"test": 0.947},
        "packages": {"cache": {"test": 0.98, "all": 0.99}},
        "commits": {"test": "11111111", "all": "22222222"},
    }
    lines = list(pages.coverage(kept("coverage", "python -m tests.covered test all", told)))
    assert "| `test` | 200 | 180 | 90.0% | 94.7% | 11111111 |" in lines
    assert "| `all` | 200 | 190 | 95.0% |  | 22222222 |" in lines
    assert lines[-1] == "| `cache` | 98.0% | 99.0% |"


def test_planted_faults() -> None:
    faults = [
        {"package": "cache", "fault": "a row is lost", "caught": True, "by": "tests/cache/test_x.py::test_y"},
        {"package": "wire", "fault": "a byte is lost", "caught": False, "by": None},
    ]
    lines = list(pages.planted_faults(kept("planted-faults", "python -m tests.planted_faults", {"faults": faults})))
    assert lines[-2:] == [
        "| `cache` | a row is lost | `tests/cache/test_x.py::test_y` |",
        "| `wire` | a byte is lost | **not caught** |",
    ]


METHODS = [["get_table_req", 1217, 5, 0, 0, 0, "fence 5"], ["create_table", 0, 0, 0, 8, 0, ""]]
CALLS = [
    "| method | why not a hit | hit | miss | relayed | write | error |",
    "|---|---|---:|---:|---:|---:|---:|",
    "| `get_table_req` | fence 5 | 1,217 | 5 | 0 | 0 | 0 |",
    "| `create_table` |  | 0 | 0 | 0 | 8 | 0 |",
]


def test_trinos_statements() -> None:
    run: dict[str, Any] = {"statements": 126, "executed": 1412, "differences": 0, "seconds": 61.2}
    run |= {"reads": 1222, "hits": 1217, "methods": METHODS}
    lines = list(pages.trino(kept("trino", "make trino FIGURES=1", {"hive": run})))
    assert lines[0] == (
        "`hive`: 126 statements, executed 1,412 times in 61 s; 0 differences."
        " 1,217 of 1,222 calls other than writes were hits, 99.6%."
    )
    assert lines[2:-1] == CALLS


def test_jobs_of_spark() -> None:
    run = {"steps": 48, "failures": {"read": "expected 1, found 2"}, "seconds": 120.0}
    run |= {"reads": 1222, "hits": 1217, "methods": METHODS}
    lines = list(pages.lakehouse(kept("lakehouse", "make lakehouse FIGURES=1", {"delta": run})))
    assert lines[0] == (
        "`delta`: 48 steps in 2.0 min; 1 not as they should be."
        " 1,217 of 1,222 calls other than writes were hits, 99.6%."
    )
    assert lines[2:-1] == CALLS


def test_one_line_for_each_kind_of_run() -> None:
    run = {"wrong": 0, "slow": 1, "kinds": {"cut": {"times": 4}, "deaf": {"times": 3}}}
    runs = [kept("torture/seed-1", "make torture", run), kept("torture/seed-2", "make torture", run)]
    assert results_page.torture(runs) == "2 runs, 14 faults of 2 kinds; 0 wrong answers; 2 too slow"
    faults = kept("torture-planted", "x", {"faults": [{"found": True}, {"found": False}]})
    assert results_page.put_back([faults]) == "1 of 2 faults that were put back were found"
    outcomes = ("1 run, nothing found", "1 run, 1 with findings")
    long = [kept("long-runs/soak", "x", {"outcome": outcome}) for outcome in outcomes]
    assert results_page.long_runs(long) == "nothing found in 1 of 2 kinds"
    jobs = {"iceberg": {"steps": 30, "failures": {}}, "delta": {"steps": 18, "failures": {"read": "expected 1"}}}
    assert results_page.lakehouse([kept("lakehouse", "x", jobs)]) == "48 steps; 1 not as they should be"


def test_every_kind_of_run_has_its_section() -> None:
    page = (ROOT / "docs" / "test-results.md").read_text("utf-8")
    assert [title for title, *_ in results_page.KINDS if f"## {title}\n" not in page] == []
    assert results_page.anchor("Hive's own Driver") == "hives-own-driver"
