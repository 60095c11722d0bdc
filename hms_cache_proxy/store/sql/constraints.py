"""Constraints from the database.

Job: `Constraints` by table id. What the metastore does with its rows (tested with Hive 4.0.0 and 4.2.0; their
MetaStoreDirectSql): the column is that of the descriptor that the row names, else the partition key of that number,
else unset; ENABLE_VALIDATE_RELY has a bit for each of the three; lists have no order (no ORDER BY). Here they are in
the order of constraint name and position. A foreign key includes the name of the table that it refers to, which can be
renamed without an event at the table that has the key. So of foreign keys only the ids of these tables are read.

Owner: a snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, and_, literal_column, null, or_, select
from sqlalchemy.sql.elements import ClauseElement

from hms_cache_proxy.store import encode
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
    at = rows.PARENT_INTEGER_IDX
    joined = (
        schema["KEY_CONSTRAINTS"]
        .outerjoin(schema["COLUMNS_V2"], (columns.CD_ID == rows.PARENT_CD_ID) & (columns.INTEGER_IDX == at))
        .outerjoin(schema["PARTITION_KEYS"], (keys.TBL_ID == rows.PARENT_TBL_ID) & (keys.INTEGER_IDX == at))
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
        )
        .select_from(joined)
        .where(or_(among(rows.PARENT_TBL_ID), has_key))
    )


def read_constraints(
    database: Dialect, statements: ConstraintStatements, tables: Sequence[TableName]
) -> dict[int, Constraints]:
    """The constraints of these tables, by table id."""
    own: defaultdict[int, list[_Row]] = defaultdict(list)
    parents: defaultdict[int, set[int]] = defaultdict(set)
    for parent, child, kind, column, key, *rest in database.rows_by_ids(
        statements.found, [table.table_id for table in tables]
    ):
        if kind == _FOREIGN:
            parents[child].add(parent)
        elif kind in _KINDS:
            own[parent].append(_Row(_KINDS[kind], key if column is None else column, *rest))
    return {table.table_id: _constraints(table, own, parents) for table in tables}


class _Row(NamedTuple):
    kind: ConstraintKind
    column: bytes | None
    position: int
    name: bytes
    bits: int
    default: bytes | None


def _constraints(table: TableName, own: dict[int, list[_Row]], parents: dict[int, set[int]]) -> Constraints:
    rows, referred = own.get(table.table_id), tuple(sorted(parents.get(table.table_id, ())))
    if rows is None:
        return Constraints(parents=referred) if referred else NO_CONSTRAINTS
    elements: defaultdict[ConstraintKind, list[bytes]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.kind, row.name, row.position, row.column or b"")):
        elements[row.kind].append(_element(table, row))
    return Constraints({kind: tuple(found) for kind, found in elements.items()}, parents=referred)


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
    for number, bit in enumerate((_ENABLE, _VALIDATE, _RELY), after + 1):
        fields.append(encode.bool_field(number, bool(row.bits & bit)))
    inside = [*fields, catalog] if is_key else [catalog, *fields]
    return b"".join((*inside, encode.STOP))
