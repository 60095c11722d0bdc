"""The rows of listings in one write transaction: a name for each table of a database, and how many are not loaded.

Job: put and remove names, and keep the number of those that are not loaded, so that nobody has to look at all tables of
a database to know whether each of them is followed. Also notice which listings have changed. Must not know: tables
themselves.
Owner: the follower's write transaction; `finish` once at its end.
"""

from __future__ import annotations

from typing import Any

from hms_cache_proxy.cache import layout, targets
from hms_cache_proxy.cache.changes import TableStub
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.store.protocol import TableRecord


class Listings:
    """All listings of one generation."""

    def __init__(self, txn: Any, objects: Any, generation: int) -> None:
        self._txn = txn
        self._objects = objects
        self._names = layout.objects_prefix(generation, b"n")
        self._counts = layout.objects_prefix(generation, b"u")
        self._more: dict[bytes, int] = {}  # by database: how many more of its names are not loaded
        self.changed: set[Target] = set()
        """`targets.said` of the listings that no longer say what they said, as far as can be known: a row without a
        summary does not say everything."""

    def loaded(self, name: bytes, record: TableRecord) -> None:
        """The table of this full name is loaded."""
        flags = layout.LOADED if record.summary is None else layout.LOADED | layout.SUMMARISED
        fixed = layout.NAME_ROW.pack(record.table_id, flags, len(record.table_type))
        self._put(name, fixed + record.table_type + (record.summary or b""))

    def stub(self, name: bytes, stub: TableStub) -> None:
        """The table of this full name exists, but is not loaded."""
        fixed = layout.NAME_ROW.pack(stub.table_id, 0, len(stub.table_type))
        self._put(name, fixed + stub.table_type + stub.reason.encode())

    def remove(self, name: bytes) -> None:
        """There is no table of this full name."""
        self._replaced(name, None)
        layout.remove(self._txn, self._objects, self._names, name)

    def finish(self) -> None:
        """Write the counts that have changed."""
        for database, more in self._more.items():
            key = layout.version_key(self._counts + database)
            row = self._txn.get(key, db=self._objects)
            count = more + (0 if row is None else layout.NOT_LOADED.unpack(row)[0])
            if count:
                self._txn.put(key, layout.NOT_LOADED.pack(count), db=self._objects)
            elif row is not None:
                self._txn.delete(key, db=self._objects)

    def _put(self, name: bytes, row: bytes) -> None:
        self._replaced(name, row)
        layout.store(self._txn, self._objects, self._names, name, row)

    def _replaced(self, name: bytes, row: bytes | None) -> None:
        before = layout.find(self._txn, self._objects, self._names, name)
        database = name[: name.rfind(targets.SEPARATOR)]
        more = _not_loaded(row) - _not_loaded(before)
        if more:
            self._more[database] = self._more.get(database, 0) + more
        if row != before or (row is not None and not _says_everything(row)):
            self.changed.add(targets.said(*database.split(targets.SEPARATOR)))


def _not_loaded(row: bytes | None) -> int:
    return int(row is not None and not layout.NAME_ROW.unpack_from(row)[1] & layout.LOADED)


def _says_everything(row: bytes) -> bool:
    flags: int = layout.NAME_ROW.unpack_from(row)[1]
    return bool(flags & layout.SUMMARISED)
