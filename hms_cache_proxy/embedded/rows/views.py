"""The sources of materialized views: MV_CREATION_METADATA, MV_TABLES_USED.

Job: turn rows into CreationMetadata and back (rows/tables.py reads it together with a table). Must not know: what a
call may do.
Source: ObjectStore.convertToMCreationMetadata of Hive 4.0. Owner: the thread of a call.
"""

from __future__ import annotations

import time

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded import names
from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.rows import tables
from hms_cache_proxy.embedded.rows.common import write
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.wire.spec import Struct

_MODEL = "MCreationMetadata"


def insert_metadata(call: Call, metadata: Struct) -> None:
    """Insert the sources of a new view. MetaException for a source that does not exist."""
    id_ = new_ids(call.connection, _MODEL)
    row = {
        "MV_CREATION_METADATA_ID": id_,
        "CAT_NAME": names.fold(metadata.catName),
        "DB_NAME": names.fold(metadata.dbName),
        "TBL_NAME": names.fold(metadata.tblName),
        "TXN_LIST": metadata.validTxnList,
        "MATERIALIZATION_TIME": int(time.time() * 1000),
    }
    call.execute(insert(T.MV_CREATION_METADATA), row)
    _insert_sources(call, id_, metadata)


def _insert_sources(call: Call, id_: int, metadata: Struct) -> None:
    counts: dict[tuple[str, str], tuple[int, int, int]] = {}
    if metadata.sourceTables is not None:
        for source in metadata.sourceTables:
            place = (names.fold(source.table.dbName), names.fold(source.table.tableName))
            counts[place] = (source.insertedCount, source.updatedCount, source.deletedCount)
    else:
        for full_name in metadata.tablesUsed or ():
            database, _, table = full_name.partition(".")
            counts[names.fold(database), names.fold(table)] = (0, 0, 0)
    found = []
    for (database, table), (inserted, updated, deleted) in counts.items():
        row = tables.find_table(call, names.fold(metadata.catName), database, table)
        if row is None:
            raise meta(f"the source {database}.{table} of a materialized view is not there")
        found.append(
            {
                "MV_CREATION_METADATA_ID": id_,
                "TBL_ID": row.table_id,
                "INSERTED_COUNT": inserted,
                "UPDATED_COUNT": updated,
                "DELETED_COUNT": deleted,
            }
        )
    write(call, T.MV_TABLES_USED, found)


def replace_metadata(call: Call, catalog: str, database: str, name: str, metadata: Struct) -> bool:
    """Replace sources and transactions of a view; False if it has none yet."""
    columns = T.MV_CREATION_METADATA.c
    mine = (columns.CAT_NAME == catalog) & (columns.DB_NAME == database) & (columns.TBL_NAME == name)
    id_ = call.execute(select(columns.MV_CREATION_METADATA_ID).where(mine)).scalar()
    if id_ is None:
        return False
    changed = {"TXN_LIST": metadata.validTxnList, "MATERIALIZATION_TIME": int(time.time() * 1000)}
    call.execute(update(T.MV_CREATION_METADATA).where(columns.MV_CREATION_METADATA_ID == id_).values(**changed))
    call.execute(delete(T.MV_TABLES_USED).where(T.MV_TABLES_USED.c.MV_CREATION_METADATA_ID == id_))
    _insert_sources(call, id_, metadata)
    return True


def delete_metadata(call: Call, row: tables.StoredTable) -> None:
    """Delete the sources of a dropped view."""
    if row.table.tableType != "MATERIALIZED_VIEW":
        return
    columns, used = T.MV_CREATION_METADATA.c, T.MV_TABLES_USED.c
    place = (row.table.catName, row.table.dbName, row.table.tableName)
    mine = (columns.CAT_NAME == place[0]) & (columns.DB_NAME == place[1]) & (columns.TBL_NAME == place[2])
    ids = select(columns.MV_CREATION_METADATA_ID).where(mine)
    call.execute(delete(T.MV_TABLES_USED).where(used.MV_CREATION_METADATA_ID.in_(ids)))
    call.execute(delete(T.MV_CREATION_METADATA).where(mine))


def users(call: Call, table_id: int) -> list[str]:
    """Materialized views (`database.view`) that use a table."""
    columns, used = T.MV_CREATION_METADATA.c, T.MV_TABLES_USED.c
    query = (
        select(columns.DB_NAME, columns.TBL_NAME)
        .join(T.MV_TABLES_USED, used.MV_CREATION_METADATA_ID == columns.MV_CREATION_METADATA_ID)
        .where(used.TBL_ID == table_id)
        .order_by(columns.MV_CREATION_METADATA_ID)
    )
    return [f"{database}.{name}" for database, name in call.execute(query)]
