"""Stored procedures and packages of HPL/SQL: stored, never executed here.

Job: carry out the calls, with their rows: STORED_PROCS, PACKAGES. Source: HMSHandler and ObjectStore of 4.0. Owner: the
thread of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, delete, insert, select, update

from hms_cache_proxy.embedded import names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.failures import no_such_object
from hms_cache_proxy.embedded.rows import databases
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct


def _database(call: Call, catalog: str, database: str) -> int:
    place = names.fold(catalog), names.fold(database)
    found = databases.find_database(call, *place)
    if found is None:
        raise no_such_object(f"There is no database {names.qualified(*place)}")
    return found[0]


def _placed(table: Any, catalog: str, database: str | None) -> Select[Any]:
    """Rows of a catalog or of a database, with the database's name. Any: a Core table."""
    dbs = T.DBS.c
    query = select(table, dbs.NAME.label("DB")).join(T.DBS, dbs.DB_ID == table.c.DB_ID)
    query = query.where(dbs.CTLG_NAME == names.fold(catalog)).order_by(dbs.NAME, table.c.NAME)
    return query if database is None else query.where(dbs.NAME == names.fold(database))


def _one(call: Call, table: Any, catalog: str, database: str, name: str) -> Any:
    return call.execute(_placed(table, catalog, database).where(table.c.NAME == name)).first()


def _drop(call: Call, key: Any, catalog: str, database: str, name: str) -> None:
    row = _one(call, key.table, catalog, database, name)
    if row is not None:
        call.execute(delete(key.table).where(key == row._mapping[key.name]))


def _put(call: Call, table: Any, key: Any, model: str, place: tuple[str, str, str], row: dict[str, Any]) -> None:
    """Insert a row, or replace the text of an existing one."""
    database_id = _database(call, place[0], place[1])
    known = _one(call, table, *place)
    if known is not None:
        call.execute(update(table).where(key == known._mapping[key.name]).values(**row))
        return
    values = {key.name: new_ids(call.connection, model), "CREATE_TIME": call.now, "DB_ID": database_id}
    call.execute(insert(table), {**values, "NAME": place[2], **row})


def create_stored_procedure(call: Call, args: Struct) -> None:
    """Create a procedure, or replace the source of an existing one."""
    proc = args.proc
    place = (proc.catName, proc.dbName, proc.name)
    row = {"OWNER_NAME": proc.ownerName, "SOURCE": proc.source}
    _put(call, T.STORED_PROCS, T.STORED_PROCS.c.SP_ID, "MStoredProc", place, row)


def get_stored_procedure(call: Call, args: Struct) -> Struct:
    """A procedure by name; names are case-sensitive."""
    request = args.request
    row = _one(call, T.STORED_PROCS, request.catName, request.dbName, request.procName)
    if row is None:
        raise no_such_object(f"HPL/SQL StoredProcedure {request.dbName}.{request.procName} does not exist")
    place = {"name": row.NAME, "dbName": row.DB, "catName": request.catName}
    return new("StoredProcedure", **place, ownerName=row.OWNER_NAME, source=row.SOURCE)


def drop_stored_procedure(call: Call, args: Struct) -> None:
    """Drop a procedure; no error if it does not exist."""
    request = args.request
    _drop(call, T.STORED_PROCS.c.SP_ID, request.catName, request.dbName, request.procName)


def get_all_stored_procedures(call: Call, args: Struct) -> list[str]:
    """The names of procedures of a catalog or database."""
    return [row.NAME for row in call.rows(_placed(T.STORED_PROCS, args.request.catName, args.request.dbName))]


def add_package(call: Call, args: Struct) -> None:
    """Add a package, or replace the text of an existing one."""
    given = args.request
    place = (given.catName, given.dbName, given.packageName)
    row = {"OWNER_NAME": given.ownerName, "HEADER": given.header, "BODY": given.body}
    _put(call, T.PACKAGES, T.PACKAGES.c.PKG_ID, "MPackage", place, row)


def find_package(call: Call, args: Struct) -> Struct:
    """A package by name; names are case-sensitive."""
    request = args.request
    row = _one(call, T.PACKAGES, request.catName, request.dbName, request.packageName)
    if row is None:
        raise no_such_object(f"HPL/SQL package {request.dbName}.{request.packageName} does not exist")
    place = {"catName": names.fold(request.catName), "dbName": row.DB, "packageName": row.NAME}
    return new("Package", **place, ownerName=row.OWNER_NAME, header=row.HEADER, body=row.BODY)


def drop_package(call: Call, args: Struct) -> None:
    """Drop a package; no error if it does not exist."""
    request = args.request
    _drop(call, T.PACKAGES.c.PKG_ID, request.catName, request.dbName, request.packageName)


def get_all_packages(call: Call, args: Struct) -> list[str]:
    """The names of packages of a catalog or database."""
    return [row.NAME for row in call.rows(_placed(T.PACKAGES, args.request.catName, args.request.dbName))]


METHODS = {
    **reads(
        get_stored_procedure=get_stored_procedure,
        get_all_stored_procedures=get_all_stored_procedures,
        find_package=find_package,
        get_all_packages=get_all_packages,
    ),
    **writes(
        create_stored_procedure=create_stored_procedure,
        drop_stored_procedure=drop_stored_procedure,
        add_package=add_package,
        drop_package=drop_package,
    ),
}
