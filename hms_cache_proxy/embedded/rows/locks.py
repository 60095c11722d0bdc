"""Locks: HIVE_LOCKS, NEXT_LOCK_ID.

Job: read and write rows of locks, and find those that block a request. Must not know: calls, states of transactions.

A request has one external id, and an internal id for each component. A component waits for every incompatible lock of
an earlier request on the same object (or on one that contains it, or is in it), whether that lock is acquired or waits:
first come, first served. Source: TxnHandler.enqueueLock, checkLock and its jump table of Hive 4.2.
Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

ACQUIRED, WAITING = "a", "w"
_TYPES = {"SHARED_READ": "r", "SHARED_WRITE": "w", "EXCL_WRITE": "x", "EXCLUSIVE": "e"}
TYPE_CODES = {int(member): _TYPES[member.name] for member in enum("LockType") if member.name in _TYPES}
TYPES_OF_CODES = {code: number for number, code in TYPE_CODES.items()}
_EXCLUDES = {"r": "e", "w": "xe", "x": "wxe", "e": "rwxe"}
"""The types of earlier locks for which a lock waits."""


def type_name(code: str) -> str:
    """The name of a type: `SHARED_READ` for `r`."""
    return next(name for name, each in _TYPES.items() if each == code)


def insert_locks(call: Call, request: Struct, components: Sequence[Struct], txn_id: int, now_ms: int) -> int:
    """Insert the rows of a new request, all waiting; returns the external id."""
    query = update(T.NEXT_LOCK_ID).values(NL_NEXT=T.NEXT_LOCK_ID.c.NL_NEXT + 1).returning(T.NEXT_LOCK_ID.c.NL_NEXT)
    external = int(call.execute(query).scalar_one()) - 1
    rows = [
        {
            "HL_LOCK_EXT_ID": external,
            "HL_LOCK_INT_ID": number,
            "HL_TXNID": txn_id,
            "HL_DB": component.dbname.lower(),
            "HL_TABLE": component.tablename.lower() if component.tablename is not None else None,
            "HL_PARTITION": component.partitionname,
            "HL_LOCK_STATE": WAITING,
            "HL_LOCK_TYPE": TYPE_CODES[component.type],
            "HL_LAST_HEARTBEAT": 0 if txn_id else now_ms,
            "HL_USER": request.user,
            "HL_HOST": request.hostname,
            "HL_AGENT_INFO": request.agentInfo,
        }
        for number, component in enumerate(components, start=1)
    ]
    call.execute(insert(T.HIVE_LOCKS), rows)
    return external


def of_request(call: Call, external: int) -> list[Any]:
    """The rows of a request."""
    columns = T.HIVE_LOCKS.c
    return call.rows(select(T.HIVE_LOCKS).where(columns.HL_LOCK_EXT_ID == external).order_by(columns.HL_LOCK_INT_ID))


def in_the_way(call: Call, mine: Sequence[Any]) -> tuple[Any, Any] | None:
    """(a row of a request, the earlier lock that it waits for), if any."""
    columns = T.HIVE_LOCKS.c
    databases = {row.HL_DB for row in mine}
    query = select(T.HIVE_LOCKS).where(columns.HL_DB.in_(databases), columns.HL_LOCK_EXT_ID < mine[0].HL_LOCK_EXT_ID)
    earlier = call.rows(query.order_by(columns.HL_LOCK_EXT_ID))
    for row in mine:
        for other in earlier:
            same_txn = row.HL_TXNID and row.HL_TXNID == other.HL_TXNID
            if not same_txn and other.HL_LOCK_TYPE in _EXCLUDES[row.HL_LOCK_TYPE] and _overlap(row, other):
                return row, other
    return None


def _overlap(one: Any, other: Any) -> bool:
    if one.HL_DB != other.HL_DB:
        return False
    for left, right in ((one.HL_TABLE, other.HL_TABLE), (one.HL_PARTITION, other.HL_PARTITION)):
        if left is None or right is None:
            return True
        if left != right:
            return False
    return True


def acquire(call: Call, external: int, now_ms: int) -> None:
    """Acquire all locks of a request."""
    columns = T.HIVE_LOCKS.c
    values = {
        "HL_LOCK_STATE": ACQUIRED,
        "HL_ACQUIRED_AT": now_ms,
        "HL_BLOCKEDBY_EXT_ID": None,
        "HL_BLOCKEDBY_INT_ID": None,
    }
    call.execute(update(T.HIVE_LOCKS).where(columns.HL_LOCK_EXT_ID == external).values(**values))


def blocked(call: Call, row: Any, by: Any) -> None:
    """Record the lock for which another one waits."""
    columns = T.HIVE_LOCKS.c
    mine = (columns.HL_LOCK_EXT_ID == row.HL_LOCK_EXT_ID) & (columns.HL_LOCK_INT_ID == row.HL_LOCK_INT_ID)
    values = {"HL_BLOCKEDBY_EXT_ID": by.HL_LOCK_EXT_ID, "HL_BLOCKEDBY_INT_ID": by.HL_LOCK_INT_ID}
    call.execute(update(T.HIVE_LOCKS).where(mine).values(**values))


def heartbeat(call: Call, external: int, now_ms: int) -> bool:
    """Heartbeat of a request; False if there is no such lock."""
    columns = T.HIVE_LOCKS.c
    changed = call.execute(
        update(T.HIVE_LOCKS).where(columns.HL_LOCK_EXT_ID == external).values(HL_LAST_HEARTBEAT=now_ms)
    )
    return bool(changed.rowcount)


def remove(call: Call, external: int) -> None:
    """Remove all locks of a request."""
    call.execute(delete(T.HIVE_LOCKS).where(T.HIVE_LOCKS.c.HL_LOCK_EXT_ID == external))


def remove_of_transactions(call: Call, txn_ids: Sequence[int]) -> None:
    """Remove all locks of transactions that have ended."""
    call.execute(delete(T.HIVE_LOCKS).where(T.HIVE_LOCKS.c.HL_TXNID.in_(list(txn_ids))))


def remove_expired(call: Call, before_ms: int) -> None:
    """Remove locks that have no transaction and no recent heartbeat."""
    columns = T.HIVE_LOCKS.c
    call.execute(delete(T.HIVE_LOCKS).where(columns.HL_TXNID == 0, columns.HL_LAST_HEARTBEAT < before_ms))


def listed(call: Call) -> list[Any]:
    """All locks, oldest first."""
    columns = T.HIVE_LOCKS.c
    return call.rows(select(T.HIVE_LOCKS).order_by(columns.HL_LOCK_EXT_ID, columns.HL_LOCK_INT_ID))
