"""Reading partitions.

Job: carry out the calls; rows/partitions.py has the rows. Source: HMSHandler of 4.2, and answers of a running one.
Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from hms_cache_proxy.embedded import names, part_groups, part_patterns, partition_filter
from hms_cache_proxy.embedded.call import Call, reads
from hms_cache_proxy.embedded.failures import Failure, internal, invalid_object, meta, no_such_object
from hms_cache_proxy.embedded.handlers.statistics import add_to_partitions
from hms_cache_proxy.embedded.rows import partitions as rows
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.rows.privileges import PrivilegeScope, privilege_set
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

NO_EXPRESSION = b"\xff"
"""Instead of an expression: all partitions."""
_NO_NAMES = (
    'java.lang.NullPointerException: Cannot invoke "java.util.List.size()" because the return value of'
    ' "org.apache.hadoop.hive.metastore.client.builder.GetPartitionsArgs.getPartNames()" is null'
)
_PRIVATE = "PARTITION_LEVEL_PRIVILEGE"


def limit_of(number: int | None) -> int | None:
    """The limit; None for no limit."""
    return None if number is None or number < 0 else number


def _table(call: Call, database: str, table: str, catalog: str | None = None) -> table_rows.StoredTable | None:
    found_catalog, found_database = names.both(database, catalog)
    return table_rows.find_table(call, found_catalog, found_database, names.fold(table))


def found(call: Call, database: str, table: str, catalog: str | None = None) -> table_rows.StoredTable:
    names.named(database, table, catalog)
    row = _table(call, database, table, catalog)
    if row is None:
        raise no_such_object(f"{names.qualified(*names.as_written(database, catalog), table)} table not found")
    return row


def _found_folded(call: Call, database: str, table: str, catalog: str | None = None) -> table_rows.StoredTable:
    """The same, for calls that show names in lower case."""
    place = names.named(database, table, catalog)
    row = _table(call, database, table, catalog)
    if row is None:
        raise no_such_object(f"{names.qualified(*place, names.fold(table))} table not found")
    return row


def one(call: Call, row: table_rows.StoredTable, values: Sequence[str]) -> rows.Part:
    """The partition with these values. NoSuchObjectException."""
    if values is None:
        raise meta('java.lang.NullPointerException: Cannot invoke "java.util.List.size()" because "vals" is null')
    name = names.partition_name(row.table.partitionKeys, values)
    parts = rows.find(call, row, names=[name], whole=True)
    if not parts:
        raise no_such_object(f"partition values=[{', '.join(values)}]")
    return parts[0]


def of_one(call: Call, database: str, table: str, catalog: str | None = None) -> table_rows.StoredTable:
    """The table of a call for one partition. NoSuchObjectException with the text of those calls."""
    names.named(database, table, catalog)
    row = _table(call, database, table, catalog)
    if row is None:
        place = names.qualified(*names.as_written(database, catalog), table)
        raise no_such_object(f"Unable to get partition because {place} does not exist")
    return row


def values_of(row: table_rows.StoredTable, name: str | None) -> list[str]:
    """The values of a partition's name, in the order of the keys."""
    if not name:
        raise meta(f"Partition name is invalid. {'null' if name is None else name}")
    spec = names.spec_of_path(name)
    for key in row.table.partitionKeys:
        if key.name not in spec:
            raise invalid_object(f"incomplete partition name - missing {key.name}")
    return [spec[key.name] for key in row.table.partitionKeys]


def get_partition(call: Call, args: Struct) -> Struct:
    """A partition by values."""
    return _asked(one(call, of_one(call, args.db_name, args.tbl_name), args.part_vals), args.part_vals)


def _asked(part: rows.Part, values: Sequence[str]) -> Struct:
    """The partition with the requested values: an empty one finds the default partition."""
    part.partition.values = list(values)
    return part.partition


def get_partition_req(call: Call, args: Struct) -> Struct:
    """By request."""
    request = args.req
    if request.partVals is None:
        raise internal("the partition has no values")
    names.named(request.dbName, request.tblName, request.catName)
    catalog, database = names.exact(request.dbName, request.catName)
    row = table_rows.find_table(call, catalog, database, names.fold(request.tblName))
    if row is None:
        given = names.DEFAULT_CATALOG if request.catName is None else request.catName
        place = names.qualified(given, request.dbName, request.tblName)
        raise no_such_object(f"Unable to get partition because {place} does not exist")
    return new("GetPartitionResponse", partition=_asked(one(call, row, request.partVals), request.partVals))


def get_partition_with_auth(call: Call, args: Struct) -> Struct:
    """A partition by values, with the privileges of a user and its groups if the table has privileges per partition."""
    names.named(args.db_name, args.tbl_name)
    row = _table(call, args.db_name, args.tbl_name)
    if row is None:
        raise no_such_object(f"partition values=[{', '.join(args.part_vals)}]")
    part = one(call, row, args.part_vals)
    if has_privileges(row.table):
        _add_privileges(call, [part], args.user_name, args.group_names)
    return part.partition


def has_privileges(table: Struct) -> bool:
    """Does the table have privileges per partition?"""
    return bool((table.parameters or {}).get(_PRIVATE, "").upper() == "TRUE")


def _add_privileges(call: Call, parts: Sequence[rows.Part], user: str | None, groups: Sequence[str] | None) -> None:
    for part in parts:
        part.partition.privileges = privilege_set(call, PrivilegeScope.PARTITION, part.partition_id, None, user, groups)


def _with_auth(
    call: Call, row: table_rows.StoredTable, parts: list[rows.Part], user: str | None, groups: Sequence[str] | None
) -> list[Struct]:
    """The partitions of a listing, with privileges if it names a user and groups."""
    if user is not None and groups is not None and has_privileges(row.table):
        _add_privileges(call, parts, user, groups)
    return _bare(parts)


def get_partition_by_name(call: Call, args: Struct) -> Struct:
    """A partition by its name, `key=value/key=value`."""
    row = _table(call, args.db_name, args.tbl_name)
    if row is None:
        raise no_such_object(f"{names.as_written(args.db_name)[1]}.{args.tbl_name} table not found")
    try:
        values = values_of(row, args.part_name)
    except Failure as failure:
        if failure.kind == "InvalidObjectException":
            raise no_such_object(failure.message or "") from failure
        raise
    return one(call, row, values).partition


def get_partition_names(call: Call, args: Struct) -> list[str]:
    """Names of a table's partitions; none if the table does not exist."""
    if args.db_name is None:
        raise meta("java.lang.NullPointerException: catName is null")
    return _all_names(call, args.db_name, args.tbl_name, None, args.max_parts)


def _all_names(call: Call, database: str, table: str, catalog: str | None, limit: int | None) -> list[str]:
    try:
        names.named(database, table, catalog)
    except Failure as failure:
        if failure.kind == "MetaException":
            raise
        raise meta(f"{failure.kind}(message:{failure.message})") from failure
    row = _table(call, database, table, catalog)
    return [] if row is None else rows.partition_names(call, row.table_id, limit_of(limit))


def fetch_partition_names_req(call: Call, args: Struct) -> list[str]:
    """The same by request."""
    request = args.partitionReq
    if request.catName is None:
        raise meta("java.lang.NullPointerException: catName is null")
    return _all_names(call, request.dbName, request.tblName, request.catName, request.maxParts)


def get_partitions(call: Call, args: Struct) -> list[Struct]:
    """A table's partitions; none if the table does not exist."""
    row = _of_listing(call, args.db_name, args.tbl_name, None)
    return [] if row is None else _bare(all_of(call, row, args.max_parts))


def _of_listing(call: Call, database: str, table: str, catalog: str | None) -> table_rows.StoredTable | None:
    """The table of a listing; None if it does not exist. If listings are limited, that is an error."""
    if call.partition_limit >= 0:
        return _of_filter(call, database, catalog, table)
    names.named(database, table, catalog)
    return _table(call, database, table, catalog)


def all_of(call: Call, row: table_rows.StoredTable, limit: int | None) -> list[rows.Part]:
    """A table's partitions, at most `limit`. MetaException if that is more than a listing may have."""
    if call.partition_limit >= 0:
        check_limit(call, row, rows.count(call, row.table_id), limit)
    return rows.find(call, row, limit=limit_of(limit))


def check_limit(call: Call, row: table_rows.StoredTable, found: int, limit: int | None) -> None:
    """MetaException if a listing would have more partitions than `metastore.limit.partition.request` allows."""
    allowed = call.partition_limit
    asked = found if limit_of(limit) is None else limit or 0
    if 0 <= allowed < asked:
        raise meta(
            f"Number of partitions scanned (={asked}) on table '{row.table.tableName}' exceeds limit (={allowed}). This"
            " is controlled on the metastore server by metastore.limit.partition.request."
        )


def get_partitions_req(call: Call, args: Struct) -> Struct:
    """The same by request."""
    request = args.req
    row = _of_listing(call, request.dbName, request.tblName, request.catName)
    parts = [] if row is None else _bare(all_of(call, row, request.maxParts))
    return new("PartitionsResponse", partitions=_without_columns(parts, request))


def get_partitions_with_auth(call: Call, args: Struct) -> list[Struct]:
    """The same with privileges."""
    row = found(call, args.db_name, args.tbl_name)
    parts = all_of(call, row, args.max_parts)
    return _with_auth(call, row, parts, args.user_name, args.group_names)


def _bare(parts: Sequence[rows.Part]) -> list[Struct]:
    return [part.partition for part in parts]


def _without_columns(partitions: list[Struct], request: Struct) -> list[Struct]:
    """Leave out columns and parameters if the request says so."""
    for partition in partitions:
        if request.skipColumnSchemaForPartition and partition.sd is not None:
            partition.sd.cols = []
        partition.parameters = part_groups.parameters_like(
            partition.parameters, request.includeParamKeyPattern, request.excludeParamKeyPattern
        )
    return partitions


def get_partition_names_ps(call: Call, args: Struct) -> list[str]:
    """Names of the partitions with these first values; an empty one matches any."""
    row = _found_folded(call, args.db_name, args.tbl_name)
    return _names_like(call, row, args.part_vals, args.max_parts)


def _names_like(call: Call, row: table_rows.StoredTable, values: list[str] | None, limit: int | None) -> list[str]:
    if values is None:
        raise meta('Cannot invoke "java.util.List.size()" because "partVals" is null')
    if not values:
        raise meta("Invalid partition key & values; keys [], values []")
    matches = part_patterns.as_text(row.table.partitionKeys, values)
    return list(filter(matches, rows.partition_names(call, row.table_id, as_made=True)))[: limit_of(limit)]


def get_partition_names_ps_req(call: Call, args: Struct) -> Struct:
    """The same by request."""
    request = args.req
    row = _found_folded(call, request.dbName, request.tblName, request.catName)
    return new("GetPartitionNamesPsResponse", names=_names_like(call, row, request.partValues, request.maxParts))


def get_partitions_ps(call: Call, args: Struct) -> list[Struct]:
    """Partitions with these first values."""
    row = found(call, args.db_name, args.tbl_name)
    return _bare(_like(call, row, args.part_vals, args.max_parts))


def _like(call: Call, row: table_rows.StoredTable, values: Sequence[str] | None, limit: int | None) -> list[rows.Part]:
    """The partitions with these first values; if there is a value, with descriptors as by a filter."""
    if call.partition_limit >= 0 and not values:
        raise meta("Invalid partition key & values; keys [], values []")  # Hive's text for their count
    chosen = names_like(call, row, values or (), None)
    check_limit(call, row, len(chosen), limit)
    parts = rows.find(call, row, names=chosen[: limit_of(limit)])
    if any(values or ()):
        _trim(row, _bare(parts))
    return parts


def get_partitions_ps_with_auth(call: Call, args: Struct) -> list[Struct]:
    """The same with privileges."""
    row = found(call, args.db_name, args.tbl_name)
    parts = _like(call, row, args.part_vals, args.max_parts)
    return _with_auth(call, row, parts, args.user_name, args.group_names)


def get_partitions_ps_with_auth_req(call: Call, args: Struct) -> Struct:
    """The same by request, or by names."""
    request = args.req
    row = found(call, request.dbName, request.tblName, request.catName)
    if request.partNames is not None:
        found_ones = rows.find(call, row, names=request.partNames)
    elif request.partVals is None:
        found_ones = all_of(call, row, request.maxParts)
    else:
        found_ones = _like(call, row, request.partVals, request.maxParts)
    parts = _with_auth(call, row, found_ones, request.userName, request.groupNames)
    return new("GetPartitionsPsWithAuthResponse", partitions=_without_columns(parts, request))


def names_like(call: Call, row: table_rows.StoredTable, values: Sequence[str], limit: int | None) -> list[str]:
    """Names of the partitions with these first values, in order; an empty one matches any."""
    matches = part_patterns.as_like(row.table.partitionKeys, values)
    return list(filter(matches, rows.partition_names(call, row.table_id)))[: limit_of(limit)]


def get_partitions_by_names(call: Call, args: Struct) -> list[Struct]:
    """The named partitions that exist, in order of their names."""
    if args.names is None:
        raise meta(_NO_NAMES)
    return _bare(_by_names(call, args.db_name, args.tbl_name, args.names)[1])


def get_partitions_by_names_req(call: Call, args: Struct) -> Struct:
    """The same by request."""
    request = args.req
    if request.names is None:
        raise meta(_NO_NAMES)
    row, parts = _by_names(call, request.db_name, request.tbl_name, request.names)
    if request.get_col_stats:
        add_to_partitions(call, row, parts, request.engine)
    return new("GetPartitionsByNamesResult", partitions=_without_columns(_bare(parts), request))


def _by_names(
    call: Call, database: str, table: str, wanted: Sequence[str]
) -> tuple[table_rows.StoredTable, list[rows.Part]]:
    if database is None:
        raise meta("java.lang.NullPointerException: catName is null")
    names.named(database, table)
    try:
        row = found(call, database, table)
    except Failure as failure:
        raise invalid_object(failure.message or "") from failure
    return row, rows.find(call, row, names=wanted)


def get_partitions_by_filter(call: Call, args: Struct) -> list[Struct]:
    """The partitions that a filter selects, in order of their names."""
    return by_filter(call, args.db_name, None, args.tbl_name, args.filter, args.max_parts)


def get_partitions_by_filter_req(call: Call, args: Struct) -> list[Struct]:
    """The same by request."""
    request = args.req
    if request.catName is None:
        raise meta("java.lang.NullPointerException: catName is null")
    parts = by_filter(call, request.dbName, request.catName, request.tblName, request.filter, request.maxParts)
    return _without_columns(parts, request)


def get_num_partitions_by_filter(call: Call, args: Struct) -> int:
    """The number of partitions that a filter selects."""
    catalog, database = names.split(args.db_name)
    if database is None or args.tbl_name is None:
        raise meta("The DB and table name cannot be null.")
    if args.filter:
        partition_filter.parsed(args.filter)  # before the table is looked up
    row = table_rows.find_table(call, catalog, database, names.fold(args.tbl_name))
    if row is None:
        raise _no_table(catalog, database, args.tbl_name)
    return len(chosen_names(call, row, args.filter))


def by_filter(
    call: Call, database: str, catalog: str | None, table: str, text: str | None, limit: int | None
) -> list[Struct]:
    """Partitions that a filter selects, at most `limit`; descriptors of full-ACID tables have less than in lists."""
    return selected(call, _of_filter(call, database, catalog, table), text, limit)


def selected(call: Call, row: table_rows.StoredTable, text: str | None, limit: int | None) -> list[Struct]:
    """The same, for a table that was found."""
    chosen = chosen_names(call, row, text)
    check_limit(call, row, len(chosen), limit)
    partitions = _bare(rows.find(call, row, names=chosen[: limit_of(limit)]))
    _trim(row, partitions)
    return partitions


def _trim(row: table_rows.StoredTable, partitions: list[Struct]) -> None:
    """Leave out of a full-ACID table's descriptors what only lists have."""
    if table_rows.is_full_acid(row.table.parameters):
        for partition in partitions:
            if partition.sd is not None:
                table_rows.trim(partition.sd)


def _of_filter(call: Call, database: str, catalog: str | None, table: str) -> table_rows.StoredTable:
    names.named(database, table, catalog)
    row = _table(call, database, table, catalog)
    if row is None:
        raise _no_table(*names.both(database, catalog), table)
    return row


def _no_table(catalog: str, database: str, table: str) -> Failure:
    place = names.qualified(catalog, database, names.fold(table))
    return no_such_object(f"Specified catalog.database.table does not exist : {place}")


def chosen_names(call: Call, row: table_rows.StoredTable, text: str | None) -> list[str]:
    """Names of the partitions that a filter selects, in order."""
    every = rows.partition_names(call, row.table_id)
    chosen = partition_filter.selects(text or "", row.table.partitionKeys)
    empty = rows.empty_values(call, row.table_id) if any(names.DEFAULT_PARTITION in name for name in every) else {}
    return [name for name in every if chosen(name, empty.get(name))]


def chosen_by_expression(call: Call, row: table_rows.StoredTable, expression: bytes) -> list[str]:
    """Names of the partitions that an expression selects. It may be the text of a filter, or the byte ff, which means
    all. MetaException for Hive's own expressions, which are Java objects written by Kryo."""
    if expression == NO_EXPRESSION:
        return rows.partition_names(call, row.table_id)
    text = expression.decode("utf-8", "replace")
    if not text.isprintable():
        raise meta("partition expressions of Hive's own (Kryo) cannot be read by this metastore; name partitions")
    return chosen_names(call, row, text)


def get_partition_names_req(call: Call, args: Struct) -> list[str]:
    """Names of the partitions that an expression selects. A blank name is refused before anything is looked up."""
    for field in ("catName", "dbName", "tblName"):
        given = getattr(args.req, field)
        if given is not None and not given.strip():
            raise no_such_object(f"{field} is not valid")
    return _by_expression(call, args.req)[1]


def get_partitions_by_expr(call: Call, args: Struct) -> Struct:
    """The partitions that an expression selects."""
    row, partitions = _partitions_by_expression(call, args.req)
    return new("PartitionsByExprResult", partitions=partitions, hasUnknownPartitions=False)


def get_partitions_spec_by_expr(call: Call, args: Struct) -> Struct:
    """The same in groups."""
    row, partitions = _partitions_by_expression(call, args.req)
    specs = part_groups.grouped(row.table, partitions)
    return new("PartitionsSpecByExprResult", partitionsSpec=specs, hasUnknownPartitions=False)


def _partitions_by_expression(call: Call, request: Struct) -> tuple[table_rows.StoredTable, list[Struct]]:
    row, chosen = _by_expression(call, request)
    check_limit(call, row, len(chosen), -1)
    return row, _without_columns(_bare(rows.find(call, row, names=chosen)), request)


def _by_expression(call: Call, request: Struct) -> tuple[table_rows.StoredTable, list[str]]:
    catalog, database = names.exact(request.dbName, request.catName)
    row = table_rows.find_table(call, catalog, database, names.fold(request.tblName))
    if row is None:
        raise _no_table(catalog, database, request.tblName)
    chosen = chosen_by_expression(call, row, request.expr)
    return row, chosen[: limit_of(request.maxParts)]


METHODS = {
    **reads(
        get_partition=get_partition,
        get_partition_req=get_partition_req,
        get_partition_with_auth=get_partition_with_auth,
        get_partition_by_name=get_partition_by_name,
        get_partition_names=get_partition_names,
        fetch_partition_names_req=fetch_partition_names_req,
        get_partitions=get_partitions,
        get_partitions_req=get_partitions_req,
        get_partitions_with_auth=get_partitions_with_auth,
        get_partition_names_ps=get_partition_names_ps,
        get_partition_names_ps_req=get_partition_names_ps_req,
        get_partitions_ps=get_partitions_ps,
        get_partitions_ps_with_auth=get_partitions_ps_with_auth,
        get_partitions_ps_with_auth_req=get_partitions_ps_with_auth_req,
        get_partitions_by_names=get_partitions_by_names,
        get_partitions_by_names_req=get_partitions_by_names_req,
        get_partitions_by_filter=get_partitions_by_filter,
        get_partitions_by_filter_req=get_partitions_by_filter_req,
        get_num_partitions_by_filter=get_num_partitions_by_filter,
        get_partition_names_req=get_partition_names_req,
        get_partitions_by_expr=get_partitions_by_expr,
        get_partitions_spec_by_expr=get_partitions_spec_by_expr,
    ),
}
