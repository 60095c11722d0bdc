"""A log of one worker that is written in the background: items in, lines out.

Job: keep what is to be logged; once a second, turn it into lines in slices of the loop's time, and write them in a
thread. The access log, the slow log and the audit log are such logs. Must not know: what a line contains
(access_lines.py, audit_lines.py), how files are rotated (log_file.py).

Invariants: the log never delays a call or makes it fail. Memory is bounded: beyond `most` items, items are left out. If
a file cannot be written, its lines are lost. Both are counted and reported in the worker's log. A worker that is killed
loses the items since the last flush.
Owner: the worker's event loop; only writing is done in a thread, one write at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Generic, Literal, Protocol, TypeVar

from hms_cache_proxy.rate_limited_log import RateLimitedLog
from hms_cache_proxy.server.log_file import LogFile

WAITING_ITEMS = 100_000  # of the access log: 30 MB with requests of 100 bytes, 75 MB at most; a second of a core's hits
SLICE_NS = 300_000  # of the loop's time in one turn
CHUNK_BYTES = 256 << 10  # of lines that are written at once
SAY_INTERVAL_S = 60.0

LineFate = Literal["written", "overflow", "failed"]

Item = TypeVar("Item")
Made = TypeVar("Made", contravariant=True)


class LineMaker(Protocol[Made]):
    """Makes lines."""

    def begin(self) -> None:
        """Before lines of about the same time."""

    def line(self, item: Made, /) -> str:
        """The line of an item, with its line end."""


@dataclass(frozen=True, slots=True)
class LogKind:
    """`name`: in messages. `most`: items that may wait. `per_look`: lines between two readings of the clock."""

    name: str
    most: int = WAITING_ITEMS
    per_look: int = 16


class LineLog(Generic[Item]):
    """Append to `_waiting` if it is shorter than `_most`, else count in `_overflow`."""

    def __init__(
        self, kind: LogKind, file: LogFile, lines: LineMaker[Item], count: Callable[[LineFate, int], None]
    ) -> None:
        self._kind = kind
        self._most = kind.most
        self._file = file
        self._lines = lines
        self._count = count
        self._waiting: deque[Item] = deque()
        self._overflow = 0
        self._missing: Counter[LineFate] = Counter()  # lines that no gap in the file tells of
        self._writing = asyncio.Lock()
        self._say = RateLimitedLog(interval_s=SAY_INTERVAL_S).warn

    async def flush(self) -> None:
        """Write what waits. One flush at a time; the next waits for it."""
        async with self._writing:
            name = self._kind.name
            if self._overflow:
                left_out, self._overflow = self._overflow, 0
                self._miss("overflow", left_out)
                self._say(f"{name}: more lines than can be written", name, lines_lost=left_out)
            self._lines.begin()
            left = len(self._waiting)
            if not left and self._gap():
                await self._write(b"")
            while left:
                lines: list[str] = []
                size = 0
                while left and size < CHUNK_BYTES:
                    made, made_bytes = self._make(lines, left)
                    left -= made
                    size += made_bytes
                    await asyncio.sleep(0)
                await self._write("".join(lines).encode())

    def _make(self, lines: list[str], left: int) -> tuple[int, int]:
        """Make lines for one slice of the loop's time; returns their number and length."""
        until_ns = monotonic_ns() + SLICE_NS
        made = size = 0
        take, make, per_look = self._waiting.popleft, self._lines.line, self._kind.per_look
        while made < left and size < CHUNK_BYTES and monotonic_ns() < until_ns:
            for _ in range(min(per_look, left - made)):
                line = make(take())
                lines.append(line)
                size += len(line)
                made += 1
        return made, size

    def _gap(self) -> str:
        """Lines that tell of those in `_missing`; this log has none."""
        return ""

    async def _write(self, data: bytes) -> None:
        gap, missing = self._gap().encode(), self._missing
        self._missing = Counter()
        written, error = await asyncio.to_thread(self._file.write, gap + data)
        if written:
            self._count("written", written)
        if error is None:
            return
        gaps = gap.count(b"\n")
        if gap and written < gaps:
            self._missing.update(missing)
        lost = data.count(b"\n") - max(0, written - gaps)
        self._miss("failed", lost)
        name, file = self._kind.name, str(self._file.path)
        self._say(f"{name} cannot be written", name, file=file, error=str(error), lines_lost=lost)

    def _miss(self, why: LineFate, lines: int) -> None:
        self._count(why, lines)
        if lines:
            self._missing[why] += lines
