"""Locks of rebuilds of materialized views: one rebuild of a view at a time.

Job: carry out the calls, with their rows: MATERIALIZATION_REBUILD_LOCKS. A lock expires after the time-out of
transactions without a heartbeat. Source: LockMaterializationRebuildFunction and TxnHandler of 4.0.
Owner: the thread of a call.
"""

from __future__ import annotations

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call, writes
from hms_cache_proxy.embedded.handlers.transactions import TIMEOUT_MS, now_ms
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

_ACQUIRED, _NOT = (int(enum("LockState")[name]) for name in ("ACQUIRED", "NOT_ACQUIRED"))


def get_lock_materialization_rebuild(call: Call, args: Struct) -> Struct:
    """Lock a view for a transaction, unless another one rebuilds it. The lock's id is the transaction's."""
    columns = T.MATERIALIZATION_REBUILD_LOCKS.c
    table = T.MATERIALIZATION_REBUILD_LOCKS
    call.execute(delete(table).where(columns.MRL_LAST_HEARTBEAT < now_ms() - TIMEOUT_MS))
    held = select(columns.MRL_TXN_ID).where(columns.MRL_DB_NAME == args.dbName, columns.MRL_TBL_NAME == args.tableName)
    if call.execute(held).first() is not None:
        return new("LockResponse", lockid=args.txnId, state=_NOT)
    row = {"MRL_TXN_ID": args.txnId, "MRL_DB_NAME": args.dbName, "MRL_TBL_NAME": args.tableName}
    call.execute(insert(table), {**row, "MRL_LAST_HEARTBEAT": now_ms()})
    return new("LockResponse", lockid=args.txnId, state=_ACQUIRED)


def heartbeat_lock_materialization_rebuild(call: Call, args: Struct) -> bool:
    """Heartbeat; False if there is no lock."""
    columns = T.MATERIALIZATION_REBUILD_LOCKS.c
    mine = (columns.MRL_TXN_ID == args.txnId) & (columns.MRL_DB_NAME == args.dbName)
    changed = update(T.MATERIALIZATION_REBUILD_LOCKS).where(mine, columns.MRL_TBL_NAME == args.tableName)
    return bool(call.execute(changed.values(MRL_LAST_HEARTBEAT=now_ms())).rowcount)


METHODS = writes(
    get_lock_materialization_rebuild=get_lock_materialization_rebuild,
    heartbeat_lock_materialization_rebuild=heartbeat_lock_materialization_rebuild,
)
