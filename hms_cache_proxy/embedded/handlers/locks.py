"""Locks, as Hive and Iceberg use them.

Job: carry out the calls; rows/locks.py has the rows. Source: TxnHandler of 4.2, and answers of a running one. A lock
without a transaction expires after the time-out of transactions without a heartbeat; the next call that checks this
removes it. Owner: the thread of a call.
"""

from __future__ import annotations

from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import Failure, internal
from hms_cache_proxy.embedded.handlers.transactions import TIMEOUT_MS, abort_expired, must_be_open, now_ms
from hms_cache_proxy.embedded.rows import locks as rows
from hms_cache_proxy.embedded.rows import transactions
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

_STATES = enum("LockState")
_ACQUIRED, _WAITING, _NOT = (int(_STATES[name]) for name in ("ACQUIRED", "WAITING", "NOT_ACQUIRED"))
_SHARED_READ = "r"
_NAMES = {rows.ACQUIRED: "ACQUIRED", rows.WAITING: "WAITING"}


def lock(call: Call, args: Struct) -> Struct:
    """Request locks: all are acquired, or all wait."""
    request = args.rqst
    if not request.component:
        raise internal("a lock needs a component")
    _expire(call)
    txn_id = request.txnid or 0
    if txn_id:
        must_be_open(call, txn_id)
    external = rows.insert_locks(call, _known(request), request.component, txn_id, now_ms())
    return _checked(call, external, zero_wait=bool(request.zeroWaitReadEnabled))


def _known(request: Struct) -> Struct:
    if request.agentInfo is None:
        request.agentInfo = "Unknown"
    return request


def check_lock(call: Call, args: Struct) -> Struct:
    """Check whether waiting locks can be acquired now."""
    external = args.rqst.lockid
    _expire(call)
    found = rows.of_request(call, external)
    if not found:
        raise Failure("NoSuchLockException", f"No such lock lockid:{external}")
    txn_id = found[0].HL_TXNID
    if txn_id:
        must_be_open(call, txn_id)
        transactions.heartbeat(call, txn_id, now_ms())
    else:
        rows.heartbeat(call, external, now_ms())
    return _checked(call, external, zero_wait=False)


def _checked(call: Call, external: int, *, zero_wait: bool) -> Struct:
    mine = rows.of_request(call, external)
    if all(row.HL_LOCK_STATE == rows.ACQUIRED for row in mine):
        return new("LockResponse", lockid=external, state=_ACQUIRED)
    found = rows.in_the_way(call, mine)
    if found is None:
        rows.acquire(call, external, now_ms())
        return new("LockResponse", lockid=external, state=_ACQUIRED)
    row, other = found
    if zero_wait and all(each.HL_LOCK_TYPE == _SHARED_READ for each in mine):
        rows.remove(call, external)
        message = f"Unable to acquire read lock due to an existing exclusive lock {{lockid:{other.HL_LOCK_EXT_ID}}}"
        return new("LockResponse", lockid=external, state=_NOT, errorMessage=message)
    rows.blocked(call, row, other)
    return new("LockResponse", lockid=external, state=_WAITING)


def unlock(call: Call, args: Struct) -> None:
    """Release locks that belong to no transaction; they need not exist any more."""
    external = args.rqst.lockid
    found = rows.of_request(call, external)
    if found and found[0].HL_TXNID:
        row = found[0]
        raise Failure(
            "TxnOpenException",
            f"Unlocking locks associated with transaction not permitted.  lockid:{external} intLockId:"
            f"{row.HL_LOCK_INT_ID} txnid:{row.HL_TXNID} db:{row.HL_DB} table:{row.HL_TABLE or 'null'} partition:"
            f"{row.HL_PARTITION or 'null'} state:{_NAMES[row.HL_LOCK_STATE]} type:{rows.type_name(row.HL_LOCK_TYPE)}",
        )
    rows.remove(call, external)


def heartbeat(call: Call, args: Struct) -> None:
    """Heartbeat of a lock, a transaction or both."""
    request = args.ids
    if request.lockid and not rows.heartbeat(call, request.lockid, now_ms()):
        raise Failure("NoSuchLockException", f"No such lock: lockid:{request.lockid}")
    if request.txnid:
        must_be_open(call, request.txnid)
        transactions.heartbeat(call, request.txnid, now_ms())


def show_locks(call: Call, args: Struct) -> Struct:
    """All locks, or those of a database, table, partition or transaction."""
    request = args.rqst
    wanted = {
        "HL_DB": request.dbname.lower() if request.dbname else None,
        "HL_TABLE": request.tablename.lower() if request.tablename else None,
        "HL_PARTITION": request.partname or None,
        "HL_TXNID": request.txnid or None,
    }
    listed = []
    for row in rows.listed(call):
        if any(value is not None and getattr(row, name) != value for name, value in wanted.items()):
            continue
        listed.append(
            new(
                "ShowLocksResponseElement",
                lockid=row.HL_LOCK_EXT_ID,
                dbname=row.HL_DB,
                tablename=row.HL_TABLE,
                partname=row.HL_PARTITION,
                state=_ACQUIRED if row.HL_LOCK_STATE == rows.ACQUIRED else _WAITING,
                type=rows.TYPES_OF_CODES[row.HL_LOCK_TYPE],
                txnid=row.HL_TXNID,
                lastheartbeat=row.HL_LAST_HEARTBEAT,
                acquiredat=row.HL_ACQUIRED_AT,
                user=row.HL_USER,
                hostname=row.HL_HOST,
                heartbeatCount=row.HL_HEARTBEAT_COUNT,
                agentInfo=row.HL_AGENT_INFO,
                blockedByExtId=row.HL_BLOCKEDBY_EXT_ID,
                blockedByIntId=row.HL_BLOCKEDBY_INT_ID,
                lockIdInternal=row.HL_LOCK_INT_ID,
            )
        )
    return new("ShowLocksResponse", locks=listed)


def _expire(call: Call) -> None:
    abort_expired(call)
    rows.remove_expired(call, now_ms() - TIMEOUT_MS)


METHODS = {
    **reads(show_locks=show_locks),
    **writes(lock=lock, check_lock=check_lock, unlock=unlock, heartbeat=heartbeat),
}
