"""Write docs/benchmarks.md (after its mark), docs/benchmarks.json and docs/benchmarks.png from one run."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.contents import CASES
from benchmarks.filters import table_of
from benchmarks.goals import WHY, Verdict, verdicts
from benchmarks.plot import plot
from benchmarks.run import Run
from benchmarks.servers import HIVE, SERVERS

DOCS = Path(__file__).parents[1] / "docs"
MARK = "<!-- figures below this line are written by `make bench` -->"


def write(run: Run) -> None:
    """The three files."""
    rows = verdicts(run)
    (DOCS / "benchmarks.json").write_text(_json(_document(run, rows)))
    page = DOCS / "benchmarks.md"
    prose = page.read_text().partition(MARK)[0]
    page.write_text(f"{prose}{MARK}\n\n" + "\n".join(_page(run, rows)) + "\n")
    plot(run, DOCS / "benchmarks.png")


def _document(run: Run, rows: list[Verdict]) -> dict[str, Any]:
    return {
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
        "goals": [asdict(row) for row in rows],
        **asdict(run),
    }


def _json(document: dict[str, Any]) -> str:
    """A line for each part of the document."""
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def machine() -> str:
    """Cores, processor, Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    return f"{len(os.sched_getaffinity(0))} cores of {model}, Python {platform.python_version()}"


def _page(run: Run, rows: list[Verdict]) -> Iterator[str]:
    total = sum(run.seconds.values())
    yield f"One run of {total / 60:.0f} minutes on {time.strftime('%Y-%m-%d')}, on {machine()}."
    yield ""
    yield "## Goals"
    yield ""
    yield from _goals(rows)
    yield ""
    yield "![calls a second, server CPU, freshness, prewarm](benchmarks.png)"
    yield ""
    yield "## Calls"
    yield ""
    yield from _calls(run)
    yield ""
    yield "## A change at the metastore until the proxy's answer shows it"
    yield ""
    yield from _freshness(run)
    if run.filters:
        yield ""
        yield "## Filters on about a million partitions"
        yield ""
        yield from _table(*table_of(run.filters), right=2)
    if run.missing:
        yield ""
        yield "## Figures that are missing"
        yield ""
        yield from (f"- {what}: {why}." for what, why in run.missing.items())
    yield ""
    yield "## Where the time of the run went"
    yield ""
    yield "; ".join(f"{what} {seconds:.0f} s" for what, seconds in run.seconds.items()) + "."


def _table(*rows: list[str], right: int = 0) -> Iterator[str]:
    """The first row is the head; all columns from `right` on (0: none) are numbers."""
    head, *body = rows
    yield "| " + " | ".join(head) + " |"
    yield "|" + "|".join("---:" if right and column >= right else "---" for column in range(len(head))) + "|"
    for row in body:
        yield "| " + " | ".join(row) + " |"


def _goals(rows: list[Verdict]) -> Iterator[str]:
    cells = [[row.work, row.goal, row.found, "yes" if row.reached else "**no**"] for row in rows]
    yield from _table(["work", "goal", "measured", "reached"], *cells)
    missed = dict.fromkeys(row.key for row in rows if not row.reached)
    if missed:
        yield ""
        yield "Why not:"
        yield ""
        for key in missed:
            work = next(row.work for row in rows if row.key == key and not row.reached)
            yield f"- {work}: {WHY.get(key, 'not known yet')}."


def _calls(run: Run) -> Iterator[str]:
    cells = []
    for case in CASES:
        row = run.results[case.key]
        for server in SERVERS:
            one = row.get(server)
            if one is None:
                continue
            times = f"{one.rps / row[HIVE].rps:,.1f}" if HIVE in row else ""
            figures = [_number(one.rps), _number(one.cpu_us), _number(one.p50_ms), _number(one.p99_ms), times]
            cells.append([case.label, str(case.connections), server, *figures])
    head = ["call", "connections", "server", "calls/s", "CPU us per call", "median ms", "99 % ms", "times Hive"]
    yield from _table(head, *cells, right=3)


def _freshness(run: Run) -> Iterator[str]:
    cells = []
    for load, one in run.freshness.items():
        times = [f"{ms:.0f} ms" for ms in (one.median_ms, one.p95_ms, one.worst_ms)]
        shares = [f"{share:.1%}" for share in (one.hit_share, one.poll_hit_share)]
        cells.append([load, str(len(one.delays_ms)), *times, f"{one.changes_per_s:.0f}", *shares])
    head = [
        "load",
        "changes timed",
        "median",
        "95 %",
        "worst",
        "DDL/s of others",
        "hits, unrelated tables",
        "hits, polls",
    ]
    yield from _table(head, *cells, right=1)


def _number(value: float) -> str:
    """Three figures that mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
