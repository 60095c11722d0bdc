"""Runtime statistics of queries, which Hive's planner stores; and marks of loaded partitions.

Job: carry out the calls, with their rows: RUNTIME_STATS, PARTITION_EVENTS. Source: HMSHandler and ObjectStore of 4.0.
Owner: the thread of a call.
"""

from __future__ import annotations

from sqlalchemy import insert, select

from hms_cache_proxy.embedded import names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.failures import Failure, unknown_table
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct


def add_runtime_stats(call: Call, args: Struct) -> None:
    """Add the statistics of one query."""
    row = {
        "RS_ID": new_ids(call.connection, "MRuntimeStat"),
        "CREATE_TIME": args.stat.createTime or 0,
        "WEIGHT": args.stat.weight,
        "PAYLOAD": args.stat.payload,
    }
    call.execute(insert(T.RUNTIME_STATS), row)


def get_runtime_stats(call: Call, args: Struct) -> list[Struct]:
    """The newest statistics (created before a time), until their weights add up to a number."""
    request = args.rqst
    columns = T.RUNTIME_STATS.c
    query = select(T.RUNTIME_STATS).order_by(columns.CREATE_TIME.desc())
    if request.maxCreateTime > 0:
        query = query.where(columns.CREATE_TIME < request.maxCreateTime)
    found = []
    total = 0
    for row in call.rows(query):
        total += row.WEIGHT
        found.append(new("RuntimeStat", createTime=row.CREATE_TIME, weight=row.WEIGHT, payload=row.PAYLOAD))
        if 0 <= request.maxWeight <= total:
            break
    return found


def markPartitionForEvent(call: Call, args: Struct) -> None:
    """Mark a partition as loaded; it need not exist."""
    table, name = _marked(call, args)
    row = {
        "PART_NAME_ID": new_ids(call.connection, "MPartitionEvent"),
        "CAT_NAME": table.catName,
        "DB_NAME": table.dbName,
        "TBL_NAME": table.tableName,
        "PARTITION_NAME": name,
        "EVENT_TYPE": args.eventType,
        "EVENT_TIME": call.now * 1000,
    }
    call.execute(insert(T.PARTITION_EVENTS), row)


def isPartitionMarkedForEvent(call: Call, args: Struct) -> bool:
    """Is the partition marked as loaded?"""
    table, name = _marked(call, args)
    columns = T.PARTITION_EVENTS.c
    query = select(columns.PART_NAME_ID).where(
        columns.CAT_NAME == table.catName,
        columns.DB_NAME == table.dbName,
        columns.TBL_NAME == table.tableName,
        columns.PARTITION_NAME == name,
        columns.EVENT_TYPE == args.eventType,
    )
    return call.execute(query).first() is not None


def _marked(call: Call, args: Struct) -> tuple[Struct, str]:
    """The table, and the values in the order of its keys, separated by commas."""
    catalog, database = names.both(args.db_name)
    row = table_rows.find_table(call, catalog, database, names.fold(args.tbl_name))
    if row is None:
        raise unknown_table(f"Table: {args.tbl_name} is not found.")
    keys, values = row.table.partitionKeys, args.part_vals or {}
    if len(keys) != len(values):
        raise Failure(
            "InvalidPartitionException",
            f"Number of partition columns in table: {len(keys)} doesn't match with number of supplied partition"
            f" values: {len(values)}",
        )
    for key in keys:
        if key.name not in values:
            raise Failure("InvalidPartitionException", f"No value found for partition column: {key.name}")
    return row.table, ",".join(values[key.name] for key in keys)


METHODS = {
    **reads(get_runtime_stats=get_runtime_stats, isPartitionMarkedForEvent=isPartitionMarkedForEvent),
    **writes(add_runtime_stats=add_runtime_stats, markPartitionForEvent=markPartitionForEvent),
}
