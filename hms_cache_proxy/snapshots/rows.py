"""Converts records of a store to rows of Parquet files, and back. Nothing is lost, and nothing is encoded again.

Job: define the columns of the files, and convert in both directions. Must not know: where files are, Spark. A column is
the field with the same name in store/protocol.py: wire bytes as in the metastore's replies. So a snapshot can still be
read after the cache's layout has changed.

    databases   DatabaseRecord
    tables      TableRecord, and for a transactional table the result of `Snapshot.write_ids`; a table that is left out
                (include, exclude) has no body, only the columns of a listing
    partitions  PartitionRecord with its table's id; or, in `unfit`, why the cache cannot hold the table's partitions
    changes     what an increment changes in the partitions (layers.py): the same columns, and `change`

`place` is the number of the part of the catalog to which a row belongs. Rows of one part are together, ordered bytewise
by name; parts are in the order of their numbers; partitions are in the order of their tables.

Owner: any process; no state. Needs pyarrow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from struct import Struct
from typing import Any, Final, NamedTuple

from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.statistics import table_pack, table_unpack
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.store.protocol import (
    ConstraintKind,
    Constraints,
    DatabaseRecord,
    PartitionRecord,
    Statistics,
    TableRecord,
)

DATABASES, TABLES, PARTITIONS = "databases", "tables", "partitions"
CHANGES = "changes"
KINDS: Final = (DATABASES, TABLES, PARTITIONS)
"""What a full snapshot has."""

COLUMNS: Final[dict[str, dict[str, str]]] = {
    DATABASES: {
        "place": "int",
        "catalog": "binary",
        "name": "binary",
        "body": "binary",
        "remote": "boolean",
        "location": "binary",
    },
    TABLES: {
        "place": "int",
        "catalog": "binary",
        "database": "binary",
        "name": "binary",
        "table_id": "bigint",
        "table_type": "binary",
        "body": "binary",
        "transactional": "boolean",
        "materialized_view": "boolean",
        "partition_keys": "binary",
        "location": "binary",
        "full_acid": "boolean",
        "constraints": "binary",
        "statistics": "binary",
        "valid_write_ids": "binary",
        "open_write_ids": "binary",
        "summary": "binary",
    },
    PARTITIONS: {
        "place": "int",
        "table_id": "bigint",
        "name": "binary",
        "values": "binary",
        "times": "binary",
        "location": "binary",
        "parameters": "binary",
        "tail": "binary",
        "sd_head": "binary",
        "sd_tail": "binary",
        "sd_tail_single": "binary",
        "sd_tail_filter": "binary",
        "statistics": "binary",
        "unfit": "string",
    },
}
COLUMNS[CHANGES] = {**COLUMNS[PARTITIONS], "change": "string"}
"""By kind: the columns, and their types in Spark."""

ADDED: Final = ("summary",)
"""Columns that files of format 1 do not have."""

_ALIKE: Final = ("tail", "sd_head", "sd_tail", "sd_tail_single", "sd_tail_filter")
"""Columns with few different values. They are read as dictionaries, so equal values are one object."""

_BATCH: Final = 10_000
_ID: Final = Struct(">Q")
_COUNT: Final = Struct(">I")
_ELEMENT: Final = Struct(">BI")


class WriteIds(NamedTuple):
    """A transactional table's ValidWriteIdList in Hive's form, and the write ids that were open."""

    text: bytes
    open: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of `tables`; `record` is None for a table that is only listed."""

    catalog: bytes
    database: bytes
    name: bytes
    table_id: int
    table_type: bytes
    record: TableRecord | None = None
    write_ids: WriteIds | None = None


class OutlinedTable(NamedTuple):
    """A table's name and id; `loaded`: it has a record; `partitioned`: with partition keys."""

    database: bytes
    name: bytes
    table_id: int
    loaded: bool
    partitioned: bool


class PartitionRun:
    """Consecutive rows of one table's partitions. `unfit`: why the cache cannot hold them; None if it can."""

    __slots__ = ("_columns", "table_id", "unfit")

    def __init__(self, table_id: int, unfit: str | None, columns: Any) -> None:
        self.table_id = table_id
        self.unfit = unfit
        self._columns = columns

    def names(self) -> list[bytes]:
        """The partitions' names."""
        return list(self._columns.column("name").to_pylist())

    def records(self) -> list[PartitionRecord]:
        """The partitions, in the order of their names."""
        with _decoding(PARTITIONS):
            *own, statistics = (_values(self._columns.column(name)) for name in _PARTITION_FIELDS)
            return list(map(PartitionRecord._make, zip(*own, map(_statistics, statistics), strict=True)))


_PARTITION_FIELDS: Final = PartitionRecord._fields

# Writing


def batch(kind: str, rows: Sequence[tuple[Any, ...]]) -> Any:
    """An Arrow batch of rows, each with the values of COLUMNS[kind], in order."""
    import pyarrow

    fields = schema(kind)
    columns = zip(*rows, strict=True) if rows else ((),) * len(fields)
    arrays = [pyarrow.array(column, type=field.type) for column, field in zip(columns, fields, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=fields)


def schema(kind: str) -> Any:
    """The Arrow schema of a kind."""
    import pyarrow

    types: dict[str, Callable[[], Any]] = {
        "int": pyarrow.int32,
        "bigint": pyarrow.int64,
        "boolean": pyarrow.bool_,
        "binary": pyarrow.binary,
        "string": pyarrow.string,
    }
    return pyarrow.schema([(name, types[type_]()) for name, type_ in COLUMNS[kind].items()])


def database_row(place: int, record: DatabaseRecord) -> tuple[Any, ...]:
    """The values of a row of `databases`."""
    return place, record.catalog, record.name, record.body, record.remote, record.location


def table_row(place: int, row: TableRow) -> tuple[Any, ...]:
    """The values of a row of `tables`."""
    listed = (place, row.catalog, row.database, row.name, row.table_id, row.table_type)
    record = row.record
    if record is None:
        return *listed, *(None,) * (len(COLUMNS[TABLES]) - len(listed))
    write_ids: tuple[bytes | None, bytes | None] = (None, None)
    if row.write_ids is not None:
        write_ids = row.write_ids.text, b"".join(map(_ID.pack, row.write_ids.open))
    return (
        *listed,
        record.body,
        record.transactional,
        record.materialized_view,
        layout.partition_keys_pack(record.partition_keys),
        record.location,
        record.full_acid,
        None if record.constraints is None else _constraints_pack(record.constraints),
        None if record.statistics is None else table_pack(record.statistics),
        *write_ids,
        record.summary,
    )


def partition_row(place: int, table_id: int, record: PartitionRecord) -> tuple[Any, ...]:
    """The values of a row of `partitions`."""
    return (
        place,
        table_id,
        record.name,
        record.values,
        record.times,
        record.location,
        record.parameters,
        record.tail,
        record.sd_head,
        record.sd_tail,
        record.sd_tail_single,
        record.sd_tail_filter,
        None if record.statistics is None else table_pack(record.statistics),
        None,
    )


def unfit_row(place: int, table_id: int, reason: str) -> tuple[Any, ...]:
    """The values of a row for a table whose partitions the cache cannot hold."""
    return place, table_id, *(None,) * (len(COLUMNS[PARTITIONS]) - 3), reason


def change_row(change: str, table_id: int, name: bytes | None = None) -> tuple[Any, ...]:
    """The values of a row of `changes` that has no partition."""
    return 0, table_id, name, *(None,) * (len(COLUMNS[PARTITIONS]) - 3), change


def _constraints_pack(constraints: Constraints) -> bytes:
    parts = [_COUNT.pack(len(constraints.parents)), *map(_ID.pack, constraints.parents)]
    for kind, elements in sorted(constraints.elements.items()):
        for element in elements:
            parts += (_ELEMENT.pack(kind, len(element)), element)
    return b"".join(parts)


# Reading


def databases(file: bytes) -> Iterator[DatabaseRecord]:
    """The rows of a file of databases. Like the functions below, raises SnapshotError for any other file."""
    for columns in _batches(file, DATABASES):
        for _, catalog, name, body, remote, location in _tuples(columns):
            yield DatabaseRecord(catalog, name, body, remote, location)


def tables(file: bytes) -> Iterator[TableRow]:
    """The rows of a file of tables."""
    for columns in _batches(file, TABLES):
        with _decoding(TABLES):
            found = [_table(row) for row in _tuples(columns)]
        yield from found


def _table(row: tuple[Any, ...]) -> TableRow:
    _, catalog, database, name, table_id, table_type, *loaded = row
    body, transactional, materialized_view, partition_keys, location, full_acid, constraints, *rest = loaded
    statistics, valid, opened, *summary = rest
    if body is None:
        return TableRow(catalog, database, name, table_id, table_type)
    record = TableRecord(
        catalog,
        database,
        name,
        table_id,
        table_type,
        body,
        transactional,
        materialized_view,
        layout.partition_keys_unpack(partition_keys),
        location,
        full_acid,
        None if constraints is None else _constraints_unpack(constraints),
        _statistics(statistics),
        *summary,
    )
    write_ids = None
    if valid is not None:
        write_ids = WriteIds(valid, tuple(id_ for (id_,) in _ID.iter_unpack(opened or b"")))
    return TableRow(catalog, database, name, table_id, table_type, record, write_ids)


def partitioned(file: bytes) -> Iterator[tuple[bytes, bytes, bytes, int, bool]]:
    """Catalog, database, name, id and full_acid of the tables in a file of tables that have partition keys."""
    for columns in _batches(file, TABLES):
        for row in _tuples(columns.select(["catalog", "database", "name", "table_id", "full_acid", "partition_keys"])):
            if row[-1]:
                yield row[:-1]


def listed(file: bytes) -> Iterator[OutlinedTable]:
    """The tables in a file of tables, without decoding them."""
    for columns in _batches(file, TABLES, wanted=["database", "name", "table_id", "transactional", "partition_keys"]):
        for database, name, table_id, transactional, keys in _tuples(columns):
            yield OutlinedTable(database, name, table_id, transactional is not None, bool(keys))


def partitions(file: bytes, wanted: Set[int] | None = None) -> Iterator[PartitionRun]:
    """The rows of a file of partitions, in runs of one table each; only of these tables, by id, if given."""
    for columns in _batches(file, PARTITIONS, _ALIKE, only=wanted):
        at = 0
        for table_id, same in groupby(columns.column("table_id").to_pylist()):
            some = columns.slice(at, sum(1 for _ in same))
            at += len(some)
            if wanted is None or table_id in wanted:
                yield PartitionRun(table_id, _unfit(some), some)


def changes(file: bytes) -> Iterator[tuple[str, PartitionRun]]:
    """The rows of a file of changes, in runs of one table and one kind of change each."""
    for columns in _batches(file, CHANGES, _ALIKE):
        kinds = list(zip(columns.column("table_id").to_pylist(), columns.column("change").to_pylist(), strict=True))
        begin = 0
        for at in range(1, len(kinds) + 1):
            if at < len(kinds) and kinds[at] == kinds[begin]:
                continue
            (table_id, change), some = kinds[begin], columns.slice(begin, at - begin)
            yield change, PartitionRun(table_id, _unfit(some), some)
            begin = at


def _unfit(run: Any) -> str | None:
    """Why partitions of a run cannot be cached."""
    column = run.column("unfit")
    if column.null_count == len(column):
        return None
    reason: str = next(one for one in column.to_pylist() if one is not None)
    return reason


@contextmanager
def _decoding(kind: str) -> Iterator[None]:
    """Turns what decoding raises for values that no writer has written into a SnapshotError."""
    try:
        yield
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise SnapshotError(f"a file of {kind} has a row that cannot be read: {error}") from error


def _batches(
    file: bytes,
    kind: str,
    alike: Iterable[str] = (),
    wanted: Sequence[str] | None = None,
    only: Set[int] | None = None,
) -> Iterator[Any]:
    """The rows in batches. `wanted`: columns; `only`: row groups without one of these table ids are not decoded."""
    import pyarrow
    import pyarrow.parquet

    try:
        opened = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(file), read_dictionary=list(alike))
        names = opened.schema_arrow.names
        if names not in ([*COLUMNS[kind]], [name for name in COLUMNS[kind] if name not in ADDED]):
            raise SnapshotError(f"a file of {kind} has the columns {', '.join(names)}")
        groups = [group for group in range(opened.num_row_groups) if only is None or _any(opened, group, only)]
        yield from opened.iter_batches(batch_size=_BATCH, row_groups=groups, columns=wanted)
    except (pyarrow.ArrowException, OSError, KeyError, ValueError) as error:  # as pyarrow raises for damaged files
        raise SnapshotError(f"a file of {kind} cannot be read: {error}") from error


def _any(opened: Any, group: int, tables: Set[int]) -> bool:
    """Whether a row group has partitions of one of these tables."""
    return any(map(tables.__contains__, opened.read_row_group(group, ["table_id"])[0].to_pylist()))


def _tuples(columns: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in columns.columns), strict=True)


def _values(column: Any) -> list[Any]:
    """The values of a column. Equal values of a dictionary are one object."""
    import pyarrow

    if not isinstance(column, pyarrow.DictionaryArray):
        return list(column.to_pylist())
    words = column.dictionary.to_pylist()
    return [None if at is None else words[at] for at in column.indices.to_pylist()]


def _statistics(packed: bytes | None) -> Statistics | None:
    if packed:
        return table_unpack(packed)
    return None if packed is None else ()


def _constraints_unpack(packed: bytes) -> Constraints:
    (number,) = _COUNT.unpack_from(packed)
    at = _COUNT.size + number * _ID.size
    parents = tuple(parent for (parent,) in _ID.iter_unpack(packed[_COUNT.size : at]))
    elements: dict[ConstraintKind, tuple[bytes, ...]] = {}
    while at < len(packed):
        kind, length = _ELEMENT.unpack_from(packed, at)
        at += _ELEMENT.size
        elements[ConstraintKind(kind)] = (*elements.get(ConstraintKind(kind), ()), packed[at : at + length])
        at += length
    return Constraints(elements, parents)
