"""Compactions: requests are queued and shown. Nothing here compacts; a worker of Hive on the same database may.

Job: carry out the calls, with their rows: COMPACTION_QUEUE, COMPLETED_COMPACTIONS. Source: CompactFunction,
ShowCompactHandler and GetLatestCommittedCompactionInfoHandler of 4.0. Owner: the thread of a call.
"""

from __future__ import annotations

import re
import time
from typing import Any

from sqlalchemy import insert, select, update

from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.rows import transactions
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

INITIATED, WORKING, READY, SUCCEEDED = "i", "w", "r", "s"
STATES = {
    INITIATED: "initiated",
    WORKING: "working",
    READY: "ready for cleaning",
    SUCCEEDED: "succeeded",
    "f": "failed",
    "a": "did not initiate",
    "c": "refused",
    "x": "aborted",
}
_LETTERS = {"MINOR": "i", "MAJOR": "a", "REBALANCE": "r", "ABORT_TXN_CLEANUP": "c", "SMART_OPTIMIZE": "*"}
TYPES = {int(member): _LETTERS[member.name] for member in enum("CompactionType")}
NUMBERS = {letter: number for number, letter in TYPES.items()}
NAMES = {letter: name for name, letter in _LETTERS.items()}
_SAME = "DATABASE TABLE PARTITION STATE TYPE WORKER_ID START RUN_AS HADOOP_JOB_ID ERROR_MESSAGE ENQUEUE_TIME"
_NAMES = f"ID {_SAME} WORKER_VERSION INITIATOR_ID INITIATOR_VERSION POOL_NAME TXN_ID NEXT_TXN_ID COMMIT_TIME".split()


def compact(call: Call, args: Struct) -> None:
    """As compact2, without an answer."""
    ask_for(call, args.rqst)


def compact2(call: Call, args: Struct) -> Struct:
    """Queue a compaction, unless one of the same table or partition waits or runs."""
    return ask_for(call, args.rqst)


def ask_for(call: Call, request: Struct) -> Struct:
    """The same, for a request."""
    columns = T.COMPACTION_QUEUE.c
    high = transactions.highest_write_id(call, request.dbname.lower(), request.tablename.lower())
    at_work = columns.CQ_STATE.in_((INITIATED, WORKING)) | (
        (columns.CQ_STATE == READY) & (columns.CQ_HIGHEST_WRITE_ID == high)
    )
    query = select(columns.CQ_ID, columns.CQ_STATE).where(
        at_work,
        columns.CQ_DATABASE == request.dbname,
        columns.CQ_TABLE == request.tablename,
        columns.CQ_PARTITION.is_(None)
        if request.partitionname is None
        else columns.CQ_PARTITION == request.partitionname,
    )
    known = call.execute(query).first()
    if known is not None:
        state = known.CQ_STATE.strip()
        why = f"Compaction is already scheduled with state='{STATES[state]}' and id={known.CQ_ID}"
        return new("CompactionResponse", id=-1, state="refused", accepted=False, errormessage=why)
    id_ = enqueue(call, request, CQ_STATE=INITIATED)
    return new("CompactionResponse", id=id_, state=STATES[INITIATED], accepted=True)


def new_id(call: Call) -> int:
    """A new id of a compaction."""
    numbers = T.NEXT_COMPACTION_QUEUE_ID.c
    advance = update(T.NEXT_COMPACTION_QUEUE_ID).values(NCQ_NEXT=numbers.NCQ_NEXT + 1).returning(numbers.NCQ_NEXT)
    return int(call.execute(advance).scalar_one()) - 1


def enqueue(call: Call, request: Struct, **values: Any) -> int:
    """Insert a row for a request, with further values; returns its id."""
    id_ = new_id(call)
    row = {
        "CQ_ID": id_,
        "CQ_DATABASE": request.dbname,
        "CQ_TABLE": request.tablename,
        "CQ_PARTITION": request.partitionname,
        "CQ_TYPE": TYPES[request.type],
        "CQ_TBLPROPERTIES": None if request.properties is None else _properties(request.properties),
        "CQ_ENQUEUE_TIME": int(time.time() * 1000),
        "CQ_RUN_AS": request.runas,
        "CQ_INITIATOR_ID": request.initiatorId,
        "CQ_INITIATOR_VERSION": request.initiatorVersion,
        "CQ_POOL_NAME": request.poolName,
        "CQ_NUMBER_OF_BUCKETS": request.numberOfBuckets,
        "CQ_ORDER_BY": request.orderByClause,
        "CQ_RETRY_RETENTION": 0,
    }
    call.execute(insert(T.COMPACTION_QUEUE), {**row, **values})
    return id_


def _properties(properties: dict[str, str]) -> str:
    """Properties as StringableMap writes them: `2:1:ab:4:truth`, the number of pairs, then each length and text."""
    pieces = [f"{len(text)}:{text}" for pair in properties.items() for text in pair]
    return f"{len(properties)}:" + "".join(pieces)


def _found(call: Call) -> list[dict[str, Any]]:
    """All compactions; keys are columns without their prefix. Those in the queue have no END."""
    waiting = [
        {**{name: row._mapping[f"CQ_{name}"] for name in _NAMES}, "END": -1, "CLEANER_START": row.CQ_CLEANER_START}
        | {"HIGHEST_WRITE_ID": row.CQ_HIGHEST_WRITE_ID}
        for row in call.rows(select(T.COMPACTION_QUEUE))
    ]
    ended = [
        {**{name: row._mapping[f"CC_{name}"] for name in _NAMES}, "END": row.CC_END, "CLEANER_START": -1}
        | {"HIGHEST_WRITE_ID": row.CC_HIGHEST_WRITE_ID}
        for row in call.rows(select(T.COMPLETED_COMPACTIONS))
    ]
    return [*waiting, *ended]


def show_compact(call: Call, args: Struct) -> Struct:
    """The requested compactions, the latest first."""
    request = args.rqst
    wanted = {
        "ID": request.id if request.id is not None and request.id > 0 else None,
        "DATABASE": request.dbName,
        "TABLE": request.tbName,
        "PARTITION": request.partName,
        "STATE": request.state,
        "TYPE": None if request.type is None else TYPES[request.type],
        "POOL_NAME": request.poolName,
    }
    wanted = {key: value for key, value in wanted.items() if value is not None}
    chosen = [row for row in _found(call) if all(row[key] == value for key, value in wanted.items())]
    chosen.sort(key=lambda row: (-_last(row), row["ENQUEUE_TIME"] or 0))
    for name, descending in reversed(_order(request.order)):
        chosen.sort(key=lambda row: (row[name] is not None, row[name]), reverse=descending)  # noqa: B023  # used at once
    if request.limit is not None and request.limit > 0:
        chosen = chosen[: request.limit]
    return new("ShowCompactResponse", compacts=[_shown(row) for row in chosen])


def _order(text: str | None) -> list[tuple[str, bool]]:
    """(column, descending?) of each part of an order in SQL: `CC_START desc, CC_TABLE`. MetaException for others."""
    found = []
    for part in (text or "").split(","):
        match = re.fullmatch(r'\s*"?CC_(\w+)"?(?:\s+(asc|desc))?\s*', part, re.IGNORECASE)
        if match is not None and match[1].upper() in (*_NAMES, "END"):
            found.append((match[1].upper(), (match[2] or "").lower() == "desc"))
        elif part.strip():
            raise meta(f"compactions cannot be ordered by {part.strip()}")
    return found


def _last(row: dict[str, Any]) -> int:
    return max(row["END"] or 0, row["START"] or 0, row["COMMIT_TIME"] or 0)


def _shown(row: dict[str, Any]) -> Struct:
    return new(
        "ShowCompactResponseElement",
        dbname=row["DATABASE"],
        tablename=row["TABLE"],
        partitionname=row["PARTITION"],
        type=NUMBERS[row["TYPE"].strip()],
        state=STATES[row["STATE"].strip()],
        workerid=row["WORKER_ID"],
        start=row["START"],
        endTime=row["END"] if row["END"] != -1 else None,
        runAs=row["RUN_AS"],
        hadoopJobId=row["HADOOP_JOB_ID"],
        id=row["ID"],
        errorMessage=row["ERROR_MESSAGE"],
        enqueueTime=row["ENQUEUE_TIME"],
        workerVersion=row["WORKER_VERSION"],
        initiatorId=row["INITIATOR_ID"],
        initiatorVersion=row["INITIATOR_VERSION"],
        cleanerStart=row["CLEANER_START"] if (row["CLEANER_START"] or -1) != -1 else None,
        poolName=row["POOL_NAME"] or "default",
        txnId=row["TXN_ID"] or 0,
        nextTxnId=row["NEXT_TXN_ID"] or 0,
        commitTime=row["COMMIT_TIME"] or 0,
        hightestTxnId=row["HIGHEST_WRITE_ID"] or 0,
    )


def get_latest_committed_compaction_info(call: Call, args: Struct) -> Struct:
    """The last finished compaction of a table, or of each of its partitions."""
    request = args.rqst
    latest: dict[str | None, Struct] = {}
    for row in sorted(_found(call), key=lambda row: -row["ID"]):
        done = SUCCEEDED if row["END"] != -1 else READY
        if (row["DATABASE"], row["TABLE"], row["STATE"].strip()) != (request.dbname, request.tablename, done):
            continue
        if request.partitionnames and row["PARTITION"] not in request.partitionnames:
            continue
        if request.lastCompactionId is not None and row["ID"] <= request.lastCompactionId:
            continue
        place = {"dbname": row["DATABASE"], "tablename": row["TABLE"], "partitionname": row["PARTITION"]}
        kind = NUMBERS[row["TYPE"].strip()]
        latest.setdefault(row["PARTITION"], new("CompactionInfoStruct", id=row["ID"], type=kind, **place))
    return new("GetLatestCommittedCompactionInfoResponse", compactions=list(latest.values()))


METHODS = {
    **reads(
        show_compact=show_compact,
        get_latest_committed_compaction_info=get_latest_committed_compaction_info,
    ),
    **writes(compact=compact, compact2=compact2),
}
