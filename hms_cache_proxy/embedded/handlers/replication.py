"""Replication: metrics of its runs. No files are kept for it.

Job: carry out the calls, with their rows: REPLICATION_METRICS. Source: HMSHandler and ObjectStore of 4.2, compared with
a running one. Owner: the thread of a call.
"""

from __future__ import annotations

from sqlalchemy import insert, select, update

from hms_cache_proxy.embedded.call import Call, neither, reads, writes
from hms_cache_proxy.embedded.failures import internal, meta
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

_METRICS = T.REPLICATION_METRICS.c


def add_replication_metrics(call: Call, args: Struct) -> None:
    """Add metrics of runs; for a known run, set the given values."""
    given = args.replicationMetricList.replicationMetricList
    ids = [each.scheduledExecutionId for each in given]
    if len(ids) != len(set(ids)):
        raise meta("a run is told twice")
    for each in given:
        mine = _METRICS.RM_SCHEDULED_EXECUTION_ID == each.scheduledExecutionId
        told = {"RM_METADATA": each.metadata, "RM_PROGRESS": each.progress, "MESSAGE_FORMAT": each.messageFormat}
        if call.execute(select(_METRICS.RM_POLICY).where(mine)).first() is not None:
            told = {name: value for name, value in told.items() if value is not None}
            if told:
                call.execute(update(T.REPLICATION_METRICS).where(mine).values(**told))
            continue
        row = {
            "RM_SCHEDULED_EXECUTION_ID": each.scheduledExecutionId,
            "RM_POLICY": each.policy,
            "RM_DUMP_EXECUTION_ID": each.dumpExecutionId,
            "RM_START_TIME": call.now,
        }
        call.execute(insert(T.REPLICATION_METRICS), {**row, **told})


def get_replication_metrics(call: Call, args: Struct) -> Struct | None:
    """The metrics of a policy, the latest run first, or of a run; no answer if the request names neither."""
    request = args.rqst
    query = select(T.REPLICATION_METRICS).order_by(_METRICS.RM_SCHEDULED_EXECUTION_ID.desc())
    if request.policy is not None:
        query = query.where(_METRICS.RM_POLICY == request.policy)
    elif request.scheduledExecutionId is not None:
        query = query.where(_METRICS.RM_SCHEDULED_EXECUTION_ID == request.scheduledExecutionId)
    else:
        return None
    found = [
        new(
            "ReplicationMetrics",
            scheduledExecutionId=row.RM_SCHEDULED_EXECUTION_ID,
            policy=row.RM_POLICY,
            dumpExecutionId=row.RM_DUMP_EXECUTION_ID,
            metadata=row.RM_METADATA,
            progress=row.RM_PROGRESS,
            messageFormat=row.MESSAGE_FORMAT,
        )
        for row in call.rows(query)
    ]
    return new("ReplicationMetricList", replicationMetricList=found)


def cm_recycle(_call: Call, args: Struct) -> Struct:
    """Does nothing: only a change manager keeps files for replication, and there is none."""
    if not args.request.dataPath:
        raise internal("a path is empty")
    return new("CmRecycleResponse")


METHODS = {
    **neither(cm_recycle=cm_recycle),
    **reads(get_replication_metrics=get_replication_metrics),
    **writes(add_replication_metrics=add_replication_metrics),
}
