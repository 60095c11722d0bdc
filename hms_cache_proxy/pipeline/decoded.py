"""The objects of a snapshot as rows of text and numbers, for views and plain Parquet.

Job: read one file, check it, decode its objects. Must not know: the store, the cache, who reads the rows. Times are
seconds since 1970; text that is not UTF-8 is shown with replacement characters.

Owner: whoever reads a file: one of Spark's Python workers, or a process of an export.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from hms_cache_proxy.plurals import counted
from hms_cache_proxy.snapshots import layers, rows
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import PartitionRecord, Statistics, TableRecord
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.decimals import exact

_MAP: Final = "map<string,string>"
_STORAGE: Final = {
    **dict.fromkeys(("input_format", "output_format", "serde"), "string"),
    "buckets": "int",
    "columns_digest": "string",
}
_STATISTICS: Final = (
    "array<struct<engine:string,column:string,type:string,analyzed:bigint,nulls:bigint,distinct_values:bigint,"
    "low:string,high:string,average_length:double,longest:bigint,trues:bigint,falses:bigint>>"
)
COLUMNS: Final[dict[str, dict[str, str]]] = {
    rows.DATABASES: {
        **dict.fromkeys(("catalog", "name", "description", "location", "managed_location", "owner"), "string"),
        "owner_type": "string",
        "remote": "boolean",
        "parameters": _MAP,
    },
    rows.TABLES: {
        **{"catalog": "string", "database": "string", "name": "string", "table_id": "bigint", "type": "string"},
        **{"owner": "string", "create_time": "bigint", "last_access_time": "bigint", "location": "string"},
        **_STORAGE,
        **{"transactional": "boolean", "partition_keys": "array<string>", "parameters": _MAP, "view_text": "string"},
        "columns": "array<struct<position:int,name:string,type:string,comment:string,partition_key:boolean>>",
        "statistics": _STATISTICS,
    },
    rows.PARTITIONS: {
        **{"table_id": "bigint", "name": "string", "values": "array<string>", "create_time": "bigint"},
        **{"last_access_time": "bigint", "location": "string"},
        **_STORAGE,
        "parameters": _MAP,
        "statistics": _STATISTICS,
    },
}
"""The columns of the rows of each kind, with Spark's names of types."""

DIGEST_CHARACTERS: Final = 16

_OWNER_TYPES: Final = {1: "USER", 2: "ROLE", 3: "GROUP"}


@dataclass(frozen=True, slots=True)
class ShownPartitions:
    """Which of the partitions in the files of a full snapshot are shown. `changed`: by table id, names that increments
    have changed, None: all of them; `left_out`: ids of tables whose partitions the cache cannot hold: as a snapshot has
    only some of these, none is shown."""

    changed: dict[int, frozenset[bytes] | None]
    left_out: frozenset[int]


def shown_partitions(place: Place, manifest: Manifest) -> ShownPartitions:
    """Of a snapshot. Raises SnapshotError."""
    found = layers.read(place, manifest)
    unfit = {table_id for file in manifest.of_kind(rows.PARTITIONS) for table_id in file.unfit or ()}
    unfit -= {table_id for table_id, table in found.items() if table.replaced}
    unfit |= {table_id for table_id, table in found.items() if table.unfit is not None}
    names = {
        table_id: None if table.replaced else frozenset(table.partitions)
        for table_id, table in found.items()
        if table_id not in unfit
    }
    return ShownPartitions(names, frozenset(unfit))


def missing(tables: int) -> str:
    """The line about what is left out."""
    return f"without the partitions of {counted(tables, 'table')}, which the cache cannot hold"


def databases(uri: str, file: File) -> Iterator[tuple[Any, ...]]:
    """The databases in a file."""
    kind = spec.struct("Database")
    for record in rows.databases(Place(uri).read(file)):
        found = spec.decode(kind, record.body)[0]
        yield (
            _text(record.catalog),
            _text(record.name),
            _text(found.description),
            _text(found.locationUri),
            _text(found.managedLocationUri),
            _text(found.ownerName),
            _OWNER_TYPES.get(found.ownerType),
            record.remote,
            _map(found.parameters),
        )


def tables(uri: str, file: File) -> Iterator[tuple[Any, ...]]:
    """The tables in a file; not those that are only listed."""
    kind = spec.struct("Table")
    for row in rows.tables(Place(uri).read(file)):
        if row.record is None:
            continue
        found = spec.decode(kind, row.record.body)[0]
        yield (
            _text(row.catalog),
            _text(row.database),
            _text(row.name),
            row.table_id,
            _text(row.table_type),
            _text(found.owner),
            found.createTime,
            found.lastAccessTime,
            _text(row.record.location),
            *_storage(found.sd),
            row.record.transactional,
            [_text(name) for name, _ in row.record.partition_keys],
            _map(found.parameters),
            _text(found.viewOriginalText),
            _columns(found, row.record),
            _statistics(row.record.statistics),
        )


def partitions(uri: str, of: ShownPartitions, part: File | Manifest) -> Iterator[tuple[Any, ...]]:
    """The partitions in a file of the full snapshot that were not changed; or, for the manifest, those that were."""
    shown = _Shown()
    if isinstance(part, Manifest):
        for table_id, table in layers.read(Place(uri), part).items():
            for record in table.partitions.values():
                if record is not None and table_id not in of.left_out:
                    yield shown.row(table_id, record)
        return
    for run in rows.partitions(Place(uri).read(part)):
        names = of.changed.get(run.table_id, frozenset())
        if run.table_id not in of.left_out and run.unfit is None and names is not None:
            yield from (shown.row(run.table_id, record) for record in run.records() if record.name not in names)


class _Shown:
    """Makes rows of partitions. Few storage descriptors differ in more than their locations."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], tuple[Any, ...]] = {}

    def row(self, table_id: int, record: PartitionRecord) -> tuple[Any, ...]:
        shape = record.sd_head, record.sd_tail
        if shape not in self._known:
            sd = record.sd_head[3:] + record.sd_tail  # after the header of the partition's field
            decoded = spec.decode(spec.struct("StorageDescriptor"), sd)[0] if record.sd_head else None
            self._known[shape] = _storage(decoded)
        own = record.values + record.times + record.parameters + encode.STOP
        found = spec.decode(spec.struct("Partition"), own)[0]
        return (
            table_id,
            _text(record.name),
            [_text(value) for value in found.values or ()],
            found.createTime,
            found.lastAccessTime,
            _text(record.location),
            *self._known[shape],
            _map(found.parameters),
            _statistics(record.statistics),
        )


def _storage(sd: Any) -> tuple[Any, ...]:
    if sd is None:
        return (None,) * len(_STORAGE)
    serde = None if sd.serdeInfo is None else _text(sd.serdeInfo.serializationLib)
    return _text(sd.inputFormat), _text(sd.outputFormat), serde, sd.numBuckets, _digest(sd.cols or ())


def _digest(columns: Iterable[Any]) -> str:
    """The same for columns with the same names and types, in the same order."""
    pairs = b"".join(b"%s\0%s\0" % (one.name or b"", one.type or b"") for one in columns)
    return hashlib.sha256(pairs).hexdigest()[:DIGEST_CHARACTERS]


def _columns(table: Any, record: TableRecord) -> list[tuple[Any, ...]]:
    own = [] if table.sd is None else list(table.sd.cols or ())
    keys = list(table.partitionKeys or ())
    return [
        (position, _text(one.name), _text(one.type), _text(one.comment), position >= len(own))
        for position, one in enumerate([*own, *keys])
    ]


def _statistics(statistics: Statistics | None) -> list[tuple[Any, ...]]:
    found = []
    for one in statistics or ():
        if not one.data:
            continue  # the metastore has no answer
        decoded = spec.decode(spec.struct("ColumnStatisticsObj"), one.element)[0]
        union = decoded.statsData
        data = next((value for value in vars(union).values() if value is not None), None)
        found.append(
            (
                _text(one.engine),
                _text(one.column),
                _text(decoded.colType),
                one.analyzed_s,
                *(getattr(data, name, None) for name in ("numNulls", "numDVs")),
                *(_bound(getattr(data, name, None)) for name in ("lowValue", "highValue")),
                *(getattr(data, name, None) for name in ("avgColLen", "maxColLen", "numTrues", "numFalses")),
            )
        )
    return found


def _bound(value: Any) -> str | None:
    """A smallest or largest value: a number, days or seconds since 1970."""
    if hasattr(value, "unscaled"):
        return str(exact(value))
    if hasattr(value, "daysSinceEpoch"):
        return str(value.daysSinceEpoch)
    if hasattr(value, "secondsSinceEpoch"):
        return str(value.secondsSinceEpoch)
    return None if value is None else str(value)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _map(value: dict[bytes, bytes] | None) -> dict[str, str] | None:
    if value is None:
        return None
    return {key.decode("utf-8", "replace"): item.decode("utf-8", "replace") for key, item in value.items()}
