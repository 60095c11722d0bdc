"""Write docs/figures/benchmarks.json and docs/benchmarks.png from one run, and rebuild the pages from the figures.

Must not know: how a page shows them (docs/benchmark_page.py).
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import contents
from benchmarks.contents import CASES
from benchmarks.goals import verdicts
from benchmarks.kept import pages
from benchmarks.measure import Result
from benchmarks.plot import plot
from benchmarks.run import Run
from benchmarks.servers import REFRESH, called
from tests import figures
from tests.figures import Origin

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = "python -m benchmarks"
VARIED_CASES = {
    "by_names_1000": "get_partitions_by_names_req, other 1,000 of 10,000 every time",
    "filter_huge": "get_partitions_by_filter, another one of 100,000 every time",
    "expression_huge": "get_partitions_by_expr, another one of 100,000 every time",
}


def write(run: Run, of: Origin) -> None:
    """All of them."""
    figures.write("benchmarks", document_of(run), command=COMMAND, of=of)
    plot(run, DOCS / "benchmarks.png", f"{of.commit}, {of.date}")
    pages()


def document_of(run: Run) -> dict[str, Any]:
    """The figures as they are kept."""
    document = asdict(run) | {
        "goals": [asdict(row) for row in verdicts(run)],
        "cases": {case.key: {"label": case.label, "connections": case.connections} for case in CASES},
        "warmed": {case.key: case.warm for case in CASES},
        "varied_cases": VARIED_CASES,
        "tables": contents.MANY,
        "cached_store_refresh": REFRESH,
    }
    for part in ("results", "first", "varied", "filters"):
        document[part] = {
            case: {server: row_of(server, one) for server, one in row.items()}
            for case, row in getattr(run, part).items()
        }
    return document


def row_of(server: str, result: Result) -> dict[str, Any]:
    """One row, with the name that its counters give it."""
    return asdict(result) | {"called": called(server, result.counted)}
