"""`snapshot build`: writes the whole catalog of a metastore's database to files, in parallel.

    the driver's snapshot (event id `before`, exported) -> lists -> tables, by Spark tasks -> partitions, by Spark tasks
    -> event id `after` -> checksums of the files -> the manifest

Job: this sequence. Must not know: how objects are read (store/) or laid out (snapshots/rows.py), who uses the result.

Invariants:
- On PostgreSQL every task sees the snapshot that the driver exported, and the driver holds it to the end. On other
  databases each task has its own snapshot, and a resumed build (rounds.py) has later ones: each object is as of some
  state between `before` and `after`, lists and marks are as of `before`. Whoever uses the result replays the events
  between them.
- At most `connections` tasks run at once, each with one connection; the driver has one more.
- The manifest is written last, atomically. A build that ends early leaves files without one, which nobody uses.

Owner: the driver's process. The database's URL is passed to the tasks, not to Spark's settings.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from hms_cache_proxy import __version__
from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.follower.bootstrap import refusal
from hms_cache_proxy.follower.step import Position
from hms_cache_proxy.pipeline.files import Directory
from hms_cache_proxy.pipeline.progress import JobReport
from hms_cache_proxy.pipeline.ranges import Partitioned, partition_stretches, table_stretches, tasks
from hms_cache_proxy.pipeline.rounds import COST, Rounds, directory, rounds
from hms_cache_proxy.pipeline.session import data_frame, phase
from hms_cache_proxy.pipeline.tasks import STATEMENT_TIMEOUT_S, SnapshotSource, read_partitions, read_tables
from hms_cache_proxy.snapshots import manifest, rows
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.store.protocol import DatabaseKey
from hms_cache_proxy.store.sql.store import SqlSnapshot, SqlStore, open_sql_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_FILE: Final = 250_000
"""A reader of a file reads all of it: about 25 MB."""

DATABASES_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Build:
    """One build. `config`: store_url, include and exclude; `connections`: how many Spark tasks run at once; `resume`:
    continue an unfinished build at `uri`, if there is one."""

    spark: SparkSession
    config: Config
    uri: str
    connections: int
    report: JobReport
    resume: bool = False

    def run(self) -> Manifest:
        """Make the snapshot, and return its manifest. Raises StoreError, SnapshotError."""
        place = Directory(self.spark, self.uri)
        if place.exists(manifest.NAME):
            raise SnapshotError(f"{self.uri} already has a snapshot; to add one beside it, use `snapshot publish`")
        other = [name for name in place.names() if name not in rows.COLUMNS and name[0] not in "._"]
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
            self._tables(source, snapshot, progress)
            self._partitions(source, store, snapshot, progress)
            after = snapshot.event_id
        if exported is None:
            with store.snapshot() as snapshot:
                after = snapshot.event_id
        with phase("checksums", self.report):
            files = [file for kind in rows.COLUMNS for file in self._files(kind)]
        return replace(
            begun,
            created=_now(),
            after=after,
            exact=exported is not None and not again,
            counts=self._counts(files),
            files=tuple(files),
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
        databases = self._databases(snapshot)
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

    def _databases(self, snapshot: SqlSnapshot) -> list[DatabaseKey]:
        with phase("databases", self.report):
            keys = snapshot.database_names()
            lists: list[list[tuple[Any, ...]]] = []
            for start in range(0, len(keys), DATABASES_AT_ONCE):
                some = snapshot.databases(keys[start : start + DATABASES_AT_ONCE])
                lists.append([rows.database_row(len(lists), some[key]) for key in sorted(some)])
            self._write(rows.DATABASES, 0, [lists], _database_batches)
        return keys

    def _tables(self, source: SnapshotSource, snapshot: SqlSnapshot, progress: Rounds) -> None:
        with phase("tables", self.report):
            plan = progress.plan(rows.TABLES)
            assert plan is not None, "the plan of the tables is kept before the build begins"
            self._rounds(rows.TABLES, plan, partial(read_tables, source), progress)

    def _partitions(self, source: SnapshotSource, store: SqlStore, snapshot: SqlSnapshot, progress: Rounds) -> None:
        with phase("partitions", self.report):
            plan = progress.plan(rows.PARTITIONS)
            if plan is None:
                stretches = partition_stretches(store, snapshot, self._partitioned())
                plan = rounds(stretches, COST * self.connections)
                progress.keep(rows.PARTITIONS, plan)
            self._rounds(rows.PARTITIONS, plan, partial(read_partitions, source), progress)

    def _rounds(
        self, kind: str, plan: Sequence[Sequence[Any]], read: Callable[[Any], Iterator[Any]], progress: Rounds
    ) -> None:
        """Run the rounds that are not done."""
        total, read_so_far = sum(stretch.size for stretches in plan for stretch in stretches), 0
        for number, stretches in enumerate(plan):
            self.report.at(kind, read_so_far, total)
            if not progress.is_done(kind, number):
                self._write(kind, number, tasks(stretches, self.connections), read)
                progress.done(kind, number)
            read_so_far += sum(stretch.size for stretch in stretches)
        self.report.at(kind, total, total)

    def _partitioned(self) -> list[Partitioned]:
        """The written tables that have partition keys, in the order of the catalog. If two have the same id, the table
        was renamed between two snapshots. Both are left out, because their partitions cannot be told apart."""
        from pyspark.sql import functions as F

        columns = [name for name in Partitioned.__dataclass_fields__]
        tables = self._frame(rows.TABLES).where(F.length("partition_keys") > 0)
        found = [Partitioned(*_plain(row)) for row in tables.select(*columns).collect()]
        times = Counter(table.table_id for table in found)
        single = (table for table in found if times[table.table_id] == 1)
        return sorted(single, key=lambda table: (table.catalog, table.database, table.name))

    def _write(self, kind: str, number: int, lists: Sequence[Any], read: Callable[[Any], Iterator[Any]]) -> None:
        frame = data_frame(self.spark, kind, rows.COLUMNS[kind], lists, read)
        writer = frame.write.mode("overwrite").option("maxRecordsPerFile", ROWS_PER_FILE)
        writer.parquet(self._below(directory(kind, number)))

    def _frame(self, kind: str) -> DataFrame:
        """All rows of a kind that were written."""
        columns = ", ".join(f"`{name}` {spark_type}" for name, spark_type in rows.COLUMNS[kind].items())
        return self.spark.read.schema(columns).option("recursiveFileLookup", "true").parquet(self._below(kind))

    # --- the files

    def _files(self, kind: str) -> list[File]:
        """The files of a kind in the order of their rows, with their checksums."""
        from pyspark.sql import functions as F

        below = self._below(kind)
        files = self.spark.read.format("binaryFile").options(pathGlobFilter="part-*", recursiveFileLookup="true")
        sums = files.load(below).select("path", "length", F.sha2("content", 256).alias("sha256")).collect()
        data = self._frame(kind).groupBy("_metadata.file_path")
        counted = data.agg(F.count(F.lit(1)).alias("number"), F.min("place").alias("place")).collect()
        found = {_name(row["file_path"]): (row["place"], row["number"]) for row in counted}
        kept = []
        for row in sums:
            name = _name(row["path"])
            if name in found:  # a task without rows can leave a file
                place, number = found[name]
                kept.append((place, File(kind, f"{kind}/{name}", number, row["length"], row["sha256"])))
        if len(kept) != len(found):
            raise SnapshotError(f"{below} has {len(found)} files with rows, but only {len(kept)} are visible")
        return [file for _, file in sorted(kept, key=lambda item: (item[0], item[1].name))]

    def _counts(self, files: Sequence[File]) -> dict[str, int]:
        from pyspark.sql import functions as F

        counts = {kind: sum(file.rows for file in files if file.kind == kind) for kind in rows.COLUMNS}
        tables = self._frame(rows.TABLES)
        counts["transactional_tables"] = tables.where(F.col("transactional")).count()
        return counts

    def _below(self, kind: str) -> str:
        return f"{self.uri}/{kind}"


def _database_batches(lists: Sequence[list[tuple[Any, ...]]]) -> Iterator[Any]:
    for some in lists:
        yield rows.batch(rows.DATABASES, some)


def _name(path: str) -> str:
    """The name of a file, from its round on."""
    return "/".join(PurePosixPath(unquote(path)).parts[-2:])


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _plain(row: Any) -> Iterator[Any]:
    """Spark gives binary values as bytes or bytearrays."""
    return (bytes(value) if isinstance(value, bytearray) else value for value in row)


def summary(made: Manifest) -> str:
    """One line that describes a snapshot."""
    counts: Mapping[str, int] = made.counts
    size = sum(file.bytes for file in made.files)
    events = f"event {made.before}" if made.before == made.after else f"events {made.before} to {made.after}"
    return (
        f"{counts['databases']} databases, {counts['tables']} tables, {counts['partitions']} partitions as of {events};"
        f" {len(made.files)} files, {size:,} bytes"
    )
