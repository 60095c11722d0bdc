"""The access log of one worker: a line for each counted call, written in the background. The slow log is another one.

Job: record a call (well under a microsecond); once a second, make lines of the recorded calls in slices of the loop's
time, and write them in a thread. Must not know: what a line contains (access_lines.py), how files are rotated
(log_file.py).

Invariants: the log never delays a call or makes it fail. Memory is bounded: beyond WAITING_CALLS, calls are left out.
If a file cannot be written, its lines are lost. Both are counted (hms_proxy_access_log_lines_total). A worker that is
killed loses the calls since the last flush.
Owner: the worker's event loop; only writing is done in a thread, one write at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from random import random
from time import monotonic, monotonic_ns

import structlog

from hms_cache_proxy.cache.replies import HitLabel
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.server.access_lines import HEAD_BYTES, LineFormatter, LoggedCall, Waiting
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.log_file import LogFile

WAITING_CALLS = 100_000  # 30 MB with requests of 100 bytes, 75 MB at most; a second of one core's hits
SLICE_NS = 300_000  # of the loop's time in one turn
LINES_PER_LOOK = 16  # between two readings of the clock
CHUNK_BYTES = 256 << 10  # of lines that are written at once
SAY_INTERVAL_S = 60.0

log = structlog.get_logger()


class AccessLog:
    """Calls in, lines out."""

    def __init__(
        self,
        file: LogFile,
        sample: float,
        metrics: WorkerMetrics,
        *,
        most: int = WAITING_CALLS,
        slower_than_ns: int = 0,
    ) -> None:
        """`sample`: the share of calls that get a line, chosen at random; `most`: calls that may wait;
        `slower_than_ns`: this is the slow log, in which only calls that take at least so long get a line."""
        self.slower_than_ns = slower_than_ns
        self._file = file
        self._sample = sample
        self._metrics = metrics
        self._lines = LineFormatter(sample, upstream=slower_than_ns > 0)
        self._waiting: deque[Waiting] = deque()
        self._most = most
        self._overflow = 0
        self._writing = asyncio.Lock()
        self._said_s = -SAY_INTERVAL_S

    def hit(
        self, arrived_ns: int, took_ns: int, reply_bytes: int, session: ClientSession, message: bytes, label: HitLabel
    ) -> None:
        """A call that the hot path answered."""
        if self._sample < 1.0 and random() >= self._sample:
            return
        if len(self._waiting) >= self._most:
            self._overflow += 1
            return
        call = (arrived_ns, took_ns, reply_bytes, session.peer, session.identity, message[:HEAD_BYTES], label)
        self._waiting.append(call)  # type: ignore[arg-type]  # a Waiting, without the 0.3 us of making one

    def observed(self, session: ClientSession, took_ns: int, observed: Observe) -> None:
        """Any other call, when it is over."""
        if self._sample < 1.0 and random() >= self._sample:
            return
        if len(self._waiting) >= self._most:
            self._overflow += 1
            return
        request = observed.request
        head = request.message[:HEAD_BYTES]
        complete = request.spool is None and len(head) == len(request.message)
        what = observed.label, observed.outcome, observed.reason
        call = LoggedCall(*what, request.header.body, complete, observed.upstream_ns)
        self._waiting.append(
            Waiting(observed.began_ns, took_ns, observed.reply_bytes, session.peer, session.identity, head, call)
        )

    async def flush(self) -> None:
        """Write the recorded calls. One flush at a time; the next waits for it."""
        async with self._writing:
            if self._overflow:
                left_out, self._overflow = self._overflow, 0
                self._metrics.access_logged("overflow", left_out)
                self._say("access log: more calls than can be written", calls_left_out=left_out)
            self._lines.begin()
            left = len(self._waiting)
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
        take, make = self._waiting.popleft, self._lines.line
        while made < left and size < CHUNK_BYTES and monotonic_ns() < until_ns:
            for _ in range(min(LINES_PER_LOOK, left - made)):
                line = make(take())
                lines.append(line)
                size += len(line)
                made += 1
        return made, size

    async def _write(self, data: bytes) -> None:
        written, error = await asyncio.to_thread(self._file.write, data)
        if written:
            self._metrics.access_logged("written", written)
        if error is not None:
            lost = data.count(b"\n") - written
            self._metrics.access_logged("failed", lost)
            self._say("access log cannot be written", file=str(self._file.path), error=str(error), lines_lost=lost)

    def _say(self, event: str, **details: object) -> None:
        now_s = monotonic()
        if now_s - self._said_s >= SAY_INTERVAL_S:
            self._said_s = now_s
            log.warning(event, **details)
