"""Databases.

Job: carry out the calls: defaults, checks, directories, events; rows/databases.py has the rows. Source: HMSHandler and
MetastoreDefaultTransformer.transformDatabase of 4.2, and answers of a running one. Owner: the thread of a call.
"""

from __future__ import annotations

from hms_cache_proxy.embedded import directories, events, names, transformer
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import (
    Failure,
    already_exists,
    invalid_object,
    invalid_operation,
    meta,
    no_such_object,
)
from hms_cache_proxy.embedded.handlers import table_changes
from hms_cache_proxy.embedded.handlers.table_moves import describe
from hms_cache_proxy.embedded.patterns import matcher
from hms_cache_proxy.embedded.rows import databases as rows
from hms_cache_proxy.embedded.rows import functions as function_rows
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.rows import transactions
from hms_cache_proxy.embedded.values import copy, new
from hms_cache_proxy.embedded.warehouse import absolute
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

_REMOTE = int(enum("DatabaseType").REMOTE)  # type: ignore[attr-defined]  # the same
_WRITES_ACID = {"HIVEMANAGEDINSERTWRITE", "HIVEFULLACIDWRITE"}


def found(call: Call, catalog: str, name: str) -> tuple[int, Struct]:
    """(id, database) as stored. NoSuchObjectException."""
    row = rows.find_database(call, catalog, name)
    if row is None:
        raise no_such_object(f"database {names.qualified(catalog, name)}")
    return row


def get_database(call: Call, args: Struct) -> Struct:
    """A database by `@catalog#name`."""
    catalog, database = names.split(args.name)
    if database is None:
        raise meta("Database name cannot be null.")
    row = rows.find_database(call, catalog, database)
    if row is None:
        raise no_such_object(f"database {names.qualified(*names.as_written(args.name))}")
    return _shown(call, row[1], [])


def get_database_req(call: Call, args: Struct) -> Struct:
    """A database by request; the location that it shows depends on the processor's capabilities."""
    request = args.request
    if request.name is None:
        raise meta("Database name cannot be null.")
    if request.catalogName is None:
        raise no_such_object(f"database null.{request.name}: {names.NO_IDENTIFIER}")
    row = rows.find_database(call, names.fold(request.catalogName), names.fold(request.name))
    if row is None:
        raise no_such_object(f"database {names.qualified(request.catalogName, request.name)}")
    return _shown(call, row[1], request.processorCapabilities or [])


def _shown(call: Call, database: Struct, capabilities: list[str]) -> Struct:
    """Show processors that cannot write ACID tables the location of external tables (transformDatabase)."""
    if not call.transforms or database.catalogName != names.DEFAULT_CATALOG or "MANAGE_RAW_METADATA" in capabilities:
        return database
    if not _WRITES_ACID & set(capabilities) and call.warehouse.in_managed(database.locationUri):
        database.locationUri = call.warehouse.database_path(database.name)
    return database


def get_databases(call: Call, args: Struct) -> list[str]:
    """Names of databases that match a pattern."""
    catalog, pattern = names.split(args.pattern)
    matches = matcher(pattern)
    return [name for name in rows.database_names(call, catalog) if matches(name)]


def get_all_databases(call: Call, _args: Struct) -> list[str]:
    """Names of all databases in the default catalog."""
    return rows.database_names(call, names.DEFAULT_CATALOG)


def get_databases_req(call: Call, args: Struct) -> Struct:
    """Whole databases, as stored; remote ones without their location."""
    request = args.request
    catalog, pattern = names.split(request.pattern, request.catalogName)
    matches = matcher(pattern)
    found_ones = [database for _, database in rows.find_databases(call, catalog) if matches(database.name)]
    for database in found_ones:
        if database.type == _REMOTE:
            database.locationUri = None
    return new("GetDatabaseObjectsResponse", databases=found_ones)


def create_database(call: Call, args: Struct) -> None:
    """Create a database."""
    _create(call, args.database)


def create_database_req(call: Call, args: Struct) -> None:
    """The same by request."""
    request = args.createDatabaseRequest
    _create(
        call,
        new(
            "Database",
            name=request.databaseName,
            description=request.description,
            locationUri=request.locationUri,
            parameters=request.parameters,
            privileges=request.privileges,
            ownerName=request.ownerName,
            ownerType=request.ownerType,
            catalogName=request.catalogName,
            createTime=request.createTime,
            managedLocationUri=request.managedLocationUri,
            type=request.type,
            connector_name=request.dataConnectorName,
            remote_dbname=request.remote_dbname,
        ),
    )


def _create(call: Call, database: Struct) -> None:
    if not names.valid_table(database.name):
        raise invalid_object(f"{database.name} is not a valid database name")
    catalog = names.fold(database.catalogName) if database.catalogName else names.DEFAULT_CATALOG
    catalogs = rows.find_catalogs(call, catalog)
    if not catalogs:
        raise invalid_object(f"No such catalog {catalog}")
    name = names.fold(database.name)
    if rows.find_database(call, catalog, name) is not None:
        raise already_exists(f"Database {name} already exists")
    default = call.warehouse.database_path(
        name, catalog_location=None if catalog == names.DEFAULT_CATALOG else catalogs[0][1].locationUri
    )
    database.locationUri = absolute(database.locationUri or default)
    if database.managedLocationUri:
        database.managedLocationUri = absolute(database.managedLocationUri)
    _make_directories(call, database)
    database.catalogName = catalog
    database.createTime = call.now
    if database.ownerName is None:
        database.ownerName = call.user
    stored = copy(database)
    stored.name = name
    rows.insert_database(call, stored)
    events.create_database(call, stored)


def _make_directories(call: Call, database: Struct) -> None:
    """Make both directories; the one for managed tables must not exist yet."""
    if database.managedLocationUri:
        _make_managed(call, database)
    try:
        directories.make(call, database.locationUri)
    except Failure as failure:
        raise meta(
            f"Failed to create external path {database.locationUri} for database {database.name}. This may result in"
            " access not being allowed if the StorageBasedAuthorizationProvider is enabled: null"
        ) from failure


def _make_managed(call: Call, database: Struct) -> None:
    place = database.managedLocationUri
    try:
        made = directories.make(call, place)
    except Failure as failure:
        raise meta("java.lang.reflect.UndeclaredThrowableException") from failure
    if not made and call.warehouse.local(place) is not None:
        raise meta(f"Unable to create database managed directory {place}, failed to create database {database.name}")


def new_default_database(call: Call, catalog: Struct) -> Struct:
    """The database `default` of a new catalog."""
    return new(
        "Database",
        name="default",
        description=f"Default database for catalog {catalog.name}",
        locationUri=absolute(catalog.locationUri),
        parameters={},
        ownerName=call.user,
        catalogName=catalog.name,
        createTime=call.now,
    )


def alter_database(call: Call, args: Struct) -> None:
    """Change parameters, owner, locations, description."""
    _alter(call, args.dbname, args.db)


def alter_database_req(call: Call, args: Struct) -> None:
    """The same by request."""
    _alter(call, args.alterDbReq.oldDbName, args.alterDbReq.newDb)


def _alter(call: Call, old_name: str, database: Struct) -> None:
    catalog, name = names.both(old_name, database.catalogName)
    id_, before = found(call, catalog, name)
    after = copy(before)  # the name stays, whatever the client sent
    after.parameters = database.parameters or {}
    after.ownerName = database.ownerName
    if database.ownerType is not None:
        after.ownerType = database.ownerType
    if database.description:
        after.description = database.description
    if database.locationUri:
        after.locationUri = database.locationUri
    if database.managedLocationUri:
        after.managedLocationUri = database.managedLocationUri
    rows.update_database(call, id_, after)
    events.alter_database(call, before, database)


def drop_database(call: Call, args: Struct) -> None:
    """Drop a database, with its tables if `cascade`, with its files if `deleteData`."""
    if args.name is None:
        raise meta("Database name cannot be null.")
    catalog, name = names.both(args.name)
    _must_be(call, catalog, name, names.as_written(args.name))
    _drop(call, catalog, name, delete_data=args.deleteData, cascade=args.cascade)


def drop_database_req(call: Call, args: Struct) -> None:
    """The same by request."""
    request = args.req
    catalog, name = names.both(request.name, request.catalogName)
    _must_be(call, catalog, name, names.as_written(request.name, request.catalogName))
    managed = request.deleteManagedDir is not False
    _drop(call, catalog, name, delete_data=request.deleteData, cascade=request.cascade, managed=managed)


def _must_be(call: Call, catalog: str, name: str, written: tuple[str, str]) -> None:
    """NoSuchObjectException with the text of the drops, which have the name as it was written."""
    if rows.find_database(call, catalog, name) is None:
        raise no_such_object(f"database {names.qualified(*written)}")


def _drop(call: Call, catalog: str, name: str, *, delete_data: bool, cascade: bool, managed: bool = True) -> None:
    id_, database = found(call, catalog, name)
    if name == "default" and catalog == names.DEFAULT_CATALOG:
        raise meta("Can not drop default database in catalog hive")
    tables = table_rows.table_names(call, id_)
    functions = function_rows.function_names(call, id_)
    if not cascade and tables:
        raise invalid_operation(f"Database {name} is not empty. One or more tables exist.")
    if not cascade and functions:
        raise invalid_operation(f"Database {name} is not empty. One or more functions exist.")
    if rows.has_schemas(call, id_):
        raise meta(f"Database {name} is not empty. It has schemas of the registry.")
    for function in functions:
        function_rows.delete_function(call, id_, function)
        events.drop_function(call, catalog, name, function)
    for row in table_changes.all_of(call, id_):
        if delete_data:
            _remove_files_of(call, row)
        table_changes.remove(call, row, delete_data=False)
    rows.delete_database(call, id_)
    if catalog == names.DEFAULT_CATALOG:
        transactions.forget(call, name)
    events.drop_database(call, database)
    if delete_data:
        owner = f"database {names.qualified(catalog, name)}"
        if managed:
            directories.remove(call, transformer.managed_path(database, call.warehouse), owner, purge=True)
        directories.remove(call, database.locationUri, owner, purge=True)


def _remove_files_of(call: Call, row: table_rows.StoredTable) -> None:
    """Remove files of a table that are outside of its database's directories. Like Hive, it leaves the directory of a
    managed table itself, wherever it is."""
    table = row.table
    if table.tableType == "MATERIALIZED_VIEW" or table_changes.owns_data(table):
        table_changes.remove_partitions_outside(call, row, purge=False)
        if table.tableType != "MANAGED_TABLE":
            directories.remove(call, table.sd.location, describe(table))


METHODS = {
    **reads(
        get_database=get_database,
        get_database_req=get_database_req,
        get_databases=get_databases,
        get_all_databases=get_all_databases,
        get_databases_req=get_databases_req,
    ),
    **writes(
        create_database=create_database,
        create_database_req=create_database_req,
        alter_database=alter_database,
        alter_database_req=alter_database_req,
        drop_database=drop_database,
        drop_database_req=drop_database_req,
    ),
}
