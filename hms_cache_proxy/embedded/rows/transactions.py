"""Transactions and write ids: TXNS, TXN_TO_WRITE_ID, NEXT_WRITE_ID.

Job: read and write rows and their states. Must not know: what a call may do, locks, what is written (components.py).
States: `o` open, `c` committed, `a` aborted. Rows of ended transactions stay as long as snapshots need them
(housekeeping.py). Source: TxnHandler of Hive 4.2. Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Table, delete, func, insert, select, update

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.rows.common import batches
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

OPEN, COMMITTED, ABORTED = "o", "c", "a"
READ_ONLY = int(enum("TxnType")["READ_ONLY"])
DEFAULT = int(enum("TxnType")["DEFAULT"])
REPL_CREATED = int(enum("TxnType")["REPL_CREATED"])
COMPACTION = int(enum("TxnType")["COMPACTION"])
MATER_VIEW_REBUILD = int(enum("TxnType")["MATER_VIEW_REBUILD"])
SOFT_DELETE = int(enum("TxnType")["SOFT_DELETE"])
REBALANCE_COMPACTION = int(enum("TxnType")["REBALANCE_COMPACTION"])
_OF_PARTITIONS: dict[str, Table] = {
    "TC": T.TXN_COMPONENTS,
    "CTC": T.COMPLETED_TXN_COMPONENTS,
    "HL": T.HIVE_LOCKS,
    "CQ": T.COMPACTION_QUEUE,
    "CC": T.COMPLETED_COMPACTIONS,
    "WS": T.WRITE_SET,
    "CMC": T.COMPACTION_METRICS_CACHE,
}
"""Tables with names of tables and partitions, by the prefix of their columns."""


def open_transactions(call: Call, request: Struct, now_ms: int) -> list[int]:
    """Open transactions; returns their ids, which are consecutive."""
    last = int(call.execute(select(func.max(T.TXNS.c.TXN_ID))).scalar() or 0)
    row = {
        "TXN_STATE": OPEN,
        "TXN_STARTED": now_ms,
        "TXN_LAST_HEARTBEAT": now_ms,
        "TXN_USER": request.user,
        "TXN_HOST": request.hostname,
        "TXN_AGENT_INFO": request.agentInfo or "Unknown",
        "TXN_TYPE": DEFAULT if request.txn_type is None else request.txn_type,
    }
    if call.connection.dialect.name == "sqlite":
        ids = list(range(last + 1, last + 1 + request.num_txns))
        call.execute(insert(T.TXNS), [{"TXN_ID": id_, **row} for id_ in ids])
        return ids
    numbered = insert(T.TXNS).values(**row).returning(T.TXNS.c.TXN_ID)  # from the database's sequence, as in Hive
    return [int(call.execute(numbered).scalar_one()) for _ in range(request.num_txns)]


def seed(call: Call, txn_id: int) -> None:
    """Set the id of the next transaction. SQLite counts from the last row, so a committed one is inserted for that."""
    if call.connection.dialect.name == "sqlite":
        row = {"TXN_ID": txn_id - 1, "TXN_STATE": COMMITTED, "TXN_STARTED": 0, "TXN_LAST_HEARTBEAT": 0}
        call.execute(insert(T.TXNS), {**row, "TXN_USER": "", "TXN_HOST": ""})
        return
    sequence = func.pg_get_serial_sequence('"TXNS"', "TXN_ID")
    call.execute(select(func.setval(sequence, txn_id, False)))  # False: txn_id is the next one


def targets(call: Call, policy: str, sources: Sequence[int] | None = None) -> dict[int, int]:
    """Transactions of a policy's source (or some of them), each with the one that replays it."""
    columns = T.REPL_TXN_MAP.c
    query = select(columns.RTM_SRC_TXN_ID, columns.RTM_TARGET_TXN_ID).where(columns.RTM_REPL_POLICY == policy)
    if sources is not None:
        query = query.where(columns.RTM_SRC_TXN_ID.in_(list(sources)))
    return {row[0]: row[1] for row in call.execute(query.order_by(columns.RTM_SRC_TXN_ID))}


def map_sources(call: Call, policy: str, sources: Sequence[int], ids: Sequence[int]) -> None:
    """Record that the transactions `ids` replay `sources`."""
    found = [
        {"RTM_REPL_POLICY": policy, "RTM_SRC_TXN_ID": source, "RTM_TARGET_TXN_ID": target}
        for source, target in zip(sources, ids, strict=True)
    ]
    call.execute(insert(T.REPL_TXN_MAP), found)


def state(call: Call, txn_id: int) -> tuple[str, int] | None:
    """(state, type) of a transaction that is in TXNS."""
    columns = T.TXNS.c
    row = call.execute(select(columns.TXN_STATE, columns.TXN_TYPE).where(columns.TXN_ID == txn_id)).first()
    return None if row is None else (row[0], row[1] or 0)


def abort(call: Call, txn_ids: Sequence[int]) -> None:
    """Set the state of transactions to aborted."""
    call.execute(update(T.TXNS).where(T.TXNS.c.TXN_ID.in_(list(txn_ids))).values(TXN_STATE=ABORTED))
    end_rebuild(call, txn_ids)
    end_replay(call, txn_ids)
    _forget_seen(call, txn_ids)


def commit(call: Call, txn_id: int) -> None:
    """Set the state of a transaction to committed."""
    call.execute(update(T.TXNS).where(T.TXNS.c.TXN_ID == txn_id).values(TXN_STATE=COMMITTED))
    _forget_seen(call, [txn_id])


def _forget_seen(call: Call, txn_ids: Sequence[int]) -> None:
    call.execute(delete(T.MIN_HISTORY_WRITE_ID).where(T.MIN_HISTORY_WRITE_ID.c.MH_TXNID.in_(list(txn_ids))))


def end_rebuild(call: Call, txn_ids: Sequence[int]) -> None:
    """Remove the locks of rebuilds of materialized views by these transactions."""
    columns = T.MATERIALIZATION_REBUILD_LOCKS.c
    call.execute(delete(T.MATERIALIZATION_REBUILD_LOCKS).where(columns.MRL_TXN_ID.in_(list(txn_ids))))


def end_replay(call: Call, txn_ids: Sequence[int]) -> None:
    """Forget which transactions of a source these replay."""
    call.execute(delete(T.REPL_TXN_MAP).where(T.REPL_TXN_MAP.c.RTM_TARGET_TXN_ID.in_(list(txn_ids))))


def heartbeat(call: Call, txn_id: int, now_ms: int) -> None:
    """Heartbeat of a transaction."""
    call.execute(update(T.TXNS).where(T.TXNS.c.TXN_ID == txn_id).values(TXN_LAST_HEARTBEAT=now_ms))


def expired(call: Call, before_ms: int, replayed_before_ms: int) -> list[int]:
    """Open transactions without a recent heartbeat; those that replay a source's have a time of their own."""
    columns = T.TXNS.c
    replays = columns.TXN_TYPE.is_not_distinct_from(REPL_CREATED)
    silent = (~replays & (columns.TXN_LAST_HEARTBEAT < before_ms)) | (
        replays & (columns.TXN_LAST_HEARTBEAT < replayed_before_ms)
    )
    query = select(columns.TXN_ID).where(columns.TXN_STATE == OPEN, silent).order_by(columns.TXN_ID)
    return [row[0] for row in call.execute(query)]


def not_committed(call: Call) -> tuple[int, list[Any]]:
    """(the highest id, rows of open and aborted transactions in order)."""
    columns = T.TXNS.c
    high = int(call.execute(select(func.max(columns.TXN_ID))).scalar() or 0)
    query = select(T.TXNS).where(columns.TXN_STATE.in_((OPEN, ABORTED))).order_by(columns.TXN_ID)
    return high, call.rows(query)


def allocate(
    call: Call, database: str, table: str, txn_ids: Sequence[int], *, first: int | None = None
) -> tuple[list[tuple[int, int]], bool]:
    """(transaction, write id) of each, and whether one of them is new. A transaction with a write id keeps it.

    `first`: the first of the new ids, given by a source; other ids of the table are forgotten.
    """
    columns = T.TXN_TO_WRITE_ID.c
    mine = (columns.T2W_DATABASE == database) & (columns.T2W_TABLE == table)
    query = select(columns.T2W_TXNID, columns.T2W_WRITEID).where(mine, columns.T2W_TXNID.in_(list(txn_ids)))
    known = {row[0]: row[1] for row in call.execute(query)}
    wanted = sorted(set(txn_ids) - known.keys())
    if wanted:
        following = last_write_id(call, database, table) + 1
        if first is not None and first != following:
            call.execute(delete(T.TXN_TO_WRITE_ID).where(mine))
            _seed(call, database, table, first)
        start = _advance(call, database, table, len(wanted))
        rows = []
        for number, txn_id in enumerate(wanted):
            known[txn_id] = start + number
            place = {"T2W_DATABASE": database, "T2W_TABLE": table}
            rows.append({"T2W_TXNID": txn_id, "T2W_WRITEID": start + number, **place})
        call.execute(insert(T.TXN_TO_WRITE_ID), rows)
    return sorted(known.items()), bool(wanted)


def take_back(call: Call, database: str, table: str, txn_ids: Sequence[int]) -> None:
    """Delete the write ids of a table that these transactions have."""
    columns = T.TXN_TO_WRITE_ID.c
    mine = (columns.T2W_DATABASE == database) & (columns.T2W_TABLE == table)
    call.execute(delete(T.TXN_TO_WRITE_ID).where(mine, columns.T2W_TXNID.in_(list(txn_ids))))


def _seed(call: Call, database: str, table: str, following: int) -> None:
    """Set the next write id, whatever it was."""
    columns = T.NEXT_WRITE_ID.c
    mine = (columns.NWI_DATABASE == database) & (columns.NWI_TABLE == table)
    if not call.execute(update(T.NEXT_WRITE_ID).where(mine).values(NWI_NEXT=following)).rowcount:
        call.execute(insert(T.NEXT_WRITE_ID), {"NWI_DATABASE": database, "NWI_TABLE": table, "NWI_NEXT": following})


def _advance(call: Call, database: str, table: str, count: int) -> int:
    columns = T.NEXT_WRITE_ID.c
    mine = (columns.NWI_DATABASE == database) & (columns.NWI_TABLE == table)
    advanced = update(T.NEXT_WRITE_ID).where(mine).values(NWI_NEXT=columns.NWI_NEXT + count)
    after = call.execute(advanced.returning(columns.NWI_NEXT)).scalar()
    if after is not None:
        return int(after) - count
    row = {"NWI_DATABASE": database, "NWI_TABLE": table, "NWI_NEXT": 1 + count}
    call.execute(insert(T.NEXT_WRITE_ID), row)
    return 1


def has_write_ids(call: Call, database: str, table: str) -> bool:
    """Does a table have a next write id?"""
    columns = T.NEXT_WRITE_ID.c
    mine = (columns.NWI_DATABASE == database) & (columns.NWI_TABLE == table)
    return call.execute(select(columns.NWI_NEXT).where(mine)).first() is not None


def seed_write_ids(call: Call, database: str, table: str, last: int) -> None:
    """Set the last write id of a table that has none yet."""
    row = {"NWI_DATABASE": database, "NWI_TABLE": table, "NWI_NEXT": last + 1}
    call.execute(insert(T.NEXT_WRITE_ID), row)


def highest_write_id(call: Call, database: str, table: str, below_txn: int | None = None) -> int:
    """The last write id that was allocated (to transactions up to a given one); 0 if there is none."""
    columns = T.TXN_TO_WRITE_ID.c
    mine = (columns.T2W_DATABASE == database) & (columns.T2W_TABLE == table)
    query = select(func.max(columns.T2W_WRITEID)).where(mine)
    if below_txn is not None:
        query = query.where(columns.T2W_TXNID <= below_txn)
    found = call.execute(query).scalar()
    return int(found) if found else last_write_id(call, database, table)


def last_write_id(call: Call, database: str, table: str) -> int:
    """The write id before the next one, whether it was allocated or seeded."""
    nexts = T.NEXT_WRITE_ID.c
    mine = (nexts.NWI_DATABASE == database) & (nexts.NWI_TABLE == table)
    following = call.execute(select(nexts.NWI_NEXT).where(mine)).scalar()
    return int(following) - 1 if following else 0


def write_ids(call: Call, database: str, table: str, high: int) -> list[tuple[int, int]]:
    """(write id, transaction) up to a given write id, in order."""
    columns = T.TXN_TO_WRITE_ID.c
    mine = (columns.T2W_DATABASE == database) & (columns.T2W_TABLE == table) & (columns.T2W_WRITEID <= high)
    query = select(columns.T2W_WRITEID, columns.T2W_TXNID).where(mine).order_by(columns.T2W_WRITEID)
    return [(row[0], row[1]) for row in call.execute(query)]


def written(call: Call, txn_id: int) -> list[tuple[str, int]]:
    """(database, write id) of a transaction, each once, for events."""
    columns = T.TXN_TO_WRITE_ID.c
    query = select(columns.T2W_DATABASE, columns.T2W_WRITEID).where(columns.T2W_TXNID == txn_id).distinct()
    return [(row[0], row[1]) for row in call.execute(query.order_by(columns.T2W_DATABASE, columns.T2W_WRITEID))]


def end_compaction(call: Call, txn_id: int, commit_id: int | None, now_ms: int) -> None:
    """Store when a compaction was committed; its cleaning waits for all transactions up to `commit_id`."""
    mine = T.COMPACTION_QUEUE.c.CQ_TXN_ID == txn_id
    values = {"CQ_NEXT_TXN_ID": commit_id, "CQ_COMMIT_TIME": now_ms}
    call.execute(update(T.COMPACTION_QUEUE).where(mine).values(**values))


def compaction_of(call: Call, txn_id: int) -> Any | None:
    """The row of the compaction that a transaction runs."""
    return call.execute(select(T.COMPACTION_QUEUE).where(T.COMPACTION_QUEUE.c.CQ_TXN_ID == txn_id)).first()


def forget(
    call: Call,
    database: str,
    table: str | None = None,
    partitions: Sequence[str] | None = None,
    *,
    keep_ids: bool = False,
) -> None:
    """Delete what transactions wrote to a dropped database, table, or to partitions, by name, of a table.

    `keep_ids`: its write ids stay; those of a table with dropped partitions always do. (CleanupRecordsFunction)"""
    written = {
        "TC": T.TXN_COMPONENTS,
        "CTC": T.COMPLETED_TXN_COMPONENTS,
        "CQ": T.COMPACTION_QUEUE,
        "CC": T.COMPLETED_COMPACTIONS,
        "CMC": T.COMPACTION_METRICS_CACHE,
    }
    if not keep_ids and partitions is None:
        written |= {"T2W": T.TXN_TO_WRITE_ID, "NWI": T.NEXT_WRITE_ID}
    for prefix, other in written.items():
        mine = [other.c[f"{prefix}_DATABASE"] == database]
        if table is not None:
            mine.append(other.c[f"{prefix}_TABLE"] == table)
        for some in [None] if partitions is None else batches(partitions):
            named = [] if some is None else [other.c[f"{prefix}_PARTITION"].in_(some)]
            call.execute(delete(other).where(*mine, *named))


def rename_table(call: Call, old: tuple[str, str], new: tuple[str, str]) -> None:
    """Give all that is known of a renamed table by its name the new one; `old` and `new` are (database, table)."""
    for prefix, other in {**_OF_PARTITIONS, "T2W": T.TXN_TO_WRITE_ID, "NWI": T.NEXT_WRITE_ID}.items():
        database, table = _place(prefix, other)
        mine = (database == old[0]) & (table == old[1])
        call.execute(update(other).where(mine).values({database: new[0], table: new[1]}))


def rename_partition(call: Call, of: tuple[str, str], old: str, new: str) -> None:
    """The same for a partition of a table `of`: (database, table)."""
    for prefix, other in _OF_PARTITIONS.items():
        database, table = _place(prefix, other)
        partition = other.c[f"{prefix}_PARTITION"]
        mine = (database == of[0]) & (table == of[1]) & (partition == old)
        call.execute(update(other).where(mine).values({partition: new}))


def _place(prefix: str, other: Table) -> tuple[Column[Any], Column[Any]]:
    return other.c[f"{prefix}_{'DB' if prefix == 'HL' else 'DATABASE'}"], other.c[f"{prefix}_TABLE"]
