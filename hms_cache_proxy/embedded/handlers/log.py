"""The notification API.

Job: carry out the calls; events.py writes the rows. Source: HMSHandler and ObjectStore.getNextNotification of 4.2.
Owner: the thread of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from hms_cache_proxy.embedded import events, names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.handlers.partitions import one
from hms_cache_proxy.embedded.handlers.tables import found
from hms_cache_proxy.embedded.rows import partitions as partition_rows
from hms_cache_proxy.embedded.rows.tables import StoredTable
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

MAX_EVENTS = 1_000_000  # metastore.max.event.response


def get_current_notificationEventId(call: Call, _args: Struct) -> Struct:
    """The last event id; 0 before the first event."""
    return new("CurrentNotificationEventId", eventId=current(call))


def current(call: Call) -> int:
    """The last event id."""
    return int(call.execute(select(T.NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID)).scalar_one()) - 1


def get_next_notification(call: Call, args: Struct) -> Struct:
    """The events after a given one, in order; of a database or some tables if the request names them."""
    request = args.rqst
    columns = T.NOTIFICATION_LOG.c
    query = select(T.NOTIFICATION_LOG).where(columns.EVENT_ID > request.lastEvent).order_by(columns.EVENT_ID)
    if request.eventTypeSkipList:
        query = query.where(columns.EVENT_TYPE.not_in(request.eventTypeSkipList))
    if request.eventTypeList:
        query = query.where(columns.EVENT_TYPE.in_(request.eventTypeList))
    if request.dbName is not None:
        query = query.where(columns.DB_NAME == names.fold(request.dbName))
    if request.catName is not None:
        query = query.where(columns.CAT_NAME == names.fold(request.catName))
    if request.tableNames:
        query = query.where(columns.TBL_NAME.in_([names.fold(name) for name in request.tableNames]))
    limit = request.maxEvents if request.maxEvents is not None and request.maxEvents > 0 else MAX_EVENTS
    rows = call.rows(query.limit(min(limit, MAX_EVENTS)))
    return new("NotificationEventResponse", events=[_event(row) for row in rows])


def _event(row: Any) -> Struct:
    return new(
        "NotificationEvent",
        eventId=row.EVENT_ID,
        eventTime=row.EVENT_TIME,
        eventType=row.EVENT_TYPE,
        dbName=row.DB_NAME,
        tableName=row.TBL_NAME,
        message=row.MESSAGE,
        messageFormat=row.MESSAGE_FORMAT,
        catName=row.CAT_NAME,
    )


def get_notification_events_count(call: Call, args: Struct) -> Struct:
    """The number of events of a database after a given one."""
    request = args.rqst
    columns = T.NOTIFICATION_LOG.c
    chosen = select(columns.EVENT_ID).where(columns.EVENT_ID > request.fromEventId)
    chosen = chosen.where(columns.DB_NAME == names.fold(request.dbName))
    catalog = names.fold(request.catName) if request.catName else names.DEFAULT_CATALOG
    chosen = chosen.where((columns.CAT_NAME == catalog) | columns.CAT_NAME.is_(None))
    if request.toEventId is not None:
        chosen = chosen.where(columns.EVENT_ID <= request.toEventId)
    if request.tableNames:
        chosen = chosen.where(columns.TBL_NAME.in_([names.fold(name) for name in request.tableNames]))
    count = int(call.execute(select(func.count()).select_from(chosen.subquery())).scalar_one())
    if request.limit is not None and request.limit > 0:
        count = min(count, request.limit)
    return new("NotificationEventsCountResponse", eventsCount=count)


def fire_listener_event(call: Call, args: Struct) -> Struct:
    """A writer reports files that it added to a table or partition, or objects to be read again."""
    request = args.rqst
    catalog, database = names.both(request.dbName, request.catName)
    row = found(call, catalog, database, request.tableName)
    if request.data.refreshEvent is not None:
        return new("FireEventResponse", eventIds=[_reload(call, row, request)])
    ids = []
    for data in request.data.insertDatas or [request.data.insertData]:
        values = data.partitionVal or request.partitionVals
        part = one(call, row, values).partition if values else None
        ids.append(events.insert_files(call, row.table, part, data))
    return new("FireEventResponse", eventIds=ids)


def _reload(call: Call, row: StoredTable, request: Struct) -> int:
    """RELOAD, with the parameters that the client adds to the table; of several partitions, those that exist."""
    row.table.parameters = {**(row.table.parameters or {}), **(request.tblParams or {})}
    wanted = [request.partitionVals] if request.partitionVals else request.batchPartitionValsForRefresh
    partitions: Struct | list[Struct] | None = None
    if wanted is not None and len(wanted) == 1:
        partitions = one(call, row, wanted[0]).partition
    elif wanted is not None:
        listed = [names.partition_name(row.table.partitionKeys, values) for values in wanted]
        partitions = [part.partition for part in partition_rows.find(call, row, names=listed)]
    return events.reload(call, row.table, partitions, refresh=request.data.refreshEvent)


_READS = reads(
    get_current_notificationEventId=get_current_notificationEventId,
    get_next_notification=get_next_notification,
    get_notification_events_count=get_notification_events_count,
)

METHODS = {**_READS, **writes(fire_listener_event=fire_listener_event)}
