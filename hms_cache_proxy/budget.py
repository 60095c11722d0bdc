"""Limits on the memory and disk space that all connections of a worker use together.

Job: count bytes against a total. A Charge holds what one owner uses. It returns its bytes when it is closed or garbage
collected, so a connection that ends in any way returns them. Must not know: what the bytes are for.

A part of each budget (SPARE) is reserved for writes. Owner: one thread.
"""

from __future__ import annotations

from typing import Final

SPARE: Final = 4
"""One part in SPARE of a budget is reserved for writes."""
UNBOUNDED: Final = 1 << 62


class Budget:
    """`limit` bytes; `setting` is the key of the setting with that limit, without its section."""

    __slots__ = ("limit", "setting", "used")

    def __init__(self, setting: str, limit: int) -> None:
        self.setting = setting
        self.limit = limit
        self.used = 0

    def has(self, size: int, *, for_write: bool = False) -> bool:
        """Whether `size` more bytes fit."""
        limit = self.limit if for_write else self.limit - self.limit // SPARE
        return self.used + size <= limit


class Charge:
    """The bytes of a budget that one owner uses."""

    __slots__ = ("_budget", "_for_write", "_must", "size")

    def __init__(self, budget: Budget, *, for_write: bool = False, must: bool = False) -> None:
        """`must`: the bytes are counted, but never refused."""
        self._budget = budget
        self._for_write = for_write
        self._must = must
        self.size = 0

    def grow(self, size: int) -> bool:
        """Take `size` more bytes. If they do not fit, take nothing and return False."""
        if not self._must and not self._budget.has(size, for_write=self._for_write):
            return False
        self.size += size
        self._budget.used += size
        return True

    def close(self) -> None:
        """Return all bytes."""
        self._budget.used -= self.size
        self.size = 0

    def __del__(self) -> None:
        self.close()


class Budgets:
    """The budgets of a worker; by default they have no limit."""

    __slots__ = ("memory", "spool")

    def __init__(self, memory_bytes: int = UNBOUNDED, spool_bytes: int = UNBOUNDED) -> None:
        self.memory = Budget("memory_bytes", memory_bytes)
        self.spool = Budget("spool_bytes", spool_bytes)
