"""Which fault strikes when: a function of a seed.

Job: `planned(seed, seconds, kinds)` gives times, kinds and a seed for each strike. Must not know: what a kind does.
Invariant: each kind comes once before one comes again, in an order that the seed chooses, so a run that has time for
three of each has three of each.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Planned:
    """One strike: not before `at_s` seconds of the run."""

    at_s: float
    kind: str
    seed: int


def planned(seed: int, seconds: float, kinds: Mapping[str, float], *, rounds: int = 0) -> Sequence[Planned]:
    """`kinds`: how many seconds each takes, its recovery too; `rounds`: of all kinds at least, however long."""
    chance = random.Random(seed)
    plan: list[Planned] = []
    at_s, done = 0.0, 0
    while True:
        order = sorted(kinds)
        chance.shuffle(order)
        for kind in order:
            if done >= rounds and at_s + kinds[kind] > seconds:
                return plan
            plan.append(Planned(round(at_s, 3), kind, chance.getrandbits(32)))
            at_s += kinds[kind] * chance.uniform(0.8, 1.2)
        done += 1
