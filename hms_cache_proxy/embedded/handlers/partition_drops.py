"""Dropping partitions.

Job: carry out the calls: rows, directories (or the trash), events; rows/partitions.py has the rows. Source: HMSHandler
of 4.0 and 4.2, and answers of a running one. Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from hms_cache_proxy.embedded import base_files, directories, events, names, quick_stats
from hms_cache_proxy.embedded.call import Call, writes
from hms_cache_proxy.embedded.failures import Failure, meta, no_such_object
from hms_cache_proxy.embedded.handlers import partitions as reading
from hms_cache_proxy.embedded.handlers.table_changes import must_purge, owns_data
from hms_cache_proxy.embedded.handlers.table_moves import describe
from hms_cache_proxy.embedded.rows import partitions as rows
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.rows import transactions
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct


def drop_partition(call: Call, args: Struct) -> bool:
    """Drop a partition by its values."""
    address = names.TableAddress(args.db_name, args.tbl_name)
    return _drop_one(call, address, _given(args.part_vals), delete_data=args.deleteData, properties={})


def drop_partition_with_environment_context(call: Call, args: Struct) -> bool:
    """The same with properties."""
    address = names.TableAddress(args.db_name, args.tbl_name)
    properties = quick_stats.context(args.environment_context)
    return _drop_one(call, address, _given(args.part_vals), delete_data=args.deleteData, properties=properties)


def drop_partition_by_name(call: Call, args: Struct) -> bool:
    """Drop a partition by its name."""
    address = names.TableAddress(args.db_name, args.tbl_name)
    return _drop_one(call, address, _given(args.part_name), delete_data=args.deleteData, properties={})


def drop_partition_by_name_with_environment_context(call: Call, args: Struct) -> bool:
    """The same with properties."""
    address = names.TableAddress(args.db_name, args.tbl_name)
    properties = quick_stats.context(args.environment_context)
    return _drop_one(call, address, _given(args.part_name), delete_data=args.deleteData, properties=properties)


def drop_partition_req(call: Call, args: Struct) -> bool:
    """The same by request."""
    request = args.dropPartitionReq
    if request.catName is None:
        raise meta(f"java.lang.NullPointerException: {names.NO_IDENTIFIER}")
    address = names.TableAddress(request.dbName, request.tblName, request.catName)
    chosen = _given(request.partVals if request.partVals is not None else request.partName)
    properties = quick_stats.context(request.environmentContext)
    return _drop_one(call, address, chosen, delete_data=bool(request.deleteData), properties=properties)


def _given(chosen: list[str] | str | None) -> list[str] | str:
    """Values or a name."""
    if not chosen:
        raise meta("Partition name is invalid. null")
    return chosen


def _drop_one(
    call: Call,
    address: names.TableAddress,
    chosen: list[str] | str,
    *,
    delete_data: bool,
    properties: dict[str, str],
) -> bool:
    row = reading.of_one(call, *address)
    try:
        values = reading.values_of(row, chosen) if isinstance(chosen, str) else chosen
    except Failure as failure:
        raise no_such_object(failure.message or "") from failure
    _drop(call, row, [reading.one(call, row, values)], delete_data=delete_data, properties=properties)
    return True


def drop_partitions_req(call: Call, args: Struct) -> Struct:
    """Drop partitions by name or expression; with ifExists, those that do not exist are ignored."""
    request = args.req
    catalog, database = names.both(request.dbName, request.catName)
    row = table_rows.find_table(call, catalog, database, names.fold(request.tblName))
    if row is None:
        place = names.qualified(catalog, database, request.tblName)
        raise no_such_object(f"{place} table not found")
    named = None if request.parts is None else request.parts.names
    wanted = _of_expressions(call, row, request) if named is None else named
    parts = rows.find(call, row, names=wanted)
    missing = len(parts) < len(set(wanted) if named is None else wanted)  # a name given twice counts once
    if missing and not request.ifExists:
        raise no_such_object("Some partitions to drop are missing")
    if parts:
        properties = quick_stats.context(request.environmentContext)
        _drop(call, row, parts, delete_data=bool(request.deleteData), properties=properties)
        _leave_base_files(call, row.table, parts, delete_data=bool(request.deleteData), properties=properties)
    result = new("DropPartitionsResult")
    if request.needResult is not False:
        result.partitions = [part.partition for part in parts]
    return result


def _leave_base_files(
    call: Call, table: Struct, parts: Sequence[rows.Part], *, delete_data: bool, properties: dict[str, str]
) -> None:
    """If the files of a transactional table stay, write a base directory that makes them invalid."""
    write_id = int(properties.get("writeId", "0"))
    if write_id > 0 and not (delete_data and owns_data(table)) and table_rows.is_transactional(table.parameters):
        for part in parts:
            base_files.write(call, part.partition.sd.location, write_id, base_files.DROPPED)


def _of_expressions(call: Call, row: table_rows.StoredTable, request: Struct) -> list[str]:
    """Names that expressions select."""
    found: list[str] = []
    for expression in (request.parts.exprs if request.parts is not None else None) or ():
        chosen = reading.chosen_by_expression(call, row, expression.expr)
        if not chosen and not request.ifExists:
            raise no_such_object(f"No partitions match {expression.expr.decode('utf-8', 'replace')}")
        found += chosen
    return found


def _drop(
    call: Call,
    row: table_rows.StoredTable,
    parts: Sequence[rows.Part],
    *,
    delete_data: bool,
    properties: dict[str, str],
) -> None:
    if delete_data and owns_data(row.table):
        purge = must_purge(row.table, properties)
        for part in parts:
            _remove_files(call, row.table, part, purge=purge)
    rows.delete_partitions(call, parts)
    forget_written(call, row.table, parts)
    events.drop_partition(call, row.table, [part.partition for part in parts])


def forget_written(call: Call, table: Struct, parts: Sequence[rows.Part]) -> None:
    """Forget what transactions wrote to partitions that their table has lost (AcidEventListener)."""
    if table_rows.is_transactional(table.parameters) and table.catName == names.DEFAULT_CATALOG:
        transactions.forget(call, table.dbName, table.tableName, [part.name for part in parts])


def _remove_files(call: Call, table: Struct, part: rows.Part, *, purge: bool) -> None:
    """Remove the directory of a partition, and parents that are then empty; for an archived one, its original files."""
    partition = part.partition
    owner = f"partition {part.name} of {describe(table)}"
    parameters = partition.parameters or {}
    if parameters.get("is_archived", "").upper() == "TRUE":
        if parameters.get("original_location") is None:
            raise meta("java.lang.IllegalArgumentException: Can not create a Path from a null string")
        directories.remove(call, parameters.get("original_location"), owner, purge=purge)
    elif partition.sd is not None:
        parents = len(partition.values) - 1
        directories.remove(call, partition.sd.location, owner, purge=purge, parents=parents)


METHODS = writes(
    drop_partition=drop_partition,
    drop_partition_with_environment_context=drop_partition_with_environment_context,
    drop_partition_by_name=drop_partition_by_name,
    drop_partition_by_name_with_environment_context=drop_partition_by_name_with_environment_context,
    drop_partition_req=drop_partition_req,
    drop_partitions_req=drop_partitions_req,
)
