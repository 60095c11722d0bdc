"""`audit`: compares the cache of a running proxy with the database, object by object, as of one event.

    a snapshot of the database at event E -> a copy of the cache, made when its cursor is at E -> lists, by the driver
    -> tables and partitions, in rounds of tasks -> differences

Job: carry out this sequence. The proxy keeps running: its cache is copied in one read transaction of LMDB. Must not
know: how objects are compared. Runs on the proxy's machine, under an account that may read its data directory.

Only PostgreSQL can show one state to several connections, so only there the tasks run in Spark. Otherwise they run in
this process, on the one connection of the snapshot.

Owner: the driver's process.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from hms_cache_proxy.cache import environment as files
from hms_cache_proxy.cache.entries import DatabaseEntry, TableEntry
from hms_cache_proxy.cache.inventory import Inventory
from hms_cache_proxy.cache.layout import META_KEY, Meta
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.errors import AuditError, CacheError
from hms_cache_proxy.pipeline.audit_plan import ROUND_COST, AuditPlan
from hms_cache_proxy.pipeline.audit_progress import AuditProgress, AuditResult
from hms_cache_proxy.pipeline.compare import Copy, compare_partitions, compare_tables
from hms_cache_proxy.pipeline.findings import DIFFERENT, EXTRA, MISSING, Difference, FindingsSink, TaskResult, text
from hms_cache_proxy.pipeline.progress import JobReport, reported
from hms_cache_proxy.pipeline.ranges import Partitioned, TableStretch, partition_stretches, table_stretches, tasks
from hms_cache_proxy.pipeline.rounds import COST, rounds
from hms_cache_proxy.pipeline.session import RunTasks, in_process, phase
from hms_cache_proxy.pipeline.tasks import STATEMENT_TIMEOUT_S, HeldSnapshot, SnapshotSource
from hms_cache_proxy.store.protocol import DatabaseKey, TableKey
from hms_cache_proxy.store.sql.store import SqlSnapshot, SqlStore, open_sql_store

ATTEMPTS: Final = 30
AT_EVENT_S: Final = 10.0
"""How long the cache may take to reach the database's event."""

PAUSE_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class Audit:
    """One audit. `run_tasks`: on Spark, with at most so many `connections` at once (PostgreSQL only), or in this
    process; `report` gets the progress."""

    plan: AuditPlan
    connections: int
    report: JobReport
    run_tasks: RunTasks = in_process

    @property
    def config(self) -> Config:
        return self.plan.config

    def run(self) -> AuditResult:
        """Compare what is in the plan. Raises StoreError, CacheError, AuditError."""
        store = open_sql_store(self.config.store_url, statement_timeout_s=STATEMENT_TIMEOUT_S)
        try:
            return self._of(store)
        finally:
            store.close()

    def _of(self, store: SqlStore) -> AuditResult:
        progress = self.plan.progress(store.identity, str(Path(self.config.data_dir).resolve()))
        directory = self._beside_the_cache()
        try:
            for _ in range(ATTEMPTS):
                with store.snapshot() as snapshot:
                    source = self._source(store, snapshot)
                    if self._copied(directory, snapshot):
                        return self._compared(store, snapshot, source, Copy(str(directory)), progress)
            raise AuditError(f"the cache and the database were never at the same event in {ATTEMPTS} attempts")
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _source(self, store: SqlStore, snapshot: SqlSnapshot) -> SnapshotSource | HeldSnapshot:
        if self.run_tasks is in_process:
            return HeldSnapshot(snapshot)
        exported = store.database.export_snapshot()
        if exported is None:
            raise AuditError("only PostgreSQL can show one state to several connections: use --connections 1")
        return SnapshotSource(self.config.store_url, exported)

    def _beside_the_cache(self) -> Path:
        """A directory for a copy of the cache. Raises AuditError if there is no cache, or no room for a directory."""
        if not paths.state(self.config).exists() or not paths.cache(self.config).exists():
            raise AuditError(f"{self.config.data_dir} has no cache: give --data-dir of a running proxy")
        try:
            return Path(tempfile.mkdtemp(prefix="audit-", dir=self.config.data_dir))
        except OSError as error:
            raise AuditError(f"{self.config.data_dir}: the cache cannot be copied: {error.strerror}") from error

    def _copied(self, directory: Path, snapshot: SqlSnapshot) -> bool:
        """Copy the cache at the snapshot's event; False if the cache has already passed it."""
        deadline_s = time.monotonic() + AT_EVENT_S
        with StatePage(paths.state(self.config)) as page:
            while page[Slot.CURSOR] < snapshot.event_id:
                if time.monotonic() > deadline_s:
                    raise AuditError(
                        f"the cache is at event {page[Slot.CURSOR]}, the database at {snapshot.event_id}:"
                        " no proxy is following the database"
                    )
                time.sleep(PAUSE_S)
        copy = directory / "cache"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(mode=0o700)
        environment = files.attach(paths.cache(self.config))
        try:
            with files.translated(environment.path):
                environment.env.copy(str(copy), compact=True)
        except (OSError, CacheError) as error:
            raise AuditError(f"the cache cannot be copied to {copy}: {error}") from error
        finally:
            environment.detach()
        with StatePage(directory / "state", create=True) as page:
            page[Slot.CACHE_FILE] = (copy / "data.mdb").stat().st_ino
        copied = files.attach(copy)
        try:
            with copied.env.begin() as txn:
                meta = Meta.unpack(txn.get(META_KEY, db=copied.meta))
        finally:
            copied.detach()
        self.report.tell(f"cache at event {meta.cursor}, database at {snapshot.event_id}")
        return meta.cursor == snapshot.event_id and not meta.held

    def _compared(
        self,
        store: SqlStore,
        snapshot: SqlSnapshot,
        source: SnapshotSource | HeldSnapshot,
        copy: Copy,
        progress: AuditProgress,
    ) -> AuditResult:
        sample, sink = self.plan.sample, FindingsSink(self.plan.out)
        progress.at(snapshot.event_id)
        with copy.snapshot() as cache:
            if cache.identity != store.identity:
                raise AuditError("the cache is of another database than store_url")
            loaded = self._loaded(cache)
            if not progress.lists_compared:
                progress.lists_done(self._listed(cache, snapshot, loaded, sink))
        stretches = table_stretches(snapshot, snapshot.database_names(), self.config.selection)
        with phase("tables", self.report, AuditError):
            left = progress.tables_left(sample.tables(stretches))
            self._rounds("tables", left, partial(compare_tables, source, copy, sink), progress.tables_done)
        with phase("partitions", self.report, AuditError):
            partitioned = partition_stretches(store, snapshot, _in_order(stretches, loaded))
            parts = progress.partitions_left(sample.partitions(partitioned))
            self._rounds("partitions", parts, partial(compare_partitions, source, copy, sink), progress.partitions_done)
        return progress.end()

    def _rounds(
        self,
        kind: str,
        stretches: Sequence[Any],
        compare: Callable[[Any], TaskResult],
        done: Callable[[Sequence[Any], Sequence[TaskResult]], None],
    ) -> None:
        cost = ROUND_COST if self.run_tasks is in_process else COST * self.connections
        for some in reported(self.report, kind, rounds(stretches, cost) if stretches else []):
            done(some, self.run_tasks(tasks(some, self.connections), compare))

    # --- compared by the driver

    def _listed(
        self, cache: CacheSnapshot, snapshot: SqlSnapshot, loaded: dict[TableKey, TableEntry], sink: FindingsSink
    ) -> TaskResult:
        """Databases, what only the cache has, and what it has not."""
        found = chain(self._databases(cache, snapshot), self._lists(cache, snapshot), self._emptied(loaded, snapshot))
        not_loaded = Counter(reason for _, reason in Inventory(cache).lacking())
        compared = Counter(databases=len(snapshot.database_names()))
        return sink.collect(found, TaskResult(compared, not_loaded))

    @staticmethod
    def _databases(cache: CacheSnapshot, snapshot: SqlSnapshot) -> Iterator[Difference]:
        found = snapshot.databases(snapshot.database_names())
        cached = Inventory(cache).databases()
        for key in sorted({*found, *cached}):
            place = "database", text(key[0]), text(key[1]), None, None
            if key not in cached or key not in found:
                yield Difference(*place, EXTRA if key in cached else MISSING)
                continue
            entry, record = cache.database(*key), found[key]
            assert isinstance(entry, DatabaseEntry)
            if (entry.body, entry.remote) != (record.body, record.remote):
                yield Difference(*place, DIFFERENT, "body", entry.body, record.body)

    @staticmethod
    def _lists(cache: CacheSnapshot, snapshot: SqlSnapshot) -> Iterator[Difference]:
        """Tables that only the cache has. Tables that it lacks are found by the tasks."""
        inventory = Inventory(cache)
        for key in inventory.databases():
            names = {name for name, _, _ in snapshot.table_names(*key)}
            for name in sorted(inventory.tables(*key).keys() - names):
                yield Difference("table", text(key[0]), text(key[1]), text(name), None, EXTRA)

    @staticmethod
    def _loaded(cache: CacheSnapshot) -> dict[TableKey, TableEntry]:
        """Tables whose partitions are cached."""
        entries = {key: cache.table(*key) for key in Inventory(cache).loaded()}
        return {
            key: entry for key, entry in entries.items() if isinstance(entry, TableEntry) and entry.partitions_loaded
        }

    @staticmethod
    def _emptied(loaded: dict[TableKey, TableEntry], snapshot: SqlSnapshot) -> Iterator[Difference]:
        """Tables whose partitions only the cache has."""
        some = {entry.table_id: key for key, entry in loaded.items() if entry.partition_count}
        for table_id, count in snapshot.partition_counts(list(some)).items():
            if not count:
                catalog, database, name = map(text, some[table_id])
                yield Difference("partition", catalog, database, name, None, EXTRA, "all")


def _in_order(stretches: Sequence[TableStretch], loaded: dict[TableKey, TableEntry]) -> list[Partitioned]:
    """The tables whose partitions are compared."""
    found = []
    for stretch in stretches:
        database: DatabaseKey = stretch.database
        for table in stretch.tables:
            entry = loaded.get((*database, table.name))
            if entry is not None and entry.table_id == table.table_id:
                found.append(Partitioned(*database, table.name, table.table_id, False))
    return found
