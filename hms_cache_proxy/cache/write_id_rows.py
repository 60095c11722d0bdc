"""The rows of write ids in one write transaction: one for each transactional table, and an index of the tables with
open or aborted writes.

Job: put and remove rows, keep their number, and list the tables of the index, so that nobody has to read the rows of
all tables to find these few. Must not know: what a list of write ids means to a reader. Owner: the follower's write
transaction.
"""

from __future__ import annotations

from typing import Any

from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.layout import WriteIdsRow
from hms_cache_proxy.store.write_ids import any_invalid


class WriteIdRows:
    """All rows of one generation. `known`: the change of their number; `being_written`: of those with writers."""

    __slots__ = ("_objects", "_rows", "_txn", "_unsettled", "being_written", "known")

    def __init__(self, txn: Any, objects: Any, generation: int) -> None:
        self._txn = txn
        self._objects = objects
        self._rows = layout.objects_prefix(generation, b"w")
        self._unsettled = layout.objects_prefix(generation, b"o")
        self.known = self.being_written = 0

    def put(self, table_id: int, row: WriteIdsRow | None) -> None:
        """The row of a table; None: it has none any more."""
        number = layout.TABLE_ID.pack(table_id)
        packed = self._txn.get(self._rows + number, db=self._objects)
        before = None if packed is None else layout.write_ids_unpack(packed)
        self.known += (row is not None) - (before is not None)
        self.being_written += bool(row and row.writers) - bool(before and before.writers)
        if row is not None:
            self._txn.put(self._rows + number, layout.write_ids_pack(row), db=self._objects)
        elif before is not None:
            self._txn.delete(self._rows + number, db=self._objects)
        if row is not None and _unsettled(row):
            self._txn.put(self._unsettled + number, b"", db=self._objects)
        elif before is not None and _unsettled(before):
            self._txn.delete(self._unsettled + number, db=self._objects)


def _unsettled(row: WriteIdsRow) -> bool:
    return bool(row.writers) or any_invalid(row.text)
