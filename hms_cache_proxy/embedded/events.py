"""The notification log: rows of NOTIFICATION_LOG with messages as Hive 4.2's listener writes them.

Job: `log()` writes the row of one change in the transaction of the change; for each kind of message one function knows
the fields. Must not know: how changes are made.

A message is base64 of gzipped JSON (`gzip(json-2.0)`, GzipJSONMessageEncoder); objects in it are strings in
TJSONProtocol (values.as_json). Event ids come from NOTIFICATION_SEQUENCE, whose row every writer locks, so they have
no gaps and are in the order of commits. Owner: the thread of a call.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, update

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.names import DEFAULT_CATALOG, partition_name
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import as_json
from hms_cache_proxy.wire.spec import Struct

FORMAT = "gzip(json-2.0)"
PARTITIONS_OF_ONE = 1000  # metastore.jdbc.max.batch.size: partitions of one ALTER_PARTITIONS


def log(
    call: Call, kind: str, fields: dict[str, Any], *, catalog: str | None, database: str | None, table: str | None
) -> int:
    """Write the row of an event and return its id. `fields` is the message without the common fields."""
    sequence = T.NOTIFICATION_SEQUENCE
    advance = (
        update(sequence)
        .where(sequence.c.NNI_ID == 1)
        .values(NEXT_EVENT_ID=sequence.c.NEXT_EVENT_ID + 1)
        .returning(sequence.c.NEXT_EVENT_ID)
    )
    event_id = int(call.execute(advance).scalar_one()) - 1
    message = {"server": "", "servicePrincipal": "", **fields, "timestamp": call.now}
    row = {
        "NL_ID": new_ids(call.connection, "MNotificationLog"),
        "EVENT_ID": event_id,
        "EVENT_TIME": call.now,
        "EVENT_TYPE": kind,
        "CAT_NAME": catalog,
        "DB_NAME": database,
        "TBL_NAME": table,
        "MESSAGE": _encoded(message),
        "MESSAGE_FORMAT": FORMAT,
    }
    call.execute(insert(T.NOTIFICATION_LOG), row)
    return event_id


def _encoded(message: dict[str, Any]) -> str:
    written = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(written, compresslevel=6, mtime=0)).decode()


def create_database(call: Call, database: Struct) -> None:
    """CREATE_DATABASE."""
    _of_database(call, "CREATE_DATABASE", database, dbJson=as_json(database))


def alter_database(call: Call, before: Struct, after: Struct) -> None:
    """ALTER_DATABASE; `after` as the client sent it."""
    fields = {"dbObjBeforeJson": as_json(before), "dbObjAfterJson": as_json(after)}
    _of_database(call, "ALTER_DATABASE", before, **fields)


def drop_database(call: Call, database: Struct) -> None:
    """DROP_DATABASE."""
    _of_database(call, "DROP_DATABASE", database, dbJson=as_json(database))


def _of_database(call: Call, kind: str, database: Struct, **fields: Any) -> None:
    place = {"catalog": database.catalogName, "database": database.name, "table": None}
    log(call, kind, {"db": database.name, **fields}, **place)


def drop_function(call: Call, catalog: str, database: str, name: str) -> None:
    """DROP_FUNCTION."""
    fields = {"db": database, "functionName": name}
    log(call, "DROP_FUNCTION", fields, catalog=catalog, database=database, table=None)


def create_table(call: Call, table: Struct) -> None:
    """CREATE_TABLE; for a table that is not external, with its files."""
    location = None if _is_external(table) or table.sd is None else table.sd.location
    files = [f"{uri}###" for uri in call.warehouse.files(location)] if location else []
    _of_table(call, "CREATE_TABLE", table, tableObjJson=as_json(table), files=files)


def drop_table(call: Call, table: Struct) -> None:
    """DROP_TABLE."""
    _of_table(call, "DROP_TABLE", table, tableObjJson=as_json(table))


def alter_table(call: Call, before: Struct, after: Struct, *, truncated: bool, write_id: int) -> None:
    """ALTER_TABLE, also for renames: the row has the new name, the message the old one."""
    fields = {
        "db": before.dbName,
        "table": before.tableName,
        "tableType": before.tableType,
        "tableObjBeforeJson": as_json(before),
        "tableObjAfterJson": as_json(after),
        "isTruncateOp": "true" if truncated else "false",
        "writeId": write_id,
    }
    log(call, "ALTER_TABLE", fields, catalog=after.catName, database=after.dbName, table=after.tableName)


def add_partition(call: Call, table: Struct, partitions: Sequence[Struct]) -> None:
    """ADD_PARTITION: one row for all partitions of a call."""
    fields = {
        "tableObjJson": as_json(table),
        "partitions": [_pairs(table, partition) for partition in partitions],
        "partitionListJson": [as_json(partition) for partition in partitions],
        "partitionFiles": [] if _is_external(table) else [_files(call, table, each) for each in partitions],
    }
    _of_table(call, "ADD_PARTITION", table, **fields)


def drop_partition(call: Call, table: Struct, partitions: Sequence[Struct]) -> None:
    """DROP_PARTITION."""
    fields = {
        "tableObjJson": as_json(table),
        "partitions": [_pairs(table, partition) for partition in partitions],
    }
    _of_table(call, "DROP_PARTITION", table, **fields)


def alter_partition(
    call: Call, table: Struct, before: Struct, after: Struct, *, truncated: bool, write_id: int
) -> None:
    """ALTER_PARTITION, for alter_partition and rename_partition."""
    fields = {
        "tableObjJson": as_json(table),
        "isTruncateOp": "true" if truncated else "false",
        "writeId": write_id,
        "keyValues": _pairs(table, before),
        "partitionObjBeforeJson": as_json(before),
        "partitionObjAfterJson": as_json(after),
    }
    _of_table(call, "ALTER_PARTITION", table, **fields)


def alter_partitions(call: Call, table: Struct, partitions: Sequence[Struct], *, truncated: bool) -> None:
    """ALTER_PARTITIONS: the partitions after a call. One row for each write id and at most PARTITIONS_OF_ONE."""
    by_write_id: dict[int, list[Struct]] = {}
    for partition in partitions:
        by_write_id.setdefault(-1 if partition.writeId is None else partition.writeId, []).append(partition)
    for write_id, mine in sorted(by_write_id.items()):
        for start in range(0, len(mine), PARTITIONS_OF_ONE):
            some = mine[start : start + PARTITIONS_OF_ONE]
            fields = {
                "tableObjJson": as_json(table),
                "isTruncateOp": "true" if truncated else "false",
                "writeId": write_id,
                "partitions": [_pairs(table, partition) for partition in some],
                "partitionListJson": [as_json(partition) for partition in some],
            }
            _of_table(call, "ALTER_PARTITIONS", table, **fields)


def insert_files(call: Call, table: Struct, partition: Struct | None, data: Struct) -> int:
    """INSERT: the files that a writer reports; returns the id. Without a change manager, a file is `URI###`."""
    files = [f"{uri}###" for uri in data.filesAdded]
    fields = {
        "tableObjJson": as_json(table),
        "ptnObjJson": None if partition is None else as_json(partition),
        "replace": "false" if data.replace is False else "true",
        "files": files,
    }
    return _of_table(call, "INSERT", table, **fields)


def reload(call: Call, table: Struct, found: Struct | Sequence[Struct] | None, *, refresh: bool) -> int:
    """RELOAD of a table (None), one or more partitions: to be read again, or to be invalidated; returns the id."""
    alone = as_json(found) if isinstance(found, Struct) else None
    several = None if found is None or isinstance(found, Struct) else [as_json(partition) for partition in found]
    fields = {
        "db": table.dbName,
        "table": table.tableName,
        "tableObjJson": as_json(table),
        "ptnObjJson": alone,
        "refreshEvent": "true" if refresh else "false",
        "partitionListJson": several,
    }
    return log(call, "RELOAD", fields, catalog=table.catName, database=table.dbName, table=table.tableName)


def open_transactions(call: Call, txn_ids: Sequence[int]) -> None:
    """OPEN_TXN."""
    fields = {"txnIds": None, "fromTxnId": txn_ids[0], "toTxnId": txn_ids[-1]}
    log(call, "OPEN_TXN", fields, catalog=None, database=None, table=None)


def allocate_write_ids(call: Call, database: str, table: str, pairs: Sequence[tuple[int, int]]) -> None:
    """ALLOC_WRITE_ID_EVENT: (transaction, write id) of a table. No other event names the table of a transaction."""
    fields = {
        "dbName": database,
        "tableName": table,
        "txnIdList": [pair[0] for pair in pairs],
        "writeIdList": [pair[1] for pair in pairs],
    }
    place = {"catalog": DEFAULT_CATALOG, "database": database, "table": table}
    log(call, "ALLOC_WRITE_ID_EVENT", fields, **place)


def commit_transaction(call: Call, txn_id: int, written: Sequence[tuple[str, int]]) -> None:
    """COMMIT_TXN; `written`: (database, write id)."""
    fields = {
        "txnid": txn_id,
        "writeIds": [each[1] for each in written],
        "databases": [each[0] for each in written],
        **dict.fromkeys(("tables", "partitions", "tableObjs", "partitionObjs", "files")),
    }
    log(call, "COMMIT_TXN", fields, catalog=None, database=None, table=None)


def abort_transaction(call: Call, txn_id: int, written: Sequence[tuple[str, int]]) -> None:
    """ABORT_TXN; `written`: (database, write id)."""
    fields = {
        "txnid": txn_id,
        "dbsUpdated": [each[0] for each in written],
        "writeIds": [each[1] for each in written],
    }
    log(call, "ABORT_TXN", fields, catalog=None, database=None, table=None)


def commit_compaction(call: Call, txn_id: int, number: int, kind: str, place: tuple[str, str, str | None]) -> None:
    """COMMIT_COMPACTION_EVENT; `number`, `kind`: its id and type, `place`: (database, table, partition or None)."""
    database, table, partition = place
    fields = {
        "txnid": txn_id,
        "compactionId": number,
        "type": kind,
        "dbname": database,
        "tableName": table,
        "partName": partition,
    }
    where = {"catalog": DEFAULT_CATALOG, "database": database, "table": table}
    log(call, "COMMIT_COMPACTION_EVENT", fields, **where)


def _is_external(table: Struct) -> bool:
    return bool((table.parameters or {}).get("EXTERNAL", "").upper() == "TRUE")


def _files(call: Call, table: Struct, partition: Struct) -> dict[str, Any]:
    """The files of an added partition; none for transactional tables, where transactions have files."""
    transactional = (table.parameters or {}).get("transactional", "").lower() == "true"
    location = None if transactional or partition.sd is None else partition.sd.location
    files = [f"{uri}###" for uri in call.warehouse.files(location)] if location else []
    return {"partitionName": partition_name(table.partitionKeys, partition.values), "files": files}


def _of_table(call: Call, kind: str, table: Struct, **fields: Any) -> int:
    common = {"db": table.dbName, "table": table.tableName, "tableType": table.tableType}
    return log(call, kind, {**common, **fields}, catalog=table.catName, database=table.dbName, table=table.tableName)


def _pairs(table: Struct, partition: Struct) -> dict[str, str]:
    return dict(zip([key.name for key in table.partitionKeys], partition.values, strict=False))
