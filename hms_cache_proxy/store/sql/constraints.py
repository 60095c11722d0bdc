"""Reads constraints from the database.

Job: make `Constraints`, by table id. What the metastore does with its rows (tested with Hive 4.0.0 and 4.2.0; their
MetaStoreDirectSql): the column is the one with the row's number in the descriptor that the row names, else the
partition key with that number, else unset; ENABLE_VALIDATE_RELY has one bit each for ENABLE, VALIDATE and RELY; lists
have no order (no ORDER BY). Here they are in the order of constraint name and position. A foreign key is read without
what belongs to the table that it refers to, which can be altered without an event at the table that has the key
(store/foreign_keys.py).

Owner: a snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, and_, literal_column, null, or_, select
from sqlalchemy.sql.elements import ClauseElement

from hms_cache_proxy.store import encode
from hms_cache_proxy.store.foreign_keys import NOWHERE, ColumnPlace, ForeignKey, places_pack
from hms_cache_proxy.store.protocol import NO_CONSTRAINTS, ConstraintKind, Constraints, TableName
from hms_cache_proxy.store.sql.dialect import Column, Dialect
from hms_cache_proxy.store.sql.schema import Schema

_FOREIGN: Final = 1
_KINDS: Final = {
    0: ConstraintKind.PRIMARY_KEY,
    2: ConstraintKind.UNIQUE,
    3: ConstraintKind.NOT_NULL,
    4: ConstraintKind.DEFAULT,
    5: ConstraintKind.CHECK,
}
"""KEY_CONSTRAINTS.CONSTRAINT_TYPE."""
_ENABLE, _VALIDATE, _RELY = 4, 2, 1


class ConstraintStatements:
    """The statement for many tables, compiled once per store."""

    def __init__(self, schema: Schema, database: Dialect) -> None:
        self.found = database.by_ids(lambda among: _found(schema, among))


def _found(schema: Schema, among: Callable[[Column], ColumnElement[bool]]) -> ClauseElement:
    rows, columns, keys = schema["KEY_CONSTRAINTS"].c, schema["COLUMNS_V2"].c, schema["PARTITION_KEYS"].c
    referring, referring_keys = schema["COLUMNS_V2"].alias("CC"), schema["PARTITION_KEYS"].alias("CK")
    theirs, their_keys = referring.c, referring_keys.c
    at, child_at = rows.PARENT_INTEGER_IDX, rows.CHILD_INTEGER_IDX
    joined = (
        schema["KEY_CONSTRAINTS"]
        .outerjoin(schema["COLUMNS_V2"], (columns.CD_ID == rows.PARENT_CD_ID) & (columns.INTEGER_IDX == at))
        .outerjoin(schema["PARTITION_KEYS"], (keys.TBL_ID == rows.PARENT_TBL_ID) & (keys.INTEGER_IDX == at))
        .outerjoin(referring, (theirs.CD_ID == rows.CHILD_CD_ID) & (theirs.INTEGER_IDX == child_at))
        .outerjoin(referring_keys, (their_keys.TBL_ID == rows.CHILD_TBL_ID) & (their_keys.INTEGER_IDX == child_at))
    )
    # There is no index on the child's id; the index on the type selects foreign keys.
    has_key = and_(rows.CONSTRAINT_TYPE == literal_column(str(_FOREIGN)), among(rows.CHILD_TBL_ID))
    return (
        select(
            rows.PARENT_TBL_ID,
            rows.CHILD_TBL_ID,
            rows.CONSTRAINT_TYPE,
            columns.COLUMN_NAME,
            keys.PKEY_NAME,
            rows.POSITION,
            rows.CONSTRAINT_NAME,
            rows.ENABLE_VALIDATE_RELY,
            rows.DEFAULT_VALUE if "DEFAULT_VALUE" in rows else null(),
            rows.PARENT_CD_ID,
            at,
            theirs.COLUMN_NAME,
            their_keys.PKEY_NAME,
            rows.UPDATE_RULE,
            rows.DELETE_RULE,
        )
        .select_from(joined)
        .where(or_(among(rows.PARENT_TBL_ID), has_key))
    )


def read_constraints(
    database: Dialect, statements: ConstraintStatements, tables: Sequence[TableName]
) -> dict[int, Constraints]:
    """The constraints of these tables, by table id."""
    own: defaultdict[int, list[_Row]] = defaultdict(list)
    foreign: defaultdict[int, list[_ForeignRow]] = defaultdict(list)
    for parent, child, kind, column, key, *rest in database.rows_by_ids(
        statements.found, [table.table_id for table in tables]
    ):
        position, name, bits, default, descriptor, number, child_column, child_key, *rules = rest
        place = NOWHERE if descriptor is None else (descriptor, number)
        if kind == _FOREIGN:
            child_column = child_key if child_column is None else child_column
            foreign[child].append(_ForeignRow(parent, place, child_column, position, name, bits, *rules))
        elif kind in _KINDS:
            column, place = (key, NOWHERE) if column is None else (column, place)
            own[parent].append(_Row(_KINDS[kind], column, position, name, bits, default, place))
    return {table.table_id: _constraints(table, own, foreign) for table in tables}


class _Row(NamedTuple):
    kind: ConstraintKind
    column: bytes | None
    position: int
    name: bytes
    bits: int
    default: bytes | None
    place: ColumnPlace


class _ForeignRow(NamedTuple):
    parent: int
    place: ColumnPlace
    column: bytes | None
    position: int
    name: bytes
    bits: int
    update: int | None
    delete: int | None


def _constraints(table: TableName, own: dict[int, list[_Row]], foreign: dict[int, list[_ForeignRow]]) -> Constraints:
    rows, keys = own.get(table.table_id, ()), foreign.get(table.table_id, ())
    if not rows and not keys:
        return NO_CONSTRAINTS
    elements: defaultdict[ConstraintKind, list[bytes]] = defaultdict(list)
    places: list[ColumnPlace] = []
    for row in sorted(rows, key=lambda row: (row.kind, row.name, row.position, row.column or b"")):
        elements[row.kind].append(_element(table, row))
        if row.kind is ConstraintKind.PRIMARY_KEY:
            places.append(row.place)
    if places:
        elements[ConstraintKind.PLACES] = list(places_pack(places))
    for key in sorted(keys, key=lambda key: (key.name, key.position, key.parent, key.place, key.column or b"")):
        elements[ConstraintKind.FOREIGN_KEY].append(_foreign(table, key).pack())
    parents = tuple(sorted({key.parent for key in keys}))
    return Constraints({kind: tuple(found) for kind, found in elements.items()}, parents)


def _foreign(table: TableName, row: _ForeignRow) -> ForeignKey:
    before = (
        *(encode.string_field(number, name) for number, name in enumerate((table.database, table.name, row.column), 4)),
        *(encode.i32_field(number, value) for number, value in enumerate((row.position, row.update, row.delete), 7)),
        encode.string_field(10, row.name),
    )
    after = (*_flags(row.bits, 12), encode.string_field(15, table.catalog), encode.STOP)
    return ForeignKey(row.parent, row.place, b"".join(before), b"".join(after))


def _flags(bits: int, first: int) -> Iterator[bytes]:
    for number, bit in enumerate((_ENABLE, _VALIDATE, _RELY), first):
        yield encode.bool_field(number, bool(bits & bit))


def _element(table: TableName, row: _Row) -> bytes:
    """An element of a list of constraints (SQLPrimaryKey and so on) with its stop byte."""
    kind = row.kind
    is_key = kind is ConstraintKind.PRIMARY_KEY
    catalog = encode.string_field(9 if is_key else 1, table.catalog)
    names = enumerate((table.database, table.name, row.column), 1 if is_key else 2)
    fields = [encode.string_field(number, name) for number, name in names]
    after = len(fields) + (1 if is_key else 2)
    if kind in (ConstraintKind.PRIMARY_KEY, ConstraintKind.UNIQUE):
        fields.append(encode.i32_field(after, row.position))
        after += 1
    elif kind in (ConstraintKind.DEFAULT, ConstraintKind.CHECK):
        fields.append(encode.string_field(after, row.default))
        after += 1
    fields.append(encode.string_field(after, row.name))
    fields += _flags(row.bits, after + 1)
    inside = [*fields, catalog] if is_key else [catalog, *fields]
    return b"".join((*inside, encode.STOP))
