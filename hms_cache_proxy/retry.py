"""How long to wait before another attempt: pauses double from the first to the longest.

Job: one rule for everything that is tried until it works, such as a step of the follower or the start of a child
process. Must not know: clocks, what is tried. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

_DOUBLED_AT_MOST = 30  # times: far beyond any longest pause, and still a finite number of seconds


@dataclass(slots=True)
class Retry:
    """The pauses after consecutive failures."""

    first_s: float
    longest_s: float
    failures: int = 0

    @property
    def next_s(self) -> float:
        """The pause after the next failure."""
        return min(self.first_s * 2.0 ** min(self.failures, _DOUBLED_AT_MOST), self.longest_s)

    def failed(self) -> float:
        """The pause after one more failure."""
        pause_s = self.next_s
        self.failures += 1
        return pause_s

    def succeeded(self) -> bool:
        """Forget the failures. Returns whether there were any."""
        failed, self.failures = self.failures > 0, 0
        return failed
