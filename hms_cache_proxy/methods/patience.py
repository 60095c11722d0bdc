"""How long a read waits for the follower's next step before it is relayed.

Waiting saves the metastore a call. Usually the wait is short, because a read that waits in vain is only delayed. If the
metastore is slow, the follower's step is slow too, but a relayed read is even slower; so a read then waits as long as
relayed reads take.

Each relayed reply sets a new floor, which only a later step satisfies. If steps take longer than the short wait,
because the database is far away, a connection that reads without pause would never get a hit again. So a connection
with a recently relayed read waits longer.

Job: `Patience` keeps, for one worker, which waits were in vain. Must not know: why a read waits, how it waits.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import Final

from .decision import ClientSession

SHORT_NS: Final = 25_000_000
LONG_NS: Final = 250_000_000
LATELY_NS: Final = 1_000_000_000
RELAYS: Final = 8
"""Relayed reads whose mean time counts, roughly."""
AGAIN_NS: Final = 10_000_000_000
"""After a long wait in vain (steps take even longer, or the follower is stuck), no read of the worker waits so long for
this time."""


class Patience:
    """Of the reads of one worker."""

    __slots__ = ("_relay_ns", "_short_until_ns", "_slow_since_ns")

    def __init__(self) -> None:
        self._slow_since_ns = -1
        """BEGAN_NS when a read waited in vain; until it changes, no read waits for the short time."""
        self._short_until_ns = 0
        self._relay_ns = 0
        """What a relayed read takes, a moving mean."""

    def relayed(self, took_ns: int) -> None:
        """A relayed read has taken so long until its reply began."""
        self._relay_ns += (took_ns - self._relay_ns) // RELAYS

    def for_look(self, began_ns: int) -> int:
        """ns; 0: it must not wait. `began_ns`: when the last step began that is done (BEGAN_NS)."""
        return 0 if began_ns == self._slow_since_ns else min(max(SHORT_NS, self._relay_ns), LONG_NS)

    def for_step(self, session: ClientSession, began_ns: int, arrived_ns: int, *, look: bool) -> int:
        """The same for a read that needs a `look`, or is held back by a write or by what its connection has seen."""
        if not look and arrived_ns - session.held_back_ns < LATELY_NS and arrived_ns >= self._short_until_ns:
            return LONG_NS
        return self.for_look(began_ns)

    def in_vain(self, session: ClientSession, began_ns: int, arrived_ns: int) -> None:
        """A read that a step would have helped is relayed."""
        session.held_back_ns = now_ns = monotonic_ns()
        self._slow_since_ns = began_ns
        if now_ns - arrived_ns >= LONG_NS:
            self._short_until_ns = now_ns + AGAIN_NS
