"""`snapshot build`: the whole catalog of a metastore's database into files, in parallel, as of one event.

    the driver's snapshot (an event id, exported) -> lists -> tables, by Spark tasks -> partitions, by Spark tasks
    -> checksums of the files -> the manifest

Job: that order. Must not know: how objects are read (store/) or laid out (snapshots/rows.py), who uses the result.

Invariants:
- Every task sees the state that the driver exported, and the driver holds it to the end: needs PostgreSQL.
- At most `connections` tasks run at once, each with one connection; the driver has one more.
- The manifest is written last, as a whole. A build that ends early leaves files that nobody uses, and the next one to
  the same place begins anew.

Owner: the driver's process. The database's URL goes to the tasks, not into Spark's settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from hms_cache_proxy import __version__
from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.pipeline.files import Directory
from hms_cache_proxy.pipeline.ranges import Partitioned, partition_stretches, table_stretches, tasks
from hms_cache_proxy.pipeline.session import Tell, data_frame, phase
from hms_cache_proxy.pipeline.tasks import STATEMENT_TIMEOUT_S, Source, read_partitions, read_tables
from hms_cache_proxy.snapshots import manifest, rows
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.store.protocol import DatabaseKey
from hms_cache_proxy.store.sql import SqlSnapshot, SqlStore, open_sql_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_PER_FILE: Final = 250_000
"""A file is read as a whole by whoever uses it: about 25 MB."""

DATABASES_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Build:
    """One build. `options`: store_url, include and exclude of the settings; `connections`: of Spark's tasks."""

    spark: SparkSession
    config: Config
    uri: str
    connections: int
    tell: Tell

    def run(self) -> Manifest:
        """Make the snapshot; gives its manifest. Raises StoreError, SnapshotError."""
        place = Directory(self.spark, self.uri)
        if place.exists(manifest.NAME):
            raise SnapshotError(f"{self.uri} has a snapshot already; `snapshot publish` makes one beside others")
        other = [name for name in place.names() if name not in rows.COLUMNS and name[0] not in "._"]
        if other:
            raise SnapshotError(f"{self.uri} has other things in it, {other[0]} for one")
        store = open_sql_store(self.config.store_url, statement_timeout_s=STATEMENT_TIMEOUT_S)
        try:
            if not store.identity.ordered_log:
                raise SnapshotError(
                    "event ids of Hive 2.3 come in no order: who uses a snapshot could not tell which to replay"
                )
            made = self._read(store)
        finally:
            store.close()
        place.write(manifest.NAME, made.dump())
        return made

    def _read(self, store: SqlStore) -> Manifest:
        with store.snapshot() as snapshot:
            exported = store.database.export_snapshot()
            if exported is None:
                raise SnapshotError("needs PostgreSQL: other databases do not let connections share one state")
            before, fingerprint = snapshot.event_id, snapshot.fingerprint(snapshot.event_id)
            databases = self._databases(snapshot)
            source = Source(self.config.store_url, exported)
            self._tables(source, snapshot, databases)
            self._partitions(source, store, snapshot)
            marks = snapshot.marks()
        with phase("checksums", self.tell):
            files = [file for kind in rows.COLUMNS for file in self._files(kind)]
        return Manifest(
            __version__,
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            store.identity,
            self.config.include,
            self.config.exclude,
            before,
            before,
            True,
            fingerprint,
            marks,
            self._counts(files),
            tuple(files),
        )

    # --- the three kinds

    def _databases(self, snapshot: SqlSnapshot) -> list[DatabaseKey]:
        with phase("databases", self.tell):
            keys = snapshot.database_names()
            lists: list[list[tuple[Any, ...]]] = []
            for start in range(0, len(keys), DATABASES_AT_ONCE):
                some = snapshot.databases(keys[start : start + DATABASES_AT_ONCE])
                lists.append([rows.database_row(len(lists), some[key]) for key in sorted(some)])
            self._write(rows.DATABASES, [lists], _database_batches)
        return keys

    def _tables(self, source: Source, snapshot: SqlSnapshot, databases: Sequence[DatabaseKey]) -> None:
        with phase("tables", self.tell):
            stretches = table_stretches(snapshot, databases, self.config.selection)
            self._write(rows.TABLES, tasks(stretches, self.connections), partial(read_tables, source))

    def _partitions(self, source: Source, store: SqlStore, snapshot: SqlSnapshot) -> None:
        with phase("partitions", self.tell):
            stretches = partition_stretches(store, snapshot, self._partitioned())
            self._write(rows.PARTITIONS, tasks(stretches, self.connections), partial(read_partitions, source))

    def _partitioned(self) -> list[Partitioned]:
        """The tables that were written and have partition keys, in the order of the catalog."""
        from pyspark.sql import functions as F

        columns = [name for name in Partitioned.__dataclass_fields__]
        tables = self.spark.read.parquet(self._below(rows.TABLES)).where(F.length("partition_keys") > 0)
        found = [Partitioned(*_plain(row)) for row in tables.select(*columns).collect()]
        return sorted(found, key=lambda table: (table.catalog, table.database, table.name))

    def _write(self, kind: str, lists: Sequence[Any], read: Callable[[Any], Iterator[Any]]) -> None:
        frame = data_frame(self.spark, kind, rows.COLUMNS[kind], lists, read)
        writer = frame.write.mode("overwrite").option("maxRecordsPerFile", ROWS_PER_FILE)
        writer.parquet(self._below(kind))

    # --- the files

    def _files(self, kind: str) -> list[File]:
        """The files of a kind in the order of their rows, with their checksums."""
        from pyspark.sql import functions as F

        below = self._below(kind)
        parts = self.spark.read.format("binaryFile").option("pathGlobFilter", "part-*").load(below)
        sums = parts.select("path", "length", F.sha2("content", 256).alias("sha256")).collect()
        data = self.spark.read.parquet(below).groupBy("_metadata.file_name")
        counted = data.agg(F.count(F.lit(1)).alias("number"), F.min("place").alias("place")).collect()
        found = {row["file_name"]: (row["place"], row["number"]) for row in counted}
        files = []
        for row in sums:
            name = unquote(PurePosixPath(row["path"]).name)
            if name in found:  # a task without rows can leave a file
                place, number = found[name]
                files.append((place, File(kind, f"{kind}/{name}", number, row["length"], row["sha256"])))
        if len(files) != len(found):
            raise SnapshotError(f"{below} has {len(found)} files with rows, of which {len(files)} can be seen")
        return [file for _, file in sorted(files, key=lambda item: (item[0], item[1].name))]

    def _counts(self, files: Sequence[File]) -> dict[str, int]:
        from pyspark.sql import functions as F

        counts = {kind: sum(file.rows for file in files if file.kind == kind) for kind in rows.COLUMNS}
        tables = self.spark.read.parquet(self._below(rows.TABLES))
        counts["transactional_tables"] = tables.where(F.col("transactional")).count()
        return counts

    def _below(self, kind: str) -> str:
        return f"{self.uri}/{kind}"


def _database_batches(lists: Sequence[list[tuple[Any, ...]]]) -> Iterator[Any]:
    for some in lists:
        yield rows.batch(rows.DATABASES, some)


def _plain(row: Any) -> Iterator[Any]:
    """Spark gives binary values as bytes or bytearrays."""
    return (bytes(value) if isinstance(value, bytearray) else value for value in row)


def summary(made: Manifest) -> str:
    """A line about a snapshot."""
    counts: Mapping[str, int] = made.counts
    size = sum(file.bytes for file in made.files)
    events = f"event {made.before}" if made.before == made.after else f"events {made.before} to {made.after}"
    return (
        f"{counts['databases']} databases, {counts['tables']} tables, {counts['partitions']} partitions as of {events};"
        f" {len(made.files)} files, {size:,} bytes"
    )
