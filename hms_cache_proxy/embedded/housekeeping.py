"""Deletes rows that nobody needs any more: old events, and what is known of ended transactions.

Job: what Hive's background tasks delete, with the times that they have by default: events (DbNotificationListener,
ObjectStore.cleanNotificationEvents), TXNS (CompactionTxnHandler.cleanEmptyAbortedAndCommittedTxns), TXN_TO_WRITE_ID
(CleanTxnToWriteIdTableFunction), of 4.2. Must not know: calls.

Invariants: a transaction stays while it is open, and for ever if it was aborted with a write id, because its files may
be there: no compaction runs here that removes them, after which Hive forgets it. The last transaction stays, from which
the ids go on. Unlike in Hive, the last event stays too: a follower that was stopped for long finds by it that nothing
has happened. Owner: a thread of the metastore's process.
"""

from __future__ import annotations

import threading
import time
from typing import Final

import structlog
from sqlalchemy import Connection, delete, func, select
from sqlalchemy.exc import DBAPIError

from hms_cache_proxy.embedded.database import Database
from hms_cache_proxy.embedded.rows.transactions import ABORTED, COMMITTED, OPEN
from hms_cache_proxy.embedded.schema import T

log = structlog.get_logger()

EVENTS_S: Final = 86_400  # metastore.event.db.listener.timetolive
EVENTS_AT_ONCE: Final = 10_000  # metastore.event.db.clean.maxevents: other writes wait meanwhile
YOUNG_MS: Final = 1_000  # metastore.txn.opentxn.timeout
INTERVAL_S: Final = 600


def keep_house(database: Database, stopped: threading.Event) -> None:
    """Look again and again, until `stopped`."""
    while not stopped.wait(INTERVAL_S):
        try:
            tidy(database, time.time())
        except DBAPIError:  # it is down, or a Java metastore on it does the same
            log.exception("old rows cannot be deleted yet")


def tidy(database: Database, now_s: float) -> None:
    """Delete what is old now."""
    while True:
        with database.write() as connection:
            if _delete_events(connection, int(now_s) - EVENTS_S) < EVENTS_AT_ONCE:
                break
    with database.write() as connection:
        _delete_transactions(connection, int(now_s * 1000) - YOUNG_MS)


def _delete_events(connection: Connection, before_s: int) -> int:
    """Delete some events, oldest first; returns how many. Looks at no other rows: their times have no index."""
    columns = T.NOTIFICATION_LOG.c
    query = select(columns.EVENT_ID, columns.EVENT_TIME).order_by(columns.EVENT_ID).limit(EVENTS_AT_ONCE + 1)
    old = [row.EVENT_ID for row in list(connection.execute(query))[:-1] if row.EVENT_TIME < before_s]
    if old:
        connection.execute(delete(T.NOTIFICATION_LOG).where(columns.EVENT_ID <= old[-1], columns.EVENT_TIME < before_s))
    connection.execute(
        delete(T.TXN_WRITE_NOTIFICATION_LOG).where(T.TXN_WRITE_NOTIFICATION_LOG.c.WNL_EVENT_TIME < before_s)
    )
    return len(old)


def _delete_transactions(connection: Connection, before_ms: int) -> None:
    columns = T.TXNS.c
    last = connection.execute(select(func.max(columns.TXN_ID)).where(columns.TXN_STARTED < before_ms)).scalar()
    if last is None:
        return
    written = select(T.TXN_TO_WRITE_ID.c.T2W_TXNID).union(select(T.TXN_COMPONENTS.c.TC_TXNID))
    empty = (columns.TXN_STATE == ABORTED) & columns.TXN_ID.not_in(written)
    connection.execute(delete(T.TXNS).where(columns.TXN_ID < last, (columns.TXN_STATE == COMMITTED) | empty))
    unseen = select(func.min(columns.TXN_ID)).where(columns.TXN_STATE.in_((OPEN, ABORTED)))
    needed = (unseen, select(func.min(T.WRITE_SET.c.WS_TXNID)), select(func.max(columns.TXN_ID) + 1))
    first = min(number for query in needed if (number := connection.execute(query).scalar()) is not None)
    connection.execute(delete(T.TXN_TO_WRITE_ID).where(T.TXN_TO_WRITE_ID.c.T2W_TXNID < first))
