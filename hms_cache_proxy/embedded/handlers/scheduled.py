"""Scheduled queries, which HiveServer2 runs: it asks for a query that is due, and reports its progress.

Job: carry out the calls, with their rows: SCHEDULED_QUERIES, SCHEDULED_EXECUTIONS; cron.py has schedules. A query that
runs is not due. An execution without a report for TIMEOUT_S is ended by the next call that asks for a query.
Source: HMSHandler and ObjectStore of 4.2, compared with a running one. Owner: the thread of a call.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded import cron
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.failures import (
    already_exists,
    internal,
    invalid_input,
    invalid_operation,
    meta,
    no_such_object,
)
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

TIMEOUT_S = 120  # metastore.scheduled.queries.execution.timeout
_LAST_TIME = 2**31 - 1  # NEXT_EXECUTION has 32 bits
_STATES = {int(member): member.name for member in enum("QueryState")}
_FROM = {  # ObjectStore.validateStateChange
    "INITED": ("EXECUTING", "FAILED", "FINISHED", "TIMED_OUT", "AUTO_DISABLED"),
    "EXECUTING": ("EXECUTING", "FAILED", "FINISHED", "TIMED_OUT"),
}
_KINDS = {int(member): member.name for member in enum("ScheduledQueryMaintenanceRequestType")}
_QUERIES, _EXECUTIONS = T.SCHEDULED_QUERIES.c, T.SCHEDULED_EXECUTIONS.c


def _told(key: Struct) -> str:
    return f"{key.scheduleName}@{key.clusterNamespace}"


def _find(call: Call, key: Struct) -> Any | None:
    """The row of a query; names are case-sensitive."""
    mine = (_QUERIES.SCHEDULE_NAME == key.scheduleName) & (_QUERIES.CLUSTER_NAMESPACE == key.clusterNamespace)
    return call.execute(select(T.SCHEDULED_QUERIES).where(mine)).first()


def _next(schedule: str | None) -> int | None:
    """The next time of a schedule, in seconds since 1970; None if there is none. InvalidInputException."""
    if schedule is None:
        raise internal("a schedule is null")
    try:
        found = cron.next_time(schedule, datetime.now())
    except ValueError:
        raise invalid_input(f"Invalid QUARTZ schedule expression: '{schedule}'") from None
    if found is None or found.timestamp() > _LAST_TIME:
        return None
    return int(found.timestamp())


def _row(query: Struct) -> dict[str, Any]:
    return {
        "ENABLED": bool(query.enabled),
        "SCHEDULE": query.schedule,
        "USER": query.user,
        "QUERY": query.query,
    }


def scheduled_query_maintenance(call: Call, args: Struct) -> None:
    """Create, change or drop a scheduled query."""
    query = args.request.scheduledQuery
    key, known = query.scheduleKey, _find(call, query.scheduleKey)
    kind = _KINDS[args.request.type]
    if kind == "CREATE":
        if known is not None:
            raise already_exists(f"Scheduled query with name: {_told(key)} already exists.")
        row = {
            "SCHEDULED_QUERY_ID": new_ids(call.connection, "MScheduledQuery"),
            "SCHEDULE_NAME": key.scheduleName,
            "CLUSTER_NAMESPACE": key.clusterNamespace,
            "NEXT_EXECUTION": _next(query.schedule),
        }
        call.execute(insert(T.SCHEDULED_QUERIES), {**row, **_row(query)})
        return
    if known is None:
        raise no_such_object(f"Scheduled query with name: {_told(key)} doesn't exists.")
    if kind == "DROP":
        call.execute(delete(T.SCHEDULED_EXECUTIONS).where(_EXECUTIONS.SCHEDULED_QUERY_ID == known.SCHEDULED_QUERY_ID))
        call.execute(delete(T.SCHEDULED_QUERIES).where(_QUERIES.SCHEDULED_QUERY_ID == known.SCHEDULED_QUERY_ID))
        return
    following = _next(query.schedule) if query.nextExecution is None else query.nextExecution
    _change(call, known.SCHEDULED_QUERY_ID, **_row(query), NEXT_EXECUTION=following)


def _change(call: Call, query_id: int, **values: Any) -> None:
    call.execute(update(T.SCHEDULED_QUERIES).where(_QUERIES.SCHEDULED_QUERY_ID == query_id).values(**values))


def get_scheduled_query(call: Call, args: Struct) -> Struct:
    """A scheduled query by name and namespace."""
    key = args.scheduleKey
    row = _find(call, key)
    if row is None:
        raise no_such_object(f"There is no scheduled query for: {_told(key)}")
    return new(
        "ScheduledQuery",
        scheduleKey=_key(row),
        enabled=bool(row.ENABLED),
        schedule=row.SCHEDULE,
        user=row.USER,
        query=row.QUERY,
        nextExecution=row.NEXT_EXECUTION,
    )


def _key(row: Any) -> Struct:
    return new("ScheduledQueryKey", scheduleName=row.SCHEDULE_NAME, clusterNamespace=row.CLUSTER_NAMESPACE)


def scheduled_query_poll(call: Call, args: Struct) -> Struct:
    """Start the query that has been due for the longest time and return it; an empty answer if none is due."""
    _time_out(call)
    due = select(T.SCHEDULED_QUERIES).where(
        _QUERIES.NEXT_EXECUTION <= call.now,
        _QUERIES.ENABLED.is_(True),
        _QUERIES.CLUSTER_NAMESPACE == args.request.clusterNamespace,
        _QUERIES.ACTIVE_EXECUTION_ID.is_(None),
    )
    row = call.execute(due.order_by(_QUERIES.NEXT_EXECUTION, _QUERIES.SCHEDULED_QUERY_ID).limit(1)).first()
    if row is None:
        return new("ScheduledQueryPollResponse")
    execution_id = new_ids(call.connection, "MScheduledExecution")
    execution = {
        "SCHEDULED_EXECUTION_ID": execution_id,
        "SCHEDULED_QUERY_ID": row.SCHEDULED_QUERY_ID,
        "STATE": "INITED",
        "START_TIME": call.now,
        "LAST_UPDATE_TIME": call.now,
    }
    call.execute(insert(T.SCHEDULED_EXECUTIONS), execution)
    _change(call, row.SCHEDULED_QUERY_ID, NEXT_EXECUTION=_next(row.SCHEDULE), ACTIVE_EXECUTION_ID=execution_id)
    text = f"/* schedule: {row.SCHEDULE_NAME} */{row.QUERY}"
    return new("ScheduledQueryPollResponse", scheduleKey=_key(row), executionId=execution_id, query=text, user=row.USER)


def _time_out(call: Call) -> None:
    silent = select(T.SCHEDULED_EXECUTIONS).where(_EXECUTIONS.LAST_UPDATE_TIME < call.now - TIMEOUT_S)
    for execution in call.rows(silent):
        _end(call, execution, STATE="TIMED_OUT", ERROR_MESSAGE="Query stuck in: " + execution.STATE + " state")


def _end(call: Call, execution: Any, **values: Any) -> None:
    _progress(call, execution, END_TIME=call.now, LAST_UPDATE_TIME=None, **values)
    _change(call, execution.SCHEDULED_QUERY_ID, ACTIVE_EXECUTION_ID=None)


def _progress(call: Call, execution: Any, **values: Any) -> None:
    mine = _EXECUTIONS.SCHEDULED_EXECUTION_ID == execution.SCHEDULED_EXECUTION_ID
    call.execute(update(T.SCHEDULED_EXECUTIONS).where(mine).values(**values))


def scheduled_query_progress(call: Call, args: Struct) -> None:
    """Report that an execution runs, or has ended."""
    info = args.info
    mine = _EXECUTIONS.SCHEDULED_EXECUTION_ID == info.scheduledExecutionId
    execution = call.execute(select(T.SCHEDULED_EXECUTIONS).where(mine)).first()
    if execution is None:
        raise meta(f"there is no execution {info.scheduledExecutionId}")
    state = _STATES[info.state]
    if state not in _FROM.get(execution.STATE, ()):
        raise invalid_operation(f"Invalid state change: {execution.STATE}=>{state}")
    if state == "AUTO_DISABLED":
        raise invalid_operation(f"invalid state: {state}")
    values = {"STATE": state, "EXECUTOR_QUERY_ID": info.executorQueryId}
    if info.errorMessage is not None:
        values["ERROR_MESSAGE"] = info.errorMessage
    if state == "EXECUTING":
        _progress(call, execution, LAST_UPDATE_TIME=call.now, **values)
    else:
        _end(call, execution, **values)


METHODS = {
    **reads(get_scheduled_query=get_scheduled_query),
    **writes(
        scheduled_query_maintenance=scheduled_query_maintenance,
        scheduled_query_poll=scheduled_query_poll,
        scheduled_query_progress=scheduled_query_progress,
    ),
}
