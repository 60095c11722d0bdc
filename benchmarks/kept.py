"""Keep what a benchmark of its own found: docs/figures/NAME.json with tables, and the pages that show them.

Must not know: what was measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import figures
from tests.figures import Origin

BUILD = Path(__file__).parents[1] / "docs" / "build.py"
MEASURES = ("hms_cache_proxy", "benchmarks")


def option(parser: argparse.ArgumentParser) -> None:
    """--keep."""
    parser.add_argument("--keep", action="store_true", help="write the figures into docs/, not only print them")


def origin() -> Origin:
    """To be taken when the measurement begins."""
    return figures.origin(*MEASURES)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], *, text: int) -> dict[str, Any]:
    """One table; the first `text` columns are words. A number is shown with three figures that mean something."""
    return {"title": title, "head": list(head), "rows": [list(row) for row in rows], "text": text}


def keep(name: str, *tables: dict[str, Any], command: str, of: Origin) -> None:
    """docs/figures/NAME.json, and the pages."""
    figures.write(name, {"tables": tables}, command=command, of=of)
    pages()


def pages() -> None:
    """As `make docs`."""
    subprocess.run([sys.executable, str(BUILD)], check=True, timeout=120)
