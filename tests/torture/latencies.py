"""Are more than one in a hundred reads slower than a bound?

Job: `too_many`, of how long a steady reader's calls took. Must not know: faults, what the bound is made of.
A reader that waits for an answer asks for nothing else meanwhile: what it would have asked for would have waited for
the rest of that time, and counts, too (coordinated omission; HdrHistogram corrects for it in the same way). And of a
few reads more than one in a hundred may be slow by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log
from typing import Final

INTERVAL_S: Final = 0.05
"""Between two calls of a steady reader."""
SHARE: Final = 0.01
CHANCE: Final = 0.001
"""So seldom are reads judged as slow of which one in a hundred is."""


def too_many(took_s: Sequence[float], bound_s: float) -> bool:
    """Of calls that took so long."""
    slow = sum(1 + int((one - bound_s) / INTERVAL_S) for one in took_s if one > bound_s)
    return slow > most(len(took_s))


def most(reads: int) -> int:
    """So many of them are slow by chance at most, but for CHANCE (a quantile of the binomial distribution)."""
    slow, likely = 0, _likelihood(0, reads)
    while likely < 1 - CHANCE:
        slow += 1
        likely += _likelihood(slow, reads)
    return slow


def _likelihood(slow: int, reads: int) -> float:
    ways = lgamma(reads + 1) - lgamma(slow + 1) - lgamma(reads - slow + 1)
    return exp(ways + slow * log(SHARE) + (reads - slow) * log(1 - SHARE))
