"""Which fault strikes when: a function of a seed.

Job: `planned(seed, seconds, kinds)` gives times, kinds and a seed for each strike. Must not know: what a kind does.
Invariants: each kind for which there is time comes once before one comes again, in an order that the seed chooses; what
takes longer than there is time is planned closer together, as whoever carries it out waits for each recovery anyway.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


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
    at_s, done, going_on = 0.0, 0, True
    while going_on or done < rounds:
        order = sorted(kinds)
        chance.shuffle(order)
        going_on = False
        for kind in order:
            if done < rounds or at_s + kinds[kind] <= seconds:
                going_on = True
                plan.append(Planned(at_s, kind, chance.getrandbits(32)))
                at_s += kinds[kind]
        done += 1
    closer = min(1.0, seconds / at_s) if at_s else 1.0
    return [replace(one, at_s=round(one.at_s * closer, 3)) for one in plan]
