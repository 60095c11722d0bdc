"""`snapshot export`: writes a snapshot as plain Parquet, which any reader of Parquet understands.

    databases, tables, columns, partitions, statistics: a directory each, with the columns of docs/snapshot-format.md

Job: decode the rows of a snapshot's files, and write them to files. Each file of the snapshot is one task, in one of
`jobs` processes. `export.json`, which is written last, says what was exported. Must not know: Spark, the store, the
cache.

Owner: the command's process; its workers share nothing. Needs pyarrow.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from hms_cache_proxy import __version__
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.pipeline import decoded
from hms_cache_proxy.pipeline.progress import JobReport
from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.snapshots.place import Place, newest

FORMAT: Final = 1
"""Of the exported files. Columns may be added without another number."""

NAME: Final = "export.json"
ROWS_PER_GROUP: Final = 20_000
FILE_BYTES: Final = 24 << 20
COLUMNS_OF: Final = "columns"
STATISTICS_OF: Final = "statistics"

_NUMBERS: Final = {"num_files": "numFiles", "total_size": "totalSize", "num_rows": "numRows"}
"""Columns that have a parameter as a number."""

_PLACE: Final = dict.fromkeys(("catalog", "database", "table"), "string")
_SIZES: Final = dict.fromkeys(_NUMBERS, "bigint")


def _fields(of: str) -> dict[str, str]:
    """The fields of `array<struct<name:type,...>>`."""
    return dict(one.split(":") for one in of.removeprefix("array<struct<").removesuffix(">>").split(","))


def _without(columns: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: kind for name, kind in columns.items() if name not in names}


SCHEMAS: Final[dict[str, dict[str, str]]] = {
    rows.DATABASES: decoded.COLUMNS[rows.DATABASES],
    rows.TABLES: {**_without(decoded.COLUMNS[rows.TABLES], "columns", "statistics"), **_SIZES},
    COLUMNS_OF: {**_PLACE, **_fields(decoded.COLUMNS[rows.TABLES]["columns"])},
    rows.PARTITIONS: {**_PLACE, **_without(decoded.COLUMNS[rows.PARTITIONS], "statistics"), **_SIZES},
    STATISTICS_OF: {**_PLACE, "partition": "string", **_fields(decoded.COLUMNS[rows.TABLES]["statistics"])},
}
"""The columns of each directory, with Spark's names of types."""

NamesById = dict[int, tuple[str, str, str]]
"""Catalog, database and table, by table id."""


@dataclass(frozen=True, slots=True)
class Export:
    """From a snapshot at `uri`, or the newest below it, to the new directory `out`, in `jobs` processes."""

    uri: str
    out: str
    jobs: int
    report: JobReport

    def run(self) -> dict[str, int]:
        """Returns the number of rows of each kind. Raises SnapshotError."""
        if Place(self.out).names():
            raise SnapshotError(f"{self.out} is not empty: --out must name a new directory")
        place, manifest = newest(self.uri)
        of = decoded.shown_partitions(place, manifest)
        names = _names(place, manifest)
        write = partial(_write, place.uri, self.out, names, of)
        parts: list[tuple[str, File | Manifest]] = [
            (kind, file) for kind in decoded.COLUMNS for file in manifest.of_kind(kind)
        ]
        if manifest.of_kind(rows.CHANGES):
            parts.append((rows.PARTITIONS, manifest))
        counts = Counter(dict.fromkeys(SCHEMAS, 0))
        for number, found in enumerate(self._results(parts, write)):
            self.report.at("files", number + 1, len(parts))
            counts.update(found)
        for kind, count in counts.items():
            if not count:
                _Files(self.out, kind).close()  # readers find the columns
        left_out = sorted(".".join(names[table_id]) for table_id in of.left_out if table_id in names)
        if left_out:
            self.report.tell(f"{place.uri}: {decoded.missing(len(left_out))}")
        self._end(place, manifest, counts, left_out)
        return dict(counts)

    def _results(
        self, parts: Sequence[tuple[str, File | Manifest]], write: Callable[[tuple[str, Any]], dict[str, int]]
    ) -> Iterator[dict[str, int]]:
        if self.jobs == 1 or len(parts) < 2:
            yield from map(write, parts)
            return
        with ProcessPoolExecutor(min(self.jobs, len(parts)), multiprocessing.get_context("spawn")) as pool:
            try:
                yield from pool.map(write, parts)
            except BrokenProcessPool as error:
                raise SnapshotError(f"a process of the export has ended: {error}; use fewer --jobs") from error

    def _end(self, place: Place, manifest: Manifest, counts: Mapping[str, int], left_out: Sequence[str]) -> None:
        document = {
            "format": FORMAT,
            "program": __version__,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "snapshot": place.uri,
            "events": {"before": manifest.before, "after": manifest.after},
            "rows": counts,
            "without_partitions": left_out,
        }
        Place(self.out).write(NAME, json.dumps(document, indent=1).encode())


def _names(place: Place, manifest: Manifest) -> NamesById:
    """Of every partitioned table."""
    found: NamesById = {}
    for file in manifest.of_kind(rows.TABLES):
        for row in rows.tables(place.read(file)):
            if row.record is not None and row.record.partition_keys:
                found[row.table_id] = (_text(row.catalog), _text(row.database), _text(row.name))
    return found


# In the workers


def _write(
    uri: str,
    out: str,
    names: NamesById,
    of: decoded.ShownPartitions,
    part: tuple[str, File | Manifest],
) -> dict[str, int]:
    """Export one file; returns the number of rows of each kind."""
    kind, file = part
    files = {name: _Files(out, name) for name in SCHEMAS}
    if isinstance(file, File) and kind == rows.DATABASES:
        for row in decoded.databases(uri, file):
            files[kind].add(row)
    elif isinstance(file, File) and kind == rows.TABLES:
        for row in decoded.tables(uri, file):
            _table(files, row)
    else:
        for row in decoded.partitions(uri, of, file):
            if row[0] in names:
                _partition(files, names[row[0]], row)
    counts = {name: some.rows for name, some in files.items()}
    for some in files.values():
        if some.rows:
            some.close()
    return counts


def _table(files: Mapping[str, _Files], row: tuple[Any, ...]) -> None:
    *own, columns, statistics = row
    parameters = own[list(SCHEMAS[rows.TABLES]).index("parameters")]
    files[rows.TABLES].add((*own, *_sizes(parameters)))
    for column in columns:
        files[COLUMNS_OF].add((*own[:3], *column))
    for one in statistics:
        files[STATISTICS_OF].add((*own[:3], None, *one))


def _partition(files: Mapping[str, _Files], table: tuple[str, str, str], row: tuple[Any, ...]) -> None:
    *own, statistics = row
    files[rows.PARTITIONS].add((*table, *own, *_sizes(own[-1])))
    for one in statistics:
        files[STATISTICS_OF].add((*table, own[1], *one))


def _sizes(parameters: dict[str, str] | None) -> list[int | None]:
    return [_number((parameters or {}).get(name)) for name in _NUMBERS.values()]


def _number(value: str | None) -> int | None:
    """A number of 64 bits; None for anything else, which a parameter may be."""
    if value is None or not value.isascii() or not value.isdigit() or len(value) > 18:
        return None
    return int(value)


class _Files:
    """The files of one kind that a task writes, each put together in memory."""

    def __init__(self, out: str, kind: str) -> None:
        self._place = Place(out)
        self._kind = kind
        self._waiting: list[tuple[Any, ...]] = []
        self._sink = io.BytesIO()
        self._parquet: Any = None
        self.rows = 0

    def add(self, row: tuple[Any, ...]) -> None:
        self._waiting.append(row)
        self.rows += 1
        if len(self._waiting) >= ROWS_PER_GROUP:
            self._flush()
            if self._sink.tell() >= FILE_BYTES:
                self.close()

    def close(self) -> None:
        """Write what is left; a file without rows, if there is nothing."""
        self._flush()
        self._parquet.close()
        self._place.write(f"{self._kind}/part-{uuid.uuid4().hex[:12]}.parquet", self._sink.getvalue())
        self._sink, self._parquet = io.BytesIO(), None

    def _flush(self) -> None:
        import pyarrow
        import pyarrow.parquet

        schema = _schema(self._kind)
        if self._parquet is None:
            self._parquet = pyarrow.parquet.ParquetWriter(self._sink, schema, compression="zstd")
        if not self._waiting:
            return
        columns = zip(*self._waiting, strict=True)
        arrays = [pyarrow.array(_entries(some), one.type) for some, one in zip(columns, schema, strict=True)]
        self._parquet.write_batch(pyarrow.record_batch(arrays, schema=schema))
        self._waiting = []


def _entries(column: Sequence[Any]) -> list[Any]:
    """Maps as pyarrow takes them."""
    return [list(value.items()) if isinstance(value, dict) else value for value in column]


def _schema(kind: str) -> Any:
    import pyarrow

    types = {
        "string": pyarrow.string(),
        "bigint": pyarrow.int64(),
        "int": pyarrow.int32(),
        "double": pyarrow.float64(),
        "boolean": pyarrow.bool_(),
        "array<string>": pyarrow.list_(pyarrow.string()),
        "map<string,string>": pyarrow.map_(pyarrow.string(), pyarrow.string()),
    }
    return pyarrow.schema([(name, types[of]) for name, of in SCHEMAS[kind].items()])


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
