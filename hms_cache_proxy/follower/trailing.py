"""Follows the log of Hive 2.3, which assigns event ids without a lock.

In Hive 2.3 two changes at the same time can log the same id, a change that commits late logs an id below others that
are already there, and the counter of ids can even go back. So a reader of "everything after the cursor" would miss rows
forever.

Job: in every step, read a trailing window of the log, and return the rows that were not seen before. Must not know
objects, the cache or sockets.

Invariants:
- The window begins SLACK ids below the smallest value that the counter of ids had in the last WINDOW_S seconds. So a
  row is found unless its change took longer than that between taking its id and its commit. (A metastore takes the id
  just before the commit: milliseconds.) If the store knows which transactions are in progress (PostgreSQL), the window
  also reaches back to before the oldest of them began to write, and no row is missed: a change writes its objects
  before it takes an id.
- Over SQL the rows of the window and the objects are of one snapshot, so a row is seen together with what it names.
- A row is identified by its id and content. Rows that are equal in both mean the same, and are seen once.
- However long the window is, a step reads only the rows that are new (over SQL), and keeps no message of those before.
- Gaps mean nothing. What leads to a Reset: the row at the cache's position (the *anchor*) is gone although older rows
  are there (another history), or the log was purged beyond it.
- The cursor is the largest id seen, and never goes back. The cache remembers the beginning of the window and the
  anchor. After a restart all rows of the window count as new; this only costs time.

Owner: the follower's process.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from struct import Struct
from typing import Final

from hms_cache_proxy.follower.affected import Gathering
from hms_cache_proxy.follower.events import EventResult, affects
from hms_cache_proxy.follower.log import EVENTS_PER_READ, Followed, is_last
from hms_cache_proxy.follower.step import EventBatch, Position, Reset, ResetReason
from hms_cache_proxy.store.protocol import EventRow, Snapshot

WINDOW_S: Final = 10.0
"""Longest time between a row's id and its commit at which the row is still found."""
SLACK: Final = 50
"""Ids by which the window begins earlier: so many changes may be in progress at once."""
FIRST_SLACK: Final = 1000
"""The same when nothing is known about the last seconds."""
SAMPLE_S: Final = 1.0
"""Time between two samples: all are kept while a transaction goes on, and each step looks at all of them."""
MOST_ROWS: Final = 100_000
"""A longer log is not followed, because whole rows are kept."""

_BEGAN: Final = Struct(">Q")
_DIGEST_BYTES: Final = 16
Key = tuple[int, bytes]
"""(event id, hash of the row's content)."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """The steps of SAMPLE_S: the first one's time, and the first transaction that had not begun then (0: not known);
    the smallest counter of ids."""

    time_s: float
    counter: int
    following: int


@dataclass(frozen=True, slots=True)
class Window:
    """The window as it was read once; `under_way` as in Snapshot. The rows have lost their messages once they are
    seen."""

    low: int
    counter: int
    rows: dict[Key, EventRow]
    under_way: tuple[int, int] | None

    @property
    def newest(self) -> int:
        return max((event_id for event_id, _ in self.rows), default=0)


class TrailingLog:
    """Remembers which rows of the window it has seen."""

    def __init__(
        self, alive: Callable[[], None], clock: Callable[[], float] = time.monotonic, *, exact: bool = False
    ) -> None:
        """`alive` as in OrderedLog. `exact`: everything that is read from a snapshot is of one state."""
        self._alive = alive
        self._clock = clock
        self._exact = exact
        self._samples: deque[_Sample] = deque()
        self._seen: frozenset[Key] | None = None
        self._window: Window | None = None

    def follow(self, source: Snapshot, position: Position, *, verified: bool, reload_cost: int = 0) -> Followed | Reset:
        """Every row of the window that was not seen before. Whole rows are kept here, so a long log is never
        followed."""
        if source.event_id - position.cursor > MOST_ROWS:
            return Reset(ResetReason.BACKLOG)
        window = self._read_window(source, position)
        reset = _continues(position, window, source, verified=verified)
        if reset is not None:
            return reset
        seen = self._seen or frozenset()
        new = [row for key, row in window.rows.items() if key not in seen]
        results: Counter[tuple[str, EventResult]] = Counter()
        gathered = Gathering()
        for row in new:
            self._alive()
            part, result = affects(row)
            gathered.add(part)
            results[row.type, result] += 1
        newest_s = max((row.time_s for row in new), default=0)
        return Followed(EventBatch(gathered.affected(), results, len(new)), newest_s)

    def begin(self, source: Snapshot) -> None:
        """Everything is about to be loaded again, and will include what the window has now."""
        self._seen = None
        self._read_window(source, Position(0, None))

    def end(self, source: Snapshot, position: Position) -> Position:
        """The largest id seen; the fingerprint has the beginning of the window and the anchor."""
        window = self._window
        assert window is not None, "the end of a step that did not follow"
        cursor = max(window.newest, window.counter, position.cursor)
        anchor = max(window.rows, default=None)
        if anchor is None:
            return Position(cursor, position.fingerprint if cursor == position.cursor else None)
        return Position(cursor, _BEGAN.pack(window.low) + _BEGAN.pack(anchor[0]) + anchor[1])

    def overtaken(self, source: Snapshot) -> list[EventRow]:
        """Rows of the window that were logged since the step read it."""
        if self._exact:
            return []
        window = self._window
        assert window is not None, "the end of a step that did not follow"
        now = _window(source, window.low)
        return [row for key, row in now.items() if key not in window.rows]

    def committed(self) -> None:
        """The rows that the step has read count as seen from now on."""
        window, now_s = self._window, self._clock()
        assert window is not None, "the end of a step that did not follow"
        self._seen = frozenset(window.rows)
        for key, row in window.rows.items():
            if row.message is not None:
                window.rows[key] = replace(row, message=None)
        oldest, following = window.under_way or (0, 0)
        self._note(_Sample(now_s, min(window.counter, window.newest or window.counter), following))
        while (
            len(self._samples) > 1
            and self._samples[1].time_s < now_s - WINDOW_S
            and self._samples[1].following <= oldest
        ):
            self._samples.popleft()

    def _note(self, sample: _Sample) -> None:
        """Adds a sample; within SAMPLE_S, to the last one: what began after that takes no id below both counters."""
        last = self._samples[-1] if self._samples else None
        if last is None or sample.time_s - last.time_s >= SAMPLE_S:
            self._samples.append(sample)
        else:
            self._samples[-1] = replace(last, counter=min(last.counter, sample.counter))

    def _read_window(self, source: Snapshot, position: Position) -> Window:
        if self._seen is not None and self._samples:
            low = min(sample.counter for sample in self._samples) - SLACK
        elif position.fingerprint is not None:
            low = _BEGAN.unpack_from(position.fingerprint)[0]
        else:
            low = source.event_id - FIRST_SLACK
        low = max(0, min(low, source.event_id - SLACK))
        known = {} if self._window is None or self._seen is None else self._window.rows
        self._window = Window(low, source.event_id, _seen_again(source, low, known), source.under_way())
        return self._window


def _continues(position: Position, window: Window, source: Snapshot, *, verified: bool) -> Reset | None:
    """A Reset unless this is the log that the cache has followed."""
    if position.fingerprint is None:
        return None if position.cursor == 0 or window.counter == position.cursor else Reset(ResetReason.OTHER_HISTORY)
    (anchor_id,) = _BEGAN.unpack_from(position.fingerprint, _BEGAN.size)
    anchor = (anchor_id, position.fingerprint[2 * _BEGAN.size :])
    if anchor in window.rows:
        return None
    if window.counter < position.cursor:
        return Reset(ResetReason.WENT_BACK)
    oldest = source.oldest_event_id()
    if oldest is not None and oldest <= anchor_id:
        return Reset(ResetReason.OTHER_HISTORY)
    if verified and (window.counter == position.cursor or oldest == position.cursor + 1):
        return None
    return Reset(ResetReason.PURGED)


def _seen_again(source: Snapshot, low: int, known: dict[Key, EventRow]) -> dict[Key, EventRow]:
    """Every row above `low`. Read again are the newest ones that are known, which show whether this is still the same
    log, and what comes after the first that is not; nothing if all are known."""
    keys = source.event_keys(low)
    if keys is None:
        return _window(source, low)
    by_key = {(row.event_id, row.nl_id): (key, row) for key, row in known.items()}
    first_new = min((event_id for event_id, nl_id in keys if (event_id, nl_id) not in by_key), default=None)
    if first_new is None:
        return dict(by_key[key] for key in keys)
    newest = max((event_id for event_id, _ in by_key), default=first_new)
    after = max(low, min(first_new, newest) - 1)
    return dict(by_key[key] for key in keys if key[0] <= after) | _window(source, after)


def _window(source: Snapshot, low: int) -> dict[Key, EventRow]:
    """Every row above `low`. Pages overlap by one id, because rows with the same id may be on two pages."""
    return {(row.event_id, _digest(row)): row for row in _pages(source, low)}


def _pages(source: Snapshot, after: int) -> Iterator[EventRow]:
    size = EVENTS_PER_READ
    while True:
        page = source.events(after, size)
        yield from page
        if is_last(page, size):
            return
        last = page[-1].event_id
        if len(page) < size:  # cut off for its bytes, after all rows of its last id
            after = last
        elif last - 1 > after:
            after = last - 1
        else:
            size *= 2  # the page has a single id


def _digest(row: EventRow) -> bytes:
    names = (row.catalog, row.database, row.table)
    text = repr((row.nl_id, row.time_s, row.type, names, row.message))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()
