"""How long the follower waits between two steps, and after a failure.

Job: two small schedules. Must not know clocks or what a step does. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 5.0
"""A database that is back is found within this time, and is not hammered while it is down."""


@dataclass(slots=True)
class Pace:
    """Short pauses while there is something to follow, doubling up to the longest when there is nothing."""

    shortest_s: float
    longest_s: float
    pause_s: float = 0.0

    @staticmethod
    def of(shortest_ms: int, longest_ms: int, *, freshness_ms: int) -> Pace:
        """`freshness_ms`: how old a confirmation may be for readers; three steps must fit into it."""
        longest_s = min(longest_ms, freshness_ms / 3) / 1000
        return Pace(min(shortest_ms / 1000, longest_s), longest_s)

    def after(self, *, changed: bool, more: bool) -> float:
        """The pause after a step that found changes, or has more to load (then none at all)."""
        if more or changed:
            self.pause_s = self.shortest_s
            return 0.0 if more else self.pause_s
        self.pause_s = min(max(self.pause_s * 2, self.shortest_s), self.longest_s)
        return self.pause_s


@dataclass(slots=True)
class Retry:
    """Pauses after failures in a row."""

    failures: int = 0

    def failed(self) -> float:
        """The pause after one more failure."""
        self.failures += 1
        return float(min(FIRST_RETRY_S * 2 ** min(self.failures - 1, 10), LONGEST_RETRY_S))

    def succeeded(self) -> bool:
        """Forgets the failures; True if there were any."""
        failed, self.failures = self.failures > 0, 0
        return failed
