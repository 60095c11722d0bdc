"""How far a job is: a bar on a terminal, lines elsewhere.

Job: what a person sees of a long job. Must not know: which job. Owner: the driver's process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import click


class JobReport(Protocol):
    """Takes what a job tells."""

    def tell(self, line: str) -> None:
        """A line about what was done."""

    def at(self, name: str, done: int, total: int) -> None:
        """So much of a part of the job is done."""


class LineReport:
    """Lines, for logs; `sink` takes each."""

    def __init__(self, sink: Callable[[str], Any]) -> None:
        self._sink = sink

    def tell(self, line: str) -> None:
        """As it is."""
        self._sink(line)

    def at(self, name: str, done: int, total: int) -> None:
        """Between the beginning and the end."""
        if 0 < done < total:
            self._sink(f"{name}: {done:,} of {total:,}")


class Bar:
    """A bar on a terminal's standard error for the part that is going on, lines above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Left

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Left()
        console = Console(stderr=True, highlight=False, markup=False)
        self.progress = Progress(*columns, console=console, transient=True)
        self._tasks: dict[str, Any] = {}

    def tell(self, line: str) -> None:
        """Above the bar."""
        self.progress.console.print(line)

    def at(self, name: str, done: int, total: int) -> None:
        """Move it; it goes when all is done."""
        if name not in self._tasks:
            self._tasks[name] = self.progress.add_task(name, total=total)
        self.progress.update(self._tasks[name], completed=done, total=total, visible=done < total)


@contextmanager
def reporting() -> Iterator[JobReport]:
    """For a command: on standard error, in the form that fits it."""
    if not sys.stderr.isatty():
        yield LineReport(lambda line: click.echo(line, err=True))
        return
    bar = Bar()
    with bar.progress:
        yield bar
