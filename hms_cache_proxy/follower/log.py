"""Follows a notification log whose ids are in the order of commits.

Job: read the rows that a step needs, a page at a time, and pass them to the pure decisions of step.py. `trailing.py`
does the same for Hive 2.3, whose ids have no order; `Cycle` chooses. Must not know objects, the cache, clocks or
sockets.

Order of calls in one step: `follow`, and `begin` if everything is loaded again; the objects are read; then `end` (the
cache's new position) and `overtaken` (what must not be served yet); after the commit, `committed`. A step that fails
before that changes nothing here.

Owner: the follower's process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hms_cache_proxy.follower import step
from hms_cache_proxy.follower.affected import Announcement
from hms_cache_proxy.follower.events import affects
from hms_cache_proxy.follower.step import EventBatch, LogState, Position, Reset, Transactions
from hms_cache_proxy.store.protocol import OF_TRANSACTIONS, PAGE_BYTES, EventRow, Snapshot

EVENTS_PER_READ = 250
"""Log rows in one page: a backlog can have a million rows."""


LOOK_BACK_EVENTS = 5_000
"""Rows of the log before the cache's first event that are searched for transactions which are still open."""

ANNOUNCED_EVENTS = 250
"""Newest rows of the log that a new process searches for changes which may not be made yet."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The log after the cache's position. `newest_time_s`: of its newest row; 0 if there is none."""

    batch: EventBatch
    newest_time_s: int


class Log(Protocol):
    """One way to follow a log."""

    def follow(self, source: Snapshot, position: Position, *, verified: bool, reload_cost: int = 0) -> Followed | Reset:
        """What was logged after `position`. `verified`: this process has seen the row of the cursor before.
        `reload_cost`: the cost of loading everything again, in partitions."""
        ...

    def begin(self, source: Snapshot) -> None:
        """Everything is about to be loaded again, and will include what was logged up to now."""
        ...

    def end(self, source: Snapshot, position: Position) -> Position:
        """The cache's position after this step; before it, the position was `position`."""
        ...

    def overtaken(self, source: Snapshot) -> list[EventRow]:
        """Rows that were logged while the objects were read."""
        ...

    def committed(self) -> None:
        """The step is in the cache."""
        ...


class OrderedLog:
    """Ids without gaps, in the order of commits."""

    def __init__(self, alive: Callable[[], None]) -> None:
        """`alive` is called for each row, because a single row can name a hundred thousand partitions."""
        self._alive = alive

    def follow(self, source: Snapshot, position: Position, *, verified: bool, reload_cost: int = 0) -> Followed | Reset:
        """Every row after the cursor, if the log provably continues there and there are not too many rows."""
        at_cursor = source.fingerprint(position.cursor)
        oldest = source.oldest_event_id() if at_cursor is None else None
        state = LogState(source.event_id, oldest, at_cursor)
        reset = step.continues(position, state, verified=verified)
        reset = reset or step.backlog(source.event_id - position.cursor, reload_cost)
        if reset is not None:
            return reset
        newest = [0]
        batch = step.gather(position.cursor, source.event_id, self._rows(source, position.cursor, newest))
        return batch if isinstance(batch, Reset) else Followed(batch, newest[0])

    def begin(self, source: Snapshot) -> None:
        """Does nothing: the snapshot's event id is enough."""

    def end(self, source: Snapshot, position: Position) -> Position:
        """The snapshot's event id and the fingerprint of its row."""
        event_id = source.event_id
        if event_id == position.cursor:
            return position
        return Position(event_id, source.fingerprint(event_id))

    def overtaken(self, source: Snapshot) -> list[EventRow]:
        """As the store says."""
        return source.overtaken()

    def committed(self) -> None:
        """Does nothing: the next position comes from the cache."""

    def _rows(self, source: Snapshot, after: int, newest: list[int]) -> Iterator[EventRow]:
        """Every row after `after`. Sets `newest[0]` to the time of the newest."""
        for row in paged(source.events, after):
            self._alive()
            newest[0] = row.time_s
            yield row


def paged(read: Callable[[int, int], list[EventRow]], after: int) -> Iterator[EventRow]:
    """Every row after `after` that `read(after, limit)` returns, a page at a time."""
    while True:
        page = read(after, EVENTS_PER_READ)
        yield from page
        if is_last(page, EVENTS_PER_READ):
            return
        after = page[-1].event_id


def is_last(page: Sequence[EventRow], limit: int) -> bool:
    """Whether nothing follows a page of at most `limit` rows. A shorter one may also have been cut off for its bytes; a
    character has up to four."""
    return len(page) < limit and sum(len(row.message or "") for row in page) < PAGE_BYTES // 4


def begun_before(source: Snapshot, event_id: int) -> Transactions:
    """The transactions that were open at an event, and the tables that they write: from the log's rows up to it, and of
    these transactions also what the store knows, as a row about one of their tables may be older than those."""
    known = Transactions()
    for row in paged(source.transaction_events, max(0, event_id - LOOK_BACK_EVENTS)):
        if row.event_id > event_id:
            break
        if row.type == "ALLOC_WRITE_ID_EVENT" or (row.type in OF_TRANSACTIONS and not known.none_open):
            known = known.after(affects(row)[0])
    return known if known.none_open else known.completed(source.transaction_tables)


def announced_before(source: Snapshot, event_id: int) -> frozenset[Announcement]:
    """The changes that the last rows up to an event announce."""
    found: set[Announcement] = set()
    for row in paged(source.transaction_events, max(0, event_id - ANNOUNCED_EVENTS)):
        if row.event_id > event_id:
            break
        if row.type == "ALTER_TABLE":
            found |= affects(row)[0].announced
    return frozenset(found)
