"""The decisions of one step of the follower: whether it may follow the log from the cursor, and what it must reload.

Job: `continues` compares the cache's position with the log as the snapshot shows it; `backlog` decides whether its rows
are read or everything is reloaded; `gather` turns the rows after the cursor into one `EventBatch`; `requested` turns
tickets into what they name; `Transactions` remembers which tables a transaction writes. Must not know the store, the
cache, clocks or sockets: values in, values out.

Invariants:
- A step takes its tickets before the first statement of its snapshot, reads every row up to the snapshot's
  event id E, and the cursor becomes E in the commit that holds the objects. The cursor never moves otherwise.
- The log is followed only if it provably continues: the row of the cursor is the row that was read (fingerprint), and
  the ids after it have no gap (Hive assigns them under a lock, in the order of commits). Anything else (a restored or
  swapped database, a purged log) is a Reset, never a silent skip.

Owner: the follower's process.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

from hms_cache_proxy.cache import targets
from hms_cache_proxy.consistency.names import DEFAULT_CATALOG
from hms_cache_proxy.follower.affected import NOTHING, Affected, Gathering
from hms_cache_proxy.follower.events import EventResult, affects
from hms_cache_proxy.store.protocol import EventRow, TableKey

MAX_TABLES_PER_STEP = 50_000
"""Tables that one commit may replace. If a backlog names more, it is cheaper to load everything again."""


MAX_TRANSACTIONS_PER_STEP = 1_000_000
"""The same limit for facts about transactions: about 150 MB."""

LONGEST_NAME_BYTES: Final = 4 * 767
"""No metastore has room for a longer name, but a client may ask for one. A statement with hundreds of them is too long
for MariaDB, and the step that sends it fails each time, because the tickets stay."""

FEW_ROWS = 20_000
"""Up to so many rows the log is always followed: one or two seconds, in which nothing is a hit. A cache that costs less
than that to load is filled again sooner."""


class ResetReason(enum.StrEnum):
    """Why all entries of the cache lost validity."""

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
    """How far the cache has followed. `fingerprint`: of the log's row `cursor`; None if there was no such row."""

    cursor: int
    fingerprint: bytes | None


@dataclass(frozen=True, slots=True)
class LogState:
    """The log in a snapshot: its last id, and the fingerprint of the row at the cache's cursor. If there is no such
    row, also the oldest id that is still there.
    """

    event_id: int
    oldest: int | None
    at_cursor: bytes | None


@dataclass(frozen=True, slots=True)
class Reset:
    """Everything is loaded again, as of the snapshot's event id."""

    reason: ResetReason


@dataclass(frozen=True, slots=True)
class EventBatch:
    """The rows after the cursor, coalesced, and how each was understood."""

    affected: Affected
    results: Counter[tuple[str, EventResult]]
    rows: int


def continues(position: Position, log: LogState, *, verified: bool) -> Reset | None:
    """Can the log be followed from `position`? `verified`: this process has seen the row of the cursor before.

    Only then may the row at the cursor be purged: an idle metastore purges its log while a follower runs, but after a
    restart nothing proves that the log is the one that was followed.
    """
    if log.event_id < position.cursor:
        return Reset(ResetReason.WENT_BACK)
    if position.cursor == 0:
        return None
    if log.at_cursor is not None:
        return None if log.at_cursor == position.fingerprint else Reset(ResetReason.OTHER_HISTORY)
    if verified and position.fingerprint is None:
        return None  # the cursor's id never had a row: ids were used up without rows
    purged = log.oldest is None or log.oldest > position.cursor
    if not purged:
        return Reset(ResetReason.OTHER_HISTORY)
    complete = log.event_id == position.cursor or log.oldest == position.cursor + 1
    return None if verified and complete else Reset(ResetReason.PURGED)


def backlog(behind: int, reload_cost: int) -> Reset | None:
    """Is it cheaper to load everything again (at `reload_cost`, in partitions) than to read `behind` rows of the log? A
    row costs about as much as a partition."""
    return Reset(ResetReason.BACKLOG) if behind > max(FEW_ROWS, reload_cost) else None


def gather(
    cursor: int, event_id: int, rows: Iterable[EventRow], most_tables: int = MAX_TABLES_PER_STEP
) -> EventBatch | Reset:
    """All rows in (cursor, event_id], ascending, as one batch. A missing id is a Reset, and so are too many names. Rows
    are not kept, only what they name."""
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
    """Targets to hold: those of rows that were logged while the step read, if they name anything in `read`.

    What a row names belongs together (a table and the list that it is in), so if one target is held, all are. What the
    step has not read is still as of the cursor.
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
    """A Reset if the step would have to read too much, else None."""
    if affected.everything:
        return Reset(ResetReason.EVERYTHING)
    if len(affected.tables) > MAX_TABLES_PER_STEP:
        return Reset(ResetReason.BACKLOG)
    return None


def requested(tickets: Set[bytes]) -> Affected:
    """What tickets name. Lists never change without an event, so their tickets only raise versions. UNKNOWN only asks
    for a later step: what the write did is in the log.
    """
    return Affected.merge(_ticket(target) for target in tickets)


_NAMING: Final = (targets.TABLE_KIND, targets.PARTITIONS_KIND, targets.DATABASE_KIND)
_ONLY_VERSIONS: Final = (targets.TABLES_KIND, targets.DATABASES_KIND, targets.RIGHTS_KIND)


def _ticket(target: bytes) -> Affected:
    kind, names = targets.kind_of(target), targets.names_in(target)
    touched = frozenset({target})
    if kind in _NAMING and max(map(len, names)) > LONGEST_NAME_BYTES:
        if kind == targets.PARTITIONS_KIND and len(names) > 2:
            touched = frozenset({targets.table(*names[:3])})
        return Affected(targets=touched)
    if kind == targets.TABLE_KIND and len(names) == 3:
        return Affected(tables=frozenset({(names[0], names[1], names[2])}), targets=touched)
    if kind == targets.PARTITIONS_KIND and len(names) == 3:
        key = names[0], names[1], names[2]
        return Affected(tables=frozenset({key}), partitions={key: None}, targets=frozenset({targets.table(*key)}))
    if kind == targets.PARTITIONS_KIND and len(names) == 4:
        key, name = (names[0], names[1], names[2]), names[3]
        one = {key: frozenset({name})}
        touched = frozenset({targets.table(*key)})
        return Affected(frozenset({key}), one, targets=touched, called=frozenset({(key, name)}))
    if kind == targets.DATABASE_KIND and len(names) == 2:
        return Affected(databases=frozenset({(names[0], names[1])}), targets=touched)
    if kind in (targets.TABLE_KIND, targets.DATABASE_KIND) and len(names) > 2:
        return Affected(targets=touched)  # a name with NUL, which no object has
    if kind in _ONLY_VERSIONS or target in (*targets.MARKED, targets.ROLES, targets.WIDE_RIGHTS):
        return Affected(targets=touched)
    if target == targets.UNKNOWN:
        return NOTHING
    return Affected(everything=True, targets=frozenset({targets.ALL}))


LookUp: TypeAlias = Callable[[list[int]], Iterable[tuple[int, bytes, bytes]]]
"""Transaction ids -> (transaction, database, table) for each table that they wrote."""


class Transactions:
    """Which tables each open transaction writes, as far as the log told. Limited: the oldest are forgotten first.

    Transactions that were open when this process began come from the cache (`packed`). Those that were open when the
    cache was new come from the last rows of the log, and from the database (`also` in the first step). Later ones come
    from ALLOC_WRITE_ID_EVENT rows. Others are looked up in the snapshot. Hive 3.1 logs nothing when a transaction times
    out, so one is also forgotten when none of its tables has an open write of it any more.

    After a rename, a transaction writes the table under its new name, and no row says so. All names that the table has
    had since are kept, and all are read when the transaction ends, because within a step it is not known under which
    name the write id was allocated.
    """

    __slots__ = ("_limit", "_tables")

    def __init__(self, packed: bytes = b"", limit: int = 100_000) -> None:
        """`packed`: a result of `packed()`."""
        self._tables: OrderedDict[int, frozenset[TableKey]] = OrderedDict()
        self._limit = limit
        parts = packed.split(targets.SEPARATOR) if packed else []
        rows = zip(*(parts[at::4] for at in range(4)), strict=True)
        self._add((int(number), (catalog, database, table)) for number, catalog, database, table in rows)

    def packed(self) -> bytes:
        """The form that the cache keeps, for the next process: not every store can tell what a transaction writes."""
        pairs = ((number, table) for number, tables in self._tables.items() for table in sorted(tables))
        return targets.SEPARATOR.join(part for number, table in pairs for part in (b"%d" % number, *table))

    def resolve(self, affected: Affected, look_up: LookUp) -> Affected:
        """`affected`, and the tables of the transactions that ended in it. Those whose beginning was not seen are
        looked up in the snapshot. Changes nothing here, because the commit may still fail.
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

    def after(
        self, affected: Affected, also: Set[tuple[int, TableKey]] = frozenset(), read: Set[TableKey] = frozenset()
    ) -> Transactions:
        """What is known after the commit: with what `affected` and `also` add, without the transactions that ended.
        `read`: tables of which `also` has every open write."""
        begun = list(chain(affected.write_ids, also))
        ended = affected.ended | self._over(also, read)
        nothing_ended = self._tables.keys().isdisjoint(ended)
        if not begun and nothing_ended and not (self._tables and affected.renamed):
            return self
        known = Transactions(limit=self._limit)
        known._tables = self._tables.copy()
        known._add(begun)
        for number in ended:
            known._tables.pop(number, None)
        known._rename(affected.renamed)
        while len(known._tables) > self._limit:
            known._tables.popitem(last=False)
        return known

    def _over(self, also: Set[tuple[int, TableKey]], read: Set[TableKey]) -> set[int]:
        """The transactions all of whose tables were read, and that have no open write to any of them. While a metastore
        renames a table, its old name counts too, and cannot be read."""
        if not read:
            return set()
        opened = {number for number, _ in also}
        return {number for number, tables in self._tables.items() if number not in opened and tables <= read}

    def _rename(self, renamed: Sequence[tuple[TableKey, TableKey]]) -> None:
        old_names = {old for old, _ in renamed}
        if not old_names:
            return
        for number, tables in self._tables.items():
            if not old_names.isdisjoint(tables):
                self._tables[number] = tables | _names_since(tables, renamed)

    def completed(self, look_up: LookUp) -> Transactions:
        """The same transactions, with the tables that the store knows of them, too."""
        rows = look_up(sorted(self._tables))
        return self.after(NOTHING, {(number, (DEFAULT_CATALOG, database, table)) for number, database, table in rows})

    @property
    def none_open(self) -> bool:
        """Is no open transaction known?"""
        return not self._tables

    def _add(self, begun: Iterable[tuple[int, TableKey]]) -> None:
        more: defaultdict[int, set[TableKey]] = defaultdict(set)
        for number, table in begun:
            more[number].add(table)
        for number, tables in more.items():
            self._tables[number] = self._tables.get(number, frozenset()) | tables


def _names_since(tables: Set[TableKey], renamed: Sequence[tuple[TableKey, TableKey]]) -> frozenset[TableKey]:
    """These names, and all that the tables may have had since. `renamed` is in the order of the log."""
    names = set(tables)
    for old, new in renamed:
        if old in names:
            names.add(new)
    return frozenset(names)
