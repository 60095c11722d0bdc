"""The decisions of one step of the follower: may it go on from where the cache is, and what must it read
again?

Job: `continues` compares the cache's position with the log as the snapshot shows it; `backlog` decides whether its rows
are worth reading; `gather` turns the rows after the cursor into one `EventBatch`; `requested` turns tickets into what
they name; `Transactions` remembers which table a transaction writes. Must not know the store, the cache, clocks or
sockets: values in, values out.

Invariants:
- A step takes its tickets before the first statement of its snapshot, reads every row up to the snapshot's
  event id E, and the cursor becomes E in the commit that holds the objects. The cursor never moves otherwise.
- The log is only followed where it provably continues: the row of the cursor is the row that was read
  (fingerprint), and the ids after it have no gap (Hive gives them under a lock, in commit order). Anything
  else is a Reset: a restored or swapped database, a purged log. Never a silent skip.

Owner: the follower's process.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from hms_cache_proxy.cache import targets
from hms_cache_proxy.consistency.names import DEFAULT_CATALOG
from hms_cache_proxy.follower.affected import NOTHING, Affected, Gathering
from hms_cache_proxy.follower.events import EventResult, affects
from hms_cache_proxy.store.protocol import EventRow, TableKey

MAX_TABLES_PER_STEP = 50_000
"""Tables that one commit may replace; a backlog that names more is cheaper to load again from the start."""


MAX_TRANSACTIONS_PER_STEP = 1_000_000
"""The same for what rows say of transactions: some 150 MB."""

FEW_ROWS = 100_000
"""Rows of the log that are always followed: some seconds."""


class ResetReason(enum.StrEnum):
    """Why everything that is cached lost its validity."""

    FIRST_START = "first_start"
    WENT_BACK = "event_id_went_back"
    OTHER_HISTORY = "other_history"
    PURGED = "log_purged"
    GAP = "gap_in_log"
    EVERYTHING = "everything_changed"
    BACKLOG = "backlog"
    NOT_FOLLOWED = "not_followed"


@dataclass(frozen=True, slots=True)
class Position:
    """How far the cache has followed: `fingerprint` of the log row `cursor`, None if it had none."""

    cursor: int
    fingerprint: bytes | None


@dataclass(frozen=True, slots=True)
class LogState:
    """The log in a snapshot: its last id and the fingerprint of the row at the cache's cursor; where there is no such
    row, also the oldest id that is still there.
    """

    event_id: int
    oldest: int | None
    at_cursor: bytes | None


@dataclass(frozen=True, slots=True)
class Reset:
    """The cache starts again from nothing, at the snapshot's event id."""

    reason: ResetReason


@dataclass(frozen=True, slots=True)
class EventBatch:
    """The rows after the cursor, coalesced, and how each was understood."""

    affected: Affected
    results: Counter[tuple[str, EventResult]]
    rows: int


def continues(position: Position, log: LogState, *, verified: bool) -> Reset | None:
    """Does the log go on from `position`? `verified`: this process has seen the row of the cursor before.

    A purged row at the cursor is accepted only then: an idle metastore purges its log under a running
    follower, but after a restart nothing shows that the log is still the one which was followed.
    """
    if log.event_id < position.cursor:
        return Reset(ResetReason.WENT_BACK)
    if position.cursor == 0:
        return None
    if log.at_cursor is not None:
        return None if log.at_cursor == position.fingerprint else Reset(ResetReason.OTHER_HISTORY)
    if verified and position.fingerprint is None:
        return None  # there was none when the cursor came here: the ids had gone on without rows
    purged = log.oldest is None or log.oldest > position.cursor
    if not purged:
        return Reset(ResetReason.OTHER_HISTORY)
    complete = log.event_id == position.cursor or log.oldest == position.cursor + 1
    return None if verified and complete else Reset(ResetReason.PURGED)


def backlog(behind: int, reload_cost: int) -> Reset | None:
    """Is it cheaper to load everything again (at that cost, in partitions) than to read so many rows of the log? A row
    costs about what a partition costs."""
    return Reset(ResetReason.BACKLOG) if behind > max(FEW_ROWS, reload_cost) else None


def gather(
    cursor: int, event_id: int, rows: Iterable[EventRow], most_tables: int = MAX_TABLES_PER_STEP
) -> EventBatch | Reset:
    """All rows in (cursor, event_id], ascending, as one batch; a missing id is a Reset. No row is kept: what they name
    is, until that is too much."""
    gathered = Gathering()
    results: Counter[tuple[str, EventResult]] = Counter()
    expected = cursor
    for row in rows:
        expected += 1
        if row.event_id != expected:
            return Reset(ResetReason.PURGED if expected == cursor + 1 else ResetReason.GAP)
        part, result = affects(row)
        gathered.add(part)
        results[row.type, result] += 1
        if gathered.tables > most_tables or gathered.transactions > MAX_TRANSACTIONS_PER_STEP:
            return Reset(ResetReason.BACKLOG)
    if expected != event_id:
        return Reset(ResetReason.PURGED if expected == cursor else ResetReason.GAP)
    return EventBatch(gathered.affected(), results, expected - cursor)


def overtaken(rows: Iterable[EventRow], read: Set[bytes]) -> frozenset[bytes]:
    """Targets to hold back: those of rows that were logged while the step read, if they name anything in `read`.

    What a row names belongs together (a table and the list it is in), so all of it is held back if one is. What such
    rows name and the step has not read is still as it was at the cursor.
    """
    held: set[bytes] = set()
    for row in rows:
        named = affects(row)[0].targets
        if targets.ALL in named:
            return frozenset({targets.ALL})
        if not read.isdisjoint(named):
            held |= named
    return frozenset(held)


def too_much(affected: Affected) -> Reset | None:
    """Is starting again the right answer to what the step has to read?"""
    if affected.everything:
        return Reset(ResetReason.EVERYTHING)
    if len(affected.tables) > MAX_TABLES_PER_STEP:
        return Reset(ResetReason.BACKLOG)
    return None


def requested(tickets: Set[bytes]) -> Affected:
    """What reload tickets name. Lists always change with an event: their tickets only raise versions. UNKNOWN asks
    for nothing but that a step has begun since: what it did is in the log.
    """
    return Affected.merge(_ticket(target) for target in tickets)


def _ticket(target: bytes) -> Affected:
    kind, names = target[:1], target[1:].split(b"\0", 3)
    touched = frozenset({target})
    if kind == b"t" and len(names) == 3:
        return Affected(tables=frozenset({(names[0], names[1], names[2])}), targets=touched)
    if kind == b"p" and len(names) == 3:
        key = names[0], names[1], names[2]
        return Affected(tables=frozenset({key}), partitions={key: None}, targets=frozenset({targets.table(*key)}))
    if kind == b"p" and len(names) == 4:
        key, name = (names[0], names[1], names[2]), names[3]
        one = {key: frozenset({name})}
        touched = frozenset({targets.table(*key)})
        return Affected(frozenset({key}), one, targets=touched, called=frozenset({(key, name)}))
    if kind == b"d" and len(names) == 2:
        return Affected(databases=frozenset({(names[0], names[1])}), targets=touched)
    if kind in (b"l", b"D") or target in (*targets.MARKED, targets.ROLES):
        return Affected(targets=touched)
    if target == targets.UNKNOWN:
        return NOTHING
    return Affected(everything=True, targets=frozenset({targets.ALL}))


LookUp: TypeAlias = Callable[[list[int]], Iterable[tuple[int, bytes, bytes]]]
"""Transaction ids -> (transaction, database, table) of those that wrote."""


class Transactions:
    """Which tables an open transaction writes, as far as the log told; bounded, the oldest are forgotten
    first.

    Transactions that were open when this process began come from the cache (`packed`), those that were when the cache
    was begun from the log's last rows, and from the database (`also` in the first step); later ones from
    ALLOC_WRITE_ID_EVENT rows. What is found in none is looked up in the snapshot.

    A table that is renamed is written under its new name from then on, which no row tells: write ids of tables without
    transactions keep the old name in the database, too. All names that it has had are kept, and read when the
    transaction ends: within a step it is not known which of them was that of the write id.
    """

    __slots__ = ("_limit", "_tables")

    def __init__(self, packed: bytes = b"", limit: int = 100_000) -> None:
        """`packed`: what `packed()` gave."""
        self._tables: OrderedDict[int, frozenset[TableKey]] = OrderedDict()
        self._limit = limit
        parts = packed.split(targets.SEPARATOR) if packed else []
        for number, catalog, database, table in zip(*(parts[at::4] for at in range(4)), strict=True):
            self._add(int(number), (catalog, database, table))

    def packed(self) -> bytes:
        """For the cache: where a store cannot tell what a transaction writes, the next process has it from there."""
        pairs = ((number, table) for number, tables in self._tables.items() for table in sorted(tables))
        return targets.SEPARATOR.join(part for number, table in pairs for part in (b"%d" % number, *table))

    def resolve(self, affected: Affected, look_up: LookUp) -> Affected:
        """`affected` and the tables of the transactions that ended in it; those whose beginning was not seen are
        looked up in the snapshot. Changes nothing: the commit may yet fail.
        """
        ended: set[TableKey] = {key for number, key in affected.write_ids if number in affected.ended}
        unknown: list[int] = []
        begun = {number for number, _ in affected.write_ids}
        for number in affected.ended:
            if number in self._tables:
                ended |= self._tables[number]
            elif number not in begun:
                unknown.append(number)
        if unknown:
            ended.update((DEFAULT_CATALOG, database, table) for _, database, table in look_up(sorted(unknown)))
        if not ended:
            return affected
        ended |= _names_since(ended, affected.renamed)
        touched = frozenset(targets.table(*key) for key in ended)
        return Affected.merge((affected, Affected(tables=frozenset(ended), targets=touched)))

    def after(self, affected: Affected, also: Iterable[tuple[int, TableKey]] = ()) -> Transactions:
        """What is known once this is committed: also what `affected` and `also` told, without those that ended."""
        begun = list(chain(affected.write_ids, also))
        nothing_ended = self._tables.keys().isdisjoint(affected.ended)
        if not begun and nothing_ended and not (self._tables and affected.renamed):
            return self
        known = Transactions(limit=self._limit)
        known._tables = self._tables.copy()
        for number, table in begun:
            known._add(number, table)
        for number in affected.ended:
            known._tables.pop(number, None)
        known._rename(affected.renamed)
        while len(known._tables) > self._limit:
            known._tables.popitem(last=False)
        return known

    def _rename(self, renamed: Sequence[tuple[TableKey, TableKey]]) -> None:
        old_names = {old for old, _ in renamed}
        if not old_names:
            return
        for number, tables in self._tables.items():
            if not old_names.isdisjoint(tables):
                self._tables[number] = tables | _names_since(tables, renamed)

    @property
    def none_open(self) -> bool:
        """Is no transaction known to be open?"""
        return not self._tables

    def _add(self, number: int, table: TableKey) -> None:
        self._tables[number] = self._tables.get(number, frozenset()) | {table}


def _names_since(tables: Set[TableKey], renamed: Sequence[tuple[TableKey, TableKey]]) -> frozenset[TableKey]:
    """These, and all names that they may have had since; `renamed` is in the order of the log."""
    names = set(tables)
    for old, new in renamed:
        if old in names:
            names.add(new)
    return frozenset(names)
