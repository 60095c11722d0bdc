"""Deletes rows that nobody needs any more: old events, and what is known of ended transactions.

Job: what Hive's background tasks delete, with the times that they have by default: events (DbNotificationListener,
ObjectStore.cleanNotificationEvents), WRITE_SET (TxnHandler.performWriteSetGC), TXNS (CompactionTxnHandler.
cleanEmptyAbortedAndCommittedTxns), TXN_TO_WRITE_ID (CleanTxnToWriteIdTableFunction), COMPLETED_TXN_COMPONENTS
(RemoveDuplicateCompleteTxnComponentsCommand), of 4.2. Must not know: calls.

Invariants: a transaction stays while it is open, and, if it was aborted, as long as TXN_COMPONENTS says that its files
may be there: until the table is dropped, or a compaction has removed them (none runs here). The last transaction stays,
from which the ids go on. Unlike in Hive, the last event stays too: a follower that was stopped for long finds by it
that nothing has happened. Owner: a thread of the metastore's process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
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
INTERVAL_S: Final = 60  # metastore.acid.housekeeper.interval


def keep_house(database: Database, expire: Callable[[], None], stopped: threading.Event) -> None:
    """Look again and again, until `stopped`; `expire` ends transactions and locks whose owners are silent."""
    while not stopped.wait(INTERVAL_S):
        try:
            expire()
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
        _delete_duplicates(connection)


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
    opened = connection.execute(select(func.min(columns.TXN_ID)).where(columns.TXN_STATE == OPEN)).scalar()
    overlapping = last + 1 if opened is None else min(opened, last + 1)
    connection.execute(delete(T.WRITE_SET).where(T.WRITE_SET.c.WS_COMMIT_ID < overlapping))
    ended = columns.TXN_STATE.in_((ABORTED, COMMITTED)) & columns.TXN_ID.not_in(select(T.TXN_COMPONENTS.c.TC_TXNID))
    connection.execute(delete(T.TXNS).where(columns.TXN_ID < last, ended))
    unseen = select(func.min(columns.TXN_ID)).where(columns.TXN_STATE.in_((OPEN, ABORTED)))
    needed = (unseen, select(func.min(T.WRITE_SET.c.WS_TXNID)), select(func.max(columns.TXN_ID) + 1))
    first = min(number for query in needed if (number := connection.execute(query).scalar()) is not None)
    connection.execute(delete(T.TXN_TO_WRITE_ID).where(T.TXN_TO_WRITE_ID.c.T2W_TXNID < first))


def _delete_duplicates(connection: Connection) -> None:
    """Delete a completed write if a later one of the same place says as much."""
    one, other = T.COMPLETED_TXN_COMPONENTS.c, T.COMPLETED_TXN_COMPONENTS.alias("other").c
    same = (other.CTC_DATABASE == one.CTC_DATABASE) & (other.CTC_TABLE == one.CTC_TABLE)
    same &= other.CTC_PARTITION.is_not_distinct_from(one.CTC_PARTITION) & (other.CTC_WRITEID > one.CTC_WRITEID)
    same &= (one.CTC_UPDATE_DELETE == "N") | (other.CTC_UPDATE_DELETE == "Y")
    connection.execute(delete(T.COMPLETED_TXN_COMPONENTS).where(select(other.CTC_TXNID).where(same).exists()))
