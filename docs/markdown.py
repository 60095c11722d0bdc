"""Tables and numbers as the pages show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def table(rows: Sequence[Sequence[str]], *, text: int) -> Iterator[str]:
    """The first row is the head; the first `text` columns are words, the others numbers."""
    head, *body = rows
    yield "| " + " | ".join(head) + " |"
    yield "|" + "|".join("---" if column < text else "---:" for column in range(len(head))) + "|"
    for row in body:
        yield "| " + " | ".join(row) + " |"


def number(value: object) -> str:
    """Three figures that mean something; a text is left as it is."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
