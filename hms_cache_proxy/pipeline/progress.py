"""The progress of a job: a bar on a terminal, lines elsewhere.

Job: show a user how far a long job is, round by round. Must not know: which job. Owner: the driver's process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar


class Sized(Protocol):
    """`size`: number of objects."""

    @property
    def size(self) -> int: ...


S = TypeVar("S", bound=Sized)


class JobReport(Protocol):
    """Receives the progress of a job."""

    def tell(self, line: str) -> None:
        """Report one line about what was done."""

    def at(self, name: str, done: int, total: int) -> None:
        """Report that `done` of `total` in the part `name` are done."""


class LineReport:
    """Writes lines, for logs, to `sink`."""

    def __init__(self, sink: Callable[[str], Any]) -> None:
        self._sink = sink

    def tell(self, line: str) -> None:
        """As it is."""
        self._sink(line)

    def at(self, name: str, done: int, total: int) -> None:
        """A line while the part is in progress; none for its beginning and end."""
        if 0 < done < total:
            self._sink(f"{name}: {done:,} of {total:,}")


class Bar:
    """Shows a bar for the current part on standard error, if that is a terminal, with the lines above it."""

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
        """Move the bar; remove it when the part is done."""
        if name not in self._tasks:
            self._tasks[name] = self.progress.add_task(name, total=total)
        self.progress.update(self._tasks[name], completed=done, total=total, visible=done < total)


@contextmanager
def reporting() -> Iterator[JobReport]:
    """The report of a command, on standard error: a bar on a terminal, otherwise lines."""
    if not sys.stderr.isatty():
        yield LineReport(lambda line: print(line, file=sys.stderr, flush=True))
        return
    bar = Bar()
    with bar.progress:
        yield bar


def reported(report: JobReport, name: str, rounds: Sequence[Sequence[S]]) -> Iterator[Sequence[S]]:
    """Each of `rounds`. Before it, and after the last one, `report` gets the number of objects that are done."""
    total, done = sum(one.size for some in rounds for one in some), 0
    for some in rounds:
        report.at(name, done, total)
        yield some
        done += sum(one.size for one in some)
    report.at(name, total, total)
