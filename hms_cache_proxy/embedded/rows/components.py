"""What transactions write: TXN_COMPONENTS, COMPLETED_TXN_COMPONENTS, WRITE_SET.

Job: store what an open transaction writes; at its commit, move that to the completed writes (for the compactor and for
materialized views) and to the write set, where later commits find conflicts. Must not know: calls, locks.

An aborted transaction keeps its rows in TXN_COMPONENTS, and with them its row in TXNS, until a compaction has removed
its files, or the table is dropped: that is how lists of valid write ids know that its write ids are aborted. Source:
InsertTxnComponentsCommand and CommitTxnFunction of Hive 4.2. Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, insert, literal, select

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.wire.spec import Struct

SELECT, INSERT, UPDATE, DELETE, COMPACT = "s", "i", "u", "d", "c"
_CHANGES = (UPDATE, DELETE)
_TC, _CTC, _WS = T.TXN_COMPONENTS.c, T.COMPLETED_TXN_COMPONENTS.c, T.WRITE_SET.c


@dataclass(frozen=True, slots=True)
class Component:
    """What a transaction writes: a table, or one of its partitions; `kind`: one of the letters above."""

    database: str
    table: str | None
    partition: str | None
    kind: str


def add(call: Call, txn_id: int, components: Sequence[Component]) -> None:
    """Store what a transaction writes, with the write ids that it has."""
    ids = T.TXN_TO_WRITE_ID.c
    known = select(ids.T2W_DATABASE, ids.T2W_TABLE, ids.T2W_WRITEID).where(ids.T2W_TXNID == txn_id)
    write_ids = {(row[0], row[1]): row[2] for row in call.rows(known)}
    _insert(call, txn_id, [(each, write_ids.get((each.database, each.table))) for each in components])


def add_partitions(
    call: Call, txn_id: int, write_id: int, place: tuple[str, str], partitions: Sequence[str], kind: str
) -> None:
    """Store partitions that a transaction has written, instead of the table, whose (database, name) is `place`."""
    _insert(call, txn_id, [(Component(*place, partition, kind), write_id) for partition in partitions])
    mine = (_TC.TC_TXNID == txn_id) & (_TC.TC_DATABASE == place[0]) & (_TC.TC_TABLE == place[1])
    call.execute(delete(T.TXN_COMPONENTS).where(mine, _TC.TC_PARTITION.is_(None)))


def _insert(call: Call, txn_id: int, found: Sequence[tuple[Component, int | None]]) -> None:
    rows = [
        {
            "TC_TXNID": txn_id,
            "TC_DATABASE": each.database,
            "TC_TABLE": each.table,
            "TC_PARTITION": each.partition,
            "TC_OPERATION_TYPE": each.kind,
            "TC_WRITEID": write_id,
        }
        for each, write_id in found
    ]
    if rows:
        call.execute(insert(T.TXN_COMPONENTS), rows)


def changes_rows(call: Call, txn_id: int) -> bool:
    """Has a transaction updated or deleted rows? If not, it has only inserted some."""
    changed = select(_TC.TC_TXNID).where(_TC.TC_TXNID == txn_id, _TC.TC_OPERATION_TYPE.in_(_CHANGES))
    return call.execute(changed.limit(1)).first() is not None


def commit_id(call: Call) -> int:
    """The number that orders commits: the last transaction that was opened before."""
    return int(call.execute(select(func.max(T.TXNS.c.TXN_ID))).scalar() or 0)


def add_to_write_set(call: Call, txn_id: int, *, changed: bool) -> None:
    """Store in the write set what a transaction that commits now has written; `changed`: it has changed rows."""
    columns = [_TC.TC_DATABASE, _TC.TC_TABLE, _TC.TC_PARTITION, _TC.TC_TXNID]
    mine = select(*columns, literal(commit_id(call)), _TC.TC_OPERATION_TYPE).where(_TC.TC_TXNID == txn_id)
    mine = mine.where(_TC.TC_TABLE.is_not(None)).distinct()
    if changed:
        mine = mine.where(_TC.TC_OPERATION_TYPE != COMPACT)
    names = [_WS.WS_DATABASE, _WS.WS_TABLE, _WS.WS_PARTITION, _WS.WS_TXNID, _WS.WS_COMMIT_ID, _WS.WS_OPERATION_TYPE]
    call.execute(insert(T.WRITE_SET).from_select(names, mine))


def conflict(call: Call, txn_id: int) -> Any | None:
    """A change of the same table or partition by a transaction that committed after this one began, if any.

    Both are in the write set. The row has the other's place, TXNID and COMMIT_ID, and MINE and OTHER: what both did.
    """
    mine, other = T.WRITE_SET.alias("mine").c, T.WRITE_SET.alias("other").c
    same = (other.WS_DATABASE == mine.WS_DATABASE) & (other.WS_TABLE == mine.WS_TABLE)
    same &= other.WS_PARTITION.is_not_distinct_from(mine.WS_PARTITION)
    query = select(
        other.WS_DATABASE.label("DATABASE"),
        other.WS_TABLE.label("TABLE"),
        other.WS_PARTITION.label("PARTITION"),
        other.WS_TXNID.label("TXNID"),
        other.WS_COMMIT_ID.label("COMMIT_ID"),
        mine.WS_OPERATION_TYPE.label("MINE"),
        other.WS_OPERATION_TYPE.label("OTHER"),
    ).where(same, mine.WS_TXNID == txn_id, other.WS_TXNID != txn_id, other.WS_COMMIT_ID >= txn_id)
    query = query.where(mine.WS_OPERATION_TYPE.in_(_CHANGES), other.WS_OPERATION_TYPE.in_(_CHANGES))
    return call.execute(query.order_by(other.WS_TXNID).limit(1)).first()


def last_in_conflict(call: Call, txn_id: int) -> int:
    """The last transaction whose changes would conflict with those of an open one; 0 if there is none."""
    same = (_WS.WS_DATABASE == _TC.TC_DATABASE) & (_WS.WS_TABLE == _TC.TC_TABLE)
    same &= (_WS.WS_PARTITION == _TC.TC_PARTITION) | _TC.TC_PARTITION.is_(None)
    query = select(func.max(_WS.WS_TXNID)).where(same, _TC.TC_TXNID == txn_id, _WS.WS_COMMIT_ID >= txn_id)
    query = query.where(_TC.TC_OPERATION_TYPE.in_(_CHANGES), _WS.WS_OPERATION_TYPE != INSERT)
    return int(call.execute(query).scalar() or 0)


def forget_write_set(call: Call, txn_id: int) -> None:
    """Delete what a transaction that cannot commit has in the write set."""
    call.execute(delete(T.WRITE_SET).where(_WS.WS_TXNID == txn_id))


def complete(call: Call, txn_id: int, *, changed: bool) -> None:
    """Copy what a transaction has written to the completed writes; all are marked if it `changed` rows."""
    columns = [_TC.TC_TXNID, _TC.TC_DATABASE, _TC.TC_TABLE, _TC.TC_PARTITION, _TC.TC_WRITEID]
    mine = select(*columns, literal("Y" if changed else "N")).where(_TC.TC_TXNID == txn_id)
    names = [_CTC.CTC_TXNID, _CTC.CTC_DATABASE, _CTC.CTC_TABLE, _CTC.CTC_PARTITION, _CTC.CTC_WRITEID]
    copied = insert(T.COMPLETED_TXN_COMPONENTS).from_select(
        [*names, _CTC.CTC_UPDATE_DELETE], mine.where(_TC.TC_OPERATION_TYPE != COMPACT)
    )
    call.execute(copied)


def complete_replayed(call: Call, txn_id: int, written: Sequence[Struct]) -> None:
    """Store what a replayed transaction has written, which the request tells (WriteEventInfo)."""
    rows = [
        {
            "CTC_TXNID": txn_id,
            "CTC_DATABASE": each.database,
            "CTC_TABLE": each.table,
            "CTC_PARTITION": each.partition,
            "CTC_WRITEID": each.writeId,
            "CTC_UPDATE_DELETE": "N",
        }
        for each in written
    ]
    if rows:
        call.execute(insert(T.COMPLETED_TXN_COMPONENTS), rows)


def remove(call: Call, txn_id: int) -> None:
    """Delete what an open transaction has stored: it is committed."""
    call.execute(delete(T.TXN_COMPONENTS).where(_TC.TC_TXNID == txn_id))


def is_completed(call: Call, txn_id: int) -> bool:
    """Has a transaction of this id committed writes that no compaction has removed yet?"""
    mine = select(_CTC.CTC_TXNID).where(_CTC.CTC_TXNID == txn_id).limit(1)
    return call.execute(mine).first() is not None
