"""Column statistics of tables and partitions.

Job: carry out the calls; rows/statistics.py has the rows. Source: HMSHandler of 4.2, and answers of a running one.
Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hms_cache_proxy.embedded import acid, events, merged_statistics, names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import Failure, internal, invalid_input, meta, no_such_object, unknown_table
from hms_cache_proxy.embedded.rows import partitions as partition_rows
from hms_cache_proxy.embedded.rows import statistics as rows
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.stats_accurate import ACCURATE, add_columns, columns_of, set_basic
from hms_cache_proxy.embedded.values import as_json, new
from hms_cache_proxy.wire.spec import Struct

ENGINE = "hive"


def named_table(call: Call, database: str, table: str, catalog: str | None = None) -> table_rows.StoredTable:
    """A table. NoSuchObjectException with the text of these calls."""
    found_catalog, found_database = names.both(database, catalog)
    row = table_rows.find_table(call, found_catalog, found_database, names.fold(table))
    if row is None:
        place = names.qualified(found_catalog, found_database, names.fold(table))
        raise no_such_object(f"Specified catalog.database.table does not exist : {place}")
    return row


def requested(call: Call, request: Struct) -> table_rows.StoredTable:
    """The table of a request, whose names are not split. NoSuchObjectException."""
    catalog, database = names.exact(request.dbName, request.catName)
    row = table_rows.find_table(call, catalog, database, names.fold(request.tblName))
    if row is None:
        place = names.qualified(catalog, database, names.fold(request.tblName))
        raise no_such_object(f"Specified catalog.database.table does not exist : {place}")
    return row


def asked_for(request: Struct) -> tuple[list[str], str]:
    """(columns, engine) of a request. Columns are changed to lower case, not trimmed; an empty engine is kept."""
    return [name.lower() for name in request.colNames], ENGINE if request.engine is None else request.engine


def update_table_column_statistics(call: Call, args: Struct) -> bool:
    """Set statistics of a table's columns."""
    return _update(call, args.stats_obj, basic=False)


def update_partition_column_statistics(call: Call, args: Struct) -> bool:
    """Set statistics of a partition's columns."""
    return _update(call, args.stats_obj, basic=False)


def update_table_column_statistics_req(call: Call, args: Struct) -> Struct:
    """The same by request."""
    return _update_req(call, args.req)


def update_partition_column_statistics_req(call: Call, args: Struct) -> Struct:
    """The same by request."""
    return _update_req(call, args.req)


def _update_req(call: Call, request: Struct) -> Struct:
    if len(request.colStats) != 1:
        raise invalid_input("Only one stats object expected")
    if request.needMerge:
        raise invalid_input("Merge is not supported for non-aggregate stats")
    done = _update(call, request.colStats[0], basic=False, write=acid.write_of(request))
    return new("SetPartitionsStatsResponse", result=done)


def set_aggr_stats_for(call: Call, args: Struct) -> bool:
    """Set statistics of a table or of several partitions, or merge them into those that are stored; one event for each.

    As in Hive 4.2, false for partitions whose statistics were merged, and a partition that is named twice gets its
    statistics merged.
    """
    request = args.request
    if not request.colStats:
        return True
    of_table = request.colStats[0].statsDesc.isTblLevel
    if of_table and len(request.colStats) != 1:
        found = len(request.colStats)
        raise meta(f"Expecting only 1 ColumnStatistics for table's column stats, but find {found}")
    by_part: dict[str | None, Struct] = {}
    for each in request.colStats:
        before = by_part.get(each.statsDesc.partName)
        if before is not None:
            merged_statistics.merge_all(each.statsObj, before.statsObj)
        by_part[each.statsDesc.partName] = each
    with_engine = (ENGINE if request.engine is None else request.engine) if request.needMerge else None
    write = acid.write_of(request)
    done = [_update(call, each, basic=True, write=write, merged_with=with_engine) for each in by_part.values()]
    return done[0] if of_table else not request.needMerge


def _update(
    call: Call, given: Struct, *, basic: bool, write: acid.AcidWrite = acid.NO_WRITE, merged_with: str | None = None
) -> bool:
    """Set statistics, or merge them with stored ones of an engine; of these, only columns with accurate statistics."""
    description = given.statsDesc
    row = named_table(call, description.dbName, description.tableName, description.catName)
    given.engine = ENGINE if given.engine is None else given.engine
    description.catName, description.dbName = row.table.catName, row.table.dbName
    description.tableName = row.table.tableName
    for each in given.statsObj:
        each.colName, each.colType = names.fold(each.colName), each.colType.lower()
    part = None if description.isTblLevel else _part(call, row, description.partName)
    owner = _Owner(row, part)
    if merged_with is not None and _spoiled(call, owner, [each.colName for each in given.statsObj], merged_with, write):
        return False
    if merged_with is not None and not _merged(call, owner, given, merged_with):
        return True
    parameters = _accurate(
        owner.before.parameters, [each.colName for each in given.statsObj], basic=basic and part is not None
    )
    told = dict(parameters)
    transactional = table_rows.is_transactional(row.table.parameters)
    if transactional:
        if part is None or not basic or ACCURATE in (owner.before.parameters or {}):
            acid.check_column_statistics(row.table, owner.before.parameters, parameters, write)
            if not acid.are_valid(owner.before, write.valid, replaced=True):
                set_basic(parameters, right=False)
        owner.set_write_id(call, write.write_id)
    common = {"writeId": write.write_id, "database": row.table.dbName}
    place = {"catalog": row.table.catName, "database": row.table.dbName, "table": row.table.tableName}
    description.lastAnalyzed = call.now
    rows.put(call, owner.id, given.statsObj, given.engine, partition=part is not None)
    owner.update_parameters(call, parameters)
    if part is None:
        row.table.parameters = parameters
        if transactional:
            row.table.writeId = write.write_id
        if write.valid is not None:
            acid.show_to(row.table, write.valid)
        fields: dict[str, Any] = {"colStatsJson": as_json(given), "parameters": parameters}
        fields["tableObjJson"] = as_json(row.table)
        events.log(call, "UPDATE_TBL_COL_STAT_EVENT", {**common, **fields}, **place)
        return True
    told = {ACCURATE: told[ACCURATE]} if basic else parameters
    fields = {"colStatsJson": as_json(given), "parameters": told, "partVals": part.partition.values}
    fields["tableObjJson"] = as_json(row.table)
    events.log(call, "UPDATE_PART_COL_STAT_EVENT", {**common, **fields}, **place)
    return True


@dataclass(frozen=True, slots=True)
class _Owner:
    """The table or the partition whose statistics a call sets; `before`: the struct as it was."""

    row: table_rows.StoredTable
    part: partition_rows.Part | None

    @property
    def id(self) -> int:
        return self.row.table_id if self.part is None else self.part.partition_id

    @property
    def before(self) -> Struct:
        return self.row.table if self.part is None else self.part.partition

    def read(self, call: Call, columns: Sequence[str], engine: str) -> list[Struct]:
        """The stored statistics of some columns (ColumnStatisticsObj)."""
        found = rows.read(call, [self.id], columns, engine, partition=self.part is not None)
        return [each for _, each in found.get(self.id, [])]

    def update_parameters(self, call: Call, parameters: dict[str, str]) -> None:
        update = table_rows.update_parameters if self.part is None else partition_rows.update_parameters
        update(call, self.id, parameters)

    def set_write_id(self, call: Call, write_id: int) -> None:
        set_ = table_rows.set_write_id if self.part is None else partition_rows.set_write_id
        set_(call, self.id, write_id)


def _spoiled(call: Call, owner: _Owner, wanted: Sequence[str], engine: str, write: acid.AcidWrite) -> bool:
    """Are there statistics of a transactional table whose write this writer does not see? Then nothing is merged, and
    none are accurate from now on."""
    if write.valid is None or not table_rows.is_transactional(owner.row.table.parameters):
        return False
    if acid.are_valid(owner.before, write.valid) or not owner.read(call, wanted, engine):
        return False
    parameters = dict(owner.before.parameters or {})
    set_basic(parameters, right=False)
    owner.update_parameters(call, parameters)
    if write.write_id > 0:
        owner.set_write_id(call, write.write_id)
    return True


def _merged(call: Call, owner: _Owner, given: Struct, engine: str) -> bool:
    """Merge stored statistics into the given ones, which lose columns without accurate statistics; False if none is
    left."""
    columns = columns_of(owner.before.parameters)
    given.statsObj = [each for each in given.statsObj if each.colName in columns]
    merged_statistics.merge_all(given.statsObj, owner.read(call, columns, engine))
    return bool(given.statsObj)


def _part(call: Call, row: table_rows.StoredTable, name: str) -> partition_rows.Part:
    found = partition_rows.find(call, row, names=[name], whole=True)
    if not found:
        raise no_such_object("Partition for which stats is gathered doesn't exist.")
    return found[0]


def _accurate(parameters: dict[str, str] | None, columns: Sequence[str], *, basic: bool) -> dict[str, str]:
    """The parameters, with the statistics of these columns marked as accurate.

    `basic`: mark the basic statistics too, unless COLUMN_STATS_ACCURATE was there before.
    """
    kept = dict(parameters or {})
    add_columns(kept, columns, basic=basic and ACCURATE not in kept)
    return kept


def get_table_column_statistics(call: Call, args: Struct) -> Struct | None:
    """Statistics of one column of a table, if there are any."""
    if names.split(args.db_name)[1] is None or args.col_name is None:
        raise internal("NullPointerException")
    row = named_table(call, args.db_name, args.tbl_name)
    stored = rows.read(call, [row.table_id], [args.col_name.lower()], ENGINE, partition=False)
    return _one(row, stored.get(row.table_id), None, ENGINE)


def get_partition_column_statistics(call: Call, args: Struct) -> Struct | None:
    """Statistics of one column of a partition, if there are any."""
    if names.split(args.db_name)[1] is None:
        raise meta(names.NO_IDENTIFIER)
    if args.col_name is None:
        raise internal("the column has no name")
    row = named_table(call, args.db_name, args.tbl_name)
    parts = partition_rows.find(call, row, names=[args.part_name])
    if not parts:
        return None
    id_ = parts[0].partition_id
    stored = rows.read(call, [id_], [args.col_name.lower()], ENGINE, partition=True)
    return _one(row, stored.get(id_), args.part_name, ENGINE)


def of_table(call: Call, row: table_rows.StoredTable, engine: str | None) -> Struct | None:
    """ColumnStatistics of a table's columns whose statistics are marked as accurate; None if there are none."""
    columns = columns_of(row.table.parameters)
    stored = rows.read(call, [row.table_id], columns, engine or ENGINE, partition=False)
    return _one(row, stored.get(row.table_id), None, engine or ENGINE)


def add_to_partitions(
    call: Call, row: table_rows.StoredTable, parts: Sequence[partition_rows.Part], engine: str | None
) -> None:
    """Add ColumnStatistics to partitions, for columns whose statistics are marked as accurate."""
    stored = rows.read(call, [part.partition_id for part in parts], None, engine or ENGINE, partition=True)
    for part in parts:
        columns = columns_of(part.partition.parameters)
        mine = [(when, one) for when, one in stored.get(part.partition_id, []) if one.colName in columns]
        part.partition.colStats = _one(row, mine, part.name, engine or ENGINE)


def _one(
    row: table_rows.StoredTable, found: list[tuple[int, Struct]] | None, partition: str | None, engine: str
) -> Struct | None:
    if not found:
        return None
    description = new(
        "ColumnStatisticsDesc",
        isTblLevel=partition is None,
        dbName=row.table.dbName,
        tableName=row.table.tableName,
        partName=partition,
        lastAnalyzed=found[0][0],
        catName=row.table.catName,
    )
    return new("ColumnStatistics", statsDesc=description, statsObj=[each for _, each in found], engine=engine)


def get_table_statistics_req(call: Call, args: Struct) -> Struct:
    """Statistics of several columns of a table. With a write id list, Hive reads the table first; errors differ, and
    there are none for one to whom those of a transactional table are not valid."""
    request = args.request
    try:
        row = requested(call, request)
    except Failure:
        if request.validWriteIdList is None:
            raise
        catalog, database = names.exact(request.dbName, request.catName)
        place = names.qualified(catalog, database, names.fold(request.tblName))
        raise no_such_object(f"{place} table not found") from None
    seen = request.validWriteIdList
    if seen is not None and table_rows.is_transactional(row.table.parameters) and not acid.are_valid(row.table, seen):
        return new("TableStatsResult", tableStats=[])
    wanted, engine = asked_for(request)
    stored = rows.read(call, [row.table_id], wanted, engine, partition=False)
    return new("TableStatsResult", tableStats=[each for _, each in stored.get(row.table_id, [])])


def get_partitions_statistics_req(call: Call, args: Struct) -> Struct:
    """Statistics of several columns of several partitions; partitions without any are left out."""
    request = args.request
    if not request.colNames or not request.partNames:
        return new("PartitionsStatsResult", partStats={})
    row = requested(call, request)
    seen = request.validWriteIdList
    parts = {
        part.partition_id: part.name
        for part in partition_rows.find(call, row, names=request.partNames)
        if seen is None or acid.are_valid(part.partition, seen)
    }
    wanted, engine = asked_for(request)
    stored = rows.read(call, parts, wanted, engine, partition=True)
    told = {parts[id_]: [each for _, each in some] for id_, some in stored.items()}
    return new("PartitionsStatsResult", partStats=told)


def delete_table_column_statistics(call: Call, args: Struct) -> bool:
    """Delete statistics of one column; if the call names none, nothing, as in Hive 4.2."""
    row = _of_delete(call, args)
    column = names.fold(args.col_name) if args.col_name else None
    rows.remove(call, row.table_id, [] if column is None else [column], args.engine, partition=False)
    _deleted(call, "DELETE_TBL_COL_STAT_EVENT", row, {"colName": column})
    return True


def delete_partition_column_statistics(call: Call, args: Struct) -> bool:
    """The same for a partition."""
    row = _of_delete(call, args)
    part = _part(call, row, args.part_name)
    column = names.fold(args.col_name) if args.col_name else None
    rows.remove(call, part.partition_id, [] if column is None else [column], args.engine, partition=True)
    fields = {"colName": column, "partName": part.name, "partValues": part.partition.values}
    _deleted(call, "DELETE_PART_COL_STAT_EVENT", row, fields)
    return True


def delete_column_statistics_req(call: Call, args: Struct) -> bool:
    """Delete statistics of some columns or all, for a table, some of its partitions, or all of them."""
    request = args.req
    row = named_table(call, request.db_name, request.tbl_name, request.cat_name)
    _must_be_plain(row)
    wanted = [names.fold(name) for name in request.col_names] if request.col_names else None
    told: Sequence[str | None] = wanted or [None]
    if request.tableLevel:
        rows.remove(call, row.table_id, wanted, request.engine, partition=False)
        for column in told:
            _deleted(call, "DELETE_TBL_COL_STAT_EVENT", row, {"colName": column})
        return True
    for part in partition_rows.find(call, row, names=request.part_names or None):
        rows.remove(call, part.partition_id, wanted, request.engine, partition=True)
        fields = {"partName": part.name, "partValues": part.partition.values}
        for column in told:
            _deleted(call, "DELETE_PART_COL_STAT_EVENT", row, {"colName": column, **fields})
    return True


def find_columns_with_stats(call: Call, args: Struct) -> list[str]:
    """Columns of a table or partition that have statistics; none if it does not exist."""
    asked = args.cr
    row = table_rows.find_table(call, names.DEFAULT_CATALOG, names.fold(asked.dbname), names.fold(asked.tablename))
    if row is None:
        return []
    if asked.partitionname is None:
        return rows.analyzed_columns(call, row.table_id, partition=False)
    parts = partition_rows.find(call, row, names=[asked.partitionname])
    return rows.analyzed_columns(call, parts[0].partition_id, partition=True) if parts else []


def _of_delete(call: Call, args: Struct) -> table_rows.StoredTable:
    """The table of a deletion. Exceptions that these calls do not declare become others, as in Hive."""
    catalog, database = names.both(args.db_name)
    row = table_rows.find_table(call, catalog, database, names.fold(args.tbl_name))
    if row is None:
        raise unknown_table(names.qualified(catalog, database, args.tbl_name))
    _must_be_plain(row)
    return row


def _must_be_plain(row: table_rows.StoredTable) -> None:
    """MetaException for a transactional table."""
    if table_rows.is_transactional(row.table.parameters):
        raise meta("Cannot delete stats via this API for a transactional table")


def _deleted(call: Call, kind: str, row: table_rows.StoredTable, fields: dict[str, Any]) -> None:
    """Log a deletion, twice, as Hive 4.2 does."""
    place = {"catalog": row.table.catName, "database": row.table.dbName, "table": row.table.tableName}
    for _ in range(2):
        events.log(call, kind, {"database": row.table.dbName, **fields}, **place)


METHODS = {
    **reads(
        get_table_column_statistics=get_table_column_statistics,
        get_partition_column_statistics=get_partition_column_statistics,
        get_table_statistics_req=get_table_statistics_req,
        get_partitions_statistics_req=get_partitions_statistics_req,
        find_columns_with_stats=find_columns_with_stats,
    ),
    **writes(
        update_table_column_statistics=update_table_column_statistics,
        update_partition_column_statistics=update_partition_column_statistics,
        update_table_column_statistics_req=update_table_column_statistics_req,
        update_partition_column_statistics_req=update_partition_column_statistics_req,
        set_aggr_stats_for=set_aggr_stats_for,
        delete_table_column_statistics=delete_table_column_statistics,
        delete_partition_column_statistics=delete_partition_column_statistics,
        delete_column_statistics_req=delete_column_statistics_req,
    ),
}
