"""Tables: TBLS, TABLE_PARAMS, PARTITION_KEYS, with their descriptors.

Job: turn structs into rows and back. Must not know: what a call may do, rows of partitions (except that they move with
the table). NULLs in a row mean the same as in store/sql/tables.py. Owner: the thread of a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, delete, insert, select, update

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.rows import descriptors
from hms_cache_proxy.embedded.rows.common import batches, delete_of, read_maps, rows_of, write, write_maps
from hms_cache_proxy.embedded.rows.databases import OWNER_TYPES, owner_type_name
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.table_filter import FilteredTable
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

_VIEWS = ("VIRTUAL_VIEW", "MATERIALIZED_VIEW")


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A stored table: its ids and the struct."""

    table_id: int
    database_id: int
    sd_id: int | None
    table: Struct


@dataclass(frozen=True, slots=True)
class TableBrief:
    """A table in a listing."""

    table_id: int
    name: str
    kind: str | None
    owner: str | None
    owner_type: str | None


def table_names(call: Call, database_id: int) -> list[TableBrief]:
    """Tables of a database, by name."""
    columns = T.TBLS.c
    wanted = (columns.TBL_ID, columns.TBL_NAME, columns.TBL_TYPE, columns.OWNER, columns.OWNER_TYPE)
    query = select(*wanted).where(columns.DB_ID == database_id).order_by(columns.TBL_NAME)
    return [TableBrief(*row) for row in call.execute(query)]


def filtered_tables(call: Call, catalog: str, database: str) -> list[FilteredTable]:
    """All tables of a database, as filters see them, in the order of creation."""
    tables, dbs = T.TBLS.c, T.DBS.c
    query = _placed().where(dbs.NAME == database, dbs.CTLG_NAME == catalog).order_by(tables.TBL_ID)
    found = call.rows(query)
    parameters = read_maps(call, T.TABLE_PARAMS.c.TBL_ID, [row.TBL_ID for row in found])
    return [
        FilteredTable(row.TBL_NAME, row.TBL_TYPE, row.OWNER, row.LAST_ACCESS_TIME, parameters.get(row.TBL_ID, {}))
        for row in found
    ]


def place(call: Call, database_id: int) -> tuple[str, str]:
    """(catalog, database) of an id."""
    columns = T.DBS.c
    row = call.execute(select(columns.CTLG_NAME, columns.NAME).where(columns.DB_ID == database_id)).one()
    return row[0], row[1]


def find_table(call: Call, catalog: str, database: str, name: str) -> StoredTable | None:
    """One table as stored."""
    found = find_tables(call, catalog, database, [name])
    return found[0] if found else None


def find_tables(call: Call, catalog: str, database: str, names: Sequence[str]) -> list[StoredTable]:
    """The named tables that exist, by id."""
    tables, dbs = T.TBLS.c, T.DBS.c
    query = _placed().where(dbs.NAME == database, dbs.CTLG_NAME == catalog)
    found = []
    for some in batches(names):
        found += call.rows(query.where(tables.TBL_NAME.in_(some)))
    return _tables(call, sorted(found, key=lambda row: int(row.TBL_ID)))


def numbered(call: Call, ids: Sequence[int]) -> list[StoredTable]:
    """Tables by id."""
    query = _placed()
    return _tables(call, [row for some in batches(ids) for row in call.rows(query.where(T.TBLS.c.TBL_ID.in_(some)))])


def _placed() -> Select[Any]:
    """Tables with their database's name and catalog."""
    dbs = T.DBS.c
    columns = (T.TBLS, dbs.NAME.label("DB"), dbs.CTLG_NAME.label("CATALOG"))
    return select(*columns).join(T.DBS, dbs.DB_ID == T.TBLS.c.DB_ID)


def _tables(call: Call, rows: Sequence[Any]) -> list[StoredTable]:
    if not rows:
        return []
    ids = [row.TBL_ID for row in rows]
    parameters = read_maps(call, T.TABLE_PARAMS.c.TBL_ID, ids)
    keys: dict[int, list[Struct]] = defaultdict(list)
    columns = T.PARTITION_KEYS.c
    wanted = (columns.PKEY_NAME, columns.PKEY_TYPE, columns.PKEY_COMMENT)
    for id_, name, kind, comment in rows_of(call, columns.TBL_ID, ids, *wanted, order=(columns.INTEGER_IDX,)):
        keys[id_].append(new("FieldSchema", name=name, type=kind, comment=comment))
    sds = descriptors.read_descriptors(call, [row.SD_ID for row in rows], whole=True)
    found = []
    for row in rows:
        table = _table(row, parameters.get(row.TBL_ID, {}), keys[row.TBL_ID], sds.get(row.SD_ID))
        if table.tableType == "MATERIALIZED_VIEW":
            table.creationMetadata = _creation_metadata(call, table)
        found.append(StoredTable(row.TBL_ID, row.DB_ID, row.SD_ID, table))
    return found


def _creation_metadata(call: Call, view: Struct) -> Struct | None:
    """The sources of a materialized view (rows/views.py)."""
    columns, used = T.MV_CREATION_METADATA.c, T.MV_TABLES_USED.c
    mine = (columns.CAT_NAME == view.catName) & (columns.DB_NAME == view.dbName) & (columns.TBL_NAME == view.tableName)
    row = call.execute(select(T.MV_CREATION_METADATA).where(mine)).first()
    if row is None:
        return None
    query = select(T.MV_TABLES_USED).where(used.MV_CREATION_METADATA_ID == row.MV_CREATION_METADATA_ID)
    counts = {each.TBL_ID: each for each in call.rows(query)}
    sources = [
        new(
            "SourceTable",
            table=source.table,
            insertedCount=counts[source.table_id].INSERTED_COUNT,
            updatedCount=counts[source.table_id].UPDATED_COUNT,
            deletedCount=counts[source.table_id].DELETED_COUNT,
        )
        for source in numbered(call, sorted(counts))
    ]
    return new(
        "CreationMetadata",
        catName=row.CAT_NAME,
        dbName=row.DB_NAME,
        tblName=row.TBL_NAME,
        tablesUsed={f"{source.table.dbName}.{source.table.tableName}" for source in sources},
        validTxnList=row.TXN_LIST,
        materializationTime=row.MATERIALIZATION_TIME,
        sourceTables=sources,
    )


def _table(row: Any, parameters: dict[str, str], keys: list[Struct], sd: Struct | None) -> Struct:
    viewed = row.TBL_TYPE in _VIEWS
    if sd is not None and is_full_acid(parameters):
        trim(sd)
    return new(
        "Table",
        tableName=row.TBL_NAME,
        dbName=row.DB,
        owner=row.OWNER,
        createTime=row.CREATE_TIME,
        lastAccessTime=row.LAST_ACCESS_TIME,
        retention=row.RETENTION,
        sd=sd,
        partitionKeys=keys,
        parameters=parameters,
        viewOriginalText=row.VIEW_ORIGINAL_TEXT if viewed else None,
        viewExpandedText=row.VIEW_EXPANDED_TEXT if viewed else None,
        tableType=row.TBL_TYPE or _type(row, parameters),
        rewriteEnabled=bool(row.IS_REWRITE_ENABLED),
        catName=row.CATALOG,
        ownerType=OWNER_TYPES.get(row.OWNER_TYPE, OWNER_TYPES["USER"]),
        writeId=row.WRITE_ID or 0,
        id=row.TBL_ID,
    )


def _type(row: Any, parameters: dict[str, str]) -> str:
    if row.VIEW_ORIGINAL_TEXT is not None:
        return "VIRTUAL_VIEW"
    return "EXTERNAL_TABLE" if parameters.get("EXTERNAL", "").upper() == "TRUE" else "MANAGED_TABLE"


def is_transactional(parameters: dict[str, str] | None) -> bool:
    """Is it a transactional table?"""
    return (parameters or {}).get("transactional", "").lower() == "true"


def is_full_acid(parameters: dict[str, str] | None) -> bool:
    """Is it transactional, and not insert-only?"""
    properties = (parameters or {}).get("transactional_properties", "").lower()
    return is_transactional(parameters) and properties != "insert_only"


def trim(sd: Struct) -> None:
    """Remove the fields of a descriptor that a metastore leaves out for full-ACID tables."""
    sd.parameters, sd.sortCols = {}, []
    sd.skewedInfo = new("SkewedInfo", skewedColNames=[], skewedColValues=[], skewedColValueLocationMaps={})
    if sd.serdeInfo is not None:
        serde = sd.serdeInfo
        sd.serdeInfo = new("SerDeInfo", name=serde.name, serializationLib=serde.serializationLib, parameters={})


def insert_table(call: Call, database_id: int, table: Struct) -> int:
    """Insert a table; returns its id."""
    table_id = new_ids(call.connection, "MTable")
    sd_id = None
    if table.sd is not None:
        (sd_id,) = descriptors.insert_descriptors(call, [(table.sd, None)])
    row = {"TBL_ID": table_id, "DB_ID": database_id, "SD_ID": sd_id, **_row(table)}
    call.execute(insert(T.TBLS), row)
    write_maps(call, T.TABLE_PARAMS.c.TBL_ID, {table_id: table.parameters})
    _insert_keys(call, table_id, table)
    return table_id


def _insert_keys(call: Call, table_id: int, table: Struct) -> None:
    rows = [
        {
            "TBL_ID": table_id,
            "PKEY_NAME": key.name.lower(),
            "PKEY_TYPE": key.type,
            "PKEY_COMMENT": key.comment,
            "INTEGER_IDX": position,
        }
        for position, key in enumerate(table.partitionKeys or ())
    ]
    write(call, T.PARTITION_KEYS, rows)


def _row(table: Struct) -> dict[str, Any]:
    return {
        "TBL_NAME": table.tableName,
        "TBL_TYPE": table.tableType,
        "OWNER": table.owner,
        "OWNER_TYPE": owner_type_name(table.ownerType) or "USER",
        "CREATE_TIME": table.createTime or 0,
        "LAST_ACCESS_TIME": table.lastAccessTime or 0,
        "RETENTION": table.retention or 0,
        "VIEW_ORIGINAL_TEXT": table.viewOriginalText,
        "VIEW_EXPANDED_TEXT": table.viewExpandedText,
        "IS_REWRITE_ENABLED": bool(table.rewriteEnabled),
        "WRITE_ID": _write_id(table),
    }


def _write_id(table: Struct) -> int:
    """The stored write id: -1 for a transactional table that has never been written, as in Hive."""
    unwritten = -1 if is_transactional(table.parameters) else 0
    return unwritten if table.writeId is None else max(table.writeId, unwritten)


def update_table(call: Call, row: StoredTable, table: Struct, *, database_id: int) -> None:
    """Replace everything of a table except its id and creation time."""
    values = {**_row(table), "DB_ID": database_id}
    if table.writeId is not None:
        values["WRITE_ID"] = table.writeId
    del values["CREATE_TIME"]
    call.execute(update(T.TBLS).where(T.TBLS.c.TBL_ID == row.table_id).values(**values))
    update_parameters(call, row.table_id, table.parameters)
    call.execute(delete(T.PARTITION_KEYS).where(T.PARTITION_KEYS.c.TBL_ID == row.table_id))
    _insert_keys(call, row.table_id, table)
    if table.sd is not None and row.sd_id is not None:
        same = _columns(row.table.sd) == _columns(table.sd)
        descriptors.update_descriptor(call, row.sd_id, table.sd, columns=not same, constraints=True)


def update_parameters(call: Call, table_id: int, parameters: dict[str, str] | None) -> None:
    """Replace a table's parameters."""
    call.execute(delete(T.TABLE_PARAMS).where(T.TABLE_PARAMS.c.TBL_ID == table_id))
    write_maps(call, T.TABLE_PARAMS.c.TBL_ID, {table_id: parameters})


def set_write_id(call: Call, table_id: int, write_id: int) -> None:
    """Set the write id to which a table's parameters belong."""
    call.execute(update(T.TBLS).where(T.TBLS.c.TBL_ID == table_id).values(WRITE_ID=write_id))


def put_parameter(call: Call, table_id: int, key: str, value: str) -> None:
    """Set one parameter of a table."""
    columns = T.TABLE_PARAMS.c
    mine = (columns.TBL_ID == table_id) & (columns.PARAM_KEY == key)
    if not call.execute(update(T.TABLE_PARAMS).where(mine).values(PARAM_VALUE=value)).rowcount:
        write_maps(call, columns.TBL_ID, {table_id: {key: value}})


def _columns(sd: Struct | None) -> list[tuple[str, str, str | None]]:
    return [] if sd is None else [(col.name.lower(), col.type, col.comment) for col in sd.cols or ()]


def delete_table(call: Call, row: StoredTable) -> None:
    """Delete a table with everything that belongs to it; it must have no partitions left."""
    ids = [row.table_id]
    keys = T.KEY_CONSTRAINTS.c
    mine = (keys.PARENT_TBL_ID == row.table_id) | (keys.CHILD_TBL_ID == row.table_id)
    call.execute(delete(T.KEY_CONSTRAINTS).where(mine))
    for column in (
        T.TABLE_PARAMS.c.TBL_ID,
        T.PARTITION_KEYS.c.TBL_ID,
        T.TBL_PRIVS.c.TBL_ID,
        T.TBL_COL_PRIVS.c.TBL_ID,
        T.TAB_COL_STATS.c.TBL_ID,
        T.MV_TABLES_USED.c.TBL_ID,
        T.TBLS.c.TBL_ID,
    ):
        delete_of(call, column, ids)
    if row.sd_id is not None:
        descriptors.delete_descriptors(call, [row.sd_id])
