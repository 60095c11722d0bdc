"""`snapshot query`: shows a snapshot as Spark views, for questions about a whole catalog.

    databases   catalog, name, description, location, managed_location, owner, owner_type, remote, parameters
    tables      catalog, database, name, table_id, type, owner, create_time, last_access_time, location, input_format,
                output_format, serde, buckets, columns_digest, transactional, partition_keys, parameters, view_text
    columns     catalog, database, table, position, name, type, comment, partition_key
    partitions  catalog, database, table, name, values, create_time, last_access_time, location, input_format,
                output_format, serde, buckets, columns_digest, parameters
    parameters  catalog, database, table, partition, key, value; partition is NULL for parameters of a table
    statistics  catalog, database, table, partition, engine, column, type, analyzed, nulls, distinct_values, low, high,
                average_length, longest, trues, falses

Job: make the views; Spark tasks read, check and decode the files, one file at a time. Must not know: the store, the
cache. Times are seconds since 1970; text that is not UTF-8 is shown with replacement characters.

Owner: the driver's process; the readers run in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hms_cache_proxy.pipeline import decoded
from hms_cache_proxy.pipeline.advise import lines
from hms_cache_proxy.pipeline.decoded import ShownPartitions
from hms_cache_proxy.pipeline.ready_questions import BEFORE
from hms_cache_proxy.pipeline.session import data_frame, failures
from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.snapshots.place import newest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OF_TABLE: Final = "t.catalog, t.database, t.name AS table"
_VIEWS: Final = {
    "databases": "SELECT * FROM read_databases",
    "tables": "SELECT * EXCEPT (columns, statistics) FROM read_tables",
    "columns": f"SELECT {_OF_TABLE}, c.* FROM read_tables t LATERAL VIEW inline(columns) c",
    "partitions": f"SELECT {_OF_TABLE}, p.* EXCEPT (table_id, statistics) FROM read_partitions p"
    " JOIN read_tables t ON t.table_id = p.table_id",
    "parameters": f"SELECT {_OF_TABLE}, CAST(NULL AS string) AS partition, m.* FROM read_tables t"
    " LATERAL VIEW explode(t.parameters) m AS key, value"
    f" UNION ALL SELECT {_OF_TABLE}, p.partition, p.key, p.value FROM"
    " (SELECT table_id, name AS partition, m.* FROM read_partitions LATERAL VIEW explode(parameters) m AS key, value) p"
    " JOIN read_tables t ON t.table_id = p.table_id",
    "statistics": f"SELECT {_OF_TABLE}, CAST(NULL AS string) AS partition, s.* FROM read_tables t"
    " LATERAL VIEW inline(statistics) s"
    f" UNION ALL SELECT {_OF_TABLE}, p.* EXCEPT (table_id) FROM"
    " (SELECT table_id, name AS partition, s.* FROM read_partitions LATERAL VIEW inline(statistics) s) p"
    " JOIN read_tables t ON t.table_id = p.table_id",
}


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """To one query: the names of its columns, and its rows."""

    columns: list[str]
    rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Catalog:
    """A snapshot at `uri` or below. `before`: an earlier one; `logs`: access logs. Both are more views."""

    uri: str
    before: str = ""
    logs: Sequence[str] = ()

    def views(
        self, spark: SparkSession, warn: Callable[[str], object] = lambda line: None
    ) -> Callable[[str, int], QueryAnswer]:
        """Make the views; `warn` is told what they lack. Returns what answers a query in SQL, with at most so many
        rows. Both raise SnapshotError, also for a query that Spark refuses."""
        found = {"": newest(self.uri), **({BEFORE: newest(self.before)} if self.before else {})}
        if self.logs:
            lines.read(spark, self.logs)
        with failures("query"):
            for prefix, (place, manifest) in found.items():
                of = decoded.shown_partitions(place, manifest)
                views(spark, place.uri, manifest, of, prefix)
                if of.left_out:
                    warn(f"{place.uri}: {decoded.missing(len(of.left_out))}")

        def ask(text: str, limit: int) -> QueryAnswer:
            with failures("query"):
                found = spark.sql(text)
                return QueryAnswer(found.columns, [row.asDict(recursive=True) for row in found.limit(limit).collect()])

        return ask


def views(spark: SparkSession, uri: str, manifest: Manifest, partitions: ShownPartitions, prefix: str = "") -> None:
    """Make the views; `prefix`: the beginning of their names."""
    read: dict[str, Callable[[Any], Iterator[tuple[Any, ...]]]] = {
        rows.DATABASES: partial(decoded.databases, uri),
        rows.TABLES: partial(decoded.tables, uri),
        rows.PARTITIONS: partial(decoded.partitions, uri, partitions),
    }
    for kind, columns in decoded.COLUMNS.items():
        files: list[File | Manifest] = [*manifest.of_kind(kind)]
        if kind == rows.PARTITIONS and manifest.of_kind(rows.CHANGES):
            files.append(manifest)
        frame: DataFrame = data_frame(spark, columns, files, read[kind])
        frame.createOrReplaceTempView(f"{prefix}read_{kind}")
    for name, text in _VIEWS.items():
        own = text.replace(" read_", f" {prefix}read_")
        spark.sql(own).createOrReplaceTempView(f"{prefix}{name}")
