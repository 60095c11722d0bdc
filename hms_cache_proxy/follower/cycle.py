"""One step of the follower, with its effects in the only order that is correct.

    read the clock -> take tickets -> the snapshot's first statement -> read everything -> one commit of the
    cache (objects, cursor, tickets) -> the state page (by the writer) -> delete the fences that these tickets
    lift -> publish the time that was read first: the cache is confirmed as of then

Job: do this with a store, a cache writer and the fences. Must not know sockets, pacing, or how progress is shown.

Invariants:
- A step that fails publishes nothing; what was queued is found again from the cache (`LoadQueue.missing`).
- Targets that changed while they were read (`step.overtaken`) are marked as held in the same commit, and are reloaded
  at once.
- The cache is not confirmed before this process has reached the event id that it saw first (START_EVENT), or has been
  reset.
- When the log has gone back, event ids that clients received in the meantime were compared with the old history's
  cursor, so hits wait for one more step.
- After the log was not followed for a while, everything is loaded again.

Owner: the follower's process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, TableStub
from hms_cache_proxy.cache.inventory import Inventory
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import Slot, StatePage, boottime_ns
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config.selection import Selection
from hms_cache_proxy.errors import CacheFull
from hms_cache_proxy.follower import step
from hms_cache_proxy.follower.affected import NOTHING, Affected, Announcement
from hms_cache_proxy.follower.announced import Announced
from hms_cache_proxy.follower.eviction import Eviction, Used
from hms_cache_proxy.follower.limits import BUSY_STEPS, OBJECT_BYTES, TABLE_COST, StepLimits
from hms_cache_proxy.follower.load_queue import FULL, LoadQueue
from hms_cache_proxy.follower.log import Followed, Log, OrderedLog, announced_before, begun_before
from hms_cache_proxy.follower.reading import StepReading
from hms_cache_proxy.follower.step import Position, Reset, ResetReason, Transactions
from hms_cache_proxy.follower.step_states import LogRows, StepBegun, StepDecided, StepOutcome, StepRead
from hms_cache_proxy.follower.sweep import Sweep
from hms_cache_proxy.follower.trailing import TrailingLog
from hms_cache_proxy.store.protocol import LogEnd, RawStore, Snapshot, TableKey

GARBAGE_ROWS = 5000
"""Rows deleted after one step: about 10 ms."""

WRITERS_INTERVAL_S = 10.0
"""How often the write ids of tables with an open write are read without an event."""

SWEEP_INTERVAL_S = 0.25
"""Shortest time between two steps that check some tables of the slow sweep: 10,000 tables take 100 s."""

READMIT = 0.9
"""Part of max_bytes; when the cache is smaller than that, tables that had no room are tried again."""


class Tickets(Protocol):
    """What the follower needs from the fences environment."""

    def pending_tickets(self) -> tuple[int, set[bytes]]:
        """(last ticket, targets of all tickets not done)."""
        ...

    def done(self, last_ticket: int) -> None:
        """Every ticket up to this one is in the cache."""
        ...

    def fence_now(self, targets: Sequence[Target]) -> int:
        """Fences these until a step that begins after now."""
        ...

    def forget_events(self) -> None:
        """Event ids that were told of may be of another log."""
        ...


@dataclass(frozen=True, slots=True)
class StepSettings:
    """`max_bytes`: of the cache; `chunk`: partitions loaded in one step; `object_bytes`: of table objects in one step;
    `pin`: patterns of tables that are never evicted; `sweep`: the follower's, which outlives its cycles."""

    selection: Selection
    max_bytes: int
    chunk: int
    object_bytes: int = OBJECT_BYTES
    pin: tuple[str, ...] = ()
    sweep: Sweep = field(default_factory=lambda: Sweep(0, 0.0))  # never


@dataclass(frozen=True, slots=True)
class LogPeek:
    """The log's last id; `unlogged` and `replica` as in StepOutcome."""

    event_id: int
    unlogged: bool | None
    replica: bool = False


class Cycle:
    """Runs steps. Keeps nothing between them that cannot be found again."""

    def __init__(
        self,
        store: RawStore,
        writer: CacheWriter,
        reader: CacheReader,
        fences: Tickets,
        page: StatePage,
        settings: StepSettings,
    ) -> None:
        self._store = store
        alive, of = self._show_life, store.identity
        self._log: Log = OrderedLog(alive) if of.ordered_log else TrailingLog(alive, exact=of.exact)
        self._writer = writer
        self._reader = reader
        self._fences = fences
        self._page = page
        self._settings = settings
        self._transactions = Transactions(writer.transactions or b"")
        self._noted = None if writer.transactions is None else self._transactions
        self._work: LoadQueue | None = None
        self._verified = False
        self._distrusted: ResetReason | None = None
        self._full_at = 0
        self._eviction = Eviction(settings.max_bytes, settings.pin, reader.uses)
        self._garbage = True
        self._expected = 0
        self._looked_s = 0.0
        self._unmarked = False
        self._seen: LogEnd | None = None
        self._changed_in_a_row = 0
        self._swept_s = 0.0
        self._sweep = settings.sweep
        self._announced = Announced()

    @property
    def work(self) -> LoadQueue | None:
        """What is still to be loaded; None before the first step and after a failure."""
        return self._work

    def distrust(self) -> None:
        """The next step loads everything again, because for some time the log was not followed."""
        self._distrusted = ResetReason.NOT_FOLLOWED

    def _show_life(self) -> None:
        """A sign of life, so that a long step on a busy machine is not taken for one that hangs."""
        self._page[Slot.HEARTBEAT_NS] = time.monotonic_ns()

    def peek(self) -> LogPeek:
        """Reads only the event id. Done instead of a step while nothing is served."""
        expected = self._page[Slot.EXPECTED_EVENT]
        with self._store.snapshot() as source:
            event_id = source.event_id
            if source.is_replica:
                return LogPeek(event_id, None, replica=True)
            self._saw(event_id)
        return LogPeek(event_id, self._unlogged(event_id, expected))

    def _saw(self, event_id: int) -> None:
        """The log's last id. If it has gone back, as after a failover, what writes expect of the old log is void."""
        before, self._page[Slot.UPSTREAM_EVENT] = self._page[Slot.UPSTREAM_EVENT], event_id
        if event_id < before:
            self._page[Slot.EXPECTED_EVENT] = 0

    def _unlogged(self, event_id: int, expected: int) -> bool | None:
        """The canary: does the log lack the last write through this proxy? None: no new write, or ids without order."""
        if expected == self._expected or not self._page[Slot.EXPECTED_EVENT] or not self._store.identity.ordered_log:
            return None
        self._expected = expected
        return event_id < expected

    def step(self, chunk: int) -> StepOutcome:
        """One step: reloads what the log and tickets name, and loads up to `chunk` partitions of what is queued.

        Raises StoreError or CacheError; then nothing was published.
        """
        begun = self._begin()
        try:
            if self._at_rest(begun) and self._store.log_end() == self._seen:
                return self._nothing(begun)
            with self._store.snapshot() as source:
                if source.is_replica:
                    return StepOutcome(source.event_id, changed=False, more=False, replica=True)
                if not self._verified:
                    self._page[Slot.START_EVENT] = source.event_id
                    self._announced.stepped(self._announced_before(source), {}, begun.began_s)
                self._saw(source.event_id)
                read = self._read(source, begun, chunk)
                overtaken = step.overtaken(self._log.overtaken(source), read.reading.read)
            decided = self._decide(begun, read, overtaken)
            if decided.publish:
                self._commit(decided)
        except BaseException:
            self._work = None
            raise
        return self._publish(begun, decided)

    def collect(self) -> bool:
        """Deletes a slice of the rows that no reader can see any more; True if some are left."""
        if self._garbage:
            over = self._writer.cache_bytes > self._settings.max_bytes  # then faster than a step adds to it
            self._garbage = self._writer.collect(max(GARBAGE_ROWS, 2 * self._settings.chunk) if over else GARBAGE_ROWS)
        return self._garbage

    # --- a step without anything to do

    def _at_rest(self, begun: StepBegun) -> bool:
        """Would a step find nothing to do, if the log still ends where the last step saw its end? No while every step
        finds something."""
        work, meta, now_s = self._work, self._writer.meta, time.monotonic()
        return (
            self._seen is not None
            and self._changed_in_a_row < BUSY_STEPS
            and self._distrusted is None
            and work is not None
            and work.done
            and not work.refused
            and not self._garbage
            and not begun.targets
            and begun.ticket <= meta.done_ticket
            and self._writer.cache_bytes <= self._settings.max_bytes
            and not self._sweeps(now_s)
            and not self._announced.due(begun.began_s)
            and not self._looks_at_writers(now_s)
        )

    def _end_of_log(self, source: Snapshot, end: Position) -> LogEnd | None:
        """What a later look at the log is compared with. None for a log whose ids are not ordered: its last row proves
        nothing about earlier ones."""
        if not self._store.identity.ordered_log:
            return None
        return LogEnd(end.cursor, end.fingerprint, source.marks(), is_replica=False)

    def _nothing(self, begun: StepBegun) -> StepOutcome:
        """Nothing has changed since the last step: the cache is confirmed."""
        event_id = self._writer.meta.cursor
        self._fences.done(begun.ticket)
        self._confirm(begun)
        return StepOutcome(event_id, changed=False, more=False, unlogged=self._unlogged(event_id, begun.expected))

    def _confirm(self, begun: StepBegun) -> None:
        self._page[Slot.BEGAN_NS] = begun.began_ns
        self._page[Slot.BEGAN_BOOT_NS] = begun.began_boot_ns

    # --- the stages of a step

    def _begin(self) -> StepBegun:
        boot_ns = boottime_ns()
        began_ns = time.monotonic_ns()  # before the tickets: once published, it says that older tickets were taken
        self._page[Slot.LOOKING_NS] = began_ns
        ticket, wanted = self._fences.pending_tickets()
        return StepBegun(began_ns, boot_ns, ticket, wanted, self._page[Slot.EXPECTED_EVENT])

    def _read(self, source: Snapshot, begun: StepBegun, chunk: int) -> StepRead:
        position = Position(self._writer.meta.cursor, self._writer.meta.fingerprint)
        followed = self._follow(source, position)
        if isinstance(followed, Reset):
            return self._start_again(source, followed.reason)
        known = self._transactions
        if self._writer.transactions is None and not self._verified:
            known = self._begun_before(source, position.cursor)
        batch = followed.batch
        named = Affected.merge((batch.affected, step.requested(begun.targets)))
        affected = known.resolve(named, source.transaction_tables)
        too_much = step.too_much(affected)
        if too_much is not None:
            return self._start_again(source, too_much.reason)
        with self._reader.snapshot() as snapshot:
            cached = Inventory(snapshot)
            work = self._work = self._work or LoadQueue.missing(cached, self._writer.filled())
            reading = self._reading(source, cached, work)
            reading.affected(affected)
            self._announced.seen(reading.compare_tables(self._announced.due(begun.began_s)))
            self._make_room(cached, reading, work)
            if chunk and (reading.limits.admit or not self._garbage):  # else wait until garbage is collected
                reading.queued(chunk)
            swept = self._swept(cached, work)
            reading.compare_tables(key for key in swept if key[2])
            reading.compare_databases(key[:2] for key in swept if not key[2])
            unmarked = self._marks(reading)
            reading.foreign_keys()
            reading.write_ids(affected, self._to_look_at(cached))
        end = self._stands(reading, source, position)
        return StepRead(
            reading,
            affected,
            known,
            end,
            changed=end != position or not reading.changes.nothing,
            more=not work.done,
            rows=LogRows(batch.rows, followed.newest_time_s, batch.results),
            reset=None,
            unmarked=unmarked,
            seen=self._end_of_log(source, end),
        )

    def _decide(self, begun: StepBegun, read: StepRead, overtaken: frozenset[bytes]) -> StepDecided:
        exact = self._store.identity.exact  # else a transaction that is forgotten could not be looked up
        settled = read.reading.settled if exact else frozenset[TableKey]()
        transactions = read.known.after(read.affected, read.reading.open_writes, settled)
        changes = read.reading.changes
        changes.held = overtaken
        changes.done_ticket = begun.ticket
        # A ticket that asks for nothing (a lock's) must also be published: its number lifts the fence.
        publish = read.changed or bool(begun.targets) or begun.ticket > self._writer.meta.done_ticket
        if publish and transactions is not self._noted:
            changes.transactions = transactions.packed()
        return StepDecided(read, transactions, overtaken, publish)

    def _commit(self, decided: StepDecided) -> None:
        reading = decided.read.reading
        if decided.read.end.cursor < self._writer.meta.cursor:
            self._fences.fence_now((targets.ALL,))
        if decided.read.reset is not None:
            self._fences.forget_events()
        self._show_life()
        try:
            self._writer.commit(reading.changes)
        except CacheFull:
            self._writer.commit(self._without_tables(reading))
        self._noted = decided.transactions
        self._garbage = True

    def _publish(self, begun: StepBegun, decided: StepDecided) -> StepOutcome:
        """Lifts the fences, then confirms the cache. Everything is in the cache by now, or nothing has changed."""
        read, reading = decided.read, decided.read.reading
        event_id = read.end.cursor
        self._log.committed()
        self._verified = True
        self._distrusted = None
        self._transactions = decided.transactions
        self._announced.stepped(read.affected.announced, reading.changes.tables, begun.began_s)
        self._fences.done(begun.ticket)
        if read.reset is not None:
            self._page[Slot.START_EVENT] = event_id
        self._confirm(begun)
        self._seen = None if decided.overtaken else read.seen
        self._changed_in_a_row = self._changed_in_a_row + 1 if read.changed else 0
        return StepOutcome(
            event_id,
            changed=read.changed,
            more=read.more or bool(decided.overtaken),
            rows=read.rows.number,
            newest_time_s=read.rows.newest_time_s,
            results=read.rows.results,
            reset=read.reset,
            evicted=reading.evicted,
            partitions=reading.partitions,
            unlogged=self._unlogged(event_id, begun.expected) if read.reset is None else None,
            unfit=tuple(reading.unfit),
            unlogged_tables=tuple(reading.unlogged),
            unmarked=read.unmarked,
        )

    # --- reading

    def _marks(self, reading: StepReading) -> bool:
        """Compares the marks of objects that change without an event, so that the cache has them as of the cursor. True
        if that has just become impossible."""
        before, self._unmarked = self._unmarked, not reading.marks() and self._store.identity.exact
        return self._unmarked and not before

    def _swept(self, cached: Inventory, work: LoadQueue) -> list[TableKey]:
        """The next tables of the slow sweep, and databases (with b"" as their table). None while there is something to
        load."""
        now_s = time.monotonic()
        if not work.done or not self._sweeps(now_s):
            return []
        self._swept_s = now_s
        if self._sweep.due(now_s):
            self._sweep.begin([*cached.loaded(), *((*key, b"") for key in cached.databases())], now_s)
        return self._sweep.next()

    def _sweeps(self, now_s: float) -> bool:
        """Is it time for the next part of the slow sweep?"""
        under_way = self._sweep.under_way and now_s - self._swept_s >= SWEEP_INTERVAL_S
        return under_way or self._sweep.due(now_s)

    def _to_look_at(self, cached: Inventory) -> set[TableKey]:
        """Transactional tables whose write ids are read although nothing names them. Now and then, those that cannot be
        used because of an open write: a transaction that times out may end without a row in the log. In this process's
        first step all that have open or aborted writes; or all, if the cache does not have the open transactions.
        """
        now_s = time.monotonic()
        if not self._looks_at_writers(now_s):
            return set()
        self._looked_s = now_s
        if self._verified:
            return {key for key, row in cached.unsettled() if row.writers} if self._writer.meta.being_written else set()
        rows = cached.write_ids() if self._writer.transactions is None else cached.unsettled()
        return {key for key, _ in rows}

    def _looks_at_writers(self, now_s: float) -> bool:
        return not self._verified or now_s - self._looked_s >= WRITERS_INTERVAL_S

    def _follow(self, source: Snapshot, position: Position) -> Followed | Reset:
        if self._distrusted is not None:
            return Reset(self._distrusted)
        if position.cursor == 0 and self._writer.meta.databases == 0:
            return Reset(ResetReason.FIRST_START)
        meta = self._writer.meta
        cost = meta.partitions + TABLE_COST * meta.tables
        return self._log.follow(source, position, verified=self._verified, reload_cost=cost)

    def _stands(self, reading: StepReading, source: Snapshot, position: Position) -> Position:
        """The cache's position after this step."""
        end = self._log.end(source, position)
        reading.changes.cursor, reading.changes.fingerprint = end.cursor, end.fingerprint
        return end

    def _start_again(self, source: Snapshot, reason: ResetReason) -> StepRead:
        """A reset: all entries lose validity in the commit that moves the cursor to this snapshot."""
        known = self._begun_before(source, source.event_id)
        self._page[Slot.EXPECTED_EVENT] = 0
        self._log.begin(source)
        work = self._work = LoadQueue(all_databases=True)
        reading = self._reading(source, Inventory(None), work)
        reading.changes.reset = reason.value
        reading.queued(self._settings.chunk)
        unmarked = self._marks(reading)
        reading.write_ids(NOTHING, ())
        end = self._stands(reading, source, Position(0, None))
        return StepRead(
            reading,
            NOTHING,
            known,
            end,
            changed=True,
            more=not work.done,
            rows=LogRows(),
            reset=reason,
            unmarked=unmarked,
            seen=None,
        )

    def _begun_before(self, source: Snapshot, event_id: int) -> Transactions:
        """Needed for a new cache and for one that was filled from a snapshot, which do not have them."""
        return begun_before(source, event_id) if self._store.identity.ordered_log else Transactions()  # 2.3 logs none

    def _announced_before(self, source: Snapshot) -> frozenset[Announcement]:
        """What an earlier process, or the cycle before a failure, may have been looking for."""
        return announced_before(source, source.event_id) if self._store.identity.ordered_log else frozenset()

    def _reading(self, source: Snapshot, cached: Inventory, work: LoadQueue) -> StepReading:
        return StepReading(source, cached, work, selection=self._settings.selection, limits=self._limits(work))

    def _limits(self, work: LoadQueue) -> StepLimits:
        """Whether there is room. Tables that had none are tried again whenever another tenth of the cache has become
        free."""
        used, most = self._writer.cache_bytes, self._settings.max_bytes
        admit = used < most
        if not admit:
            self._full_at = max(self._full_at, used)
        elif work.refused and used < min(most, self._full_at) * READMIT:
            self._full_at = used
            work.try_refused()
        settings = self._settings
        return StepLimits(settings.chunk, admit, settings.object_bytes)

    def _make_room(self, cached: Inventory, reading: StepReading, work: LoadQueue) -> None:
        """Evicts tables, and queues others that are wanted again."""
        used = self._writer.cache_bytes
        if used <= self._settings.max_bytes and not work.refused:
            return
        now = Used(used, self._writer.bytes_per_partition, self._garbage)
        now_s = time.time()
        leaving = self._eviction.leaving(cached, now, work.loads.keys(), now_s)
        if not leaving:
            coming, leaving = self._eviction.coming(cached, now, work.refused, now_s)
            work.wanted(coming)
        for one in leaving:
            reading.leave(one.key, one.entry)

    # --- writing

    def _without_tables(self, reading: StepReading) -> Changes:
        """The file itself is full: drops every table that this step would have written; the rest is committed."""
        changes = reading.changes
        for key, record in list(changes.tables.items()):
            if record is not None:
                del changes.tables[key]
                changes.write_ids.pop(record.table_id, None)
                changes.stubs[key] = TableStub(record.table_id, record.table_type, FULL)
                reading.evicted += 1
        if self._work is not None:
            for key in self._work.loads.keys() | changes.stubs.keys() | reading.ended_loads:
                self._work.refuse(key)
        changes.partitions.clear()
        changes.chunks.clear()
        changes.not_loaded.clear()
        return changes
