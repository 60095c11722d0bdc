"""Functions: FUNCS and FUNC_RU.

Job: turn structs into rows and back. Must not know: what a call may do. Owner: the thread of a call.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.rows.common import delete_of, rows_of, write
from hms_cache_proxy.embedded.rows.databases import OWNER_TYPES, owner_type_name
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct


def function_names(call: Call, database_id: int) -> list[str]:
    """The names of a database's functions, in order."""
    columns = T.FUNCS.c
    query = select(columns.FUNC_NAME).where(columns.DB_ID == database_id).order_by(columns.FUNC_NAME)
    return [row[0] for row in call.execute(query)]


def find_functions(
    call: Call, catalog: str, database: str | None = None, name: str | None = None
) -> list[tuple[int, Struct]]:
    """(id, function) of a catalog's or database's functions, or of the named one."""
    functions, dbs = T.FUNCS.c, T.DBS.c
    query = (
        select(T.FUNCS, dbs.NAME.label("DB"), dbs.CTLG_NAME.label("CATALOG"))
        .join(T.DBS, dbs.DB_ID == functions.DB_ID)
        .where(dbs.CTLG_NAME == catalog)
        .order_by(dbs.NAME, functions.FUNC_NAME)
    )
    if database is not None:
        query = query.where(dbs.NAME == database)
    if name is not None:
        query = query.where(functions.FUNC_NAME == name)
    rows = call.rows(query)
    resources: dict[int, list[Struct]] = defaultdict(list)
    columns = T.FUNC_RU.c
    ids = [row.FUNC_ID for row in rows]
    wanted = (columns.RESOURCE_TYPE, columns.RESOURCE_URI)
    for id_, kind, uri in rows_of(call, columns.FUNC_ID, ids, *wanted, order=(columns.INTEGER_IDX,)):
        resources[id_].append(new("ResourceUri", resourceType=kind, uri=uri))
    return [(row.FUNC_ID, _function(row, resources[row.FUNC_ID])) for row in rows]


def _function(row: Any, resources: list[Struct]) -> Struct:
    return new(
        "Function",
        functionName=row.FUNC_NAME,
        dbName=row.DB,
        className=row.CLASS_NAME,
        ownerName=row.OWNER_NAME,
        ownerType=OWNER_TYPES.get(row.OWNER_TYPE),
        createTime=row.CREATE_TIME,
        functionType=row.FUNC_TYPE,
        resourceUris=resources,
        catName=row.CATALOG,
    )


def insert_function(call: Call, database_id: int, function: Struct) -> None:
    """Insert a function."""
    id_ = new_ids(call.connection, "MFunction")
    call.execute(insert(T.FUNCS), {"FUNC_ID": id_, **_row(database_id, function)})
    _insert_resources(call, id_, function)


def update_function(call: Call, id_: int, database_id: int, function: Struct) -> None:
    """Replace everything of a function except its id."""
    call.execute(update(T.FUNCS).where(T.FUNCS.c.FUNC_ID == id_).values(**_row(database_id, function)))
    delete_of(call, T.FUNC_RU.c.FUNC_ID, [id_])
    _insert_resources(call, id_, function)


def _insert_resources(call: Call, id_: int, function: Struct) -> None:
    rows = [
        {"FUNC_ID": id_, "RESOURCE_TYPE": resource.resourceType, "RESOURCE_URI": resource.uri, "INTEGER_IDX": position}
        for position, resource in enumerate(function.resourceUris or ())
    ]
    write(call, T.FUNC_RU, rows)


def _row(database_id: int, function: Struct) -> dict[str, Any]:
    return {
        "DB_ID": database_id,
        "FUNC_NAME": function.functionName,
        "CLASS_NAME": function.className,
        "OWNER_NAME": function.ownerName,
        "OWNER_TYPE": owner_type_name(function.ownerType),
        "FUNC_TYPE": function.functionType,
        "CREATE_TIME": function.createTime,
    }


def delete_function(call: Call, database_id: int, name: str) -> None:
    """Delete the rows of a function."""
    columns = T.FUNCS.c
    query = select(columns.FUNC_ID).where(columns.DB_ID == database_id, columns.FUNC_NAME == name)
    ids = [row[0] for row in call.execute(query)]
    delete_of(call, T.FUNC_RU.c.FUNC_ID, ids)
    call.execute(delete(T.FUNCS).where(columns.DB_ID == database_id, columns.FUNC_NAME == name))
