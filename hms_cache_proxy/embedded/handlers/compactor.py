"""The calls of compaction workers, which take queued compactions and report their results. No worker runs here.

Job: carry out the calls; compactions.py has the requests, and shows compactions. Rows: COMPACTION_QUEUE,
COMPLETED_COMPACTIONS, COMPACTION_METRICS_CACHE. Source: CompactionTxnHandler of 4.2, and the database of a running one.
Owner: the thread of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call, writes
from hms_cache_proxy.embedded.failures import internal, meta
from hms_cache_proxy.embedded.handlers import compactions as queue
from hms_cache_proxy.embedded.handlers.transactions import now_ms
from hms_cache_proxy.embedded.rows.transactions import ABORTED
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

FAILED, DID_NOT_INITIATE, REFUSED, GIVEN_UP = "f", "a", "c", "x"
CLEANUP = "c"  # the type for data of aborted transactions
_METRICS = {int(member): f"HIVE_ACID_{member.name}" for member in enum("CompactionMetricsMetricType")}
_KEPT = (
    "ID DATABASE TABLE PARTITION TYPE TBLPROPERTIES WORKER_ID ENQUEUE_TIME START RUN_AS HIGHEST_WRITE_ID META_INFO"
    " HADOOP_JOB_ID ERROR_MESSAGE NEXT_TXN_ID TXN_ID COMMIT_TIME INITIATOR_ID INITIATOR_VERSION WORKER_VERSION"
    " POOL_NAME NUMBER_OF_BUCKETS ORDER_BY"
).split()
_NUMBERS = "ENQUEUE_TIME START HIGHEST_WRITE_ID NEXT_TXN_ID TXN_ID COMMIT_TIME NUMBER_OF_BUCKETS".split()
_QUEUE = T.COMPACTION_QUEUE.c


def find_next_compact(call: Call, args: Struct) -> Struct:
    """The oldest compaction that waits in no pool; the worker takes it."""
    return _take(call, args.workerId, None, None)


def find_next_compact2(call: Call, args: Struct) -> Struct:
    """The oldest compaction that waits in a pool; the worker takes it."""
    request = args.rqst
    return _take(call, request.workerId, request.workerVersion, request.poolName)


def _take(call: Call, worker: str | None, version: str | None, pool: str | None) -> Struct:
    of_pool = _QUEUE.CQ_POOL_NAME == pool if pool else _QUEUE.CQ_POOL_NAME.is_(None)
    waiting = select(T.COMPACTION_QUEUE).where(_QUEUE.CQ_STATE == queue.INITIATED, of_pool)
    row = call.execute(waiting.order_by(_QUEUE.CQ_ID).limit(1)).first()
    if row is None:
        return new("OptionalCompactionInfoStruct")
    taken = {"CQ_WORKER_ID": worker, "CQ_WORKER_VERSION": version, "CQ_START": now_ms(), "CQ_STATE": queue.WORKING}
    _change(call, row.CQ_ID, **taken)
    info = new(
        "CompactionInfoStruct",
        id=row.CQ_ID,
        dbname=row.CQ_DATABASE,
        tablename=row.CQ_TABLE,
        partitionname=row.CQ_PARTITION,
        type=queue.NUMBERS[row.CQ_TYPE.strip()],
        properties=row.CQ_TBLPROPERTIES,
        poolname=row.CQ_POOL_NAME,
        orderByClause=row.CQ_ORDER_BY,
        numberOfBuckets=row.CQ_NUMBER_OF_BUCKETS or 0,
        state="\0",
        **dict.fromkeys(("start", "highestWriteId", "enqueueTime", "retryRetention"), 0),
        **dict.fromkeys(("toomanyaborts", "hasoldabort"), False),
    )
    return new("OptionalCompactionInfoStruct", ci=info)


def _change(call: Call, id_: int, **values: Any) -> int:
    """Change a queued compaction; how many were changed, 0 or 1."""
    changed = call.execute(update(T.COMPACTION_QUEUE).where(_QUEUE.CQ_ID == id_).values(**values))
    return int(changed.rowcount)


def set_hadoop_jobid(call: Call, args: Struct) -> None:
    """Set the job that runs a compaction."""
    if not _change(call, args.cq_id, CQ_HADOOP_JOB_ID=args.jobId):
        raise internal("there is no such compaction")


def update_compactor_state(call: Call, args: Struct) -> None:
    """Set the worker's transaction, and the highest write id that it compacts."""
    info = args.cr
    values = {"CQ_HIGHEST_WRITE_ID": info.highestWriteId or 0, "CQ_RUN_AS": info.runas, "CQ_TXN_ID": args.txn_id}
    if not _change(call, info.id, **values, CQ_TYPE=queue.TYPES[info.type]):
        raise internal("there is no such compaction")
    row = {
        "TC_TXNID": args.txn_id,
        "TC_DATABASE": info.dbname,
        "TC_TABLE": info.tablename,
        "TC_PARTITION": info.partitionname,
        "TC_OPERATION_TYPE": "c",
        "TC_WRITEID": info.highestWriteId or 0,
    }
    call.execute(insert(T.TXN_COMPONENTS), row)


def mark_compacted(call: Call, args: Struct) -> None:
    """A compaction is done, except for removing what it made obsolete."""
    if not _change(call, args.cr.id, CQ_STATE=queue.READY, CQ_WORKER_ID=None):
        raise meta("The update count was 0 which is not the expected. Rolling back.")


def mark_cleaned(call: Call, args: Struct) -> None:
    """A compaction is done; forget what transactions wrote before it."""
    info = args.cr
    known = _queued(call, info.id)
    kind = queue.TYPES[info.type]
    if known is not None and kind != CLEANUP:
        _complete(call, {**_kept(known), "STATE": queue.SUCCEEDED})
    mine = (_QUEUE.CQ_DATABASE == info.dbname) & (_QUEUE.CQ_TABLE == info.tablename)
    if info.partitionname is not None:
        mine &= _QUEUE.CQ_PARTITION == info.partitionname
    call.execute(delete(T.COMPACTION_QUEUE).where(_QUEUE.CQ_ID == info.id))
    if kind != CLEANUP:
        call.execute(delete(T.COMPACTION_QUEUE).where(mine, _QUEUE.CQ_TYPE == CLEANUP))
        _forget(call, info, T.COMPLETED_TXN_COMPONENTS, "CTC")
    if info.highestWriteId:
        _forget(call, info, T.TXN_COMPONENTS, "TC")


def _forget(call: Call, info: Struct, table: Any, prefix: str) -> None:
    """Delete what transactions wrote to a table or partition up to a write id; in TXN_COMPONENTS, only aborted ones."""
    columns = {name: table.c[f"{prefix}_{name}"] for name in ("DATABASE", "TABLE", "PARTITION", "WRITEID", "TXNID")}
    found = delete(table).where(columns["DATABASE"] == info.dbname, columns["TABLE"] == info.tablename)
    if info.partitionname is not None:
        found = found.where(columns["PARTITION"] == info.partitionname)
    if info.highestWriteId:
        found = found.where(columns["WRITEID"] <= info.highestWriteId)
    if table is T.TXN_COMPONENTS:
        gone = select(T.TXNS.c.TXN_ID).where(T.TXNS.c.TXN_STATE == ABORTED)
        found = found.where(columns["TXNID"].in_(gone))
    call.execute(found)


def _queued(call: Call, id_: int) -> Any | None:
    return call.execute(select(T.COMPACTION_QUEUE).where(_QUEUE.CQ_ID == id_)).first()


def _kept(row: Any) -> dict[str, Any]:
    return {name: row._mapping[f"CQ_{name}"] for name in _KEPT}


def _complete(call: Call, row: dict[str, Any]) -> None:
    values = {"END": now_ms(), **row}
    call.execute(insert(T.COMPLETED_COMPACTIONS), {f"CC_{name}": value for name, value in values.items()})


def mark_failed(call: Call, args: Struct) -> None:
    """A compaction has failed; without an id, it could not be queued."""
    _end(call, args.cr, FAILED if args.cr.id else DID_NOT_INITIATE)


def mark_refused(call: Call, args: Struct) -> None:
    """A worker refuses the compaction."""
    _end(call, args.cr, REFUSED)


def _end(call: Call, info: Struct, state: str) -> None:
    told = {"WORKER_ID": info.workerId, "ERROR_MESSAGE": info.errorMessage}
    if info.id:
        known = _queued(call, info.id)
        if known is None:
            raise internal("there is no such compaction")
        row = _kept(known) | {name: value for name, value in told.items() if value is not None}
        call.execute(delete(T.COMPACTION_QUEUE).where(_QUEUE.CQ_ID == info.id))
    else:
        place = {"DATABASE": info.dbname, "TABLE": info.tablename, "PARTITION": info.partitionname}
        row = {"ID": queue.new_id(call), "TYPE": queue.TYPES[info.type], **place, **told, "START": now_ms()}
    _complete(call, {**row, **{name: row.get(name) or 0 for name in _NUMBERS}, "STATE": state})


def abort_Compactions(call: Call, args: Struct) -> Struct:
    """Abort compactions that no worker has begun; the reply says for each whether it was aborted."""
    ids = args.rqst.compactionIds
    if not ids:
        raise internal("no compaction is named")
    told = {id_: _abort(call, id_) for id_ in ids}
    return new("AbortCompactResponse", abortedcompacts=told)


def _abort(call: Call, id_: int) -> Struct:
    known = _queued(call, id_)
    if known is not None and known.CQ_STATE.strip() == queue.INITIATED:
        call.execute(delete(T.COMPACTION_QUEUE).where(_QUEUE.CQ_ID == id_))
        row = _kept(known) | {name: known._mapping[f"CQ_{name}"] or 0 for name in _NUMBERS}
        why = "Compaction Aborted by Abort Comapction request."
        _complete(call, {**row, "STATE": GIVEN_UP, "ERROR_MESSAGE": why})
        status, message = "Success", "Successfully aborted compaction"
    else:
        ended = select(T.COMPLETED_COMPACTIONS.c.CC_STATE).where(T.COMPLETED_COMPACTIONS.c.CC_ID == id_)
        state = call.execute(ended).scalar() if known is None else known.CQ_STATE
        status, message = "Error", "No Such Compaction Id Available"
        if state is not None:
            message = f"Error while aborting compaction as compaction is in state-{queue.STATES[state.strip()]}"
    return new("AbortCompactionResponseElement", compactionId=id_, status=status, message=message)


def submit_for_cleanup(call: Call, args: Struct) -> bool:
    """Queue the removal of what a rebuilt table leaves behind, as if a compaction had made it obsolete."""
    values = {"CQ_STATE": queue.READY, "CQ_HIGHEST_WRITE_ID": args.o2, "CQ_TXN_ID": args.o3}
    queue.enqueue(call, args.o1, **values)
    return True


def _measured(place: tuple[str, str, str | None], kind: int) -> Any:
    """A condition (Any: of Core): a metric of a table or partition."""
    columns = T.COMPACTION_METRICS_CACHE.c
    return (
        (columns.CMC_DATABASE == place[0])
        & (columns.CMC_TABLE == place[1])
        & columns.CMC_PARTITION.is_not_distinct_from(place[2])
        & (columns.CMC_METRIC_TYPE == _METRICS[kind])
    )


def update_compaction_metrics_data(call: Call, args: Struct) -> bool:
    """Store the number of deltas; remove it if it is below a threshold."""
    data = args.data
    place = (data.dbname, data.tblname, data.partitionname)
    mine = _measured(place, data.type)
    if data.metricvalue < data.threshold:
        call.execute(delete(T.COMPACTION_METRICS_CACHE).where(mine))
        return True
    columns = T.COMPACTION_METRICS_CACHE.c
    values = {"CMC_METRIC_VALUE": data.metricvalue, "CMC_VERSION": columns.CMC_VERSION + 1}
    if not call.execute(update(T.COMPACTION_METRICS_CACHE).where(mine).values(**values)).rowcount:
        row = dict(zip(("CMC_DATABASE", "CMC_TABLE", "CMC_PARTITION"), place, strict=True))
        row |= {"CMC_METRIC_TYPE": _METRICS[data.type], "CMC_METRIC_VALUE": data.metricvalue, "CMC_VERSION": 1}
        call.execute(insert(T.COMPACTION_METRICS_CACHE), row)
    return True


def remove_compaction_metrics_data(call: Call, args: Struct) -> None:
    """Remove a metric."""
    request = args.request
    place = (request.dbName, request.tblName, request.partitionName)
    call.execute(delete(T.COMPACTION_METRICS_CACHE).where(_measured(place, request.type)))


METHODS = writes(
    find_next_compact=find_next_compact,
    find_next_compact2=find_next_compact2,
    set_hadoop_jobid=set_hadoop_jobid,
    update_compactor_state=update_compactor_state,
    mark_compacted=mark_compacted,
    mark_cleaned=mark_cleaned,
    mark_failed=mark_failed,
    mark_refused=mark_refused,
    abort_Compactions=abort_Compactions,
    submit_for_cleanup=submit_for_cleanup,
    update_compaction_metrics_data=update_compaction_metrics_data,
    remove_compaction_metrics_data=remove_compaction_metrics_data,
)
