"""Pieces of an HTML page that is one file: its style, tables, pictures.

Job: make these pieces, with everything escaped. Must not know: what the page is about.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

ROWS: Final = 50
"""A table shows no more."""

STYLE: Final = """
:root { color-scheme: light dark; --text: #1d2733; --quiet: #5a6675; --back: #fff; --line: #d8dee6; --row: #edf0f4;
  --block: #f4f6f8 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e2e7ed; --quiet: #9aa6b4; --back: #14181d; --line: #38424d; --row: #262d35; --block: #1e242b }
  img { filter: invert(.91) hue-rotate(180deg) }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line) }
table { border-collapse: collapse; font-size: .86rem; margin: .6rem 0 } th, td { padding: .18rem .7rem .18rem 0 }
th { text-align: left; color: var(--quiet); font-weight: 600 } tr + tr td { border-top: 1px solid var(--row) }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; padding-left: .7rem }
pre { background: var(--block); padding: .8rem; overflow: auto; font-size: .84rem }
img { max-width: 100% } li { margin: .3rem 0 } .quiet { color: var(--quiet) } td { overflow-wrap: anywhere }
"""


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A column whose heading begins with # holds numbers."""
    cells = list(rows)
    if not cells:
        yield "<p class='quiet'>none</p>"
        return
    classes = [" class='n'" if head.startswith("# ") else "" for head in heads]
    yield "<table><tr>"
    yield from (f"<th{css}>{escape(head.removeprefix('# '))}</th>" for head, css in zip(heads, classes, strict=True))
    yield "</tr>"
    for row in cells[:ROWS]:
        yield "<tr>"
        for value, css in zip(row, classes, strict=True):
            yield f"<td{css}>{'' if value is None else escape(str(value))}</td>"
        yield "</tr>"
    yield "</table>"
    if len(cells) > ROWS:
        yield f"<p class='quiet'>The first {ROWS} of {len(cells):,} are shown.</p>"


def image(title: str, png: bytes) -> str:
    """A picture within the page."""
    return f"<img alt='{escape(title)}' src='data:image/png;base64,{b64encode(png).decode()}'>"
