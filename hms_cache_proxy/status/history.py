"""The last five minutes and the last hour of a proxy, for the plots of the status page.

Job: read the workers' totals every few seconds, and keep what happened in between. Must not know: HTTP, how the
totals are counted. Memory is bounded: two rows of POINTS points; a restart loses them.
Owner: the supervisor's loop; only reading the files is done in a thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import monotonic, time
from typing import Final

import structlog

from hms_cache_proxy.status.calls import CallTotals, quantile
from hms_cache_proxy.status.incidents import Incidents

log = structlog.get_logger()

SHORT_S: Final = 5.0
LONG_S: Final = 60.0
POINTS: Final = 60
"""5 minutes of short points, 60 minutes of long ones."""


@dataclass(frozen=True, slots=True)
class Point:
    """What happened in one interval. None: nothing from which the value could be told."""

    at_s: float  # the interval's end, in seconds since 1970
    calls_per_s: float
    errors_per_s: float
    hit_ratio: float | None
    hit_p50_s: float | None
    hit_p99_s: float | None
    upstream_p50_s: float | None
    upstream_p99_s: float | None
    unconfirmed_s: float | None  # the most that the cache had gone without being confirmed, when it was read


class History:
    """`read` gives the totals (in a thread), `unconfirmed_s` how old the last confirmation is."""

    def __init__(self, read: Callable[[], CallTotals], unconfirmed_s: Callable[[], float | None]) -> None:
        self._read = read
        self._unconfirmed_s = unconfirmed_s
        self.totals = CallTotals()
        self.incidents = Incidents()
        self._short = _Row(SHORT_S)
        self._long = _Row(LONG_S)

    async def watch(self) -> None:
        """Look again and again, forever."""
        while True:
            try:
                self.totals = await asyncio.to_thread(self._read)
            except OSError as error:  # the disk fails; to serve does not depend on this
                log.warning("the counters of the workers cannot be read", error=str(error))
            now_s, age_s = monotonic(), self._unconfirmed_s()
            self.incidents.compare(self.totals.incidents, time())
            for row in (self._short, self._long):
                row.add(self.totals, age_s, now_s)
            await asyncio.sleep(SHORT_S)

    @property
    def calls_per_s(self) -> float | None:
        """In the last seconds; None: not known yet."""
        return self._short.last.calls_per_s if self._short.last is not None else None

    def as_dict(self) -> dict[str, object]:
        """Both rows, the oldest point first, and what went wrong, the newest first."""
        incidents = self.incidents.as_list()
        return {"minutes_5": self._short.as_dict(), "minutes_60": self._long.as_dict(), "incidents": incidents}


class _Row:
    """Points of one length."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._points: deque[Point] = deque(maxlen=POINTS)
        self._before: CallTotals | None = None
        self._before_s = 0.0
        self._oldest_s: float | None = None

    @property
    def last(self) -> Point | None:
        return self._points[-1] if self._points else None

    def add(self, totals: CallTotals, age_s: float | None, now_s: float) -> None:
        """Take these totals into account; this ends a point if the interval is over."""
        if age_s is not None:
            self._oldest_s = max(age_s, self._oldest_s or 0.0)
        took_s = now_s - self._before_s
        if self._before is not None:
            if took_s < self.interval_s - SHORT_S / 2:
                return
            self._points.append(_point(self._before, totals, took_s, self._oldest_s))
            self._oldest_s = None
        self._before, self._before_s = totals, now_s

    def as_dict(self) -> dict[str, object]:
        return {"interval_s": self.interval_s, "points": [asdict(point) for point in self._points]}


def _point(before: CallTotals, after: CallTotals, took_s: float, unconfirmed_s: float | None) -> Point:
    calls = after.by_outcome() - before.by_outcome()
    reads = calls["hit"] + calls["miss"]
    hits = _difference(before.hit_buckets, after.hit_buckets)
    upstream = _difference(before.upstream_buckets, after.upstream_buckets)
    return Point(
        round(time(), 1),
        calls.total() / took_s,
        calls["error"] / took_s,
        calls["hit"] / reads if reads else None,
        quantile(hits, 0.5),
        quantile(hits, 0.99),
        quantile(upstream, 0.5),
        quantile(upstream, 0.99),
        unconfirmed_s,
    )


def _difference(before: list[int], after: list[int]) -> list[int]:
    return [max(0, now - then) for now, then in zip(after, before, strict=True)]
