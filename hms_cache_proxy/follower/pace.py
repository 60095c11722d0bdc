"""How long the follower waits between steps, and how much it loads in one.

Job: compute these schedules. Must not know clocks or what a step does. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LOOK_INTERVAL_S = 1 / 290
"""Shortest time from the beginning of a step to the beginning of the next one that somebody asks for, however many ask:
fewer than 300 a second. Those that ask meanwhile share the next one."""

RECENT_S = 60.0
"""How long after an event or a read the follower looks for events more often."""

RECENT_SHARE = 0.4
"""The longest pause in that time, as a part of the usual one: 50 ms of 125 ms."""

SMALL_CHUNK = 500
"""Partitions: about 25 ms, which is about as long as a read waits for a step."""

BUSY_S = 1.0
"""How long chunks are small after a wake-up."""


def may_look_s(began_s: float, ended_s: float) -> float:
    """When a step that somebody asks for may begin. After a long step there is a pause, too: the reads that it answers
    come back in the meantime, and share the next one instead of waiting for the one after it."""
    return max(began_s + LOOK_INTERVAL_S, ended_s + min(ended_s - began_s, LOOK_INTERVAL_S))


@dataclass(slots=True)
class Pace:
    """Pauses are short after changes, and double up to the longest while there are none. The longest is shorter if
    there was a change or a read lately (RECENT_S)."""

    shortest_s: float
    longest_s: float
    pause_s: float = 0.0

    @staticmethod
    def of(shortest_ms: int, longest_ms: int, *, freshness_ms: int) -> Pace:
        """`freshness_ms`: the greatest age of a confirmation with which the cache may answer; three steps must fit into
        it."""
        longest_s = min(longest_ms, freshness_ms / 3) / 1000
        return Pace(min(shortest_ms / 1000, longest_s), longest_s)

    def after(self, *, changed: bool, more: bool, quiet_s: float = math.inf) -> float:
        """The pause after a step. `changed`: it found changes; `more`: there is more to load, so there is no pause.
        `quiet_s`: how long there has been neither an event nor a read that the cache could answer."""
        if more or changed:
            self.pause_s = self.shortest_s
            return 0.0 if more else self.pause_s
        longest_s = self.longest_s * RECENT_SHARE if quiet_s < RECENT_S else self.longest_s
        self.pause_s = max(min(self.pause_s * 2, longest_s), self.shortest_s)
        return self.pause_s


@dataclass(slots=True)
class Chunks:
    """How many partitions the next step loads for the queue.

    Large chunks are cheapest. But a read that must see what its connection has seen waits for a whole step, and only
    for a short time; then it is relayed, and the next read must see even more. So the step after a wake-up loads no
    chunk, and chunks are small for a second. There are never two steps in a row without a chunk, so loading goes on
    however many wake-ups come.
    """

    full: int
    _woken: bool = False
    _bare: bool = False
    _rung_s: float = -BUSY_S

    def woken(self, now_s: float) -> None:
        """A read waits for a step."""
        self._woken = True
        self._rung_s = now_s

    def next(self, now_s: float) -> int:
        """The chunk of the step that begins now."""
        if self._woken:
            self._woken = False
            if not self._bare:
                self._bare = True
                return 0
        self._bare = False
        return min(self.full, SMALL_CHUNK) if now_s - self._rung_s < BUSY_S else self.full
