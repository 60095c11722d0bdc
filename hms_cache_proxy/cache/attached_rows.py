"""The rows beside tables in one write transaction: constraints, statistics, and which tables have a foreign key that
refers to a table.

Job: put and remove them together, so that the index of foreign keys always agrees with the constraints. Must not know:
what is in a constraint or a statistic. Owner: the follower's write transaction.
"""

from __future__ import annotations

from typing import Any

from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.attachments import constraints_unpack


class AttachedRows:
    """All rows of one generation."""

    __slots__ = ("_constraints", "_objects", "_referring", "_statistics", "_txn")

    def __init__(self, txn: Any, objects: Any, generation: int) -> None:
        self._txn = txn
        self._objects = objects
        self._constraints, self._statistics, self._referring = (
            layout.objects_prefix(generation, tag) for tag in (b"k", b"a", b"f")
        )

    def put(self, table_id: int, constraints: bytes, statistics: bytes) -> None:
        """What a table has; what is empty has no row."""
        number = layout.TABLE_ID.pack(table_id)
        self._refer(number, constraints)
        for key, row in ((self._constraints + number, constraints), (self._statistics + number, statistics)):
            if row:
                self._txn.put(key, row, db=self._objects)
            else:
                self._txn.delete(key, db=self._objects)

    def remove(self, table_id: int) -> None:
        """There is no such table any more."""
        self.put(table_id, b"", b"")

    def _refer(self, number: bytes, constraints: bytes) -> None:
        """The tables that the foreign keys refer to, in place of those of the row before."""
        before = self._txn.get(self._constraints + number, db=self._objects) or b""
        old, new = (set(constraints_unpack(row).parents) for row in (before, constraints))
        for parent in old - new:
            self._txn.delete(self._referring + layout.TABLE_ID.pack(parent) + number, db=self._objects)
        for parent in new - old:
            self._txn.put(self._referring + layout.TABLE_ID.pack(parent) + number, b"", db=self._objects)
