"""`snapshot publish --increment`: brings the newest snapshot up to date from the notification log, without Spark.

    the newest snapshot, at event E -> the log after E -> the objects that its rows name, read in one state of the
    database -> the tables and databases as they are now, and the changes of partitions -> a manifest that also names
    the partition files of the older snapshot

Job: carry out this sequence. What a row of the log affects, and what is read because of it, is decided by the
follower's own code (follower/step.py, follower/reading.py), so an increment is what a proxy would read that starts from
the older snapshot.

Invariants:
- What is read from the database grows with what changed; lists of databases are read whole. Of the older snapshot only
  the tables are read. Its partition files stay where they are, and the new manifest names them (publish.py keeps them).
- NoIncrement says why a full snapshot is needed; nothing was written then.

Owner: one process; one connection to the database.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from hms_cache_proxy import __version__
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.follower import step
from hms_cache_proxy.follower.affected import Affected
from hms_cache_proxy.follower.events import EventResult
from hms_cache_proxy.follower.limits import StepLimits
from hms_cache_proxy.follower.load_queue import LOADING, LoadQueue
from hms_cache_proxy.follower.log import OrderedLog, begun_before
from hms_cache_proxy.follower.reading import StepReading
from hms_cache_proxy.follower.step import Position, Reset
from hms_cache_proxy.pipeline.progress import JobReport
from hms_cache_proxy.pipeline.snapshot_tables import SnapshotTables
from hms_cache_proxy.pipeline.tasks import STATEMENT_TIMEOUT_S
from hms_cache_proxy.plurals import counted, fitting
from hms_cache_proxy.snapshots import layers, rows
from hms_cache_proxy.snapshots import manifest as manifests
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.snapshots.row_writer import FileWriter
from hms_cache_proxy.store.protocol import DatabaseRecord, PartitionRecord
from hms_cache_proxy.store.sql.store import SqlSnapshot, SqlStore, open_sql_store

MOST_ROWS: Final = 100_000
"""Changed partitions that a snapshot may have over its full one: its readers hold them in memory."""

CHUNK: Final = 50_000
DATABASES_AT_ONCE: Final = 1_000
_UNDERSTOOD: Final[frozenset[EventResult]] = frozenset({"applied", "ignored"})


class NoIncrement(SnapshotError):
    """Why the newest snapshot cannot be brought up to date."""


@dataclass(slots=True)
class _Partitions:
    """What was read of one table's partitions."""

    replaced: bool = False
    unfit: str | None = None
    upserts: dict[bytes, PartitionRecord] | None = None
    deletes: set[bytes] | None = None


@dataclass(frozen=True, slots=True)
class Increment:
    """One increment. `newest`: the directory of the snapshot that is brought up to date, beside `name`."""

    config: Config
    place: Place
    newest: str
    name: str
    report: JobReport

    def run(self) -> Manifest:
        """Make the snapshot, and return its manifest. Raises NoIncrement, StoreError, SnapshotError."""
        older = self.place.below(self.newest)
        manifest = self._older(older)
        store = open_sql_store(self.config.store_url, statement_timeout_s=STATEMENT_TIMEOUT_S)
        try:
            self._check(manifest, store)
            with store.snapshot() as snapshot:
                affected = self._affected(manifest, snapshot)
                databases = self._databases(snapshot)
                base = self._base(older, manifest)
                reading = self._read(base, snapshot, affected)
                made = self._manifest(manifest, store, snapshot)
        finally:
            store.close()
        base.apply(reading.changes)
        changes = self._changes(base, reading)
        return self._write(made, manifest, databases, base, changes)

    # --- may the older snapshot be brought up to date?

    def _check(self, manifest: Manifest, store: SqlStore) -> None:
        config = self.config
        why = manifest.differs(store.identity, config.include, config.exclude)
        if why is None and (manifest.include, manifest.exclude) != (config.include, config.exclude):
            why = "it was made with other values of include and exclude"
        if why is None and not store.identity.exact:
            why = "the database cannot show one state to several statements"
        if why is not None:
            raise NoIncrement(f"{self.newest}: {why}")

    def _affected(self, manifest: Manifest, snapshot: SqlSnapshot) -> Affected:
        """What the log after the older snapshot names."""
        position = Position(manifest.before, manifest.fingerprint)
        cost = manifest.counts[rows.PARTITIONS]
        followed = OrderedLog(lambda: None).follow(snapshot, position, verified=False, reload_cost=cost)
        if isinstance(followed, Reset):
            raise NoIncrement(f"the log does not continue from event {manifest.before}: {followed.reason.value}")
        batch = followed.batch
        odd = sorted({kind for kind, result in batch.results if result not in _UNDERSTOOD})
        if odd:
            raise NoIncrement(f"the log has rows that cannot be read: {', '.join(odd)}")
        affected = begun_before(snapshot, manifest.before).resolve(batch.affected, snapshot.transaction_tables)
        reset = step.too_much(affected)
        if reset is not None:
            raise NoIncrement(f"too much has changed: {reset.reason.value}")
        self.report.tell(
            f"{counted(batch.rows, 'row')} of the log after event {manifest.before}"
            f" {fitting(batch.rows, 'names', 'name')} {counted(len(affected.tables), 'table')}"
        )
        return affected

    # --- reading

    def _databases(self, snapshot: SqlSnapshot) -> list[DatabaseRecord]:
        keys = snapshot.database_names()
        found: list[DatabaseRecord] = []
        for start in range(0, len(keys), DATABASES_AT_ONCE):
            some = snapshot.databases(keys[start : start + DATABASES_AT_ONCE])
            found += (some[key] for key in sorted(some))
        return found

    def _older(self, older: Place) -> Manifest:
        try:
            manifest = older.manifest()
        except SnapshotError as error:
            raise NoIncrement(f"{self.newest} cannot be read: {error}") from error
        if manifest is None:
            raise NoIncrement(f"{self.newest} is not there any more")
        return manifest

    def _base(self, older: Place, manifest: Manifest) -> SnapshotTables:
        try:
            return SnapshotTables(self._older_databases(older, manifest), self._older_tables(older, manifest))
        except SnapshotError as error:
            raise NoIncrement(f"{self.newest} cannot be read: {error}") from error

    @staticmethod
    def _older_databases(older: Place, manifest: Manifest) -> Iterable[DatabaseRecord]:
        return (one for file in manifest.of_kind(rows.DATABASES) for one in rows.databases(older.read(file)))

    @staticmethod
    def _older_tables(older: Place, manifest: Manifest) -> Iterable[rows.TableRow]:
        return (row for file in manifest.of_kind(rows.TABLES) for row in rows.tables(older.read(file)))

    def _read(self, base: SnapshotTables, snapshot: SqlSnapshot, affected: Affected) -> StepReading:
        work = LoadQueue(all_databases=False)
        limits = StepLimits(CHUNK, object_bytes=1 << 40)
        reading = StepReading(snapshot, base, work, selection=self.config.selection, limits=limits)
        reading.affected(affected)
        while not work.done:
            reading.queued(CHUNK)
            if reading.partitions > MOST_ROWS:
                raise NoIncrement(f"too much has changed: more than {MOST_ROWS:,} partitions")
        reading.foreign_keys()
        reading.write_ids(affected, base.being_written())
        return reading

    # --- what has changed in the partitions

    def _changes(self, base: SnapshotTables, reading: StepReading) -> dict[int, _Partitions]:
        found: defaultdict[int, _Partitions] = defaultdict(_Partitions)
        for table_id in base.unloaded:
            found[table_id].replaced = True
        unfit = dict(line.split(": ", 1) for line in reading.unfit)
        self._collect(reading.changes, found)
        whole = {id_ for id_, change in found.items() if change.upserts is not None and change.replaced}
        for key, record in reading.changes.tables.items():
            if record is None or not record.partition_keys:
                continue
            why = unfit.get(b".".join(key).decode("utf-8", "replace"))
            if why is not None:
                found[record.table_id] = _Partitions(replaced=True, unfit=why)
            elif record.table_id in base.unloaded and record.table_id not in whole:
                raise NoIncrement(f"table {record.table_id} was renamed, and its partitions were not read")
        return found

    @staticmethod
    def _collect(changes: Changes, found: defaultdict[int, _Partitions]) -> None:
        """All of it is of one state, so the order does not matter."""
        assert LOADING not in {stub.reason for stub in changes.stubs.values()}, "the queue is empty"
        for change in changes.partitions:
            table = found[change.table_id]
            table.replaced = table.replaced or change.replace_all
            table.upserts = {**(table.upserts or {}), **{one.name: one for one in change.upserts}}
            table.deletes = {*(table.deletes or ()), *change.deletes}
        for chunk in changes.chunks:
            table = found[chunk.table_id]
            table.replaced = True
            table.upserts = {**(table.upserts or {}), **{one.name: one for one in chunk.records}}

    # --- writing

    def _manifest(self, older: Manifest, store: SqlStore, snapshot: SqlSnapshot) -> Manifest:
        event_id = snapshot.event_id
        return replace(
            older,
            program=__version__,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            identity=store.identity,
            before=event_id,
            after=event_id,
            fingerprint=snapshot.fingerprint(event_id),
            marks=snapshot.marks(),
        )

    def _write(
        self,
        made: Manifest,
        older: Manifest,
        databases: list[DatabaseRecord],
        base: SnapshotTables,
        changes: dict[int, _Partitions],
    ) -> Manifest:
        new = list(_change_rows(changes))
        over = len(new) + sum(file.rows for file in older.of_kind(rows.CHANGES))
        if over > MOST_ROWS:
            raise NoIncrement(f"it would have {over:,} changes over the last full snapshot; the most are {MOST_ROWS:,}")
        place = self.place.below(self.name)
        tables = [row for _, row in sorted(base.rows.items(), key=lambda item: item[0])]
        kept = [file for kind in (rows.PARTITIONS, rows.CHANGES) for file in older.of_kind(kind)]
        files = _written(place, rows.DATABASES, (rows.database_row(0, one) for one in databases))
        files += _written(place, rows.TABLES, (rows.table_row(0, row) for row in tables))
        files += map(self._beside, kept)
        files += _written(place, rows.CHANGES, new)
        counts = {
            **made.counts,
            rows.DATABASES: len(databases),
            rows.TABLES: len(tables),
            rows.CHANGES: over,
            "transactional_tables": sum(row.record is not None and row.record.transactional for row in tables),
        }
        done = replace(made, counts=counts, files=tuple(files))
        place.write(manifests.NAME, done.dump())
        return done

    def _beside(self, file: File) -> File:
        """The file of the older snapshot, as the new one's manifest names it."""
        return file if file.name.startswith("../") else replace(file, name=f"../{self.newest}/{file.name}")


def _written(place: Place, kind: str, of: Iterable[tuple[Any, ...]]) -> list[File]:
    writer = FileWriter(place, kind, f"{kind}/part")
    for row in of:
        writer.add(row)
    return writer.close()


def _change_rows(changes: dict[int, _Partitions]) -> Iterable[tuple[Any, ...]]:
    for table_id, table in sorted(changes.items()):
        if table.replaced:
            yield rows.change_row(layers.ALL, table_id)
        if table.unfit is not None:
            yield (*rows.unfit_row(0, table_id, table.unfit), layers.SET)
            continue
        for name in sorted(table.deletes or ()):
            yield rows.change_row(layers.DROP, table_id, name)
        for _, record in sorted((table.upserts or {}).items()):
            yield (*rows.partition_row(0, table_id, record), layers.SET)
