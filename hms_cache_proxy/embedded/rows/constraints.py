"""Constraints: KEY_CONSTRAINTS.

Job: turn rows into the six kinds of structs and back. Must not know: what a call may do.

A row refers to a column by its column descriptor and number, or to a partition key by the table and the number (CD is
null). PARENT is the table with the constraint. For a foreign key, PARENT is the table that it refers to, and CHILD the
table that has it. Source: ObjectStore.addPrimaryKeys and similar methods of Hive 4.2. Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, insert, select

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.rows.tables import StoredTable
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

FOREIGN = 1
ENABLE, VALIDATE, RELY = 4, 2, 1


@dataclass(frozen=True, slots=True)
class ConstraintLayout:
    """A kind of constraint: its number, struct, the field with the name, and the suffix of generated names."""

    number: int
    struct: str
    name: str
    positioned: bool = False
    value: str | None = None  # the field with an expression


KINDS = {
    "primary": ConstraintLayout(0, "SQLPrimaryKey", "pk_name", positioned=True),
    "unique": ConstraintLayout(2, "SQLUniqueConstraint", "uk_name", positioned=True),
    "not_null": ConstraintLayout(3, "SQLNotNullConstraint", "nn_name"),
    "default": ConstraintLayout(4, "SQLDefaultConstraint", "dc_name", value="default_value"),
    "check": ConstraintLayout(5, "SQLCheckConstraint", "dc_name", value="check_expression"),
}


def column_of(call: Call, row: StoredTable, name: str) -> tuple[int | None, int] | None:
    """(column descriptor, number) of a column, (None, number) of a partition key; None if there is none."""
    wanted = name.lower()
    for number, column in enumerate(row.table.sd.cols if row.table.sd is not None else ()):
        if column.name == wanted:
            return call.execute(select(T.SDS.c.CD_ID).where(T.SDS.c.SD_ID == row.sd_id)).scalar_one(), number
    for number, key in enumerate(row.table.partitionKeys):
        if key.name == wanted:
            return None, number
    return None


def insert_constraint(
    call: Call, kind: ConstraintLayout, row: StoredTable, place: tuple[int | None, int], element: Struct
) -> None:
    """Insert the row for one column of a constraint of the table."""
    values = {
        "PARENT_CD_ID": place[0],
        "PARENT_INTEGER_IDX": place[1],
        "PARENT_TBL_ID": row.table_id,
        "POSITION": element.key_seq if kind.positioned else _next_position(call, row.table_id, element, kind),
        "CONSTRAINT_NAME": getattr(element, kind.name),
        "CONSTRAINT_TYPE": kind.number,
        "ENABLE_VALIDATE_RELY": _bits(element),
        "DEFAULT_VALUE": getattr(element, kind.value) if kind.value is not None else None,
    }
    call.execute(insert(T.KEY_CONSTRAINTS), values)


def _next_position(call: Call, table_id: int, element: Struct, kind: ConstraintLayout) -> int:
    columns = T.KEY_CONSTRAINTS.c
    mine = (columns.PARENT_TBL_ID == table_id) & (columns.CONSTRAINT_NAME == getattr(element, kind.name))
    return int(call.execute(select(func.count()).select_from(T.KEY_CONSTRAINTS).where(mine)).scalar_one()) + 1


def insert_foreign_key(
    call: Call,
    parent: StoredTable,
    child: StoredTable,
    places: tuple[tuple[int | None, int], tuple[int | None, int]],
    key: Struct,
) -> None:
    """Insert the row for one column of a foreign key; `places` are the parent's and the child's column."""
    values = {
        "PARENT_CD_ID": places[0][0],
        "PARENT_INTEGER_IDX": places[0][1],
        "PARENT_TBL_ID": parent.table_id,
        "CHILD_CD_ID": places[1][0],
        "CHILD_INTEGER_IDX": places[1][1],
        "CHILD_TBL_ID": child.table_id,
        "POSITION": key.key_seq,
        "CONSTRAINT_NAME": key.fk_name,
        "CONSTRAINT_TYPE": FOREIGN,
        "UPDATE_RULE": key.update_rule,
        "DELETE_RULE": key.delete_rule,
        "ENABLE_VALIDATE_RELY": _bits(key),
    }
    call.execute(insert(T.KEY_CONSTRAINTS), values)


def _bits(element: Struct) -> int:
    flags = ((element.enable_cstr, ENABLE), (element.validate_cstr, VALIDATE), (element.rely_cstr, RELY))
    return sum(bit for flag, bit in flags if flag)


def name_taken(call: Call, name: str, table_id: int) -> bool:
    """Does the table have a constraint of this name?"""
    columns = T.KEY_CONSTRAINTS.c
    mine = (columns.PARENT_TBL_ID == table_id) | (columns.CHILD_TBL_ID == table_id)
    return call.execute(select(columns.POSITION).where(mine, columns.CONSTRAINT_NAME == name)).first() is not None


def has_primary_key(call: Call, table_id: int) -> bool:
    """Does the table have a primary key?"""
    columns = T.KEY_CONSTRAINTS.c
    mine = (columns.PARENT_TBL_ID == table_id) & (columns.CONSTRAINT_TYPE == KINDS["primary"].number)
    return call.execute(select(columns.POSITION).where(mine)).first() is not None


def read(call: Call, kind: ConstraintLayout, row: StoredTable) -> list[Struct]:
    """All constraints of one kind of a table, by name and position."""
    columns = T.KEY_CONSTRAINTS.c
    mine = (columns.PARENT_TBL_ID == row.table_id) & (columns.CONSTRAINT_TYPE == kind.number)
    query = select(T.KEY_CONSTRAINTS).where(mine).order_by(columns.CONSTRAINT_NAME, columns.POSITION)
    found = []
    for each in call.execute(query):
        fields: dict[str, Any] = {
            "catName": row.table.catName,
            "table_db": row.table.dbName,
            "table_name": row.table.tableName,
            "column_name": _column_name(row, each.PARENT_CD_ID, each.PARENT_INTEGER_IDX),
            kind.name: each.CONSTRAINT_NAME,
            **_flags(each),
        }
        if kind.positioned:
            fields["key_seq"] = each.POSITION
        if kind.value is not None:
            fields[kind.value] = each.DEFAULT_VALUE
        found.append(new(kind.struct, **fields))
    return found


def foreign_keys(call: Call) -> list[Any]:
    """Rows of all foreign keys, by name and position."""
    columns = T.KEY_CONSTRAINTS.c
    query = select(T.KEY_CONSTRAINTS).where(columns.CONSTRAINT_TYPE == FOREIGN)
    return call.rows(query.order_by(columns.CONSTRAINT_NAME, columns.POSITION))


def foreign_key(call: Call, each: Any, parent: StoredTable, child: StoredTable) -> Struct:
    """The struct of a row."""
    primary = read(call, KINDS["primary"], parent)
    return new(
        "SQLForeignKey",
        pktable_db=parent.table.dbName,
        pktable_name=parent.table.tableName,
        pkcolumn_name=_column_name(parent, each.PARENT_CD_ID, each.PARENT_INTEGER_IDX),
        fktable_db=child.table.dbName,
        fktable_name=child.table.tableName,
        fkcolumn_name=_column_name(child, each.CHILD_CD_ID, each.CHILD_INTEGER_IDX),
        key_seq=each.POSITION,
        update_rule=each.UPDATE_RULE,
        delete_rule=each.DELETE_RULE,
        fk_name=each.CONSTRAINT_NAME,
        pk_name=primary[0].pk_name if primary else None,
        catName=child.table.catName,
        **_flags(each),
    )


def _flags(each: Any) -> dict[str, bool]:
    bits = each.ENABLE_VALIDATE_RELY
    return {
        "enable_cstr": bool(bits & ENABLE),
        "validate_cstr": bool(bits & VALIDATE),
        "rely_cstr": bool(bits & RELY),
    }


def _column_name(row: StoredTable, cd_id: int | None, number: int) -> str | None:
    columns: Sequence[Struct] = row.table.partitionKeys if cd_id is None else row.table.sd.cols
    return columns[number].name if 0 <= number < len(columns) else None


def remove(call: Call, table_id: int, name: str) -> bool:
    """Delete a constraint of a table, or a foreign key on either side; False if there is none."""
    columns = T.KEY_CONSTRAINTS.c
    mine = (columns.PARENT_TBL_ID == table_id) | (columns.CHILD_TBL_ID == table_id)
    removed = call.execute(delete(T.KEY_CONSTRAINTS).where(mine, columns.CONSTRAINT_NAME == name))
    return bool(removed.rowcount)
