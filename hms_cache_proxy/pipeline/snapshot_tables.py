"""The tables of a snapshot in memory. An increment compares them with the database, and changes them.

Job: answer the questions of `StepReading` from the rows of a snapshot; take over what it has read. Must not know:
files, the log.

Owner: the process that makes an increment. Holds every table object of the catalog, but no partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from hms_cache_proxy.cache.attachments import ConstraintsEntry
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.entries import DatabaseEntry, TableEntry
from hms_cache_proxy.cache.inventory import ListedTable
from hms_cache_proxy.cache.layout import WriteIdsRow
from hms_cache_proxy.follower.constraints import cached_form
from hms_cache_proxy.snapshots.rows import TableRow, WriteIds
from hms_cache_proxy.store.protocol import DatabaseKey, DatabaseRecord, Statistics, TableKey, TableName
from hms_cache_proxy.store.write_ids import any_invalid

MANY: Final = 1 << 60
"""More partitions than events can name: those that are named are read by name, however many they are."""


class SnapshotTables:
    """`rows`: by key, those of tables that are only listed, too."""

    def __init__(self, databases: Iterable[DatabaseRecord], rows: Iterable[TableRow]) -> None:
        self._databases = {(record.catalog, record.name): record.remote for record in databases}
        self.rows: dict[TableKey, TableRow] = {(row.catalog, row.database, row.name): row for row in rows}
        self._children: defaultdict[int, list[TableKey]] | None = None
        self.unloaded: set[int] = set()
        """Ids of tables whose partitions are no longer those of the base."""

    # --- what StepReading asks

    def databases(self) -> dict[DatabaseKey, bool]:
        """Every database, and whether it is REMOTE."""
        return self._databases

    def complete(self, target: bytes) -> bool:
        """A snapshot has all names."""
        return True

    def database(self, key: DatabaseKey) -> DatabaseEntry | None:
        """Not asked: an increment reads all databases again."""
        raise AssertionError("databases are not compared")

    def mark(self, target: bytes) -> bytes | None:
        """Not asked, like `database`."""
        raise AssertionError("marks are not compared")

    def table(self, key: TableKey) -> TableEntry | None:
        """A table, loaded or only listed."""
        row = self.rows.get(key)
        if row is None:
            return None
        record = row.record
        if record is None:
            return TableEntry(*key, row.table_id, row.table_type, None)
        return TableEntry(
            *key,
            row.table_id,
            row.table_type,
            record.body,
            record.transactional,
            record.materialized_view,
            record.partition_keys,
            record.location,
            partitions_loaded=True,
            partition_count=MANY,
        )

    def tables(self, catalog: bytes, database: bytes) -> dict[bytes, ListedTable]:
        """The tables of a database, by name."""
        return {
            key[2]: ListedTable(row.table_id, row.record is not None, "")
            for key, row in self.rows.items()
            if key[:2] == (catalog, database)
        }

    def constraints(self, entry: TableEntry) -> ConstraintsEntry | None:
        """A table's constraints, if they are known."""
        row = self.rows[entry.catalog, entry.database, entry.name]
        if row.record is None or row.record.constraints is None:
            return None
        return cached_form(row.record, row.record.constraints)

    def statistics(self, entry: TableEntry) -> Statistics | None:
        """A table's own statistics, if they are known."""
        row = self.rows[entry.catalog, entry.database, entry.name]
        return None if row.record is None else row.record.statistics

    def constrained(self) -> Iterator[tuple[TableKey, int, ConstraintsEntry]]:
        """Every table that has constraints, with its id and the constraints."""
        for key, row in list(self.rows.items()):
            record = row.record
            if record is not None and record.constraints is not None and not record.constraints.nothing:
                yield key, row.table_id, cached_form(TableName(*key, row.table_id), record.constraints)

    def referring(self, table_id: int) -> Iterator[tuple[TableKey, int, ConstraintsEntry]]:
        """The tables whose foreign keys refer to this one, likewise."""
        if self._children is None:
            self._children = defaultdict(list)
            for key, row in self.rows.items():
                constraints = None if row.record is None else row.record.constraints
                for parent in () if constraints is None else constraints.parents:
                    self._children[parent].append(key)
        for key in self._children.get(table_id, ()):
            row = self.rows[key]
            assert row.record is not None and row.record.constraints is not None, "it has foreign keys"
            yield key, row.table_id, cached_form(TableName(*key, row.table_id), row.record.constraints)

    def write_ids_of(self, table_id: int) -> WriteIdsRow | None:
        """Those of a snapshot name every open write, so they are never compared."""
        return None

    def being_written(self) -> set[TableKey]:
        """Tables with open or aborted writes: a write can end without a row in the log."""
        return {
            key
            for key, row in self.rows.items()
            if row.write_ids is not None and (row.write_ids.open or any_invalid(row.write_ids.text))
        }

    # --- what was read

    def apply(self, changes: Changes) -> None:
        """Take over the tables that were read."""
        self._children = None
        for database, record in changes.databases.items():
            if record is None:
                for key in [key for key in self.rows if key[:2] == database]:
                    self._drop(key)
        for key, table in changes.tables.items():
            if table is None:
                self._drop(key)
                continue
            self._gone_unless(key, table.table_id)
            self.rows[key] = TableRow(*key, table.table_id, table.table_type, table)
        for key, stub in changes.stubs.items():
            self._drop(key)
            self.rows[key] = TableRow(*key, stub.table_id, stub.table_type)
        for table_id, write_ids in changes.write_ids.items():
            row = self.rows[write_ids.key]
            assert row.table_id == table_id, "both are of one state"
            self.rows[write_ids.key] = replace(row, write_ids=WriteIds(write_ids.text, write_ids.writers))

    def _drop(self, key: TableKey) -> None:
        self._gone_unless(key, None)
        self.rows.pop(key, None)

    def _gone_unless(self, key: TableKey, table_id: int | None) -> None:
        """If the table of this name was another one, or was one with partitions, its partitions count no more."""
        row = self.rows.get(key)
        if row is not None and row.record is not None and row.record.partition_keys and row.table_id != table_id:
            self.unloaded.add(row.table_id)
