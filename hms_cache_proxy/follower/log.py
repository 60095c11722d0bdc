"""Following a notification log whose ids are given in the order of commits: where it goes on, and what it says.

Job: between a store's snapshot and the pure decisions of step.py: read the rows that a step needs, a page at a time.
`trailing.py` does the same for 2.3, whose ids come in no order; `log_of` chooses. Must not know objects, the cache,
clocks or sockets.

Order of calls in one step: `follow`, or `begin` where everything starts again; the objects are read; then `end` (where
the cache will be) and `overtaken` (what must not be shown yet); after the commit `committed`. A step that fails in
between has told the log nothing.

Owner: the follower's process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from hms_cache_proxy.follower import step
from hms_cache_proxy.follower.step import EventBatch, LogState, Position, Reset
from hms_cache_proxy.store.protocol import EventRow, Snapshot

EVENTS_PER_READ = 250
"""Log rows fetched at once: a message can be megabytes, a backlog a million rows."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What the log says after the cache's position; `newest_time_s` of its newest row, 0 without any."""

    batch: EventBatch
    newest_time_s: int


class Log(Protocol):
    """One way to follow a log."""

    def follow(self, source: Snapshot, position: Position, *, verified: bool, reload_cost: int = 0) -> Followed | Reset:
        """What was logged after `position`. `verified`: this process has seen the row of the cursor before.
        `reload_cost`: of loading everything again, in partitions."""
        ...

    def begin(self, source: Snapshot) -> None:
        """Everything is about to be read again: what was logged up to now will show in it."""
        ...

    def end(self, source: Snapshot, position: Position) -> Position:
        """Where the cache is after this step, which found it at `position`."""
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
        """`alive` is called for each row: some name a hundred thousand partitions, and a page has many of them."""
        self._alive = alive

    def follow(self, source: Snapshot, position: Position, *, verified: bool, reload_cost: int = 0) -> Followed | Reset:
        """Every row after the cursor, if the log provably continues there and there are not too many."""
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
        """Nothing: the snapshot's event id says it all."""

    def end(self, source: Snapshot, position: Position) -> Position:
        """The snapshot's event id and the fingerprint of its row."""
        event_id = source.event_id
        if event_id == position.cursor:
            return position
        return Position(event_id, source.fingerprint(event_id))

    def overtaken(self, source: Snapshot) -> list[EventRow]:
        """What the store says."""
        return source.overtaken()

    def committed(self) -> None:
        """Nothing: the next position comes from the cache."""

    def _rows(self, source: Snapshot, after: int, newest: list[int]) -> Iterator[EventRow]:
        """Every row after `after`; leaves the time of the newest in `newest[0]`."""
        for row in paged(source.events, after):
            self._alive()
            newest[0] = row.time_s
            yield row


def paged(read: Callable[[int, int], list[EventRow]], after: int) -> Iterator[EventRow]:
    """Every row after `after` that `read` (after, limit) gives, a page at a time."""
    while True:
        page = read(after, EVENTS_PER_READ)
        yield from page
        if len(page) < EVENTS_PER_READ:
            return
        after = page[-1].event_id
