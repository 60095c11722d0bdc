"""What transactions write, from their locks to compaction: components, conflicts, time-outs, on SQLite."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from hms_cache_proxy.embedded.handlers.transactions import REPLAY_TIMEOUT_MS, TIMEOUT_MS
from hms_cache_proxy.embedded.housekeeping import tidy
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.wire.message import MessageType
from tests.embedded.differential import struct
from tests.embedded.test_housekeeping import House, house_at

SHARED_READ, SHARED_WRITE, EXCLUSIVE = 1, 2, 3
DB_LEVEL, TABLE_LEVEL, PARTITION_LEVEL = 1, 2, 3
SELECT, INSERT, UPDATE, DELETE, UNSET, NO_TXN = 1, 2, 3, 4, 5, 6
ACQUIRED, WAITING, NOT_ACQUIRED = 1, 2, 4
REPL_CREATED, COMPACTION, MATER_VIEW_REBUILD = 1, 3, 4
MAJOR = 2


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_at(f"sqlite:///{tmp_path}/metastore.db", tmp_path) as made:
        made.do("create_database", database=struct("Database", name="d"))
        yield made


def component(kind: int = SHARED_WRITE, **fields: Any) -> Any:
    """A wanted lock of the table `d.t`, to update it."""
    place = {"dbname": "d", "tablename": "t", "operationType": UPDATE, "isTransactional": True, **fields}
    level = DB_LEVEL if place["tablename"] is None else TABLE_LEVEL
    return struct("LockComponent", type=kind, level=PARTITION_LEVEL if "partitionname" in fields else level, **place)


def lock(house: House, *wanted: Any, txn: int | None = None, **fields: Any) -> Any:
    request = struct("LockRequest", component=list(wanted), txnid=txn, user="u", hostname="h", **fields)
    return house.do("lock", rqst=request)


def writer(house: House, *wanted: Any) -> int:
    """A transaction that has a write id and these locks, or one of the table."""
    txn = house.wrote()
    assert lock(house, *(wanted or (component(),)), txn=txn).state == ACQUIRED
    return txn


def rows(house: House, table: Any) -> list[tuple[Any, ...]]:
    """The rows of a table, without times."""
    with house.database.read() as connection:
        found = connection.execute(select(*(each for each in table.c if not each.name.endswith("TIMESTAMP"))))
        return sorted((tuple(row) for row in found), key=str)


def failure(house: House, method: str, **arguments: Any) -> tuple[str, str]:
    """The exception that a call declares: (its type, its text)."""
    value = house.ask(method, **arguments).value
    (thrown,) = [each for name in value._names if name != "success" and (each := getattr(value, name)) is not None]
    return type(thrown).__name__, thrown.message.decode()


def commit(txn: int, **fields: Any) -> dict[str, Any]:
    """The arguments of commit_txn."""
    return {"rqst": struct("CommitTxnRequest", txnid=txn, **fields)}


def age(house: House, txn: int, by_ms: int) -> None:
    """A transaction is silent for so long."""
    columns = T.TXNS.c
    with house.database.write() as connection:
        mine = update(T.TXNS).where(columns.TXN_ID == txn)
        connection.execute(mine.values(TXN_LAST_HEARTBEAT=columns.TXN_LAST_HEARTBEAT - by_ms))


def test_locks_say_what_is_written(house: House) -> None:
    txn = writer(
        house,
        component(dbname="D", tablename="T", partitionname="K=1"),
        component(partitionname="k=2", operationType=INSERT),
        component(partitionname="k=3", operationType=SELECT),
        component(operationType=NO_TXN),
        component(tablename="plain", isTransactional=False, operationType=UNSET),
        component(tablename="u", operationType=DELETE, isTransactional=None),
    )
    found = [(txn, "d", "t", "k=1", "u", 1), (txn, "d", "t", "k=2", "i", 1), (txn, "d", "u", None, "d", None)]
    assert rows(house, T.TXN_COMPONENTS) == found
    house.commit(txn)
    assert rows(house, T.TXN_COMPONENTS) == []
    written = [(txn, "d", "t", "k=1", 1, "Y"), (txn, "d", "t", "k=2", 1, "Y"), (txn, "d", "u", None, None, "Y")]
    assert rows(house, T.COMPLETED_TXN_COMPONENTS) == written, "one change of rows marks all of the transaction"


def test_dynamic_partitions(house: House) -> None:
    """Of a lock for partitions that nobody knows yet, the table is stored once; the partitions then replace it."""
    dynamic = {"isDynamicPartitionWrite": True}
    wanted = (
        component(partitionname="k=1", operationType=INSERT, **dynamic),
        component(partitionname="k=2", **dynamic),
    )
    txn = writer(house, *wanted)
    assert rows(house, T.TXN_COMPONENTS) == [(txn, "d", "t", None, "u", 1)]
    told = {"txnid": txn, "writeid": 1, "dbname": "D", "tablename": "T"}
    request = struct("AddDynamicPartitions", **told, partitionnames=["k=5"], operationType=DELETE)
    house.do("add_dynamic_partitions", rqst=request)
    assert rows(house, T.TXN_COMPONENTS) == [(txn, "d", "t", "k=5", "d", 1)]
    house.commit(txn)
    inserter = writer(house, component(operationType=INSERT, **dynamic))
    told |= {"txnid": inserter, "writeid": 2}
    house.do("add_dynamic_partitions", rqst=struct("AddDynamicPartitions", **told, partitionnames=[], operationType=2))
    assert rows(house, T.TXN_COMPONENTS) == []


def test_a_lock_of_a_transaction_needs_an_operation(house: House) -> None:
    txn = house.wrote()
    for number in (None, UNSET):
        wanted = struct("LockRequest", component=[component(operationType=number)], txnid=txn, user="u", hostname="h")
        assert house.ask("lock", rqst=wanted).type is MessageType.EXCEPTION
    assert rows(house, T.HIVE_LOCKS) == []
    assert lock(house, component(operationType=None)).state == ACQUIRED


def test_aborted_writers(house: House) -> None:
    """An aborted transaction stays until its files are gone: those of a dropped table are. One that has no locks wrote
    nothing."""
    idle, aborted, later = house.wrote(), writer(house), writer(house)
    house.abort(idle)
    house.abort(aborted)
    house.commit(later)
    last = house.wrote()
    house.commit(last)
    soon_s = time.time() + 10
    tidy(house.database, soon_s)
    assert house.column(T.TXNS.c.TXN_ID) == [aborted, last]
    assert house.column(T.TXN_TO_WRITE_ID.c.T2W_TXNID) == [aborted, later, last]
    assert house.valid().tblValidWriteIds[0].invalidWriteIds == [2]
    info = struct("CompactionInfoStruct", id=9, dbname="d", tablename="t", type=MAJOR, highestWriteId=3)
    house.do("mark_cleaned", cr=info)
    tidy(house.database, soon_s)
    assert (house.column(T.TXNS.c.TXN_ID), house.column(T.TXN_TO_WRITE_ID.c.T2W_TXNID)) == ([last], [])
    assert house.valid().tblValidWriteIds[0].invalidWriteIds == []


def test_writers_of_an_earlier_version(house: House) -> None:
    """Their locks were not written down: at the next start, the tables of their write ids are."""
    aborted, opened = writer(house), house.wrote()
    committed = house.wrote()
    house.abort(aborted)
    house.commit(committed)
    with house.database.write() as connection:
        connection.execute(delete(T.TXN_COMPONENTS))
    house.database.prepare(warehouse="file:/w", external="file:/e")
    found = [(aborted, "d", "t", None, "i", 1), (opened, "d", "t", None, "i", 2)]
    assert rows(house, T.TXN_COMPONENTS) == found
    house.database.prepare(warehouse="file:/w", external="file:/e")
    assert rows(house, T.TXN_COMPONENTS) == found


def test_write_conflict(house: House) -> None:
    """The second of two transactions that were open at once and changed the same rows is aborted."""
    first, second, third = writer(house), writer(house), writer(house)
    house.do("commit_txn", **commit(first, exclWriteEnabled=False))
    assert house.do("get_latest_txnid_in_conflict", txnId=second) == first
    events = house.events()
    told = f"Aborting [txnid:{second},{third}] due to a write conflict on d/t committed by [txnid:{first},{third}] u/u"
    assert failure(house, "commit_txn", **commit(second, exclWriteEnabled=False)) == (
        "TxnAbortedException",
        told,
    )
    assert house.events() == events, "Hive does not log it either"
    again = f"Transaction txnid:{second} already aborted"
    assert failure(house, "commit_txn", **commit(second)) == ("TxnAbortedException", again)
    assert second not in house.column(T.HIVE_LOCKS.c.HL_TXNID) + house.column(T.WRITE_SET.c.WS_TXNID)
    house.commit(third)  # its locks exclude others, it says
    after = writer(house)
    house.do("commit_txn", **commit(after, exclWriteEnabled=False))


def test_no_write_conflict(house: House) -> None:
    """Of inserts, and of changes of two partitions."""
    kinds = (INSERT, INSERT, UPDATE)
    txns = [writer(house, component(partitionname="k=1", operationType=kind)) for kind in kinds]
    txns.append(writer(house, component(partitionname="k=2")))
    opened = house.begun()
    for txn in txns:
        house.do("commit_txn", **commit(txn, exclWriteEnabled=False))
    assert house.column(T.WRITE_SET.c.WS_OPERATION_TYPE) == ["i", "i", "u", "u"]
    tidy(house.database, time.time() + 10)
    assert house.column(T.WRITE_SET.c.WS_TXNID) == txns, "the open one may be in conflict with them"
    house.commit(opened)
    tidy(house.database, time.time() + 10)
    assert rows(house, T.WRITE_SET) == []


def test_completed_writes_are_stored_once(house: House) -> None:
    for kind in (INSERT, UPDATE, INSERT, INSERT):
        house.commit(writer(house, component(operationType=kind)))
    house.commit(writer(house, component(partitionname="k=1", operationType=INSERT)))
    tidy(house.database, time.time())
    found = [(row[3], row[4], row[5]) for row in rows(house, T.COMPLETED_TXN_COMPONENTS)]
    assert found == [(None, 2, "Y"), (None, 4, "N"), ("k=1", 5, "N")]


def test_compactions_write_nothing(house: House) -> None:
    number = house.do("compact2", rqst=struct("CompactionRequest", dbname="d", tablename="t", type=MAJOR)).id
    request = struct("OpenTxnRequest", num_txns=1, user="u", hostname="h", txn_type=COMPACTION)
    (txn,) = house.do("open_txns", rqst=request).txn_ids
    later = house.begun()
    info = struct("CompactionInfoStruct", id=number, dbname="d", tablename="t", type=MAJOR, highestWriteId=3)
    house.do("update_compactor_state", cr=info, txn_id=txn)
    house.commit(txn)
    assert [rows(house, each) for each in (T.TXN_COMPONENTS, T.COMPLETED_TXN_COMPONENTS, T.WRITE_SET)] == [[], [], []]
    (shown,) = house.do("show_compact", rqst=struct("ShowCompactRequest")).compacts
    assert shown.nextTxnId == later and abs(shown.commitTime - time.time() * 1000) < 60_000


def test_replayed_writes(house: House) -> None:
    """A commit says what it replays."""
    opened = struct(
        "OpenTxnRequest", num_txns=1, user="u", hostname="h", replPolicy="p", replSrcTxnIds=[77], txn_type=REPL_CREATED
    )
    (txn,) = house.do("open_txns", rqst=opened).txn_ids
    written = struct("WriteEventInfo", writeId=5, database="d", table="t", files="f", partition="k=1")
    fields = {"replPolicy": "p", "txn_type": REPL_CREATED, "writeEventInfos": [written]}
    house.do("commit_txn", **commit(77, **fields))
    assert rows(house, T.COMPLETED_TXN_COMPONENTS) == [(txn, "d", "t", "k=1", 5, "N")]
    assert rows(house, T.REPL_TXN_MAP) == []


def test_silent_owners(house: House) -> None:
    """Housekeeping ends their transactions and locks; a replayed transaction may be silent for days."""
    opened = struct(
        "OpenTxnRequest", num_txns=1, user="u", hostname="h", replPolicy="p", replSrcTxnIds=[77], txn_type=REPL_CREATED
    )
    (replayed,) = house.do("open_txns", rqst=opened).txn_ids
    silent = writer(house)
    held = lock(house, component(tablename="u")).lockid
    age(house, silent, TIMEOUT_MS + 1000)
    age(house, replayed, TIMEOUT_MS + 1000)
    with house.database.write() as connection:
        connection.execute(
            update(T.HIVE_LOCKS).where(T.HIVE_LOCKS.c.HL_LOCK_EXT_ID == held).values(HL_LAST_HEARTBEAT=1)
        )
    events = house.events()
    house.service.expire()
    assert rows(house, T.HIVE_LOCKS) == [] and len(house.events()) == len(events) + 1
    assert house.valid().tblValidWriteIds[0].abortedBits == b"\1"
    assert house.do("get_open_txns").open_txns == [replayed, silent]
    age(house, replayed, REPLAY_TIMEOUT_MS)
    house.service.expire()
    assert len(house.events()) == len(events) + 2


def test_locks_of_databases(house: House) -> None:
    """A lock for reading a database does not wait for who has one of its tables, nor the other way."""
    read = component(SHARED_READ, tablename=None)
    assert lock(house, component(EXCLUSIVE)).state == ACQUIRED
    assert lock(house, read).state == ACQUIRED
    assert lock(house, component(EXCLUSIVE, tablename="u")).state == ACQUIRED
    dropping = lock(house, component(EXCLUSIVE, tablename=None))
    assert dropping.state == WAITING
    assert lock(house, read).state == WAITING
    assert lock(house, component(SHARED_WRITE, tablename=None)).state == WAITING


def test_locks_without_waiting(house: House) -> None:
    owner = house.begun()
    held = lock(house, component(EXCLUSIVE), txn=owner)
    place = f"lockid:{held.lockid} intLockId:1 txnid:{owner} db:d table:t partition:null state:ACQUIRED type:EXCLUSIVE"
    reader, wanted = house.begun(), (component(SHARED_READ), component(SHARED_WRITE, tablename="u"))
    refused = lock(house, *wanted, txn=reader, zeroWaitReadEnabled=True)
    told = f"Unable to acquire read lock due to an existing exclusive lock {{{place}}}"
    assert (refused.state, refused.errorMessage.decode()) == (NOT_ACQUIRED, told)
    refused = lock(house, component(EXCLUSIVE), txn=reader, exclusiveCTAS=True)
    told = f"Failed to initiate a concurrent CTAS operation with the same table name, lockInfo : {place}"
    assert (refused.state, refused.errorMessage.decode()) == (NOT_ACQUIRED, told)
    assert house.column(T.HIVE_LOCKS.c.HL_TXNID) == [owner]
    assert lock(house, component(SHARED_READ), zeroWaitReadEnabled=True).state == WAITING, "it has no transaction"


def test_unlock(house: House) -> None:
    """A lock of a transaction can only be released while it waits."""
    held, waiting = (lock(house, component(EXCLUSIVE), txn=house.begun()) for _ in range(2))
    assert (held.state, waiting.state) == (ACQUIRED, WAITING)
    house.do("unlock", rqst=struct("UnlockRequest", lockid=waiting.lockid))
    refused = failure(house, "unlock", rqst=struct("UnlockRequest", lockid=held.lockid))
    assert refused[0] == "TxnOpenException"
    assert house.column(T.HIVE_LOCKS.c.HL_LOCK_EXT_ID) == [held.lockid]


def test_shown_locks(house: House) -> None:
    """Acquired ones first, those that exclude least before others; chosen by names as they are stored."""
    txn = house.begun()
    lock(house, component(EXCLUSIVE, partitionname="K=a%3Ab"), txn=txn)
    lock(house, component(SHARED_READ))
    lock(house, component(SHARED_READ, tablename="u"))
    shown = house.do("show_locks", rqst=struct("ShowLocksRequest")).locks
    assert [(each.tablename, each.state) for each in shown] == [(b"u", 1), (b"t", 1), (b"t", 2)]
    for fields, number in (
        ({"dbname": "d"}, 3),
        ({"dbname": "D"}, 0),
        ({"dbname": ""}, 0),
        ({"txnid": 0}, 2),
        ({"txnid": txn}, 1),
        ({"partname": "k=a%253Ab"}, 1),
    ):
        assert len(house.do("show_locks", rqst=struct("ShowLocksRequest", **fields)).locks) == number, fields


def test_ended_transactions(house: House) -> None:
    """What is said of committed ones, also after their rows in TXNS are gone."""
    txn = writer(house)
    house.commit(txn)
    house.commit(txn)
    told = ("NoSuchTxnException", f"Transaction txnid:{txn} is already committed.")
    wanted = struct("LockRequest", component=[component()], txnid=txn, user="u", hostname="h")
    beat = {"ids": struct("HeartbeatRequest", txnid=txn, lockid=99)}
    assert failure(house, "heartbeat", **beat) == ("NoSuchTxnException", f"No such txn: {txn}")
    assert failure(house, "abort_txn", rqst=struct("AbortTxnRequest", txnid=txn)) == told
    house.commit(house.begun())
    tidy(house.database, time.time() + 10)
    assert txn not in house.column(T.TXNS.c.TXN_ID)
    house.commit(txn)
    for method, arguments in (
        ("abort_txn", {"rqst": struct("AbortTxnRequest", txnid=txn)}),
        ("heartbeat", beat),
        ("lock", {"rqst": wanted}),
    ):
        assert failure(house, method, **arguments) == told, method
    nobody = {"ids": struct("HeartbeatRequest", txnid=1 << 40)}
    assert failure(house, "heartbeat", **nobody) == ("NoSuchTxnException", f"No such transaction txnid:{1 << 40}")


def test_locks_of_rebuilds(house: House) -> None:
    """Only the commit of a rebuild releases them; an abort does, of whatever transaction."""
    for kind, ends in ((None, False), (MATER_VIEW_REBUILD, True)):
        request = struct("OpenTxnRequest", num_txns=1, user="u", hostname="h", txn_type=kind)
        (txn,) = house.do("open_txns", rqst=request).txn_ids
        values = {"dbName": "d", "tableName": f"mv{kind}", "txnId": txn}
        assert house.do("get_lock_materialization_rebuild", **values).state == ACQUIRED
        house.commit(txn)
        assert house.do("get_lock_materialization_rebuild", **values).state == (ACQUIRED if ends else NOT_ACQUIRED)
