"""Reads the rows of a metastore's notification log, in replies of a size that can be read.

Job: ask for as many rows as the caller wants, in fewer and larger calls as far as replies stay below the limit of a
message. A metastore cuts a list of events by its length only, and the message of one event can have hundreds of
megabytes. Must not know: snapshots, what rows mean.

Invariants: after a reply that was too long, half as many rows are asked for, down to one; replies that are short let
the number grow again. If a single row is too long, the error says so. Owner: one thread of the follower's process.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from hms_cache_proxy.store.protocol import PAGE_BYTES, EventRow
from hms_cache_proxy.store.thrift.service import Metastore, TooLong
from hms_cache_proxy.wire import spec

MOST_AT_ONCE: Final = 1024
"""Rows in one call."""

_REQUEST = spec.struct("NotificationEventRequest")


class LogPage(NamedTuple):
    """Rows, ascending. `complete`: the log had no more than these. If it had, and there are fewer than were asked for,
    they have PAGE_BYTES, and all rows of the last id are among them."""

    rows: list[EventRow]
    complete: bool


class LogReader:
    """Reads the log of one metastore."""

    __slots__ = ("_at_once", "_metastore", "_ordered")

    def __init__(self, metastore: Metastore, *, ordered: bool) -> None:
        """`ordered`: each id occurs once."""
        self._metastore = metastore
        self._ordered = ordered
        self._at_once = MOST_AT_ONCE

    def page(self, after: int, limit: int) -> LogPage:
        """At most `limit` rows with ids above `after`."""
        found: list[EventRow] = []
        size, least = 0, 1
        while True:
            rows, asked = self._some(after, limit - len(found), least)
            if len(rows) < asked:
                return LogPage(found + rows, True)
            if len(found) + asked == limit:
                return LogPage(found + rows, False)
            last, least = rows[-1].event_id, 1
            if self._ordered:
                after = last
            else:  # the next row may have the last id, too
                rows = [row for row in rows if row.event_id < last]
                after, least = (last - 1, 1) if rows else (after, 2 * asked)
            found += rows
            size += _size(rows)
            if size >= PAGE_BYTES:
                return LogPage(found, False)

    def _some(self, after: int, limit: int, least: int) -> tuple[list[EventRow], int]:
        """The rows of one reply, and how many were asked for: `least` or more, if so many are wanted."""
        while True:
            asked = min(limit, max(least, self._at_once))
            try:
                answer = self._metastore.call("get_next_notification", rqst=_REQUEST(lastEvent=after, maxEvents=asked))
            except TooLong:
                if asked <= least:
                    raise
                self._at_once = max(least, asked // 2)
                continue
            rows = sorted(map(_row, answer.events or ()), key=lambda row: row.event_id)
            if asked >= self._at_once and _size(rows) < PAGE_BYTES:
                self._at_once = min(2 * self._at_once, MOST_AT_ONCE)
            return rows, asked


def _size(rows: list[EventRow]) -> int:
    return sum(len(row.message or "") for row in rows)


def _row(event: Any) -> EventRow:
    return EventRow(
        event.eventId,
        0,
        event.eventTime or 0,
        _text(event.eventType) or "",
        event.catName,
        event.dbName,
        event.tableName,
        _text(event.message),
        _text(event.messageFormat),
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
