"""Files that a transaction writes, reported before its commit, for replication; the validity of materialized views.

Job: carry out the calls, with their rows: TXN_WRITE_NOTIFICATION_LOG, MV_TABLES_USED. No events are written; clients
read a transaction's writes with a call. Source: HMSHandler, DbNotificationListener.onAcidWrite and
GetMaterializationInvalidationInfoFunction of 4.2, and the database of one. A second write to a table or partition adds
its files; Hive intends this, and fails on PostgreSQL. Owner: the thread of a call.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import insert, select, update

from hms_cache_proxy.embedded import names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.failures import internal
from hms_cache_proxy.embedded.handlers.partitions import one
from hms_cache_proxy.embedded.handlers.tables import found
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import as_json, new
from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.store.write_ids import ValidWriteIdList, lists_by_table
from hms_cache_proxy.wire.spec import Struct

SEPARATOR = "]"  # between files
_LOG = T.TXN_WRITE_NOTIFICATION_LOG.c


def add_write_notification_log(call: Call, args: Struct) -> Struct:
    """Report files of a table or partition."""
    request = args.rqst
    _add(call, names.DEFAULT_CATALOG, request.db, request.table, request)
    return new("WriteNotificationLogResponse")


def add_write_notification_log_in_batch(call: Call, args: Struct) -> Struct:
    """Report files of partitions of a table."""
    batch = args.rqst
    for request in batch.requestList:
        _add(call, names.fold(batch.catalog), batch.db, batch.table, request)
    return new("WriteNotificationLogBatchResponse")


def _add(call: Call, catalog: str, database: str, table: str, request: Struct) -> None:
    row = found(call, catalog, names.fold(database), table)
    if bool(row.table.partitionKeys) != bool(request.partitionVals):
        raise internal("values of a partition where there are none, or none")
    part = one(call, row, request.partitionVals).partition if request.partitionVals else None
    name = names.partition_name(row.table.partitionKeys, request.partitionVals) if part is not None else ""
    told = request.fileInfo
    places = told.subDirectoryList or [""] * len(told.filesAdded)
    files = SEPARATOR.join(f"{uri}###{place}" for uri, place in zip(told.filesAdded, places, strict=False))
    written = {
        "WNL_TABLE_OBJ": as_json(row.table),
        "WNL_PARTITION_OBJ": None if part is None else as_json(part),
        "WNL_EVENT_TIME": call.now,
    }
    key = {"WNL_DATABASE": row.table.dbName, "WNL_TABLE": row.table.tableName, "WNL_PARTITION": name}
    mine = _LOG.WNL_TXNID == request.txnId
    for column, value in key.items():
        mine &= _LOG[column] == value
    known = call.execute(select(_LOG.WNL_FILES).where(mine)).scalar()
    if known is not None:
        values = {**written, "WNL_FILES": SEPARATOR.join((known, files))}
        call.execute(update(T.TXN_WRITE_NOTIFICATION_LOG).where(mine).values(**values))
        return
    ids = {"WNL_ID": new_ids(call.connection, "MTxnWriteNotificationLog"), "WNL_TXNID": request.txnId}
    values = {**ids, "WNL_WRITEID": request.writeId, **key, **written, "WNL_FILES": files}
    call.execute(insert(T.TXN_WRITE_NOTIFICATION_LOG), values)


def get_all_write_event_info(call: Call, args: Struct) -> list[Struct]:
    """The reported writes of a transaction, optionally of one database or table."""
    request = args.request
    query = select(T.TXN_WRITE_NOTIFICATION_LOG).where(_LOG.WNL_TXNID == request.txnId).order_by(_LOG.WNL_ID)
    if request.dbName:
        query = query.where(_LOG.WNL_DATABASE == request.dbName)
    if request.tableName:
        query = query.where(_LOG.WNL_TABLE == request.tableName)
    return [
        new(
            "WriteEventInfo",
            writeId=row.WNL_WRITEID,
            database=row.WNL_DATABASE,
            table=row.WNL_TABLE,
            files=row.WNL_FILES,
            partition=row.WNL_PARTITION,
            tableObj=row.WNL_TABLE_OBJ,
            partitionObj=row.WNL_PARTITION_OBJ,
        )
        for row in call.rows(query)
    ]


def update_transaction_statistics(call: Call, args: Struct) -> None:
    """Count the rows that a transaction wrote to a table, for the materialized views that use it."""
    request, used = args.req, T.MV_TABLES_USED.c
    counts = {
        "INSERTED_COUNT": used.INSERTED_COUNT + request.insertCount,
        "UPDATED_COUNT": used.UPDATED_COUNT + request.updatedCount,
        "DELETED_COUNT": used.DELETED_COUNT + request.deletedCount,
    }
    call.execute(update(T.MV_TABLES_USED).where(used.TBL_ID == request.tableId).values(**counts))


def get_materialization_invalidation_info(call: Call, args: Struct) -> Struct | None:
    """Have rows of a view's sources changed, or have sources been compacted, since it was built? None: rebuild it."""
    metadata = args.creation_metadata
    if not metadata.tablesUsed:
        return None
    lists = _lists(metadata.validTxnList)
    if lists is None:
        return None
    changed = compacted = False
    for full_name in metadata.tablesUsed:
        seen = lists.get(full_name.encode())
        if seen is None:
            return None
        place = names.fold(full_name).partition(".")[::2]
        changed |= _written(call, T.COMPLETED_TXN_COMPONENTS, "CTC", place, seen)
        compacted |= _written(call, T.COMPLETED_COMPACTIONS, "CC", place, seen)
        compacted |= _exists(call, T.COMPACTION_QUEUE, "CQ", place)
    return new("Materialization", sourceTablesUpdateDeleteModified=changed, sourceTablesCompacted=compacted)


def _lists(snapshot: str | None) -> dict[bytes | None, ValidWriteIdList] | None:
    """The write id lists from which a view was built, by table; None for a snapshot of other tables' versions.

    A snapshot is JSON with a ValidTxnWriteIdList in it.
    """
    try:
        decoded = json.loads(snapshot or "")
        if decoded.get("tableSnapshots"):
            return None
        return lists_by_table((decoded["validTxnList"] or "").encode())
    except (ValueError, KeyError, AttributeError, WriteIdsError) as error:
        raise internal(f"no snapshot: {error}") from error


def _exists(call: Call, table: Any, prefix: str, place: tuple[str, str], *where: Any) -> bool:
    mine = (table.c[f"{prefix}_DATABASE"] == place[0]) & (table.c[f"{prefix}_TABLE"] == place[1])
    return call.execute(select(table.c[f"{prefix}_TABLE"]).where(mine, *where).limit(1)).first() is not None


def _written(call: Call, table: Any, prefix: str, place: tuple[str, str], seen: ValidWriteIdList) -> bool:
    """Are there rows with write ids that a snapshot does not see?"""
    column = table.c.CTC_WRITEID if prefix == "CTC" else table.c.CC_HIGHEST_WRITE_ID
    unseen = (column > seen.high_watermark) | column.in_(seen.invalid)
    only = [table.c.CTC_UPDATE_DELETE == "Y"] if prefix == "CTC" else []
    return _exists(call, table, prefix, place, unseen, *only)


METHODS = {
    **reads(
        get_all_write_event_info=get_all_write_event_info,
        get_materialization_invalidation_info=get_materialization_invalidation_info,
    ),
    **writes(
        add_write_notification_log=add_write_notification_log,
        add_write_notification_log_in_batch=add_write_notification_log_in_batch,
        update_transaction_statistics=update_transaction_statistics,
    ),
}
