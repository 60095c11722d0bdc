"""Named types (create_type and related methods). Hive has not used them for many years.

Job: carry out the calls, with their rows: TYPES, TYPE_FIELDS. Source: HMSHandler and ObjectStore of 4.0. Owner: the
thread of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select

from hms_cache_proxy.embedded import names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.failures import already_exists, invalid_object, meta, no_such_object
from hms_cache_proxy.embedded.rows.common import write
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct


def _row(call: Call, name: str) -> Any:
    return call.execute(select(T.TYPES).where(T.TYPES.c.TYPE_NAME == name.strip())).first()


def create_type(call: Call, args: Struct) -> bool:
    """Create a type."""
    given = args.type
    if not names.valid(given.name):
        raise invalid_object("Invalid type name")
    if _row(call, given.name) is not None:
        raise already_exists(f"Type {given.name} already exists")
    id_ = new_ids(call.connection, "MType")
    row = {"TYPES_ID": id_, "TYPE_NAME": given.name, "TYPE1": given.type1, "TYPE2": given.type2}
    call.execute(insert(T.TYPES), row)
    fields = [
        {
            "TYPE_NAME": id_,
            "COMMENT": field.comment,
            "FIELD_NAME": field.name,
            "FIELD_TYPE": field.type,
            "INTEGER_IDX": position,
        }
        for position, field in enumerate(given.fields or ())
    ]
    write(call, T.TYPE_FIELDS, fields)
    return True


def get_type(call: Call, args: Struct) -> Struct:
    """A type with its fields."""
    row = _row(call, args.name)
    if row is None:
        raise no_such_object(f'Type "{args.name}" not found.')
    columns = T.TYPE_FIELDS.c
    query = select(T.TYPE_FIELDS).where(columns.TYPE_NAME == row.TYPES_ID).order_by(columns.INTEGER_IDX)
    fields = [
        new("FieldSchema", name=each.FIELD_NAME, type=each.FIELD_TYPE, comment=each.COMMENT)
        for each in call.rows(query)
    ]
    return new("Type", name=row.TYPE_NAME, type1=row.TYPE1, type2=row.TYPE2, fields=fields)


def drop_type(call: Call, args: Struct) -> bool:
    """Drop a type; no error if it does not exist."""
    row = _row(call, args.type)
    if row is not None:
        call.execute(delete(T.TYPE_FIELDS).where(T.TYPE_FIELDS.c.TYPE_NAME == row.TYPES_ID))
        call.execute(delete(T.TYPES).where(T.TYPES.c.TYPES_ID == row.TYPES_ID))
    return True


def get_type_all(_call: Call, _args: Struct) -> dict[str, Struct]:
    """Fails: Hive has never implemented it."""
    raise meta("Not yet implemented")


METHODS = {
    **reads(get_type=get_type, get_type_all=get_type_all),
    **writes(create_type=create_type, drop_type=drop_type),
}
