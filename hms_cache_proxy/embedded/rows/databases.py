"""Catalogs and databases: DBS, DATABASE_PARAMS, CTLGS, CATALOG_PARAMS.

Job: turn structs into rows and back. Must not know: what a call may do. Owner: the thread of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.rows.common import read_maps, write_maps
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

OWNER_TYPES = {member.name: int(member) for member in enum("PrincipalType")}
_DATABASE_TYPES = {member.name: int(member) for member in enum("DatabaseType")}


def owner_type_name(value: int | None) -> str | None:
    """The name of an owner type: `USER` for 1."""
    return next((name for name, number in OWNER_TYPES.items() if number == value), None)


def find_database(call: Call, catalog: str, name: str) -> tuple[int, Struct] | None:
    """(id, database) as stored."""
    found = find_databases(call, catalog, [name])
    return found[0] if found else None


def find_databases(call: Call, catalog: str, names: list[str] | None = None) -> list[tuple[int, Struct]]:
    """(id, database) of all or the named databases of a catalog, by name."""
    columns = T.DBS.c
    query = select(T.DBS).where(columns.CTLG_NAME == catalog).order_by(columns.NAME)
    if names is not None:
        query = query.where(columns.NAME.in_(names))
    rows = call.rows(query)
    parameters = read_maps(call, T.DATABASE_PARAMS.c.DB_ID, [row.DB_ID for row in rows])
    return [(row.DB_ID, _database(row, parameters.get(row.DB_ID, {}))) for row in rows]


def _database(row: Any, parameters: dict[str, str]) -> Struct:
    remote = row.TYPE == "REMOTE"
    return new(
        "Database",
        name=row.NAME,
        description=row.DESC,
        locationUri=row.DB_LOCATION_URI,
        parameters=parameters,
        ownerName=row.OWNER_NAME,
        ownerType=OWNER_TYPES.get(row.OWNER_TYPE),
        catalogName=row.CTLG_NAME,
        createTime=row.CREATE_TIME,
        managedLocationUri=row.DB_MANAGED_LOCATION_URI,
        type=_DATABASE_TYPES.get(row.TYPE, _DATABASE_TYPES["NATIVE"]),
        connector_name=row.DATACONNECTOR_NAME if remote else None,
        remote_dbname=row.REMOTE_DBNAME if remote else None,
    )


def database_names(call: Call, catalog: str) -> list[str]:
    """The names of a catalog's databases, in order."""
    columns = T.DBS.c
    query = select(columns.NAME).where(columns.CTLG_NAME == catalog).order_by(columns.NAME)
    return [row[0] for row in call.execute(query)]


def insert_database(call: Call, database: Struct) -> int:
    """Insert a row and its parameters; returns the id."""
    id_ = new_ids(call.connection, "MDatabase")
    call.execute(insert(T.DBS), {"DB_ID": id_, **_row(database)})
    write_maps(call, T.DATABASE_PARAMS.c.DB_ID, {id_: database.parameters})
    return id_


def update_database(call: Call, id_: int, database: Struct) -> None:
    """Replace everything of a database except its name."""
    call.execute(update(T.DBS).where(T.DBS.c.DB_ID == id_).values(**_row(database)))
    call.execute(delete(T.DATABASE_PARAMS).where(T.DATABASE_PARAMS.c.DB_ID == id_))
    write_maps(call, T.DATABASE_PARAMS.c.DB_ID, {id_: database.parameters})


def _row(database: Struct) -> dict[str, Any]:
    names = {number: name for name, number in _DATABASE_TYPES.items()}
    return {
        "NAME": database.name,
        "CTLG_NAME": database.catalogName,
        "DESC": database.description,
        "DB_LOCATION_URI": database.locationUri,
        "DB_MANAGED_LOCATION_URI": database.managedLocationUri,
        "OWNER_NAME": database.ownerName,
        "OWNER_TYPE": owner_type_name(database.ownerType) or "USER",
        "CREATE_TIME": database.createTime,
        "TYPE": names.get(database.type, "NATIVE"),
        "DATACONNECTOR_NAME": database.connector_name,
        "REMOTE_DBNAME": database.remote_dbname,
    }


def has_schemas(call: Call, id_: int) -> bool:
    """Does it have schemas of the schema registry?"""
    return call.execute(select(T.I_SCHEMA.c.SCHEMA_ID).where(T.I_SCHEMA.c.DB_ID == id_)).first() is not None


def delete_database(call: Call, id_: int) -> None:
    """Delete the row and what belongs to it; there must be no tables and functions left."""
    call.execute(delete(T.DATABASE_PARAMS).where(T.DATABASE_PARAMS.c.DB_ID == id_))
    for table in (T.DB_PRIVS, T.STORED_PROCS, T.PACKAGES):
        call.execute(delete(table).where(table.c.DB_ID == id_))
    call.execute(delete(T.DBS).where(T.DBS.c.DB_ID == id_))


def find_catalogs(call: Call, name: str | None = None) -> list[tuple[int, Struct]]:
    """(id, catalog) of all catalogs or the named one, by name."""
    columns = T.CTLGS.c
    query = select(T.CTLGS).order_by(columns.NAME)
    if name is not None:
        query = query.where(columns.NAME == name)
    rows = call.rows(query)
    parameters = read_maps(call, T.CATALOG_PARAMS.c.CTLG_ID, [row.CTLG_ID for row in rows])
    return [
        (
            row.CTLG_ID,
            new(
                "Catalog",
                name=row.NAME,
                description=row.DESC,
                locationUri=row.LOCATION_URI,
                createTime=row.CREATE_TIME,
                parameters=parameters.get(row.CTLG_ID, {}),
            ),
        )
        for row in rows
    ]


def insert_catalog(call: Call, catalog: Struct) -> None:
    """Insert a row and its parameters."""
    id_ = new_ids(call.connection, "MCatalog")
    row = {
        "CTLG_ID": id_,
        "NAME": catalog.name,
        "DESC": catalog.description,
        "LOCATION_URI": catalog.locationUri,
        "CREATE_TIME": catalog.createTime,
    }
    call.execute(insert(T.CTLGS), row)
    write_maps(call, T.CATALOG_PARAMS.c.CTLG_ID, {id_: catalog.parameters})


def update_catalog(call: Call, id_: int, catalog: Struct) -> None:
    """Replace description, location and parameters."""
    values = {"DESC": catalog.description, "LOCATION_URI": catalog.locationUri}
    call.execute(update(T.CTLGS).where(T.CTLGS.c.CTLG_ID == id_).values(**values))
    call.execute(delete(T.CATALOG_PARAMS).where(T.CATALOG_PARAMS.c.CTLG_ID == id_))
    write_maps(call, T.CATALOG_PARAMS.c.CTLG_ID, {id_: catalog.parameters})


def delete_catalog(call: Call, id_: int) -> None:
    """Delete the row and its parameters."""
    call.execute(delete(T.CATALOG_PARAMS).where(T.CATALOG_PARAMS.c.CTLG_ID == id_))
    call.execute(delete(T.CTLGS).where(T.CTLGS.c.CTLG_ID == id_))
