"""Limits on what all connections of a worker use together.

Job: count bytes against a total. What is counted is a Charge, which gives back what it has when it is closed or nobody
has it any more, so that no way out of a connection can forget to. Must not know: what the bytes are for.
Part of a budget is for writes alone: what only answers reads leaves SPARE of it.
Owner: one thread.
"""

from __future__ import annotations

from typing import Final

SPARE: Final = 4
"""One part in so many is left for what belongs to writes."""
UNBOUNDED: Final = 1 << 62


class Budget:
    """`limit` bytes; `setting` is the key of the configuration that says so."""

    __slots__ = ("limit", "setting", "used")

    def __init__(self, setting: str, limit: int) -> None:
        self.setting = setting
        self.limit = limit
        self.used = 0

    def has(self, size: int, *, for_write: bool = False) -> bool:
        """Is there room for so much more?"""
        limit = self.limit if for_write else self.limit - self.limit // SPARE
        return self.used + size <= limit


class Charge:
    """What one owner takes of a budget."""

    __slots__ = ("_budget", "_for_write", "_must", "size")

    def __init__(self, budget: Budget, *, for_write: bool = False, must: bool = False) -> None:
        """`must`: count it, never refuse it."""
        self._budget = budget
        self._for_write = for_write
        self._must = must
        self.size = 0

    def grow(self, size: int) -> bool:
        """Take so much more; False, and nothing is taken, if there is no room."""
        if not self._must and not self._budget.has(size, for_write=self._for_write):
            return False
        self.size += size
        self._budget.used += size
        return True

    def close(self) -> None:
        """Give everything back."""
        self._budget.used -= self.size
        self.size = 0

    def __del__(self) -> None:
        self.close()


class Budgets:
    """The budgets of a worker. Without numbers they have no limit."""

    __slots__ = ("memory", "spool")

    def __init__(self, memory_bytes: int = UNBOUNDED, spool_bytes: int = UNBOUNDED) -> None:
        self.memory = Budget("memory_bytes", memory_bytes)
        self.spool = Budget("spool_bytes", spool_bytes)
