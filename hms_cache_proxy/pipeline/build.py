"""`snapshot build`: writes the whole catalog of a metastore's database to files, in parallel.

    the driver's snapshot (event id `before`, exported) -> lists -> tables, by Spark tasks -> partitions, by Spark tasks
    -> event id `after` -> the manifest

Job: carry out this sequence. Must not know: how objects are read (store/) or laid out (snapshots/rows.py), who uses the
result.

Invariants:
- On PostgreSQL every task sees the snapshot that the driver exported, and the driver holds it to the end. On other
  databases each task has its own snapshot, and a resumed build (rounds.py) has later ones: each object is as of some
  state between `before` and `after`, lists and marks are as of `before`. A user of the result replays the events
  between them.
- At most `connections` tasks run at once, each with one connection; the driver has one more.
- The manifest is written last, atomically, and names the files that the tasks have reported. A build that ends early
  leaves files without a manifest, which are never used; a lost task leaves files that no manifest names.

Owner: the driver's process. The database's URL is passed to the tasks, not to Spark's settings.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from hms_cache_proxy import __version__
from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.follower.bootstrap import refusal
from hms_cache_proxy.follower.step import Position
from hms_cache_proxy.pipeline.progress import JobReport, reported
from hms_cache_proxy.pipeline.ranges import Partitioned, partition_stretches, table_stretches, tasks
from hms_cache_proxy.pipeline.rounds import COST, Rounds, directory, rounds
from hms_cache_proxy.pipeline.session import RunTasks, phase
from hms_cache_proxy.pipeline.tasks import (
    STATEMENT_TIMEOUT_S,
    Output,
    SnapshotSource,
    Written,
    read_partitions,
    read_tables,
)
from hms_cache_proxy.plurals import counted, listed
from hms_cache_proxy.snapshots import manifest, rows
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.store.protocol import DatabaseKey
from hms_cache_proxy.store.sql.store import SqlSnapshot, SqlStore, open_sql_store

DATABASES_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Build:
    """One build. `run_tasks`: how tasks are run, on Spark; `config`: store_url, include and exclude; `connections`: how
    many tasks run at once; `resume`: continue an unfinished build at `uri`, if there is one."""

    run_tasks: RunTasks
    config: Config
    uri: str
    connections: int
    report: JobReport
    resume: bool = False

    def run(self) -> Manifest:
        """Make the snapshot, and return its manifest. Raises StoreError, SnapshotError."""
        place = Place(self.uri)
        if place.exists(manifest.NAME):
            raise SnapshotError(f"{self.uri} already has a snapshot; to add one beside it, use `snapshot publish`")
        other = [name for name in place.names() if name not in rows.KINDS and name[0] not in "._"]
        if other:
            raise SnapshotError(f"{self.uri} is not empty: it contains {other[0]}")
        store = open_sql_store(self.config.store_url, statement_timeout_s=STATEMENT_TIMEOUT_S)
        progress = Rounds(place)
        try:
            if not store.identity.ordered_log:
                raise SnapshotError(
                    "a snapshot of Hive 2.3 would be useless: its event ids are not in order, so a proxy could not tell"
                    " which events to replay"
                )
            made = self._read(store, progress)
        finally:
            store.close()
        place.write(manifest.NAME, made.dump())
        progress.end()
        return made

    def _read(self, store: SqlStore, progress: Rounds) -> Manifest:
        with store.snapshot() as snapshot:
            exported = store.database.export_snapshot()
            begun = progress.begun() if self.resume else None
            again = begun is not None
            if begun is None:
                begun = self._begin(store, snapshot, progress)
            else:
                self._check(begun, store, snapshot)
            source = SnapshotSource(self.config.store_url, exported)
            tables = self._tables(source, progress, again)
            partitions = self._partitions(source, store, snapshot, progress, tables.files, again)
            after = snapshot.event_id
        if exported is None:
            with store.snapshot() as snapshot:
                after = snapshot.event_id
        databases = progress.result(rows.DATABASES, 0)
        assert databases is not None, "the databases are written before the build begins"
        files = (*databases.files, *tables.files, *partitions.files)
        counts = {kind: sum(file.rows for file in files if file.kind == kind) for kind in rows.KINDS}
        return replace(
            begun,
            created=_now(),
            after=after,
            exact=exported is not None and not again,
            counts={**counts, "transactional_tables": tables.transactional},
            files=files,
        )

    def _begin(self, store: SqlStore, snapshot: SqlSnapshot, progress: Rounds) -> Manifest:
        """Remove what is there, and read databases and lists of tables at once, with the marks that belong to them."""
        before = snapshot.event_id
        begun = Manifest(
            __version__,
            _now(),
            store.identity,
            self.config.include,
            self.config.exclude,
            before,
            before,
            False,
            snapshot.fingerprint(before),
            snapshot.marks(),
            {},
            (),
        )
        progress.clear()
        databases = self._databases(snapshot, progress)
        stretches = table_stretches(snapshot, databases, self.config.selection)
        progress.keep(rows.TABLES, rounds(stretches, COST * self.connections))
        progress.begin(begun)
        return begun

    def _check(self, begun: Manifest, store: SqlStore, snapshot: SqlSnapshot) -> None:
        """Raises SnapshotError if this build would not read the same as the one that it resumes."""
        config = self.config
        why = begun.differs(store.identity, config.include, config.exclude)
        if why is None and (begun.include, begun.exclude) != (config.include, config.exclude):
            why = f"it was started with include = {list(begun.include)}, exclude = {list(begun.exclude)}"
        if why is None and begun.program != __version__:
            why = f"it was started by version {begun.program} of this program"
        if why is None:
            why = refusal(snapshot, Position(begun.before, begun.fingerprint))
        if why is not None:
            raise SnapshotError(f"cannot resume the build in {self.uri}: {why}; build it without --resume")
        self.report.tell(
            f"resuming the build that was started at event {begun.before}; the newest event is {snapshot.event_id}"
        )

    # --- the three kinds

    def _databases(self, snapshot: SqlSnapshot, progress: Rounds) -> list[DatabaseKey]:
        with phase("databases", self.report):
            keys = snapshot.database_names()
            writer = Output(self.uri, directory(rows.DATABASES, 0)).writer(rows.DATABASES)
            for place, start in enumerate(range(0, len(keys), DATABASES_AT_ONCE)):
                some = snapshot.databases(keys[start : start + DATABASES_AT_ONCE])
                for key in sorted(some):
                    writer.add(rows.database_row(place, some[key]))
            progress.done(rows.DATABASES, 0, Written(writer.close(), 0))
        return keys

    def _tables(self, source: SnapshotSource, progress: Rounds, again: bool) -> Written:
        with phase("tables", self.report):
            plan = progress.plan(rows.TABLES)
            assert plan is not None, "the plan of the tables is kept before the build begins"
            return self._rounds(rows.TABLES, plan, partial(read_tables, source), progress, again)

    def _partitions(
        self,
        source: SnapshotSource,
        store: SqlStore,
        snapshot: SqlSnapshot,
        progress: Rounds,
        tables: Sequence[File],
        again: bool,
    ) -> Written:
        with phase("partitions", self.report):
            plan = progress.plan(rows.PARTITIONS)
            if plan is None:
                stretches = partition_stretches(store, snapshot, self._partitioned(tables))
                plan = rounds(stretches, COST * self.connections)
                progress.keep(rows.PARTITIONS, plan)
            return self._rounds(rows.PARTITIONS, plan, partial(read_partitions, source), progress, again)

    def _rounds(
        self,
        kind: str,
        plan: Sequence[Sequence[Any]],
        read: Callable[[Output, Any], Written],
        progress: Rounds,
        again: bool,
    ) -> Written:
        """Run the rounds that are not done."""
        files, transactional = list[File](), 0
        for number, stretches in enumerate(reported(self.report, kind, plan)):
            written = progress.result(kind, number) if again else None
            if written is None:
                if again:
                    progress.again(kind, number)
                written = self._run(stretches, partial(read, Output(self.uri, directory(kind, number))))
                progress.done(kind, number, written)
            files += written.files
            transactional += written.transactional
        return Written(files, transactional)

    def _run(self, stretches: Sequence[Any], read: Callable[[Any], Written]) -> Written:
        """One Spark job; each task is one connection."""
        found = self.run_tasks(tasks(stretches, self.connections), read)
        return Written([file for one in found for file in one.files], sum(one.transactional for one in found))

    def _partitioned(self, tables: Sequence[File]) -> list[Partitioned]:
        """The written tables that have partition keys, in the order of the catalog. If two have the same id, the table
        was renamed between two snapshots. Both are left out, because their partitions cannot be told apart."""
        place = Place(self.uri)
        found = [Partitioned(*row) for file in tables for row in rows.partitioned(place.read(file))]
        times = Counter(table.table_id for table in found)
        single = (table for table in found if times[table.table_id] == 1)
        return sorted(single, key=lambda table: (table.catalog, table.database, table.name))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def summary(made: Manifest) -> str:
    """One line that describes a snapshot. How many partitions an increment has, only its readers know."""
    size, changes = sum(file.bytes for file in made.files), made.counts.get(rows.CHANGES, 0)
    over = f" of the last full snapshot with {counted(changes, 'change')}" if changes else ""
    events = f"event {made.before}" if made.before == made.after else f"events {made.before} to {made.after}"
    return (
        f"{listed({kind: made.counts[kind] for kind in rows.KINDS})}{over} as of {events};"
        f" {counted(len(made.files), 'file')}, {counted(size, 'byte')}"
    )
