"""Renaming partitions: they get other values, and their files another directory.

Job: what the calls mean; partition_changes.py changes all the rest of a partition. Source: HiveAlterHandler of 4.2, and
answers of a running one. Owner: the thread of a call.
"""

from __future__ import annotations

from hms_cache_proxy.embedded import base_files, directories, names, quick_stats, transformer
from hms_cache_proxy.embedded.call import Call, writes
from hms_cache_proxy.embedded.failures import Failure, internal, invalid_operation, meta
from hms_cache_proxy.embedded.handlers import partitions as reading
from hms_cache_proxy.embedded.handlers.partition_changes import (
    alter_one,
    forget_stale_columns,
    must_stay,
    put_one,
    write_of,
)
from hms_cache_proxy.embedded.handlers.table_changes import owns_data
from hms_cache_proxy.embedded.handlers.table_moves import describe, is_translated
from hms_cache_proxy.embedded.rows import databases as database_rows
from hms_cache_proxy.embedded.rows import partitions as rows
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.rows import transactions
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct


def rename_partition(call: Call, args: Struct) -> None:
    """Change the values of a partition."""
    _rename(call, names.TableAddress(args.db_name, args.tbl_name), args.part_vals, args.new_part)


def rename_partition_req(call: Call, args: Struct) -> Struct:
    """The same by request. If it says so, the files of a write are copied, and a base directory makes the old ones
    invalid."""
    request = args.req
    address = names.TableAddress(request.dbName, request.tableName, request.catName)
    valid, copies = request.validWriteIdList, bool(request.clonePart)
    _rename(call, address, request.partVals, request.newPart, valid=valid, copies=copies)
    return new("RenamePartitionResponse")


def _rename(
    call: Call,
    address: names.TableAddress,
    values: list[str],
    after: Struct | None,
    *,
    valid: str | None = None,
    copies: bool = False,
) -> None:
    if after is None:
        raise internal("there is no partition")
    if not values:
        alter_one(call, address.database, address.table, after, {}, valid)
        return
    catalog, database = address.both
    row = table_rows.find_table(call, catalog, database, names.fold(address.table))
    if row is None:
        raise invalid_operation("Unable to rename partition because table or database does not exist")
    must_stay(row, after)
    try:
        part = reading.one(call, row, values)
    except Failure as failure:
        raise invalid_operation("Unable to rename partition because old partition does not exist") from failure
    new_name = names.partition_name(row.table.partitionKeys, after.values)
    if rows.find(call, row, names=[new_name]):
        listed = ", ".join(after.values)
        raise invalid_operation(f"Partition already exists:{database}.{names.fold(address.table)}.[{listed}]")
    if after.sd is None:
        raise meta("java.lang.NullPointerException: the partition has no storage descriptor")
    write = write_of(after, valid)
    target = _move(call, row, part, after, new_name, write.write_id if copies else -1)
    after.catName = after.catName or catalog
    quick_stats.stamp(after, call.now, zero_is_none=True)
    quick_stats.fill_changed(part.partition, after, row.table, call.warehouse, {}, moved=True)
    after.sd.location = target
    forget_stale_columns(call, part, after)
    put_one(call, row, part, after, write)
    if table_rows.is_transactional(row.table.parameters):
        transactions.rename_partition(call, (row.table.dbName, row.table.tableName), part.name, new_name)


def _move(
    call: Call, row: table_rows.StoredTable, part: rows.Part, after: Struct, new_name: str, copied_by: int
) -> str | None:
    """Move the files of a renamed partition if the metastore chose their location; returns the new location.

    `copied_by`: the write that copies them instead; below 1: none. `after` gets the location where the files are now:
    the old one if they stay, for example because another object is in that directory.
    """
    sent, old_location = after.sd.location, part.partition.sd.location
    after.sd.location = old_location
    managed = owns_data(row.table) and row.table.tableType == "MANAGED_TABLE"
    if not (managed or is_translated(row.table)):
        return None if old_location is None else str(old_location)
    if None in (sent, old_location):
        raise meta("java.lang.IllegalArgumentException: Can not create a Path from a null string")
    target = f"{_table_place(call, row)}/{new_name}"
    there = call.warehouse.exists(old_location)
    if there and call.warehouse.exists(target):
        name = f"{row.table.dbName}.{row.table.tableName}"
        raise invalid_operation(f"New location for this table {name} already exists : {target}")
    owner = f"partition {part.name} of {describe(row.table)}"
    if copied_by < 1:
        moved = directories.move(call, old_location, target, owner, lambda each: each.partition_id == part.partition_id)
    else:
        moved = directories.copy(call, old_location, target)
        if moved:
            base_files.write(call, old_location, copied_by, base_files.DROPPED)
    if moved or not there:
        after.sd.location = target
    return target


def _table_place(call: Call, row: table_rows.StoredTable) -> str:
    """The location of a table; if it has none, the default for its name (Warehouse.getPartitionPath)."""
    if row.table.sd.location is not None:
        return str(row.table.sd.location)
    database = database_rows.find_database(call, row.table.catName, row.table.dbName)
    assert database is not None
    external = row.table.tableType == "EXTERNAL_TABLE"
    return transformer.table_path(database[1], row.table.tableName, call.warehouse, external=external)


METHODS = writes(rename_partition=rename_partition, rename_partition_req=rename_partition_req)
