"""Floors of one client connection: the cache must not show it anything older than the metastore has shown it.

Job: after a relayed read, its dependencies may be answered from the cache only by a follower step that
began after the reply arrived (such a step shows everything that the reply can have shown). Must not know:
the cache, fences, time other than as numbers handed in. Invariant: floors are never forgotten before a step
that began after them; too many of them, or more than the worker has memory for, become one for everything.
Owner: one connection's Session, in the worker's loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from hms_cache_proxy.budget import UNBOUNDED, Budget, Charge
from hms_cache_proxy.cache.targets import ALL

MAX_FLOORS = 4096
"""Targets remembered on one connection (some 100 bytes each) before they become one floor for everything."""


FLOOR_BYTES = 140
"""Of a target that is remembered."""


class Floors:
    """Targets of one connection, each with the time (ns, CLOCK_MONOTONIC) that the cache must have passed.

    Where the cache follows the log that is the time of its last step (`block`), in TTL mode the beginning of each
    entry's load (`of`).
    """

    __slots__ = ("_by_target", "_charge", "highest_ns")

    def __init__(self, memory: Budget | None = None) -> None:
        """`memory`: what all floors of the worker may take, with others."""
        self._charge = Charge(memory or Budget("memory_bytes", UNBOUNDED))
        self._by_target: dict[bytes, int] = {}
        self.highest_ns = 0
        """The latest of all floors; 0 without any. A step that began later satisfies them all."""

    def lift(self, targets: Iterable[bytes], now_ns: int) -> None:
        """The connection was shown these targets as of now."""
        floors = self._by_target
        for target in targets:
            floors[target] = now_ns
        more = len(floors) * FLOOR_BYTES - self._charge.size
        if len(floors) > MAX_FLOORS or (more > 0 and not self._charge.grow(more)):
            self._forget()
            floors[ALL] = now_ns
        if floors and now_ns > self.highest_ns:
            self.highest_ns = now_ns

    def of(self, targets: Iterable[bytes]) -> int:
        """The time that what is shown of these must have passed; 0: any."""
        floors = self._by_target
        return max(floors.get(ALL, 0), max((floors.get(target, 0) for target in targets), default=0))

    def _forget(self) -> None:
        self._by_target.clear()
        self._charge.close()

    def block(self, targets: Iterable[bytes], began_ns: int) -> bool:
        """Whether a cache confirmed by a step that began at began_ns may be older than what was shown."""
        if began_ns > self.highest_ns:
            self._forget()
            self.highest_ns = 0
            return False
        floors = self._by_target
        if floors.get(ALL, -1) >= began_ns:
            return True
        return any(floors.get(target, -1) >= began_ns for target in targets)
