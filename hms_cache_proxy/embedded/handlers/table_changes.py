"""Creating, changing and dropping tables.

Job: carry out the calls: defaults, checks, directories, events; rows/tables.py has the rows. Source: HMSHandler,
HiveAlterHandler and ObjectStore of 4.2, and answers of a running one. Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from hms_cache_proxy.embedded import acid, columns, directories, events, names, quick_stats, transformer
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import (
    Failure,
    already_exists,
    invalid_object,
    invalid_operation,
    meta,
    no_such_object,
)
from hms_cache_proxy.embedded.handlers import table_moves
from hms_cache_proxy.embedded.handlers.table_moves import describe
from hms_cache_proxy.embedded.handlers.tables import found
from hms_cache_proxy.embedded.rows import databases as database_rows
from hms_cache_proxy.embedded.rows import partitions as partition_rows
from hms_cache_proxy.embedded.rows import statistics, transactions, views
from hms_cache_proxy.embedded.rows import tables as rows
from hms_cache_proxy.embedded.rows.databases import OWNER_TYPES
from hms_cache_proxy.embedded.rows.privileges import PrivilegeScope, insert_set
from hms_cache_proxy.embedded.stats_accurate import remove_columns, set_basic, stale_columns
from hms_cache_proxy.embedded.values import copy, new
from hms_cache_proxy.embedded.warehouse import absolute, is_root, path_text
from hms_cache_proxy.wire.spec import Struct

_VIEWS = ("VIRTUAL_VIEW", "MATERIALIZED_VIEW")


def create_table(call: Call, args: Struct) -> None:
    """Create a table."""
    create(call, args.tbl)


def create_table_with_environment_context(call: Call, args: Struct) -> None:
    """The same with properties."""
    create(call, args.tbl, properties=quick_stats.context(args.environment_context))


def create(
    call: Call,
    table: Struct,
    *,
    properties: dict[str, str] | None = None,
    capabilities: list[str] | None = None,
) -> rows.StoredTable:
    """Create a table and return its row. `table` is changed to the stored form."""
    table.catName = names.fold(table.catName) if table.catName else names.DEFAULT_CATALOG
    if table.tableName is None:
        raise meta("java.lang.NullPointerException: the table has no name")
    catalog, database_name = names.both(table.dbName, table.catName)
    if not names.valid_table(table.tableName):
        raise invalid_object(f"{table.tableName} is not a valid object name")
    if table.sd is not None and is_root(table.sd.location):
        raise invalid_object(f"{table.tableName} location must not be root path")
    database = database_rows.find_database(call, catalog, database_name)
    if database is None:
        raise invalid_object(f"database {names.qualified(catalog, database_name)}")
    if rows.find_table(call, catalog, database_name, names.fold(table.tableName)) is not None:
        raise already_exists(f"Table {names.qualified(catalog, database_name, table.tableName)} already exists")
    _check(table)
    if call.transforms:
        transformer.created(table, database[1], capabilities, call.warehouse)
    table.catName, table.dbName = catalog, database_name
    acid.created(table)
    made = _make_directory(call, table, database[1])
    given = properties or {}
    if table.tableType not in _VIEWS and not quick_stats.declined_by_client(given):
        made = made or bool(table.partitionKeys)
        quick_stats.fill(table, call.warehouse, made=made, forced=False, properties=given)
    table.createTime = call.now
    quick_stats.stamp(table, call.now)
    stored = stored_form(table)
    table_id = rows.insert_table(call, database[0], stored)
    insert_set(call, PrivilegeScope.TABLE, table_id, table.privileges)
    if table.creationMetadata is not None:
        views.insert_metadata(call, table.creationMetadata)
    table.tableName, table.id = stored.tableName, table_id
    if table.ownerType is None:
        table.ownerType = OWNER_TYPES["USER"]
    events.create_table(call, table)
    row = rows.find_table(call, catalog, database_name, stored.tableName)
    assert row is not None
    return row


def translate_table_dryrun(call: Call, args: Struct) -> Struct:
    """The table that would be stored; nothing is created."""
    table: Struct = args.request.table
    if table.catName is None:
        table.catName = names.DEFAULT_CATALOG
    if call.transforms and table.catName == names.DEFAULT_CATALOG:
        database = database_rows.find_database(call, *names.both(table.dbName, table.catName))
        if database is None:
            raise meta(f"Database {table.dbName} for table {table.tableName} could not be found")
        transformer.created(table, database[1], args.request.processorCapabilities, call.warehouse)
    return table


def _check(table: Struct) -> None:
    if table.sd is None:
        raise meta("java.lang.NullPointerException: the table has no storage descriptor")
    if table.sd.cols is None or table.sd.serdeInfo is None:
        raise meta("java.lang.NullPointerException: the storage descriptor has no columns or no serde")
    for some in (table.sd.cols, table.partitionKeys):
        problem = columns.problem(some)
        if problem is not None:
            raise invalid_object(problem)


def stored_form(table: Struct) -> Struct:
    """A copy as it will be stored: names in lower case; external or managed, as the parameter EXTERNAL says."""
    stored: Struct = copy(table)
    stored.tableName = names.fold(table.tableName)
    external = (table.parameters or {}).get("EXTERNAL", "").upper() == "TRUE"
    if stored.tableType == "EXTERNAL_TABLE" and not external:
        stored.tableType = "MANAGED_TABLE"
    elif stored.tableType == "MANAGED_TABLE" and external:
        stored.tableType = "EXTERNAL_TABLE"
    return stored


def _make_directory(call: Call, table: Struct, database: Struct) -> bool:
    """Make the directory, except for a view; True if it was made."""
    if table.tableType == "VIRTUAL_VIEW":
        return False
    if table.sd.location is None or table.sd.location == "":
        external = table.tableType == "EXTERNAL_TABLE"
        table.sd.location = transformer.table_path(database, table.tableName, call.warehouse, external=external)
    else:
        table.sd.location = absolute(table.sd.location)
    return directories.make(call, table.sd.location)


def drop_table(call: Call, args: Struct) -> None:
    """Drop a table with its partitions, and its files if it owns them."""
    catalog, database = names.both(args.dbname)
    remove(call, _to_drop(call, catalog, database, args.name), delete_data=args.deleteData)


def drop_table_with_environment_context(call: Call, args: Struct) -> None:
    """The same with properties."""
    catalog, database = names.both(args.dbname)
    properties = quick_stats.context(args.environment_context)
    row = _to_drop(call, catalog, database, args.name)
    remove(call, row, delete_data=args.deleteData, properties=properties)


def drop_table_req(call: Call, args: Struct) -> None:
    """The same by request."""
    request = args.dropTableReq
    if request.catalogName is None:
        raise no_such_object(f"database null.{request.dbName}: {names.NO_IDENTIFIER}")
    catalog, database = names.both(request.dbName, request.catalogName)
    properties = quick_stats.context(request.envContext)
    row = _to_drop(call, catalog, database, request.tableName)
    if not request.dropPartitions and partition_rows.count(call, row.table_id):
        raise meta(f"{describe(row.table)} has partitions, and the request does not say dropPartitions")
    remove(call, row, delete_data=bool(request.deleteData), properties=properties)


def _to_drop(call: Call, catalog: str, database: str, name: str) -> rows.StoredTable:
    if database_rows.find_database(call, catalog, database) is None:
        raise no_such_object(f"database {names.qualified(catalog, database)}")
    return found(call, catalog, database, name)


def all_of(call: Call, database_id: int) -> list[rows.StoredTable]:
    """Every table of a database, in the order of creation."""
    listed = rows.table_names(call, database_id)
    if not listed:
        return []
    catalog, database = rows.place(call, database_id)
    by_name = {row.table.tableName: row for row in rows.find_tables(call, catalog, database, [n.name for n in listed])}
    return sorted(by_name.values(), key=lambda row: row.table_id)


def remove(call: Call, row: rows.StoredTable, *, delete_data: bool, properties: dict[str, str] | None = None) -> None:
    """Remove a table's rows, log the event, and after the commit remove its files if it owns them."""
    table = row.table
    users = views.users(call, row.table_id)
    if users:
        raise meta(f"Cannot drop table as it is used in the following materialized views [{', '.join(users)}]\n")
    if delete_data and owns_data(table):
        purge = must_purge(table, properties or {})
        remove_partitions_outside(call, row, purge=purge)
        directories.remove(call, table.sd.location, describe(table), purge=purge)
    partition_rows.delete_all(call, row.table_id)
    views.delete_metadata(call, row)
    rows.delete_table(call, row)
    if rows.is_transactional(table.parameters) and table.catName == names.DEFAULT_CATALOG:
        transactions.forget(call, table.dbName, table.tableName, keep_ids=not delete_data)
    events.drop_table(call, table)


def remove_partitions_outside(call: Call, row: rows.StoredTable, *, purge: bool) -> None:
    """Remove directories of partitions outside of the table's directory (ObjectStore.getPartitionLocations)."""
    root = row.table.sd.location
    for location in partition_rows.locations(call, row.table_id):
        if not root or not location.startswith(root):
            directories.remove(call, location, f"a partition of {describe(row.table)}", purge=purge)


def must_purge(table: Struct, properties: dict[str, str]) -> bool:
    """Are a table's files removed without the trash?"""
    parameters = table.parameters or {}
    asked = (properties.get("ifPurge"), parameters.get("skip.trash"), parameters.get("auto.purge"))
    return any((each or "").lower() == "true" for each in asked)


def owns_data(table: Struct) -> bool:
    """Are a table's files removed with it? Those of external tables only if `external.table.purge` says so."""
    parameters = table.parameters or {}
    if table.tableType == "VIRTUAL_VIEW":
        return False
    external = table.tableType == "EXTERNAL_TABLE" or parameters.get("EXTERNAL", "").upper() == "TRUE"
    return not external or parameters.get("external.table.purge", "").upper() == "TRUE"


def alter_table(call: Call, args: Struct) -> None:
    """Change a table, found by its old name."""
    alter(call, names.TableAddress(args.dbname, args.tbl_name), args.new_tbl, properties={})


def alter_table_with_environment_context(call: Call, args: Struct) -> None:
    """The same with properties."""
    properties = quick_stats.context(args.environment_context)
    alter(call, names.TableAddress(args.dbname, args.tbl_name), args.new_tbl, properties=properties)


def alter_table_with_cascade(call: Call, args: Struct) -> None:
    """The same; with `cascade`, the partitions get the changed columns."""
    properties = {"CASCADE": "true"} if args.cascade else {}
    alter(call, names.TableAddress(args.dbname, args.tbl_name), args.new_tbl, properties=properties)


def alter_table_req(call: Call, args: Struct) -> Struct:
    """The same by request, which has a write id for transactional tables."""
    request = args.req
    address = names.TableAddress(request.dbName, request.tableName, request.catName)
    properties = dict(quick_stats.context(request.environmentContext))
    if request.expectedParameterKey is not None:
        properties["expected_parameter_key"] = request.expectedParameterKey
    if request.expectedParameterValue is not None:
        properties["expected_parameter_value"] = request.expectedParameterValue
    valid = request.validWriteIdList
    alter(call, address, request.table, properties=properties, valid_write_ids=valid)
    return new("AlterTableResponse")


def alter(
    call: Call,
    address: names.TableAddress,
    table: Struct,
    *,
    properties: dict[str, str],
    valid_write_ids: str | None = None,
) -> None:
    """Change, rename or move a table."""
    catalog, database = address.both
    row = _to_alter(call, catalog, database, address.table, table)
    before = row.table
    converted = acid.altered(before, table)
    _check_new(table, before, properties)
    new_database, new_name = names.fold(table.dbName), names.fold(table.tableName)
    renamed = (new_database, new_name) != (before.dbName, before.tableName)
    database_id = row.database_id
    told = renamed and before.tableType != "VIRTUAL_VIEW" and table_moves.is_told_where(before, table)
    counts = not told
    _forget_stale_columns(call, row, table)
    if renamed:
        database_id = _rename(call, row, table, catalog, new_database, new_name)
    if properties.get(table_moves.REPLICATED) == "true":
        counts = False
        table_moves.replicated(call, row, table)
    spelled = table.dbName, table.tableName
    table.dbName, table.tableName = new_database, new_name
    truncated = "truncate" in properties.get("alterTableOpType", "").lower()
    if counts and not before.partitionKeys:
        _count_files(call, table, properties)
    quick_stats.stamp(table, call.now)
    write_id = -1 if table.writeId is None else table.writeId
    stored = stored_form(table)
    stored.writeId = before.writeId
    if rows.is_transactional(table.parameters):
        write = acid.AcidWrite(write_id, valid_write_ids)
        acid.check_statistics(before, table.parameters, write)
        acid.keep_accurate(before, stored.parameters, write)
        if not rows.is_transactional(before.parameters):
            set_basic(stored.parameters, right=False)
        if write_id > 0 and valid_write_ids is not None:
            stored.writeId = write_id
    rows.update_table(call, row, stored, database_id=database_id)
    if renamed and rows.is_transactional(before.parameters):
        transactions.rename_table(call, (before.dbName, before.tableName), (new_database, new_name))
    if converted and not transactions.has_write_ids(call, new_database, new_name):
        transactions.seed_write_ids(call, new_database, new_name, acid.CONVERTED_FILES)
    if before.partitionKeys and counts and not renamed:  # Hive looks under the old name, and finds none
        _reach_partitions(call, row, stored, properties)
    table.id = row.table_id
    table.dbName, table.tableName = spelled  # the log has names as sent
    events.alter_table(call, before, _logged(table, before), truncated=truncated, write_id=write_id)


def _to_alter(call: Call, catalog: str, database: str, name: str, table: Struct) -> rows.StoredTable:
    """The table to change. Checks the new location, and rewrites it as Hive stores it."""
    if table.catName is None:
        table.catName = catalog
    if None in (table.tableName, table.dbName, table.sd):
        raise meta("java.lang.NullPointerException: the table has no name, database or storage descriptor")
    try:
        row = found(call, catalog, database, name)
    except Failure as failure:
        raise invalid_operation(failure.message or "") from failure
    if table.sd.location:
        table.sd.location = path_text(table.sd.location)
    if call.transforms and row.table.catName == names.DEFAULT_CATALOG:
        to = database_rows.find_database(call, row.table.catName, names.fold(table.dbName))
        transformer.altered(row.table, table, None if to is None else to[1], call.warehouse)
    return row


def _count_files(call: Call, table: Struct, properties: dict[str, str]) -> None:
    if quick_stats.wanted_after_alter(table, properties):
        if not table.sd.location and not quick_stats.declined(table) and quick_stats.looks_at_files(properties):
            what = "a null" if table.sd.location is None else "an empty"
            raise meta(f"java.lang.IllegalArgumentException: Can not create a Path from {what} string")
        quick_stats.fill(table, call.warehouse, made=False, forced=True, properties=properties)


def _forget_stale_columns(call: Call, row: rows.StoredTable, table: Struct) -> None:
    """Delete statistics of columns that are gone or have another type (deleteTableColumnStats)."""
    stale = stale_columns(row.table.sd.cols, table.sd.cols)
    if stale and rows.is_full_acid(row.table.parameters) == rows.is_full_acid(table.parameters):
        statistics.remove(call, row.table_id, stale, None, partition=False)
        remove_columns(table.parameters, stale)


def _logged(table: Struct, before: Struct) -> Struct:
    logged: Struct = copy(table)
    if logged.ownerType is None:
        logged.ownerType = before.ownerType
    return logged


def _check_new(table: Struct, before: Struct, properties: dict[str, str]) -> None:
    if not names.valid_table(table.tableName):
        raise invalid_operation(f"{table.tableName} is not a valid object name")
    if table.sd.cols is None or table.sd.serdeInfo is None:
        raise meta("java.lang.NullPointerException: the storage descriptor has no columns or no serde")
    problem = columns.problem(table.sd.cols)
    if problem is not None:
        raise invalid_operation(problem)
    if names.fold(table.catName) != before.catName:
        raise invalid_operation(
            f"Tables cannot be moved between catalogs, old catalog {before.catName}, new catalog {table.catName}"
        )
    key, wanted = properties.get("expected_parameter_key"), properties.get("expected_parameter_value")
    if key is not None and wanted is not None:
        if (table.parameters or {}).get(key) is None:
            raise meta(f"New value for expected key {key} is not set")
        there = (before.parameters or {}).get(key, "null")
        if wanted != there:
            raise meta(
                f"The table has been modified. The parameter value for key '{key}' is '{there}'. The expected"
                f" was value was '{wanted}'"
            )
    if before.tableType in _VIEWS:
        return
    if [key.name.lower() for key in table.partitionKeys or ()] != [key.name for key in before.partitionKeys]:
        raise invalid_operation("partition keys can not be changed.")
    columns.check_change(before.sd.cols, table.sd.cols or [])
    names_of_columns = {column.name.lower() for column in table.sd.cols}
    gone = [name for name in table.sd.bucketCols or () if name.lower() not in names_of_columns]
    if gone:
        raise invalid_operation(f"Bucket columns - [{', '.join(gone)}] doesn't match with any table columns")


def _rename(call: Call, row: rows.StoredTable, table: Struct, catalog: str, new_database: str, new_name: str) -> int:
    """Check the new name, and move the files if they move with the table; returns the new database's id."""
    before = row.table
    found_database = database_rows.find_database(call, catalog, new_database)
    if found_database is None:
        what = f"database {names.qualified(catalog, new_database)}"
        raise invalid_operation(f"Unable to change partition or table. Check metastore logs for detailed stack.{what}")
    if rows.find_table(call, catalog, new_database, new_name) is not None:
        raise invalid_operation(f"new table {new_database}.{new_name} already exists")
    if before.tableType == "VIRTUAL_VIEW":
        return found_database[0]
    table_moves.check_place(before, table)
    if table_moves.is_told_where(before, table):
        old_database = database_rows.find_database(call, catalog, before.dbName)
        assert old_database is not None
        if before.tableType == "EXTERNAL_TABLE" and not table_moves.is_translated(before):
            return found_database[0]
        table_moves.move(call, row, table, old_database[1], table_moves.Renamed(found_database[1], new_name))
    return found_database[0]


def _reach_partitions(call: Call, row: rows.StoredTable, after: Struct, properties: dict[str, str]) -> None:
    """With CASCADE, give the partitions the table's columns. In any case, delete the partitions' statistics of columns
    that the table no longer has, or has with another type."""
    before, cascade = row.table, properties.get("CASCADE") == "true"
    old, new_ones = _described_columns(before.sd.cols), _described_columns(after.sd.cols)
    if old == new_ones or not cascade and old == new_ones[: len(old)]:
        return
    for part in partition_rows.find(call, row, whole=True):
        stale = stale_columns(part.partition.sd.cols, after.sd.cols)
        if stale:
            statistics.remove(call, part.partition_id, stale, None, partition=True)
            remove_columns(part.partition.parameters, stale)
            partition_rows.update_parameters(call, part.partition_id, part.partition.parameters)
    if cascade:
        partition_rows.set_columns(call, row.table_id, after.sd.cols)


def _described_columns(some: Sequence[Struct]) -> list[tuple[str, str, str | None]]:
    return [(column.name.lower(), column.type, column.comment) for column in some]


def update_creation_metadata(call: Call, args: Struct) -> None:
    """Replace the sources of a materialized view."""
    catalog, database = names.both(args.dbname, args.catName)
    if not views.replace_metadata(call, catalog, database, names.fold(args.tbl_name), args.creation_metadata):
        raise meta(f"{names.qualified(catalog, database, args.tbl_name)} is no materialized view")


METHODS = reads(translate_table_dryrun=translate_table_dryrun) | writes(
    update_creation_metadata=update_creation_metadata,
    create_table=create_table,
    create_table_with_environment_context=create_table_with_environment_context,
    drop_table=drop_table,
    drop_table_with_environment_context=drop_table_with_environment_context,
    drop_table_req=drop_table_req,
    alter_table=alter_table,
    alter_table_with_environment_context=alter_table_with_environment_context,
    alter_table_with_cascade=alter_table_with_cascade,
    alter_table_req=alter_table_req,
)
