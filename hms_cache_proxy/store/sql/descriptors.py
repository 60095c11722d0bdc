"""Reads storage descriptors from the database, and builds each distinct one once.

Job: make the StorageDescriptor bytes of tables and partitions: columns, formats, serde, buckets, sort order,
parameters, skew.
Must not know: tables and partitions.

A metastore returns the descriptor of one row in three forms (tested with Hive 4.0.0 and 4.2.0, with direct SQL on, the
default):
- `list`: get_partitions, _by_names, _ps, _ps_with_auth: the serde without description, classes and type (fields 4
  to 7);
- `single`: get_partition, _by_name, _with_auth, _req, and tables: with these fields;
- `filter`: get_partitions_by_filter: as `list`. For full-ACID tables and their partitions, `single` and `filter` do not
  have these fields either, and the descriptor's parameters, sort columns and skew and the serde's parameters are empty;
  `list` has them. Hive 2.3.10 and 3.1.3 leave nothing out. On PostgreSQL, their direct SQL cannot read a list with a
  skewed partition; they read it in another way, or refuse. Such a partition is Unfit. With metastore.try.direct.sql
  off, every call returns the form `single`, except lists of full-ACID tables, which then have everything. A parameter
  with the value NULL is left out. Collections are empty, never unset; a missing serde or column list is unset.

Owner: a snapshot. What is remembered here is only valid within it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Select,
    Text,
    cast,
    literal_column,
    null,
    select,
    text,
    union_all,
)

from hms_cache_proxy.store import encode
from hms_cache_proxy.store.sql.dialect import Column, Dialect, Row
from hms_cache_proxy.store.sql.schema import Schema

MAP_TYPES = encode.EMPTY_MAP[:2]
_NO_ITEMS = encode.EMPTY_MAP[2:]
_STRUCT_LIST = encode.EMPTY_STRUCTS[:1]
_VARYING = 3  # the first columns below, which differ in each row: SD_ID, LOCATION, SERDE_ID
_SERDE_TYPES = (1, 2)  # HIVE, SCHEMA_REGISTRY; the column has 0 for none
_SD = "SD_ID LOCATION SERDE_ID CD_ID INPUT_FORMAT OUTPUT_FORMAT IS_COMPRESSED NUM_BUCKETS IS_STOREDASSUBDIRECTORIES"
_SERDE = "NAME SLIB DESCRIPTION SERIALIZER_CLASS DESERIALIZER_CLASS SERDE_TYPE"


def descriptor_columns(schema: Schema) -> list[Column]:
    """The columns of SDS and SERDES that a statement selects for `Descriptors.load`, in this order."""
    storage, serde = schema["SDS"].c, schema["SERDES"].c
    columns: list[Column] = [storage[name] for name in _SD.split()]
    return columns + [serde[name] if name in serde else null() for name in _SERDE.split()]


@dataclass(frozen=True, slots=True)
class Descriptor:
    """`columns`: sd field 1, empty if unset. `partition_head`: header of a partition's field 6, then the columns.

    `tail_list`: sd fields 3 to 12 and the stop, in the form `list`. The other two are None if they are equal to it.
    `skewed`: the metastore's lists with this partition may differ.
    """

    columns: bytes
    partition_head: bytes
    tail_list: bytes
    tail_single: bytes | None
    tail_filter: bytes | None
    skewed: bool = False


@dataclass(slots=True)
class _Extras:
    """Parts that most descriptors do not have; each in its order."""

    parameters: list[tuple[bytes, bytes]] = field(default_factory=list)
    buckets: list[bytes] = field(default_factory=list)
    sorts: list[bytes] = field(default_factory=list)  # Order structs
    skew_names: list[bytes] = field(default_factory=list)
    skew_values: list[int] = field(default_factory=list)  # string list ids
    skew_places: list[tuple[int, bytes]] = field(default_factory=list)


_NOTHING = _Extras()


class DescriptorStatements:
    """The statements, compiled once per store. `trims`: parts of full-ACID tables are left out (Hive 4)."""

    def __init__(self, schema: Schema, database: Dialect) -> None:
        columns, serde = schema["COLUMNS_V2"].c, schema["SERDE_PARAMS"].c
        lists = schema["SKEWED_STRING_LIST_VALUES"].c
        self.trims = schema.line not in ("2.3", "3.1")
        fields = database.struct({1: columns.COLUMN_NAME, 2: columns.TYPE_NAME, 3: columns.COMMENT})
        self.columns = database.by_ids(
            lambda among: (
                select(columns.CD_ID, database.counted(fields, columns.CD_ID, columns.INTEGER_IDX))
                .where(among(columns.CD_ID))
                .group_by(columns.CD_ID)
            )
        )
        self.serde_parameters = database.maps_by_ids(serde.SERDE_ID, serde.PARAM_KEY, serde.PARAM_VALUE)
        self.extras = database.by_ids(lambda among: _extras(schema, among))
        self.string_lists = database.by_ids(
            lambda among: (
                select(lists.STRING_LIST_ID, lists.STRING_LIST_VALUE)
                .where(among(lists.STRING_LIST_ID))
                .order_by(lists.STRING_LIST_ID, lists.INTEGER_IDX)
            )
        )


def _extras(schema: Schema, among: Callable[[Column], ColumnElement[bool]]) -> CompoundSelect[*Row]:
    """(kind, SD_ID, position, number, text, text) from every table that refers to an SD."""
    nothing, number = cast(null(), Text), cast(null(), BigInteger)

    def part(kind: str, sd_id: Column, position: Column, count: Column, first: Column, second: Column) -> Select[*Row]:
        columns: tuple[Column, ...] = (literal_column(f"'{kind}'"), sd_id, position, count, first, second)
        return select(*columns).where(among(sd_id))

    parameters, buckets, sorts = schema["SD_PARAMS"].c, schema["BUCKETING_COLS"].c, schema["SORT_COLS"].c
    names, values = schema["SKEWED_COL_NAMES"].c, schema["SKEWED_VALUES"].c
    places = schema["SKEWED_COL_VALUE_LOC_MAP"].c
    parts = [
        part("parameter", parameters.SD_ID, number, number, parameters.PARAM_KEY, parameters.PARAM_VALUE),
        part("bucket", buckets.SD_ID, buckets.INTEGER_IDX, number, buckets.BUCKET_COL_NAME, nothing),
        part("sort", sorts.SD_ID, sorts.INTEGER_IDX, sorts.ORDER, sorts.COLUMN_NAME, nothing),
        part("skew name", names.SD_ID, names.INTEGER_IDX, number, names.SKEWED_COL_NAME, nothing),
        part("skew value", values.SD_ID_OID, values.INTEGER_IDX, values.STRING_LIST_ID_EID, nothing, nothing),
        part("skew place", places.SD_ID, number, places.STRING_LIST_ID_KID, places.LOCATION, nothing),
    ]
    return union_all(*parts).order_by(text("2, 3"))


class Descriptors:
    """The distinct descriptors of one snapshot."""

    def __init__(self, database: Dialect, statements: DescriptorStatements) -> None:
        self._database = database
        self._statements = statements
        self._columns: dict[int | None, bytes] = {None: b""}
        self._known: dict[tuple[object, ...], Descriptor] = {}
        self._interned: dict[bytes, bytes] = {}  # equal bytes are one object

    def load(self, rows: Sequence[Row], full_acid: Sequence[bool]) -> list[Descriptor | None]:
        """One descriptor for each row of descriptor_columns(); None if SD_ID is NULL. `full_acid`: of the row's
        table."""
        self._load_columns({row[3] for row in rows})
        serde_ids = [row[2] for row in rows]
        serdes: dict[int, bytes] = dict(self._database.rows_by_ids(self._statements.serde_parameters, serde_ids))
        extras, lists = self._load_extras([row[0] for row in rows])
        known = self._known
        found: list[Descriptor | None] = []
        for row, acid in zip(rows, full_acid, strict=True):
            sd_id, serde_id, shape = row[0], row[2], row[_VARYING:]
            serde = None if serde_id is None else bytes(serdes.get(serde_id, _NO_ITEMS))
            if sd_id is None:
                found.append(None)
            elif sd_id in extras:
                found.append(self._build(shape, serde, acid, extras[sd_id], lists))
            else:
                key = (shape, serde, acid)
                descriptor = known.get(key)
                if descriptor is None:
                    descriptor = known[key] = self._build(shape, serde, acid, _NOTHING, lists)
                found.append(descriptor)
        return found

    def _load_columns(self, cd_ids: set[int | None]) -> None:
        missing = cd_ids - self._columns.keys()
        start = encode.header(encode.LIST, 1)
        none = start + encode.EMPTY_STRUCTS
        found = {
            cd_id: start + _STRUCT_LIST + items
            for cd_id, items in self._database.rows_by_ids(self._statements.columns, missing)
        }
        for cd_id in missing:
            self._columns[cd_id] = self._one(found.get(cd_id, none))

    def _load_extras(self, sd_ids: list[int | None]) -> tuple[dict[int, _Extras], dict[int, bytes]]:
        """The extras of these descriptors, and the string lists (values of list<string>) that they refer to."""
        found: dict[int, _Extras] = {}
        for kind, sd_id, _, number, first, second in self._database.rows_by_ids(self._statements.extras, sd_ids):
            _add(found.setdefault(sd_id, _Extras()), kind, number, first, second)
        list_ids: set[int | None] = set()
        for extras in found.values():
            list_ids.update(extras.skew_values, (list_id for list_id, _ in extras.skew_places))
        strings: dict[int, list[bytes]] = {list_id: [] for list_id in list_ids if list_id is not None}
        for list_id, value in self._database.rows_by_ids(self._statements.string_lists, list_ids):
            if value is not None and list_id in strings:
                strings[list_id].append(value)
        return found, {list_id: encode.strings(values) for list_id, values in strings.items()}

    def _build(
        self, shape: Row, serde: bytes | None, full_acid: bool, extras: _Extras, lists: dict[int, bytes]
    ) -> Descriptor:
        full_acid = full_acid and self._statements.trims
        kept = _NOTHING if full_acid else extras
        kept_serde = serde if serde is None or not full_acid else _NO_ITEMS
        whole = _tail(shape, serde, extras, extras, lists, serde_extra=False)
        single = _tail(shape, kept_serde, extras, kept, lists, serde_extra=not full_acid)
        filtered = _tail(shape, kept_serde, extras, kept, lists, serde_extra=False)
        columns = self._columns[shape[0]]
        return Descriptor(
            columns,
            self._one(encode.header(encode.STRUCT, 6) + columns),
            self._one(whole),
            None if single == whole else self._one(single),
            None if filtered == whole else self._one(filtered),
            skewed=not self._statements.trims and bool(extras.skew_values),
        )

    def _one(self, value: bytes) -> bytes:
        return self._interned.setdefault(value, value)


def _add(extras: _Extras, kind: bytes, number: int | None, first: bytes | None, second: bytes | None) -> None:
    """Adds a row to the extras. A parameter that is NULL is left out; with other NULLs a metastore's reply fails."""
    if kind == b"parameter":
        if first is not None and second is not None:
            extras.parameters.append((first, second))
    elif kind == b"skew value":
        assert number is not None
        extras.skew_values.append(number)
    elif kind == b"skew place":
        assert number is not None
        if first is not None:
            extras.skew_places.append((number, first))
    elif kind == b"sort":
        order = encode.string_field(1, first) + encode.i32_field(2, number) + encode.STOP
        extras.sorts.append(order)
    elif first is not None:
        (extras.buckets if kind == b"bucket" else extras.skew_names).append(first)


def _tail(
    shape: Row,
    serde: bytes | None,
    extras: _Extras,
    kept: _Extras,
    lists: dict[int, bytes],
    *,
    serde_extra: bool,
) -> bytes:
    """sd fields 3 to 12 and the stop. `kept`: the parameters, sort columns and skew to include."""
    _, input_format, output_format, compressed, buckets, in_directories, *serde_row = shape
    header = encode.header
    return b"".join(
        (
            encode.string_field(3, input_format),
            encode.string_field(4, output_format),
            encode.bool_field(5, compressed),
            encode.i32_field(6, buckets),
            b"" if serde is None else header(encode.STRUCT, 7) + _serde(serde_row, serde, serde_extra),
            header(encode.LIST, 8) + encode.strings(extras.buckets),
            header(encode.LIST, 9) + encode.structs(kept.sorts),
            header(encode.MAP, 10) + encode.string_map(sorted(kept.parameters)),
            header(encode.STRUCT, 11),
            header(encode.LIST, 1) + encode.strings(kept.skew_names),
            header(encode.LIST, 2) + encode.lists([lists[list_id] for list_id in kept.skew_values]),
            header(encode.MAP, 3)
            + encode.list_keyed_map(sorted((lists[key], place) for key, place in kept.skew_places)),
            encode.STOP,
            encode.bool_field(12, in_directories),
            encode.STOP,
        )
    )


def _serde(row: Sequence[Any], items: bytes, extra: bool) -> bytes:
    name, library, description, serializer, deserializer, kind = row
    body = encode.string_field(1, name) + encode.string_field(2, library)
    body += encode.header(encode.MAP, 3) + MAP_TYPES + items
    if extra:
        body += encode.string_field(4, description) + encode.string_field(5, serializer)
        body += encode.string_field(6, deserializer)
        body += encode.i32_field(7, kind if kind in _SERDE_TYPES else None)
    return body + encode.STOP
