"""One Spark task of a build: reads stretches of the catalog with the store's code, and writes them to files.

Job: open a connection, on the snapshot that the driver exported if the database can export one; read the store's
records with the same code as the follower's prewarm; tell the driver which files hold them. Must not know: Spark, the
driver. What this module imports must be installed in the executors' Python.

Owner: a Python worker of Spark; one connection, closed at the end of the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hms_cache_proxy.consistency.names import DEFAULT_CATALOG
from hms_cache_proxy.errors import Unfit
from hms_cache_proxy.pipeline.ranges import PARTITIONS_PER_STRETCH, Partitioned, PartitionStretch, TableStretch
from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.manifest import File
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.snapshots.row_writer import FileWriter
from hms_cache_proxy.snapshots.rows import TableRow, WriteIds
from hms_cache_proxy.store.protocol import PartitionRecord, Snapshot, TableRecord, TableWrites
from hms_cache_proxy.store.sql.store import open_sql_store

STATEMENT_TIMEOUT_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """The database, and the name of the exported snapshot, if there is one."""

    url: str
    exported: str | None

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The snapshot that is read."""
        store = open_sql_store(self.url, statement_timeout_s=STATEMENT_TIMEOUT_S)
        try:
            if self.exported is not None:
                store.database.import_snapshot(self.exported)
            with store.snapshot() as snapshot:
                yield snapshot
        finally:
            store.close()


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """The snapshot of whoever runs the tasks in its own process, one after the other."""

    held: Snapshot

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """It stays open."""
        yield self.held


@dataclass(frozen=True, slots=True)
class Output:
    """Where a round's files go: the snapshot's URI, and the directory in it."""

    uri: str
    directory: str

    def writer(self, kind: str) -> FileWriter:
        """A writer of a task's files."""
        return FileWriter(Place(self.uri), kind, f"{self.directory}/part")


class Written(NamedTuple):
    """The files of a task, in the order of their rows, and how many of its tables are transactional."""

    files: list[File]
    transactional: int


def read_tables(source: SnapshotSource, output: Output, stretches: Sequence[TableStretch]) -> Written:
    """Write these tables."""
    writer, transactional = output.writer(rows.TABLES), 0
    with source.snapshot() as snapshot:
        for stretch in stretches:
            for row in _tables(snapshot, stretch):
                transactional += row.record is not None and row.record.transactional
                writer.add(rows.table_row(stretch.place, row))
    return Written(writer.close(), transactional)


def _tables(snapshot: Snapshot, stretch: TableStretch) -> Iterator[TableRow]:
    catalog, database = stretch.database
    found = snapshot.tables(catalog, database, [table.name for table in stretch.tables if table.admitted])
    transactional = [record.name for record in found.values() if record.transactional]
    writes: dict[tuple[bytes, bytes], TableWrites] = {}
    if transactional and catalog == DEFAULT_CATALOG:  # write ids have no catalog
        writes = snapshot.write_ids([(database, name) for name in transactional])
    for table in stretch.tables:
        record = found.get(table.name)
        if record is None and table.admitted:
            continue  # dropped meanwhile; possible without an exported snapshot
        its = writes.get((database, table.name))
        write_ids = None if its is None else WriteIds(its.valid.text(), tuple(sorted(its.open)))
        id_, kind = (table.table_id, table.table_type) if record is None else (record.table_id, record.table_type)
        yield TableRow(catalog, database, table.name, id_, kind, record, write_ids)


def read_partitions(source: SnapshotSource, output: Output, stretches: Sequence[PartitionStretch]) -> Written:
    """Write these partitions."""
    writer = output.writer(rows.PARTITIONS)
    with source.snapshot() as snapshot:
        for stretch in stretches:
            for table in stretch.tables:
                for row in _partitions(snapshot, table, stretch):
                    writer.add(row)
    return Written(writer.close(), 0)


def _partitions(snapshot: Snapshot, table: Partitioned, stretch: PartitionStretch) -> Iterator[tuple[Any, ...]]:
    try:
        for record in records(snapshot, table, stretch.after, stretch.until):
            yield rows.partition_row(stretch.place, table.table_id, record)
    except Unfit as error:
        yield rows.unfit_row(stretch.place, table.table_id, str(error))


def records(
    snapshot: Snapshot, table: Partitioned, after: bytes | None, until: bytes | None
) -> Iterator[PartitionRecord]:
    """The partitions after `after`, up to `until`. On an exported snapshot the first page ends there."""
    owner = TableRecord(
        table.catalog, table.database, table.name, table.table_id, b"", b"", False, False, (), None, table.full_acid
    )
    return records_of(snapshot, owner, after, until)


def records_of(
    snapshot: Snapshot, owner: TableRecord, after: bytes | None, until: bytes | None
) -> Iterator[PartitionRecord]:
    """The same of a table's record, of which a store over Thrift needs the partition keys, too."""
    while True:
        found = snapshot.partitions(owner, after=after, limit=PARTITIONS_PER_STRETCH)
        for record in found:
            if until is not None and record.name > until:
                return
            yield record
        if len(found) < PARTITIONS_PER_STRETCH or found[-1].name == until:
            return
        after = found[-1].name
