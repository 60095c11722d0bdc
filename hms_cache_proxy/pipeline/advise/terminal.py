"""The advice on a terminal: first the main findings, then the largest of each kind. Must not know: how it is made."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hms_cache_proxy.pipeline.advise import wording
from hms_cache_proxy.pipeline.advise.advice import Advice

ROWS = 10
WIDTH = 120  # if the output is not a terminal


def show(advice: Advice, files: Sequence[str]) -> None:
    """Print it."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    read = advice.read
    if read.empty or read.invalid:
        console.print(f"[yellow]{wording.ignored(read.empty, read.invalid)}:[/]")
        for one in read.bad[:ROWS]:
            example = "" if one.example is None else f", such as {one.example!r}"
            console.print(f"  {_plain(one.file)}: {one.empty:,} empty, {one.invalid:,} invalid{escape(example)}")
    for sentence in wording.sentences(advice):
        console.print(f"- {_plain(sentence)}")
    _table(
        console,
        "Hot tables",
        ("table", "reads", "hits", "size"),
        (
            (one.object or "", f"{one.reads:,.0f}", f"{one.hits / one.reads:.1%}", wording.size(one.size))
            for one in advice.hot[:ROWS]
        ),
    )
    _table(
        console,
        "Calls that go to the metastore",
        ("method", "reason", "calls", "", "what can be done"),
        (
            (
                one.method,
                f"{one.outcome} {one.reason}",
                f"{one.calls:,.0f}",
                "always" if one.always else "",
                wording.relayed(one),
            )
            for one in advice.answers.relayed[:ROWS]
        ),
    )
    _table(
        console,
        "Clients",
        ("client", "calls", "to the metastore", "in its busiest minute"),
        (
            (wording.who(one.host, one.user), f"{one.calls:,.0f}", f"{one.upstream:,.0f}", f"{one.busiest_minute:,.0f}")
            for one in advice.answers.clients[:ROWS]
        ),
    )
    console.print("Written: " + escape(", ".join(files)))


def _plain(text: str) -> str:
    return escape(wording.printable(text))


def _table(console: Console, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left", box=None, header_style="bold", title_style="bold")
    for number, head in enumerate(heads):
        table.add_column(head, overflow="fold", justify="right" if head in _NUMBERS and number else "left")
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    if table.row_count:
        console.print()
        console.print(table)


_NUMBERS = {"reads", "hits", "size", "calls", "to the metastore", "in its busiest minute"}
