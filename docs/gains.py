"""What the README shows first: what is gained, in figures of docs/figures/.

Must not know: how they were measured. Each row says by which command, at which commit and when.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from docs.benchmark_page import BUSY, HIT, HIVE
from docs.markdown import table
from tests import figures
from tests.figures import Figures

SPEED: Final = "benchmarks"
STEPS: Final = "with-and-without"


def text() -> str:
    """A table. A row whose file is not there says which command makes it."""
    rows = [["", "Hive 4.2", "through the proxy", "measured by"]]
    if figures.exists(STEPS):
        rows.append(steps(figures.read(STEPS)))
    else:
        rows.append(["No figures are kept here: `python -m tests.clients.with_and_without` measures them.", "", "", ""])
    if figures.exists(SPEED):
        rows += speed(figures.read(SPEED))
    else:
        rows.append(["No figures are kept here: `python -m benchmarks` measures them.", "", "", ""])
    return "\n".join(table(rows, text=len(rows[0])))


def steps(found: Figures) -> list[str]:
    """The row of `python -m tests.clients.with_and_without`."""
    run = found.figures
    spark, iceberg = _version(run["spark"]), _version(run["iceberg"])
    what = f"steps of a job that succeed: Spark {spark} with Iceberg {iceberg}"
    return [what, f"{run['without']} of {run['steps']}", f"{run['through']} of {run['steps']}", _measured(found)]


def speed(found: Figures) -> Iterator[list[str]]:
    """The rows of `python -m benchmarks`."""
    row, busy = found.figures["results"]["many_tables"], found.figures["freshness"][BUSY]
    many = f"`get_table_req` per second, {found.figures['tables']:,} tables in turn, one worker"
    yield [many, f"{row[HIVE]['rps']:,.0f}", f"{row[HIT]['rps']:,.0f}", _measured(found)]
    cost = "CPU time of one of them, in microseconds"
    yield [cost, f"{row[HIVE]['cpu_us']:,.0f}", f"{row[HIT]['cpu_us']:,.1f}", _measured(found)]
    late = f"until a change made at the metastore is seen, with {busy['changes_per_s']:.0f} others per second"
    seen = f"{busy['median_ms']:.0f} ms (median; 95 %: {busy['p95_ms']:.0f} ms)"
    yield [late, "at once", seen, _measured(found)]


def _version(artifact: str) -> str:
    """Of a name that ends in one: iceberg-spark-1.12.0."""
    return artifact.rpartition("-")[2]


def _measured(found: Figures) -> str:
    changed = " with uncommitted changes" if found.changed else ""
    return f"`{found.command}` at {found.commit}{changed}, {found.date}"
