"""Everything that the cache has and lacks, for the follower, which compares it with the store.

Job: give the listings that workers never need: databases and tables even if their lists are not complete, and
everything that is listed but not loaded. Must not know: why something is loaded or not. Owner: the follower; valid
while its snapshot is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hms_cache_proxy.cache import layout, targets
from hms_cache_proxy.cache.attachments import ConstraintsEntry, constraints_unpack
from hms_cache_proxy.cache.entries import Absent, DatabaseEntry, TableEntry
from hms_cache_proxy.cache.layout import WriteIdsRow
from hms_cache_proxy.cache.sets import SetRow
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.store.protocol import DatabaseKey, Statistics, TableKey


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table in a listing; `reason` says why it is not loaded."""

    table_id: int
    loaded: bool
    reason: str


class Inventory:
    """The contents of one snapshot; without a snapshot, those of an empty cache."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: CacheSnapshot | None) -> None:
        self._snapshot = snapshot

    def databases(self) -> dict[DatabaseKey, bool]:
        """Every known database, and whether it is REMOTE."""
        found: dict[DatabaseKey, bool] = {}
        if self._snapshot is not None:
            for name, row in self._snapshot.rows(b"d", b""):
                catalog, _, database = name.partition(targets.SEPARATOR)
                found[catalog, database] = bool(row[0] & layout.REMOTE)
        return found

    def complete(self, target: bytes) -> bool:
        """Does a list have all its names?"""
        return self._snapshot is not None and self._snapshot.complete(target)

    def database(self, key: DatabaseKey) -> DatabaseEntry | None:
        """A database; None if it is not there."""
        entry = None if self._snapshot is None else self._snapshot.database(*key)
        return None if isinstance(entry, Absent) else entry

    def mark(self, target: bytes) -> bytes | None:
        """The mark of a marked target; None if it has none."""
        return None if self._snapshot is None else self._snapshot.mark(target)

    def table(self, key: TableKey) -> TableEntry | None:
        """A table that is listed, loaded or not; None if it is not there."""
        entry = None if self._snapshot is None else self._snapshot.table(*key)
        return None if isinstance(entry, Absent) else entry

    def tables(self, catalog: bytes, database: bytes) -> dict[bytes, ListedTable]:
        """The tables that are listed in a database, by name."""
        if self._snapshot is None:
            return {}
        begin = b"%b\0%b\0" % (catalog, database)
        return {name[len(begin) :]: _listed(row) for name, row in self._snapshot.rows(b"n", begin)}

    def loaded(self) -> list[TableKey]:
        """Every loaded table."""
        if self._snapshot is None:
            return []
        return [_key(name) for name, row in self._snapshot.rows(b"n", b"") if _listed(row).loaded]

    def lacking(self) -> Iterator[tuple[TableKey, str]]:
        """Tables that are not loaded, and tables whose partitions are not loaded, each with the reason."""
        if self._snapshot is None:
            return
        for database in self._snapshot.databases_not_loaded():
            for name, row in self._snapshot.rows(b"n", database + targets.SEPARATOR):
                listed = _listed(row)
                if not listed.loaded:
                    yield _key(name), listed.reason
        for _, partitions in self._unfinished():
            if not partitions.loaded:
                yield _key(partitions.owner), partitions.reason

    def filling(self) -> Iterator[tuple[TableKey, int, int]]:
        """Tables whose partitions are being loaded in chunks, with their ids and the sets that are being filled."""
        for table_id, partitions in self._unfinished():
            if partitions.loading and not partitions.loaded:
                yield _key(partitions.owner), table_id, partitions.loading

    def _unfinished(self) -> Iterator[tuple[int, SetRow]]:
        """The sets that are not complete, or that another one is to replace, by table id."""
        if self._snapshot is not None:
            for packed_id, _ in self._snapshot.rows(b"x", b""):
                row = self._snapshot.row(b"s", packed_id)
                assert row is not None, "an index row without a set"
                yield layout.TABLE_ID.unpack(packed_id)[0], SetRow.unpack(row)

    def constraints(self, entry: TableEntry) -> ConstraintsEntry | None:
        """A table's constraints, if they are known."""
        return None if self._snapshot is None else self._snapshot.constraints(entry)

    def statistics(self, entry: TableEntry) -> Statistics | None:
        """A table's own statistics, if they are known."""
        return None if self._snapshot is None else self._snapshot.table_statistics(entry)

    def constrained(self) -> Iterator[tuple[TableKey, int, ConstraintsEntry]]:
        """Every table that has constraints, with its id and the constraints."""
        if self._snapshot is not None:
            for key, row in self._snapshot.rows(b"k", b""):
                entry = constraints_unpack(row)
                yield _key(entry.owner), layout.TABLE_ID.unpack(key)[0], entry

    def referring(self, table_id: int) -> Iterator[tuple[TableKey, int, ConstraintsEntry]]:
        """The tables whose foreign keys refer to this one, likewise."""
        if self._snapshot is not None:
            for child in self._snapshot.referring(table_id):
                entry = self._snapshot.constrained(child)
                assert entry is not None, "an index row without constraints"
                yield _key(entry.owner), child, entry

    def write_ids_of(self, table_id: int) -> WriteIdsRow | None:
        """The write ids of a transactional table, if they are known."""
        return None if self._snapshot is None else self._snapshot.write_ids(table_id)

    def unsettled(self) -> Iterator[tuple[TableKey, WriteIdsRow]]:
        """Every transactional table that has an open or aborted write, with its write ids."""
        if self._snapshot is not None:
            for packed_id, _ in self._snapshot.rows(b"o", b""):
                row = self.write_ids_of(layout.TABLE_ID.unpack(packed_id)[0])
                assert row is not None, "an index row without write ids"
                yield _key(row.owner), row

    def write_ids(self) -> Iterator[tuple[TableKey, WriteIdsRow]]:
        """Every transactional table whose write ids are known, with these."""
        if self._snapshot is not None:
            for _, packed in self._snapshot.rows(b"w", b""):
                row = layout.write_ids_unpack(packed)
                yield _key(row.owner), row


def _key(name: bytes) -> TableKey:
    catalog, database, table = name.split(targets.SEPARATOR)
    return catalog, database, table


def _listed(row: bytes) -> ListedTable:
    table_id, flags, kind = layout.NAME_ROW.unpack_from(row)
    at = layout.NAME_ROW.size + kind
    loaded = bool(flags & layout.LOADED)
    return ListedTable(table_id, loaded, "" if loaded else row[at:].decode())
