"""Adding and changing partitions.

Job: carry out the calls: defaults, checks, directories, events; rows/partitions.py has the rows. Source: HMSHandler and
HiveAlterHandler of 4.2, and answers of a running one. Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from hms_cache_proxy.embedded import acid, columns, directories, events, names, quick_stats
from hms_cache_proxy.embedded.call import Call, writes
from hms_cache_proxy.embedded.failures import (
    Failure,
    already_exists,
    internal,
    invalid_object,
    invalid_operation,
    meta,
)
from hms_cache_proxy.embedded.handlers import partitions as reading
from hms_cache_proxy.embedded.rows import partitions as rows
from hms_cache_proxy.embedded.rows import statistics
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.rows.privileges import copy_to_partitions
from hms_cache_proxy.embedded.stats_accurate import remove_columns, stale_columns
from hms_cache_proxy.embedded.values import copy, new
from hms_cache_proxy.embedded.warehouse import absolute, path_text
from hms_cache_proxy.wire.spec import Struct

_NO_PARTITIONS = 'java.lang.NullPointerException: Cannot invoke "java.util.List.iterator()" because "new_parts" is null'


def add_partition(call: Call, args: Struct) -> Struct:
    """Add a partition; returns it as stored."""
    return _add_one(call, args.new_part, {})


def add_partition_with_environment_context(call: Call, args: Struct) -> Struct:
    """The same with properties."""
    return _add_one(call, args.new_part, quick_stats.context(args.environment_context))


def _add_one(call: Call, partition: Struct | None, properties: dict[str, str]) -> Struct:
    if partition is None:
        raise meta("Partition cannot be null.")
    return add(call, [partition], properties)[0]


def add_partitions(call: Call, args: Struct) -> int:
    """Add partitions of one table, all or none; returns their number. All must spell its name alike, as in Hive."""
    if args.new_parts is None:
        raise meta("Partition list cannot be null.")
    for each in args.new_parts:
        _must_spell(each, args.new_parts[0].dbName, args.new_parts[0].tableName)
    return len(add(call, args.new_parts, {})) if args.new_parts else 0


def _must_spell(partition: Struct, database: str | None, table: str | None) -> None:
    if partition.dbName is None or partition.tableName is None:
        raise meta("The database and table name must be set in the partition.")
    if (partition.dbName, partition.tableName) != (database, table):
        raise meta(f"Partition does not belong to target table {database}.{table}: {_described(partition)}")


def add_partitions_req(call: Call, args: Struct) -> Struct:
    """The same by request; with ifNotExists, partitions that exist stay unchanged."""
    request = args.request
    result = new("AddPartitionsResult")
    if not request.parts:
        return result
    properties = quick_stats.context(request.environmentContext)
    place = names.both(request.dbName, request.catName)
    if table_rows.find_table(call, *place, names.fold(request.tblName)) is None:
        where = names.qualified(*place, request.tblName)
        raise invalid_object(f"Unable to add partitions because {where} does not exist")
    for partition in request.parts:
        _must_spell(partition, request.dbName, request.tblName)
        if not partition.catName:
            partition.catName = place[0]
    given = (*place, request.tblName)
    alike = bool(request.skipColumnSchemaForPartition)
    added = add(call, request.parts, properties, place=given, if_not_exists=request.ifNotExists, alike=alike)
    if request.needResult is not False:
        result.partitions = added
        if alike and added:
            result.partitionColSchema = copy(added[0].sd.cols)
            for partition in added:
                partition.sd.cols = []
    return result


def add(
    call: Call,
    partitions: Sequence[Struct],
    properties: dict[str, str],
    *,
    place: tuple[str, str, str] | None = None,
    if_not_exists: bool = False,
    alike: bool = False,
) -> list[Struct]:
    """Add partitions of one table (`place`: catalog, database, table), all or none; returns those that were added.

    `alike`: they get the columns of the table.
    """
    first = partitions[0]
    if place is None:
        place = (*names.both(first.dbName, first.catName), first.tableName or "")
    catalog, database, table_name = place
    row = table_rows.find_table(call, catalog, database, names.fold(table_name))
    if row is None:
        raise invalid_object(
            f"Unable to add partitions because {names.qualified(catalog, database, table_name)} does not exist"
        )
    if row.table.tableType == "VIRTUAL_VIEW" and row.table.sd is None:
        raise invalid_object("a view without a storage descriptor has no partitions")
    wanted: dict[str, Struct] = {}
    for partition in partitions:
        if alike and partition.sd is not None:
            partition.sd.cols = copy(row.table.sd.cols)
        _check(partition, row, (catalog, database, table_name))
        name = names.partition_name(row.table.partitionKeys, partition.values)
        if name in wanted:
            raise meta(f"Duplicate partitions in the list: {_described(partition)}")
        wanted[name] = partition
    known = {part.name for part in rows.find(call, row, names=wanted)}
    if known and not if_not_exists:
        listed = ", ".join(sorted(known))
        raise already_exists(f"Partition(s) already exist, partition name(s): [{listed}]")
    added = [partition for name, partition in wanted.items() if name not in known]
    for partition in added:
        _prepare(call, row, partition, properties)
    _store(call, row, added)
    return added


def _check(partition: Struct, row: table_rows.StoredTable, place: tuple[str, str, str]) -> None:
    catalog, database, table = place
    if not partition.values:
        raise meta("The partition values cannot be null or empty.")
    if partition.catName is None:
        partition.catName = catalog
    if partition.dbName is None or partition.tableName is None:
        raise meta("The database and table name must be set in partition")
    mine = (*names.both(partition.dbName, partition.catName), names.fold(partition.tableName))
    if mine != (catalog, database, names.fold(table)):
        raise meta(
            f"Partition does not belong to target table {names.qualified(catalog, database, table)}:"
            f" {_described(partition)}"
        )
    if partition.sd is None:
        if row.table.tableType != "VIRTUAL_VIEW":
            raise meta("java.lang.NullPointerException: the partition has no storage descriptor")
    else:
        if partition.sd.serdeInfo is None:
            raise meta("java.lang.NullPointerException: the storage descriptor has no serde")
        problem = columns.problem(partition.sd.cols)
        if problem is not None:
            raise meta(problem)
    names.partition_name(row.table.partitionKeys, partition.values)


def _described(partition: Struct) -> str:
    values = ", ".join(partition.values or ())
    return f"Partition(values:[{values}], dbName:{partition.dbName}, tableName:{partition.tableName})"


def _prepare(call: Call, row: table_rows.StoredTable, partition: Struct, properties: dict[str, str]) -> None:
    """Set location, times and parameters of a new partition, and make its directory."""
    table = row.table
    location = None if partition.sd is None else partition.sd.location
    if not location:
        if table.sd.location is not None:
            location = f"{table.sd.location}/{names.partition_name(table.partitionKeys, partition.values)}"
    elif table.sd.location is None:
        raise meta("java.io.IOException: Cannot specify location for a view partition")
    made = False
    if location:
        partition.sd.location = location = absolute(location)
        made = directories.make(call, location)
    partition.createTime = call.now
    if table.tableType != "VIRTUAL_VIEW":
        quick_stats.fill_partition(partition, table, call.warehouse, made=made, properties=properties)
    quick_stats.stamp(partition, call.now)


def _store(call: Call, row: table_rows.StoredTable, added: Sequence[Struct]) -> None:
    if not added:
        return
    stored = []
    for partition in added:
        one = copy(partition)
        one.dbName, one.tableName = row.table.dbName, row.table.tableName
        stored.append(one)
    ids = rows.insert_partitions(call, row, stored)
    if reading.has_privileges(row.table):
        copy_to_partitions(call, row.table_id, ids)
    events.add_partition(call, row.table, stored)


def append_partition(call: Call, args: Struct) -> Struct:
    """Add a partition with the table's descriptor, by values."""
    return _append(call, names.TableAddress(args.db_name, args.tbl_name), args.part_vals, None, {})


def append_partition_with_environment_context(call: Call, args: Struct) -> Struct:
    """The same with properties."""
    properties = quick_stats.context(args.environment_context)
    return _append(call, names.TableAddress(args.db_name, args.tbl_name), args.part_vals, None, properties)


def append_partition_by_name(call: Call, args: Struct) -> Struct:
    """Add a partition with the table's descriptor, by name."""
    return _append(call, names.TableAddress(args.db_name, args.tbl_name), None, args.part_name, {})


def append_partition_by_name_with_environment_context(call: Call, args: Struct) -> Struct:
    """The same with properties."""
    properties = quick_stats.context(args.environment_context)
    return _append(call, names.TableAddress(args.db_name, args.tbl_name), None, args.part_name, properties)


def append_partition_req(call: Call, args: Struct) -> Struct:
    """The same by request."""
    request = args.appendPartitionsReq
    properties = quick_stats.context(request.environmentContext)
    address = names.TableAddress(request.dbName, request.tableName, request.catalogName)
    return _append(call, address, request.partVals, request.name, properties)


def _append(
    call: Call,
    address: names.TableAddress,
    values: list[str] | None,
    name: str | None,
    properties: dict[str, str],
) -> Struct:
    catalog, database = address.both
    if values is None and not name:
        raise meta("Partition name is invalid. " + (name or ""))
    if values is not None and not values:
        raise meta("The partition values must not be null or empty.")
    row = table_rows.find_table(call, catalog, database, names.fold(address.table))
    if row is None:
        place = names.qualified(catalog, database, address.table)
        raise invalid_object(f"Unable to append partition because {place} does not exist")
    if values is None:
        values = reading.values_of(row, name)
    if row.table.tableType == "VIRTUAL_VIEW" or row.table.sd is None or row.table.sd.location is None:
        raise meta("Cannot append a partition to a view")
    part_name = names.partition_name(row.table.partitionKeys, values)
    known = rows.find(call, row, names=[part_name])
    if known:
        raise already_exists(f"Partition already exists:{_described(known[0].partition)}")
    sd = copy(row.table.sd)
    sd.location = None
    partition = new(
        "Partition",
        values=list(values),
        dbName=row.table.dbName,
        tableName=row.table.tableName,
        createTime=0,
        lastAccessTime=0,
        sd=sd,
        parameters={},
        catName=catalog,
    )
    _prepare(call, row, partition, properties)
    _store(call, row, [partition])
    return partition


def alter_partition(call: Call, args: Struct) -> None:
    """Change a partition, found by its values."""
    alter_one(call, args.db_name, args.tbl_name, args.new_part, {})


def alter_partition_with_environment_context(call: Call, args: Struct) -> None:
    """The same with properties."""
    alter_one(call, args.db_name, args.tbl_name, args.new_part, quick_stats.context(args.environment_context))


def alter_one(
    call: Call,
    database: str,
    table: str,
    after: Struct | None,
    properties: dict[str, str],
    valid: str | None = None,
) -> None:
    """Change a partition, found by its values."""
    if after is None:
        raise internal("there is no partition")
    catalog, database_name = names.both(database, after.catName)
    row = table_rows.find_table(call, catalog, database_name, names.fold(table))
    if row is None:
        raise invalid_operation(
            "alter is not possible: Unable to alter partition because table or database does not exist."
        )
    must_stay(row, after)
    try:
        part = reading.one(call, row, after.values or [])
    except Failure as failure:
        if failure.kind != "NoSuchObjectException":
            raise
        raise invalid_operation(f"alter is not possible: {failure.message}") from failure
    if after.sd is not None and after.sd.location:
        after.sd.location = path_text(after.sd.location)  # alter_partitions stores locations as sent
    _change(call, row, part, after, properties)
    put_one(call, row, part, after, write_of(after, valid))


def write_of(after: Struct, valid: str | None) -> acid.AcidWrite:
    """The write with which a partition is changed."""
    return acid.AcidWrite(-1 if after.writeId is None else after.writeId, valid)


def must_stay(row: table_rows.StoredTable, after: Struct) -> None:
    """MetaException for a partition that names another table."""
    if (names.fold(after.dbName), names.fold(after.tableName)) != (row.table.dbName, row.table.tableName):
        raise meta("partition does not exist.")


def _change(
    call: Call, row: table_rows.StoredTable, part: rows.Part, after: Struct, properties: dict[str, str]
) -> None:
    if after.sd is None:
        raise meta("java.lang.NullPointerException: the partition has no storage descriptor")
    after.catName = after.catName or row.table.catName
    quick_stats.stamp(after, call.now, zero_is_none=True)
    quick_stats.fill_changed(part.partition, after, row.table, call.warehouse, properties)
    forget_stale_columns(call, part, after)


def put_one(call: Call, row: table_rows.StoredTable, part: rows.Part, after: Struct, write: acid.AcidWrite) -> None:
    """Store a single changed partition, and log it as the client gave it. (ObjectStore.alterPartition)"""
    acid.check_partition_statistics(row.table, part.partition, after, write)
    events.alter_partition(call, row.table, part.partition, after, truncated=False, write_id=write.write_id)
    if not _written(row, part, after, write):
        after.writeId = part.write_id
    rows.update_partition(call, row, part, after)


def put(call: Call, row: table_rows.StoredTable, part: rows.Part, after: Struct, write: acid.AcidWrite) -> None:
    """Store one of several changed partitions; `after` is then as stored. (MetaStoreDirectSql.alterPartitions)"""
    if not _written(row, part, after, write) and part.write_id:
        after.writeId = part.write_id
    rows.update_partition(call, row, part, after)


def _written(row: table_rows.StoredTable, part: rows.Part, after: Struct, write: acid.AcidWrite) -> bool:
    """Does a partition of a transactional table get the write id? Only from a writer who says which it sees. If that is
    not all of those before, the statistics are not accurate."""
    if write.valid is None or write.write_id < 1 or not table_rows.is_transactional(row.table.parameters):
        return False
    acid.keep_accurate(part.partition, after.parameters, write)
    return True


def forget_stale_columns(call: Call, part: rows.Part, after: Struct) -> None:
    """Delete statistics of columns that are gone or have another type (updateOrGetPartitionColumnStats)."""
    stale = stale_columns(part.partition.sd.cols, after.sd.cols) if part.partition.sd is not None else []
    if stale:
        statistics.remove(call, part.partition_id, stale, None, partition=True)
        remove_columns(after.parameters, stale)


def alter_partitions(call: Call, args: Struct) -> None:
    """Change partitions, all or none."""
    _alter_many(call, names.TableAddress(args.db_name, args.tbl_name), args.new_parts, {})


def alter_partitions_with_environment_context(call: Call, args: Struct) -> None:
    """The same with properties."""
    properties = quick_stats.context(args.environment_context)
    _alter_many(call, names.TableAddress(args.db_name, args.tbl_name), args.new_parts, properties)


def alter_partitions_req(call: Call, args: Struct) -> Struct:
    """The same by request."""
    request = args.req
    properties = quick_stats.context(request.environmentContext)
    address = names.TableAddress(request.dbName, request.tableName, request.catName)
    _alter_many(call, address, request.partitions, properties, acid.write_of(request))
    return new("AlterPartitionsResponse")


def _alter_many(
    call: Call,
    address: names.TableAddress,
    changed: Sequence[Struct] | None,
    properties: dict[str, str],
    write: acid.AcidWrite = acid.NO_WRITE,
) -> None:
    if changed is None:
        raise meta(_NO_PARTITIONS)
    row = table_rows.find_table(call, *address.both, names.fold(address.table))
    if row is None:
        raise invalid_operation(
            "alter is not possible: Unable to alter partitions because table or database does not exist."
        )
    for each in changed:
        must_stay(row, each)
        if each.sd is not None and each.sd.cols is not None and not each.sd.cols:
            each.sd.cols = copy(row.table.sd.cols)
    by_name = {names.partition_name(row.table.partitionKeys, each.values or []): each for each in changed}
    parts = rows.find(call, row, names=by_name, whole=True)
    if len(parts) != len(changed):
        raise invalid_operation(
            f"Alter partition operation failed: new parts size {len(changed)} not matching with old parts size"
            f" {len(parts)}"
        )
    if not parts:
        return
    for part in parts:
        if write.write_id > 0:
            by_name[part.name].writeId = write.write_id
        _change(call, row, part, by_name[part.name], properties)
        put(call, row, part, by_name[part.name], write_of(by_name[part.name], write.valid))
    events.alter_partitions(call, row.table, changed, truncated=False)


METHODS = writes(
    add_partition=add_partition,
    add_partition_with_environment_context=add_partition_with_environment_context,
    add_partitions=add_partitions,
    add_partitions_req=add_partitions_req,
    append_partition=append_partition,
    append_partition_with_environment_context=append_partition_with_environment_context,
    append_partition_by_name=append_partition_by_name,
    append_partition_by_name_with_environment_context=append_partition_by_name_with_environment_context,
    append_partition_req=append_partition_req,
    alter_partition=alter_partition,
    alter_partition_with_environment_context=alter_partition_with_environment_context,
    alter_partitions=alter_partitions,
    alter_partitions_with_environment_context=alter_partitions_with_environment_context,
    alter_partitions_req=alter_partitions_req,
)
