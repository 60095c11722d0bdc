"""Transactions and write ids that replay those of another metastore, and small questions about transactions.

Job: carry out the calls; rows/transactions.py has the rows. Source: TxnHandler of 4.2, and the database of one.
Owner: the thread of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, insert, select, update

from hms_cache_proxy.embedded import events, names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import internal, meta
from hms_cache_proxy.embedded.handlers import compactions
from hms_cache_proxy.embedded.handlers.transactions import now_ms
from hms_cache_proxy.embedded.rows import components
from hms_cache_proxy.embedded.rows import transactions as rows
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

MAJOR = int(enum("CompactionType")["MAJOR"])
_WHY = "Replication:abort of allocated txns for referring mapped write ids as aborted ones"


def get_replayed_txns_for_policy(call: Call, args: Struct) -> Struct:
    """The transactions of the source, each with the one here, as texts; without those that have ended."""
    mapped = rows.targets(call, args.policyName)
    told = {str(source): str(target) for source, target in mapped.items()}
    return new("ReplayedTxnsForPolicyResult", replTxnMapEntry=told)


def seed_txn_id(call: Call, args: Struct) -> None:
    """Set the id of the next transaction. MetaException if it is not new."""
    seed = args.rqst.seedTxnId
    high = int(call.execute(select(func.max(T.TXNS.c.TXN_ID))).scalar() or 0)
    if seed <= high:
        raise meta(f"Invalid txnId seed {seed}, the highWaterMark is {high}")
    rows.seed(call, seed)


def seed_write_id(call: Call, args: Struct) -> None:
    """Set the last write id of a table. MetaException if the table has write ids already."""
    request = args.rqst
    _seed(call, request.dbName, request.tableName, request.seedWriteId)


def _seed(call: Call, database: str, table: str, last: int) -> None:
    if rows.has_write_ids(call, database, table):
        raise meta(f"{database}.{table} has write ids")
    rows.seed_write_ids(call, database, table, last)


def repl_tbl_writeid_state(call: Call, args: Struct) -> None:
    """Copy the source's write ids of a table: the last one, and the aborted ones; nothing if the table has some."""
    request = args.rqst
    database, table = names.fold(request.dbName), names.fold(request.tableName)
    if rows.has_write_ids(call, database, table):
        return
    last, gone = _state(request.validWriteIdlist)
    if gone:
        opened = new("OpenTxnRequest", num_txns=len(gone), user=request.user, hostname=request.hostName)
        txn_ids = rows.open_transactions(call, opened, now_ms())
        events.open_transactions(call, txn_ids)  # Hive does not log their end
        call.execute(update(T.TXNS).where(T.TXNS.c.TXN_ID.in_(txn_ids)).values(TXN_META_INFO=_WHY))
        place = {"T2W_DATABASE": database, "T2W_TABLE": table}
        found = [{"T2W_TXNID": txn, "T2W_WRITEID": each, **place} for txn, each in zip(txn_ids, gone, strict=True)]
        call.execute(insert(T.TXN_TO_WRITE_ID), found)
        rows.abort(call, txn_ids)
    _seed(call, database, table, last)
    for partition in (request.partNames or [None]) if gone else ():
        wanted = {"dbname": database, "tablename": table, "partitionname": partition, "type": MAJOR}
        compactions.ask_for(call, new("CompactionRequest", **wanted))


def _state(text: str) -> tuple[int, list[int]]:
    """(the last write id, aborted ones) of `db.table:high:minOpen:open:aborted`."""
    try:
        _, high, _, _, gone = text.split(":")
        return int(high), [int(each) for each in gone.split(",") if each]
    except ValueError as error:
        raise internal(f"no list of write ids: {text}") from error


def add_write_ids_to_min_history(call: Call, args: Struct) -> None:
    """Store the first write ids of tables that a transaction sees."""
    found: list[dict[str, Any]] = []
    for full_name, write_id in (args.writeIds or {}).items():
        database, dot, table = full_name.partition(".")
        if not dot:
            raise internal(f"no table: {full_name}")
        place = {"MH_DATABASE": database.lower(), "MH_TABLE": table.lower()}
        found.append({"MH_TXNID": args.txnId, **place, "MH_WRITEID": write_id})
    if not found:
        return
    if rows.state(call, args.txnId) is None:
        raise meta(f"there is no transaction {args.txnId}")
    call.execute(insert(T.MIN_HISTORY_WRITE_ID), found)


def get_latest_txnid_in_conflict(call: Call, args: Struct) -> int:
    """The last committed transaction that changed the same tables or partitions as this one; 0 if there is none."""
    return components.last_in_conflict(call, args.txnId)


METHODS = {
    **reads(
        get_replayed_txns_for_policy=get_replayed_txns_for_policy,
        get_latest_txnid_in_conflict=get_latest_txnid_in_conflict,
    ),
    **writes(
        seed_txn_id=seed_txn_id,
        seed_write_id=seed_write_id,
        repl_tbl_writeid_state=repl_tbl_writeid_state,
        add_write_ids_to_min_history=add_write_ids_to_min_history,
    ),
}
