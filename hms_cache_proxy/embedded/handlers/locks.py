"""Locks, as Hive and Iceberg use them.

Job: carry out the calls; rows/locks.py has the rows. Source: TxnHandler of 4.2, and answers of a running one. The locks
of a transaction also say what it writes (rows/components.py). A lock without a transaction expires after the time-out
of transactions without a heartbeat; housekeeping, or the next call that checks this, removes it.
Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import Failure, internal
from hms_cache_proxy.embedded.handlers.transactions import (
    TIMEOUT_MS,
    abort_expired,
    beat,
    must_be_open,
    now_ms,
    operation,
)
from hms_cache_proxy.embedded.rows import components
from hms_cache_proxy.embedded.rows import locks as rows
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

_STATES = enum("LockState")
_ACQUIRED, _WAITING, _NOT = (int(_STATES[name]) for name in ("ACQUIRED", "WAITING", "NOT_ACQUIRED"))
_SHARED_READ = "r"
_NO_TXN = int(enum("DataOperationType")["NO_TXN"])  # what it does cannot conflict, and nobody compacts it
_CHANGES = tuple(int(enum("DataOperationType")[name]) for name in ("UPDATE", "DELETE"))


def lock(call: Call, args: Struct) -> Struct:
    """Request locks: all are acquired, or all wait."""
    request = args.rqst
    if not request.component:
        raise internal("a lock needs a component")
    expire(call)
    txn_id = request.txnid or 0
    if txn_id:
        must_be_open(call, txn_id)
        components.add(call, txn_id, _written(request.component))
    external = rows.insert_locks(call, _known(request), request.component, txn_id, now_ms())
    return _checked(
        call, external, zero_wait=bool(request.zeroWaitReadEnabled), exclusive_ctas=bool(request.exclusiveCTAS)
    )


def _written(wanted: Sequence[Struct]) -> list[components.Component]:
    """What the owner of these locks writes.

    Of a write to dynamic partitions, the table, once, since nobody knows yet which ones (add_dynamic_partitions).
    """
    found: list[components.Component] = []
    dynamic_changes = {
        _place(each) for each in wanted if each.isDynamicPartitionWrite and each.operationType in _CHANGES
    }
    for each in wanted:
        if each.isTransactional is False or each.operationType == _NO_TXN:
            continue
        kind, partition = operation(each.operationType), rows.partition_name(each.partitionname)
        if kind == components.SELECT:
            continue
        if each.isDynamicPartitionWrite:
            if _place(each) in {(known.database, known.table) for known in found}:
                continue
            partition = None
            kind = components.UPDATE if _place(each) in dynamic_changes else components.INSERT
        found.append(components.Component(*_place(each), partition, kind))
    return found


def _place(component: Struct) -> tuple[str, str | None]:
    return component.dbname.lower(), None if component.tablename is None else component.tablename.lower()


def _known(request: Struct) -> Struct:
    if request.agentInfo is None:
        request.agentInfo = "Unknown"
    return request


def check_lock(call: Call, args: Struct) -> Struct:
    """Check whether waiting locks can be acquired now."""
    external = args.rqst.lockid
    expire(call)
    found = rows.of_request(call, external)
    if not found:
        raise Failure("NoSuchLockException", f"No such lock lockid:{external}")
    txn_id = found[0].HL_TXNID
    if txn_id:
        beat(call, txn_id)
    else:
        rows.heartbeat(call, external, now_ms())
    return _checked(call, external, zero_wait=False, exclusive_ctas=False)


def _checked(call: Call, external: int, *, zero_wait: bool, exclusive_ctas: bool) -> Struct:
    mine = rows.of_request(call, external)
    if all(row.HL_LOCK_STATE == rows.ACQUIRED for row in mine):
        return new("LockResponse", lockid=external, state=_ACQUIRED)
    found = rows.in_the_way(call, mine)
    if found is None:
        rows.acquire(call, external, now_ms())
        return new("LockResponse", lockid=external, state=_ACQUIRED)
    row, other = found
    if row.HL_TXNID and (exclusive_ctas or (zero_wait and row.HL_LOCK_TYPE == _SHARED_READ)):
        rows.remove(call, external)
        message = f"Unable to acquire read lock due to an existing exclusive lock {{{rows.described(other)}}}"
        if exclusive_ctas:
            message = (
                "Failed to initiate a concurrent CTAS operation with the same table name, lockInfo : "
                + rows.described(other)
            )
        return new("LockResponse", lockid=external, state=_NOT, errorMessage=message)
    rows.blocked(call, row, other)
    return new("LockResponse", lockid=external, state=_WAITING)


def unlock(call: Call, args: Struct) -> None:
    """Release locks that belong to no transaction, or still wait; they need not exist any more."""
    external = args.rqst.lockid
    found = rows.of_request(call, external)
    if found and found[0].HL_TXNID and found[0].HL_LOCK_STATE != rows.WAITING:
        what = "Unlocking locks associated with transaction not permitted."
        raise Failure("TxnOpenException", f"{what}  {rows.described(found[0])}")
    rows.remove(call, external)


def heartbeat(call: Call, args: Struct) -> None:
    """Heartbeat of a transaction, a lock or both."""
    request = args.ids
    if request.txnid:
        beat(call, request.txnid)
    if request.lockid and not rows.heartbeat(call, request.lockid, now_ms()):
        raise Failure("NoSuchLockException", f"No such lock: lockid:{request.lockid}")


def show_locks(call: Call, args: Struct) -> Struct:
    """All locks, or those of a database, table, partition or transaction, by the names as they are stored."""
    request = args.rqst
    wanted = {
        "HL_DB": request.dbname,
        "HL_TABLE": request.tablename,
        "HL_PARTITION": request.partname,
        "HL_TXNID": request.txnid,
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


def expire(call: Call) -> None:
    """End transactions and locks whose owners are silent."""
    abort_expired(call)
    rows.remove_expired(call, now_ms() - TIMEOUT_MS)


METHODS = {
    **reads(show_locks=show_locks),
    **writes(lock=lock, check_lock=check_lock, unlock=unlock, heartbeat=heartbeat),
}
