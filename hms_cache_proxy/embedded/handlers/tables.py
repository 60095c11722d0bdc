"""Reading tables.

Job: carry out the calls; rows/tables.py has the rows, transformer.py what processors see. Source: HMSHandler of 4.2,
and answers of a running one. get_table and get_table_objects_by_name, which 4.2 lacks, are as in 4.0.0: older clients
then work without the proxy. Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from hms_cache_proxy.embedded import acid, names, table_fields, table_filter, transformer
from hms_cache_proxy.embedded.call import Call, reads
from hms_cache_proxy.embedded.failures import (
    Failure,
    internal,
    invalid_operation,
    meta,
    no_such_object,
    unknown_db,
    unknown_table,
)
from hms_cache_proxy.embedded.handlers import statistics
from hms_cache_proxy.embedded.patterns import matcher
from hms_cache_proxy.embedded.rows import databases as database_rows
from hms_cache_proxy.embedded.rows import tables as rows
from hms_cache_proxy.embedded.rows.common import read_maps
from hms_cache_proxy.embedded.rows.databases import OWNER_TYPES
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

_INSERT_ONLY = int(enum("ClientCapability")["INSERT_ONLY_TABLES"])
_NOT_ABLE = (
    "Your client does not appear to support insert-only tables. To skip capability checks, please set"
    " metastore.client.capability.check to false. This setting can be set globally, or on the client for the current"
    " metastore session. Note that this may lead to incorrect results, data loss, undefined behavior, etc. if your"
    " client is actually incompatible. You can also specify custom client capabilities via get_table_req API."
)
TABLE_TYPES = {"MANAGED_TABLE", "EXTERNAL_TABLE", "VIRTUAL_VIEW", "MATERIALIZED_VIEW"}


def found(call: Call, catalog: str, database: str, name: str) -> rows.StoredTable:
    """A table as stored. NoSuchObjectException."""
    row = rows.find_table(call, catalog, database, names.fold(name))
    if row is None:
        raise no_such_object(f"{names.qualified(catalog, database, name)} table not found")
    return row


def shown(call: Call, table: Struct, capabilities: Sequence[str] | None) -> Struct:
    """A table as a processor sees it."""
    return transformer.shown(table, capabilities) if call.transforms else table


def get_table(call: Call, args: Struct) -> Struct:
    """A table by name, as in Hive 4.0.0."""
    catalog, database = names.both(args.dbname)
    return found(call, catalog, database, args.tbl_name).table


def get_table_req(call: Call, args: Struct) -> Struct:
    """A table by request."""
    request = args.req
    catalog, database = names.exact(request.dbName, request.catName)
    row = rows.find_table(call, catalog, database, names.fold(request.tblName))
    if row is None:
        raise no_such_object(_not_found(request))
    table = row.table
    _check_able(table, request.capabilities)
    seen = request.validWriteIdList
    if seen is not None:
        acid.show_to(table, seen)
    if request.getColumnStats:
        table.colStats = statistics.of_table(call, row, request.engine)
        if table.colStats is not None and seen is not None:
            table.colStats.isStatsCompliant = not rows.is_transactional(table.parameters) or acid.are_valid(table, seen)
    return new("GetTableResult", table=shown(call, table, request.processorCapabilities))


def _not_found(request: Struct) -> str:
    """The text of the exception, with the names as written."""
    catalog = names.DEFAULT_CATALOG if request.catName is None else request.catName
    return f"{names.qualified(catalog, request.dbName, request.tblName)} table not found"


def get_table_objects_by_name(call: Call, args: Struct) -> list[Struct]:
    """The named tables that exist, as in Hive 4.0.0."""
    catalog, database = names.both(args.dbname)
    return _named(call, catalog, database, args.tbl_names)


def get_table_objects_by_name_req(call: Call, args: Struct) -> Struct:
    """The named tables (or those that match a pattern) that exist."""
    request = args.req
    fields = table_fields.check(request.projectionSpec)
    catalog, database = names.exact(request.dbName, request.catName)
    try:
        if request.tablesPattern is None:
            found_ones = _named(call, catalog, database, request.tblNames)
        else:
            found_ones = _matching(call, catalog, database, request.tablesPattern, request.tblNames)
    except Failure as failure:
        folded = names.qualified(catalog, database)
        if failure.message != f"Could not find database {folded}":
            raise
        raise unknown_db(f"Could not find database {names.qualified(catalog, request.dbName)}") from failure
    found_ones = [table_fields.projected(table, fields) for table in found_ones]
    for table in found_ones:
        _check_able(table, request.capabilities)
    return new("GetTablesResult", tables=found_ones)


def _check_able(table: Struct, capabilities: Struct | None) -> None:
    """Refuse an insert-only table unless the client declares that it can read it (assertClientHasCapability)."""
    insert_only = (table.parameters or {}).get("transactional_properties", "").lower() == "insert_only"
    if insert_only and (capabilities is None or _INSERT_ONLY not in (capabilities.values or ())):
        raise meta(_NOT_ABLE)


def _named(call: Call, catalog: str, database: str, wanted: Sequence[str] | None) -> list[Struct]:
    if not database:
        raise unknown_db("DB name is null or empty")
    if wanted is not None and not wanted:
        return []
    if wanted is None:
        raise invalid_operation(f"{database} cannot find null tables")
    if database_rows.find_database(call, catalog, database) is None:
        return _matching(call, catalog, database, "*", wanted)
    return [row.table for row in rows.find_tables(call, catalog, database, [names.fold(name) for name in wanted])]


def _matching(call: Call, catalog: str, pattern: str, tables: str, named: Sequence[str] | None) -> list[Struct]:
    """Tables that match a pattern, in databases that match another pattern."""
    if not pattern:
        raise unknown_db("DB name is null or empty")
    in_database, matches = matcher(pattern), matcher(tables)
    wanted = None if named is None else {names.fold(name) for name in named}
    mine: list[rows.StoredTable] = []
    for database in filter(in_database, database_rows.database_names(call, catalog)):
        listed = [each.name for each in _listed(call, catalog, database) if matches(each.name)]
        chosen = [name for name in listed if wanted is None or name in wanted]
        mine += rows.find_tables(call, catalog, database, chosen)
    if not mine and database_rows.find_database(call, catalog, pattern) is None:
        raise unknown_db(f"Could not find database {names.qualified(catalog, pattern)}")
    return [row.table for row in sorted(mine, key=lambda row: row.table_id)]


def _listed(call: Call, catalog: str, database: str) -> list[rows.TableBrief]:
    found_one = database_rows.find_database(call, catalog, database)
    return [] if found_one is None else rows.table_names(call, found_one[0])


def get_tables(call: Call, args: Struct) -> list[str]:
    """Names that match a pattern, in the order of creation, as Hive 4.2 mostly returns them."""
    catalog, database = names.both(args.db_name)
    if args.pattern is not None and not args.pattern.strip("|") and args.pattern:
        clause = '"(database.name == :param1 ) &&  (database.catalogName == :param2 ) &&  ( )"'
        raise meta(f"Method/Identifier expected at character 74 in {clause}")
    matches = matcher(args.pattern)
    mine = [each for each in _listed(call, catalog, database) if matches(each.name)]
    return [each.name for each in sorted(mine, key=lambda each: each.table_id)]


def get_tables_by_type(call: Call, args: Struct) -> list[str]:
    """Names of one type of table that match a pattern, in order, as Hive 4.2 returns them."""
    catalog, name = names.split(args.db_name)
    if args.tableType not in TABLE_TYPES:
        no_such = f"No enum constant org.apache.hadoop.hive.metastore.TableType.{args.tableType}"
        raise meta(f"java.lang.IllegalArgumentException: {no_such}")
    database = names.fold(name)
    matches = matcher(args.pattern)
    found_ones = _listed(call, catalog, database)
    return [each.name for each in found_ones if matches(each.name) and each.kind == args.tableType]


def get_all_tables(call: Call, args: Struct) -> list[str]:
    """The names of all tables of a database."""
    catalog, database = names.both(args.db_name)
    return [each.name for each in _listed(call, catalog, database)]


def get_table_meta(call: Call, args: Struct) -> list[Struct]:
    """Name, type, owner and comment of tables of several databases."""
    if args.db_patterns is None:
        return []
    catalog, pattern = names.split(args.db_patterns)
    in_database, called = matcher(pattern), matcher(args.tbl_patterns)
    kinds = set(args.tbl_types or ())
    found_ones = []
    if args.db_patterns.startswith("@"):
        catalog = args.db_patterns[1:].partition("#")[0]  # here in the case of the call
    for id_, database in database_rows.find_databases(call, catalog):
        if not in_database(database.name):
            continue
        mine = [each for each in rows.table_names(call, id_) if called(each.name) and (not kinds or each.kind in kinds)]
        parameters = read_maps(call, T.TABLE_PARAMS.c.TBL_ID, [each.table_id for each in mine])
        for each in mine:
            found_ones.append(
                new(
                    "TableMeta",
                    dbName=database.name,
                    tableName=each.name,
                    tableType=each.kind,
                    comments=parameters.get(each.table_id, {}).get("comment"),
                    catName=catalog,
                    ownerName=each.owner,
                    ownerType=OWNER_TYPES.get(each.owner_type or ""),
                )
            )
    return found_ones


def get_tables_ext(call: Call, args: Struct) -> list[Struct]:
    """Names, with what a processor may do with the tables."""
    request = args.req
    catalog, database = names.both(request.database, request.catalog)
    matches = matcher(request.tableNamePattern)
    wanted = [each.name for each in _listed(call, catalog, database) if matches(each.name)]
    if request.limit is not None and request.limit > 0:
        wanted = wanted[: request.limit]
    found_ones = []
    for row in rows.find_tables(call, catalog, database, wanted):
        table = shown(call, row.table, request.processorCapabilities or [])
        found_ones.append(
            new(
                "ExtendedTableInfo",
                tblName=table.tableName,
                accessType=table.accessType,
                requiredReadCapabilities=table.requiredReadCapabilities,
                requiredWriteCapabilities=table.requiredWriteCapabilities,
            )
        )
    return found_ones


def get_fields(call: Call, args: Struct) -> list[Struct]:
    """Columns of a table, without its partition keys."""
    if args.table_name is None:
        raise internal("the table has no name")
    return _fields(call, args.db_name, None, args.table_name)


def get_schema(call: Call, args: Struct) -> list[Struct]:
    """Columns of a table, then its partition keys."""
    if args.table_name is None:
        raise meta('java.lang.NullPointerException: Cannot invoke "String.split(String)" because "tableName" is null')
    return _schema(call, args.db_name, None, args.table_name)


def get_fields_req(call: Call, args: Struct) -> Struct:
    """The same by request."""
    request = args.req
    return new("GetFieldsResponse", fields=_columns(_requested(call, request)))


def get_schema_req(call: Call, args: Struct) -> Struct:
    """The same by request."""
    request = args.req
    table = _requested(call, request)
    return new("GetSchemaResponse", fields=[*_columns(table), *table.partitionKeys])


def _requested(call: Call, request: Struct) -> Struct:
    catalog, database = names.exact(request.dbName, request.catName)
    if request.tblName is None:
        raise internal("the table has no name")
    row = rows.find_table(call, catalog, database, names.fold(request.tblName).partition(".")[0])
    if row is not None:
        return row.table
    given = names.DEFAULT_CATALOG if request.catName is None else request.catName
    before, marker, after = request.dbName.partition("#")
    if marker and request.dbName.startswith("@") and after in ("", "!"):  # it names a catalog and no database
        names.fold(after or None)
        raise unknown_table(f"{given}#{before}..{request.tblName} table not found")
    raise unknown_table(_not_found(request))


def _columns(table: Struct) -> list[Struct]:
    return [] if table.sd is None else list(table.sd.cols)


def _fields(call: Call, database: str, catalog: str | None, name: str) -> list[Struct]:
    return _columns(_of_fields(call, database, catalog, name))


def _schema(call: Call, database: str, catalog: str | None, name: str) -> list[Struct]:
    table = _of_fields(call, database, catalog, name)
    return [*([] if table.sd is None else table.sd.cols), *table.partitionKeys]


def _of_fields(call: Call, database: str, catalog: str | None, name: str) -> Struct:
    found_catalog, found_database = names.both(database, catalog)
    wanted = name.partition(".")[0]
    row = rows.find_table(call, found_catalog, found_database, names.fold(wanted))
    if row is None:
        raise unknown_table(f"{names.qualified(*names.as_written(database), wanted)} table not found")
    return row.table


def get_table_names_by_filter(call: Call, args: Struct) -> list[str]:
    """Names of the tables that a filter (table_filter.py) selects."""
    catalog, database = names.split(args.dbname)
    if not catalog or not database:
        raise unknown_db("DB name is null or empty")
    if args.filter is None:
        raise invalid_operation("null cannot apply null filter")
    if database_rows.find_database(call, catalog, database) is None:
        raise unknown_db(f"Could not find database {names.qualified(catalog, database)}")
    chosen = table_filter.selects(args.filter)
    found_ones = [each.name for each in rows.filtered_tables(call, catalog, database) if chosen(each)]
    return found_ones if args.max_tables < 0 else found_ones[: args.max_tables]


def get_materialized_views_for_rewriting(call: Call, args: Struct) -> list[str]:
    """Names of materialized views that may be used for rewriting."""
    catalog, database = names.both(args.db_name)
    tables, dbs = T.TBLS.c, T.DBS.c
    query = (
        select(tables.TBL_NAME)
        .join(T.DBS, dbs.DB_ID == tables.DB_ID)
        .where(dbs.CTLG_NAME == catalog, dbs.NAME == database, tables.TBL_TYPE == "MATERIALIZED_VIEW")
        .where(tables.IS_REWRITE_ENABLED == True)  # noqa: E712  # a column
        .order_by(tables.TBL_ID)
    )
    return [row[0] for row in call.execute(query)]


def get_all_materialized_view_objects_for_rewriting(call: Call, _args: Struct) -> list[Struct]:
    """Materialized views of the default catalog that may be used for rewriting."""
    tables, dbs = T.TBLS.c, T.DBS.c
    query = select(tables.TBL_ID).join(T.DBS, dbs.DB_ID == tables.DB_ID)
    query = query.where(dbs.CTLG_NAME == names.DEFAULT_CATALOG, tables.TBL_TYPE == "MATERIALIZED_VIEW")
    query = query.where(tables.IS_REWRITE_ENABLED == True)  # noqa: E712  # a column
    return [row.table for row in rows.numbered(call, [row[0] for row in call.execute(query.order_by(tables.TBL_ID))])]


METHODS = reads(
    get_all_materialized_view_objects_for_rewriting=get_all_materialized_view_objects_for_rewriting,
    get_table=get_table,
    get_table_req=get_table_req,
    get_table_objects_by_name=get_table_objects_by_name,
    get_table_objects_by_name_req=get_table_objects_by_name_req,
    get_tables=get_tables,
    get_tables_by_type=get_tables_by_type,
    get_all_tables=get_all_tables,
    get_table_meta=get_table_meta,
    get_tables_ext=get_tables_ext,
    get_fields=get_fields,
    get_schema=get_schema,
    get_fields_req=get_fields_req,
    get_schema_req=get_schema_req,
    get_fields_with_environment_context=get_fields,
    get_schema_with_environment_context=get_schema,
    get_table_names_by_filter=get_table_names_by_filter,
    get_materialized_views_for_rewriting=get_materialized_views_for_rewriting,
)
