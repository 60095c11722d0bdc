"""How long the follower waits between two steps, and how much it loads in one.

Job: two small schedules. Must not know clocks or what a step does. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

RECENT_S = 60.0
"""How long after an event, or a read, the next event is looked for more often."""

RECENT_SHARE = 0.4
"""Of the longest pause: so often. 50 ms of 125 ms."""

SMALL_CHUNK = 500
"""Partitions: some 25 ms, about as long as a read waits for a step."""

BUSY_S = 1.0
"""How long after a wake-up chunks are small."""


@dataclass(slots=True)
class Pace:
    """Short pauses while there is something to follow, doubling up to the longest when there is nothing; up to a part
    of it while there was something lately, or somebody reads."""

    shortest_s: float
    longest_s: float
    pause_s: float = 0.0

    @staticmethod
    def of(shortest_ms: int, longest_ms: int, *, freshness_ms: int) -> Pace:
        """`freshness_ms`: how old a confirmation may be for readers; three steps must fit into it."""
        longest_s = min(longest_ms, freshness_ms / 3) / 1000
        return Pace(min(shortest_ms / 1000, longest_s), longest_s)

    def after(self, *, changed: bool, more: bool, quiet_s: float = math.inf) -> float:
        """The pause after a step that found changes, or has more to load (then none at all). `quiet_s`: for how long
        there has been no event, and no read that the cache could answer."""
        if more or changed:
            self.pause_s = self.shortest_s
            return 0.0 if more else self.pause_s
        longest_s = self.longest_s * RECENT_SHARE if quiet_s < RECENT_S else self.longest_s
        self.pause_s = max(min(self.pause_s * 2, longest_s), self.shortest_s)
        return self.pause_s


@dataclass(slots=True)
class Chunks:
    """How many partitions the next step loads for the queue.

    Large chunks are cheapest, but a read that must see what its connection was shown waits for a whole step, and not
    for long; then it is relayed, and must see more. So after a wake-up comes a step without a chunk, and for a second
    chunks are small; there are never two steps in a row without one, so that loading goes on however often it is woken.
    """

    full: int
    _woken: bool = False
    _bare: bool = False
    _rung_s: float = -BUSY_S

    def woken(self, now_s: float) -> None:
        """Somebody waits."""
        self._woken = True
        self._rung_s = now_s

    def next(self, now_s: float) -> int:
        """For the step that begins now."""
        if self._woken:
            self._woken = False
            if not self._bare:
                self._bare = True
                return 0
        self._bare = False
        return min(self.full, SMALL_CHUNK) if now_s - self._rung_s < BUSY_S else self.full
