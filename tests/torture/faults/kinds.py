"""What a kind of fault is, and the list of all.

Job: `KINDS` by name. Must not know: when which strikes, what clients see.
Invariant: `strike` returns when what it broke answers again; the time of recovery begins there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tests.torture.world import World

Strike = Callable[[World, random.Random], None]


class GoesOn(Enum):
    """What a fault does not keep clients from."""

    GREETINGS = "new clients that say who they are have their reads answered"
    WRITES = "writes are acknowledged"


@dataclass(frozen=True, slots=True)
class Kind:
    """`seconds` that it takes; `grace_s`: beyond the usual bound, its recovery may take so much longer, and why is said
    where it is declared; `clients`: only clients misbehave, so that others are served as before; `goes_on`: what
    the steady clients have done all the time, of this side or of both."""

    strike: Strike
    seconds: float = 5.0
    grace_s: float = 0.0
    clients: bool = False
    goes_on: GoesOn | None = None


KINDS: dict[str, Kind] = {}


def kind(
    seconds: float = 5.0, *, grace_s: float = 0.0, clients: bool = False, goes_on: GoesOn | None = None
) -> Callable[[Strike], Strike]:
    """Declares one, by the function's name."""

    def declare(strike: Strike) -> Strike:
        KINDS[strike.__name__] = Kind(strike, seconds, grace_s, clients, goes_on)
        return strike

    return declare
