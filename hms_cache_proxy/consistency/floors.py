"""Floors of one client connection: the cache must not show it anything older than what the metastore has already shown
it.

Job: after a relayed read, the cache may answer reads of the same targets only after a step of the follower that began
after the reply arrived, because such a step has everything that the reply can have shown. Must not know: the cache,
fences, clocks (callers pass times). Invariant: a floor is not forgotten before a step that began after it. If there are
too many floors, or they exceed the worker's memory, they become one floor for everything. Owner: one connection's
Session, in the worker's loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from hms_cache_proxy.budget import UNBOUNDED, Budget, Charge
from hms_cache_proxy.cache.targets import ALL, is_members, members_of

MAX_FLOORS = 4096
"""The most targets that are remembered on one connection."""


FLOOR_BYTES = 140
"""Memory for one target."""


class Floors:
    """Targets of one connection, each with the time that the cache must have passed (ns, CLOCK_MONOTONIC; in TTL mode
    CLOCK_BOOTTIME).

    If the cache follows the log, it is compared with the beginning of the last step (`block`); in TTL mode, with the
    beginning of an entry's load (`of`).
    """

    __slots__ = ("_by_target", "_charge", "_listed", "highest_ns")

    def __init__(self, memory: Budget | None = None) -> None:
        """`memory`: the worker's budget, which floors share with others."""
        self._charge = Charge(memory or Budget("memory_bytes", UNBOUNDED))
        self._by_target: dict[bytes, int] = {}
        self._listed = False  # has what is in all tables of a database been shown?
        self.highest_ns = 0
        """The latest of all floors; 0 without any. A step that began later satisfies them all."""

    def lift(self, targets: Iterable[bytes], now_ns: int) -> None:
        """The connection has seen these targets as of now."""
        floors = self._by_target
        for target in targets:
            floors[target] = now_ns
            if is_members(target):
                self._listed = True
        more = len(floors) * FLOOR_BYTES - self._charge.size
        if len(floors) > MAX_FLOORS or (more > 0 and not self._charge.grow(more)):
            self._forget()
            floors[ALL] = now_ns
        if floors and now_ns > self.highest_ns:
            self.highest_ns = now_ns

    def of(self, targets: Iterable[bytes]) -> int:
        """The time after which these targets must have been loaded; 0: any time."""
        floors = self._by_target
        latest_ns = floors.get(ALL, 0)
        for target in targets:
            latest_ns = max(latest_ns, floors.get(target, 0), self._implied_ns(target))
        return latest_ns

    def _forget(self) -> None:
        self._by_target.clear()
        self._listed = False
        self._charge.close()

    def block(self, targets: Iterable[bytes], began_ns: int) -> bool:
        """Whether a cache that was confirmed by a step begun at `began_ns` may be older than what the connection has
        seen."""
        if began_ns > self.highest_ns:
            self._forget()
            self.highest_ns = 0
            return False
        floors = self._by_target
        if floors.get(ALL, -1) >= began_ns:
            return True
        return any(
            floors.get(target, -1) >= began_ns or self._implied_ns(target, began_ns) >= began_ns for target in targets
        )

    def _implied_ns(self, target: bytes, since_ns: int = 0) -> int:
        """The floor that a target has through others: everything through each of them, a listing of what is in all
        tables of a database through each of these tables, and each of them through such a listing. Floors before
        `since_ns` need not be found. -1: none."""
        floors = self._by_target
        if target == ALL:
            return self.highest_ns or -1
        if is_members(target):
            shown = (at_ns for known, at_ns in floors.items() if at_ns >= since_ns and members_of(known) == target)
            return max(shown, default=-1)
        listed = members_of(target) if self._listed else None
        return -1 if listed is None else floors.get(listed, -1)
