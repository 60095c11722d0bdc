"""Locks: HIVE_LOCKS, NEXT_LOCK_ID.

Job: read and write rows of locks, and find those that block a request. Must not know: calls, states of transactions.

A request has one external id, and an internal id for each component. A component waits for every incompatible lock of
an earlier request on the same object (or on one that contains it, or is in it), whether that lock is acquired or waits:
first come, first served. But those who read a database only see to it that it stays: they and exclusive locks on its
tables do not wait for each other. Source: EnqueueLockFunction and CheckLockFunction of Hive 4.2.
Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.failures import internal
from hms_cache_proxy.embedded.names import escape
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

ACQUIRED, WAITING = "a", "w"
_TYPES = {"SHARED_READ": "r", "SHARED_WRITE": "w", "EXCL_WRITE": "x", "EXCLUSIVE": "e"}
TYPE_CODES = {int(member): _TYPES[member.name] for member in enum("LockType") if member.name in _TYPES}
TYPES_OF_CODES = {code: number for number, code in TYPE_CODES.items()}
_EXCLUDES = {"r": "e", "e": "rwxe", "w": "xe", "x": "wxe"}
"""The types of earlier locks for which a lock waits; the types are in the order in which Hive looks for these."""
_RESTRICTIVE = "rwxe"


def type_name(code: str) -> str:
    """The name of a type: `SHARED_READ` for `r`."""
    return next(name for name, each in _TYPES.items() if each == code)


def partition_name(name: str | None) -> str | None:
    """The name of a partition in a request as it is stored: its keys in lower case, both sides escaped once more."""
    if name is None:
        return None
    pairs = [part.split("=") for part in name.split("/")]
    if any(len(pair) != 2 for pair in pairs) or len({pair[0] for pair in pairs}) != len(pairs):
        raise internal(f"no name of a partition: {name}")
    return "/".join(f"{escape(key.lower())}={escape(value)}" for key, value in pairs)


def described(row: Any) -> str:
    """A lock in a message (LockInfo.toString)."""
    state = "ACQUIRED" if row.HL_LOCK_STATE == ACQUIRED else "WAITING"
    place = f"db:{row.HL_DB} table:{row.HL_TABLE or 'null'} partition:{row.HL_PARTITION or 'null'}"
    ids = f"lockid:{row.HL_LOCK_EXT_ID} intLockId:{row.HL_LOCK_INT_ID} txnid:{row.HL_TXNID}"
    return f"{ids} {place} state:{state} type:{type_name(row.HL_LOCK_TYPE)}"


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
            "HL_PARTITION": partition_name(component.partitionname),
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
    kinds = list(_EXCLUDES)
    for row in sorted(mine, key=lambda row: kinds.index(row.HL_LOCK_TYPE)):
        for other in earlier:
            same_txn = row.HL_TXNID and row.HL_TXNID == other.HL_TXNID
            if not same_txn and other.HL_LOCK_TYPE in _EXCLUDES[row.HL_LOCK_TYPE] and _overlap(row, other):
                return row, other
    return None


def _overlap(one: Any, other: Any) -> bool:
    """Do a lock and an earlier one concern the same?"""
    if one.HL_DB != other.HL_DB:
        return False
    for read, exclusive in ((one, other), (other, one)):
        if (read.HL_LOCK_TYPE, exclusive.HL_LOCK_TYPE) == ("r", "e") and read.HL_TABLE is None:
            return exclusive.HL_TABLE is None
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
    """All locks: acquired ones first, then by how little they exclude, then oldest first."""

    def place(row: Any) -> tuple[bool, int, int, int]:
        kind = _RESTRICTIVE.index(row.HL_LOCK_TYPE)
        return row.HL_LOCK_STATE != ACQUIRED, kind, row.HL_LOCK_EXT_ID, row.HL_LOCK_INT_ID

    return sorted(call.rows(select(T.HIVE_LOCKS)), key=place)
