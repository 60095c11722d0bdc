"""The names with the highest counts, in bounded memory.

A Space-Saving summary (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data
Streams, 2005): a name that is not counted yet takes the place of the name with the smallest count, and continues from
that count. So a count is too high by at most the smallest one, and a name with more than 1/COUNTERS of the total is
never missing.
Must not know: what is counted. Imports nothing, because the supervisor needs its constants, too.
"""

from __future__ import annotations

from typing import Final

COUNTERS: Final = 100  # of one summary
SHOWN: Final = 20  # of one list


class SpaceSaving:
    """The names with the highest counts."""

    def __init__(self, counters: int = COUNTERS) -> None:
        self._counters = counters
        self.counts: dict[str, float] = {}

    def add(self, name: str, number: float) -> None:
        """Count `name` so many times."""
        counts = self.counts
        if name not in counts and len(counts) >= self._counters:
            least = min(counts, key=counts.__getitem__)
            number += counts.pop(least)
        counts[name] = counts.get(name, 0) + number
