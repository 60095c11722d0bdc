"""Reads what a step needs into one `Changes`: what is affected, and then as much of the queue as one step may take.

Job: read each named object from the store's snapshot and compare it with the cache. The object is replaced, dropped, or
marked as not loaded (a table that is excluded, has no room, or is too large for one commit). Must not know the log,
clocks, sockets, or the cache's layout.

Invariants:
- All reads are of one snapshot. Their results go into one commit with that snapshot's event id.
- A table that is named in a step is read in that step, or is not loaded after it. So whatever is loaded is as of the
  cursor, even while it is loaded in chunks: an event about one of its partitions changes the new set in the event's own
  step, before or after the chunk that has the partition.
- All partitions of a table are read when the event says so, when the table's id is new, and when none were loaded. They
  are not read if one of them is known to be unfit for the cache, and the event names only others.

Owner: the follower's process; one object per step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, PartitionChunk, TableStub, TableWriteIds
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.targets import CATALOGS, DESCRIPTIONS, FUNCTIONS
from hms_cache_proxy.config.selection import Selection
from hms_cache_proxy.consistency.names import DEFAULT_CATALOG
from hms_cache_proxy.consistency.write_ids import equivalent
from hms_cache_proxy.follower.affected import UNKNOWN_WRITE, Affected, PartitionNames
from hms_cache_proxy.follower.cached_view import CachedView
from hms_cache_proxy.follower.constraints import ConstraintReading, cached_form
from hms_cache_proxy.follower.limits import (
    NAMED_SHARE,
    TABLE_COST,
    TABLES_PER_READ,
    StepLimits,
)
from hms_cache_proxy.follower.load_queue import EXCLUDED, FULL, LOADING, ChunkedLoad, LoadQueue
from hms_cache_proxy.follower.partition_reading import PartitionReading
from hms_cache_proxy.store.part_names import is_name
from hms_cache_proxy.store.protocol import (
    UNKNOWN_ID,
    DatabaseKey,
    Snapshot,
    TableKey,
    TableRecord,
)

NO_NAMES: frozenset[bytes] = frozenset()


class StepReading:
    """What one step reads."""

    def __init__(
        self, source: Snapshot, cached: CachedView, work: LoadQueue, *, selection: Selection, limits: StepLimits
    ) -> None:
        self.changes = Changes(cursor=source.event_id)
        self._source = source
        self._cached = cached
        self._work = work
        self._selection = selection
        self.limits = limits
        self._constraints = ConstraintReading(source, cached)
        self._parts = PartitionReading(source, self.changes, work, limits)
        self._put_off = False
        self._held_bytes = 0
        self._read: set[TableKey] = set()
        self._databases_cached: Mapping[DatabaseKey, bool] | None = None
        self.evicted = 0
        self._called: defaultdict[TableKey, set[bytes]] = defaultdict(set)
        self._transactional: dict[TableKey, int] = {}
        self._queue_loads = False
        self._unseen: set[TableKey] = set()
        self.unlogged: list[str] = []
        """Tables and databases that changed without an event."""
        self.open_writes: set[tuple[int, TableKey]] = set()
        """(transaction, table) of the open write ids of all tables whose write ids were read."""
        self.ended_loads: set[TableKey] = set()
        """Tables whose load in chunks ends with this step."""
        self.settled: set[TableKey] = set()
        """Those of these tables of whose open write ids each transaction is known."""
        self.read: set[bytes] = set()
        """Targets of everything that was read and may be served after this step."""

    @property
    def partitions(self) -> int:
        """How many partitions were read."""
        return self._parts.count

    @property
    def unfit(self) -> list[str]:
        """Tables whose partitions the cache cannot hold, and why."""
        return self._parts.unfit

    # --- what events and tickets name

    def affected(self, affected: Affected) -> None:
        """Reads everything that `affected` names, whatever it costs."""
        self.changes.touched |= affected.targets
        for key, name in affected.called:
            self._called[key].add(name)
        lists = set(affected.lists)
        if affected.all_lists:
            lists |= self._all_databases()
        lists |= self._databases(affected.databases)
        self._tables(affected.tables, affected.partitions)
        self._constraints_changed(self._constraints.dropped(affected, self._read))
        for database in sorted(lists):
            if self.changes.databases.get(database, database) is not None:
                self._compare(database, reload=database in affected.reload)

    def queued(self, chunk: int) -> None:
        """Reads the next part of what is not loaded yet: up to `chunk` partitions, or tables of that cost."""
        self._queue_loads = True
        work = self._work
        parts = self._parts
        parts.begin_queue(chunk)
        most = max(1, min(chunk, self.limits.chunk) // TABLE_COST)
        if work.all_databases:
            for database in self._all_databases():
                work.lists[database] = None
            work.all_databases = False
        spent = 0
        while work.lists and spent < most:
            database = next(iter(work.lists))
            spent += 1 + self._compare(database)
        while spent < most and parts.room > 0 and not self._has_enough and not self._put_off:
            keys = work.next_tables(min(TABLES_PER_READ, most - spent))
            if not keys:
                break
            spent += len(keys)
            self._tables(keys, dict.fromkeys(keys))
        parts.room = max(parts.share, parts.room)
        self._continue_loads()

    def leave(self, key: TableKey, entry: TableEntry) -> None:
        """Evicts a table, unless this step has already read it or changed it."""
        changes = self.changes
        said = key in self._read or key in changes.tables or key in changes.stubs
        if not said and changes.databases.get(key[:2], True):
            self._read.add(key)
            self._work.refuse(key)
            changes.stubs[key] = TableStub(entry.table_id, entry.table_type, FULL)
            self.evicted += 1

    @property
    def _has_enough(self) -> bool:
        """Whether the table objects of this step have reached the limit."""
        return self._held_bytes > self.limits.object_bytes

    def compare_tables(self, keys: Iterable[TableKey]) -> dict[TableKey, TableRecord | None]:
        """Reads table objects that nothing names, and takes over those that differ from the cache. Returns them; None
        for a table that does not exist or is excluded."""
        wanted = [key for key in keys if key not in self._read]
        found = self._source.tables_of(wanted) if wanted else {}
        for key, record in found.items():
            entry = self._cached.table(key)
            if entry is None or entry.body is None or entry.table_id != record.table_id:
                continue  # events about it come in this step or a later one
            if entry.body != record.body or self._differ(record, entry):
                self.unlogged.append(b".".join(key).decode("utf-8", "replace"))
                self.read.add(targets.table(*key))
                self.changes.touched.add(targets.table(*key))
                self._table(key, record, entry, NO_NAMES, None)
        return {key: found.get(key) if self._selection.admits(key[1], key[2]) else None for key in wanted}

    def marks(self) -> bool:
        """Compares the marks of objects that change without an event. False if the store has none now."""
        found = self._source.marks()
        marks = (found.functions, found.catalogs, found.databases) if found else (None, None, None)
        for target, mark in zip((FUNCTIONS, CATALOGS, DESCRIPTIONS), marks, strict=True):
            if mark != self._cached.mark(target):
                self.changes.marks[target] = mark
        if self.changes.marks.get(DESCRIPTIONS) is not None:
            known = self._cached_databases()
            if not self.compare_databases(known) and not self.changes.databases:  # one was changed and changed back
                self.changes.touched |= {targets.database(*key) for key in known}
        return found is not None

    def compare_databases(self, keys: Iterable[DatabaseKey]) -> int:
        """Reads databases that nothing names, takes over those that differ from the cache, and drops those that are
        gone (Hive 4 logs no drop of a REMOTE one); returns their number."""
        before = len(self.unlogged)
        wanted = sorted(set(keys) - self.changes.databases.keys())
        found = self._source.databases(wanted) if wanted else {}
        for key in wanted:
            entry, record = self._cached.database(key), found.get(key)
            if entry is None or (record and (entry.body, entry.remote) == (record.body, record.remote)):
                continue
            self.unlogged.append(b".".join(key).decode("utf-8", "replace"))
            self.read.add(targets.database(*key))
            self.changes.databases[key] = record
            if record is None:
                self._gone(key)
        return len(self.unlogged) - before

    def _gone(self, database: DatabaseKey) -> None:
        """No event names this database, which no longer exists: nor what it had, some of which may be evicted now."""
        self._work.discard_database(database)
        self.read.add(targets.databases(database[0]))
        for key in [key for key in self.changes.stubs if key[:2] == database]:
            del self.changes.stubs[key]

    def _differ(self, record: TableRecord, entry: TableEntry) -> bool:
        if record.statistics != self._cached.statistics(entry):
            return True
        if record.constraints is None:
            return False
        return self._cached.constraints(entry) != cached_form(record, record.constraints)

    def foreign_keys(self) -> None:
        """Reads tables whose foreign keys moved with the columns of the table that they refer to, or went with that
        table. Called after everything else that reads tables."""
        self._constraints_changed(self._constraints.moved(self.changes.tables, self._read))

    def _constraints_changed(self, keys: list[TableKey]) -> None:
        self.changes.touched |= {targets.table(*key) for key in keys}
        self._tables(keys, {})

    def write_ids(self, affected: Affected, more: Iterable[TableKey]) -> None:
        """Reads the write ids of `more` and of every transactional table that was read, or for which a write began or
        ended. Called last. If an open write has changed a table, or may have before its events were followed, readers
        with a write id list do not get the table from the cache until that write has ended.
        """
        for key in {key for _, key in affected.write_ids}.union(more) - self._transactional.keys():
            entry = self._cached.table(key)
            if key not in self._read and entry is not None and entry.transactional and key[0] == DEFAULT_CATALOG:
                self._transactional[key] = entry.table_id
        if not self._transactional:
            return
        written: defaultdict[TableKey, set[int]] = defaultdict(set)
        for key, write_id in affected.written:
            written[key].add(write_id)
        for old, new in affected.renamed:  # an open transaction goes on under the new name
            written[new] |= written.get(old, set())
        found = self._source.write_ids([key[1:] for key in self._transactional])
        for key, table_id in self._transactional.items():
            writes = found.get(key[1:])
            if writes is None:
                continue
            known = self._cached.write_ids_of(table_id)
            if known is None or key in self._unseen or UNKNOWN_WRITE in written[key]:
                writers = set(writes.open)
            else:
                writers = written[key].union(known.writers) & writes.open.keys()
            now = TableWriteIds(key, writes.valid.text(), tuple(sorted(writers)))
            if known is None or (known.text, known.writers) != (now.text, now.writers):
                self.changes.write_ids[table_id] = now
                if known is not None and not equivalent(known.text, now.text):
                    self.changes.touched.add(targets.table(*key))
            self.open_writes |= {(transaction, key) for transaction in writes.open.values()}
            if UNKNOWN_ID not in writes.open.values():
                self.settled.add(key)

    # --- databases and their lists

    def _all_databases(self) -> set[DatabaseKey]:
        """Compares the lists of databases; returns the databases that exist."""
        names = self._source.database_names()
        cached = self._cached_databases()
        catalogs = {catalog for catalog, _ in names} | {catalog for catalog, _ in cached}
        self._databases(set(names).symmetric_difference(cached))
        lists = {targets.databases(catalog) for catalog in catalogs}
        self.changes.complete |= lists
        self.read |= lists
        return set(names)

    def _databases(self, keys: Collection[DatabaseKey]) -> set[DatabaseKey]:
        """Reads database objects; returns the new ones, whose lists are not known."""
        if not keys:
            return set()
        found = self._source.databases(sorted(keys))
        new: set[DatabaseKey] = set()
        cached = self._cached_databases()
        for key in keys:
            record = found.get(key)
            self.read.add(targets.database(*key))
            self.changes.databases[key] = record
            if record is None:
                self._work.discard_database(key)
            elif key not in cached:
                new.add(key)
        return new

    def _compare(self, database: DatabaseKey, *, reload: bool = False) -> int:
        """Makes a list of tables complete; returns the number of tables that it changed.

        Tables that are new, have another id, or are to be reloaded are queued. Those that no longer exist are dropped.
        """
        self._work.lists.pop(database, None)
        self.read.add(targets.tables(*database))
        cached = self._cached.tables(*database)
        changed: list[TableKey] = []
        for name, table_type, table_id in self._source.table_names(*database):
            key, entry = (*database, name), cached.pop(name, None)
            known = entry is not None and table_id in (entry.table_id, UNKNOWN_ID)
            if key in self._read or (known and not reload):
                continue
            changed.append(key)
            self._leave_out(key, table_id, table_type)
        for name in cached:
            if (*database, name) not in self._read:
                changed.append((*database, name))
                self._drop((*database, name))
        if not self._remote(database):  # a remote database lists what its source has
            self.changes.complete.add(targets.tables(*database))
        return len(changed)

    def _cached_databases(self) -> Mapping[DatabaseKey, bool]:
        if self._databases_cached is None:
            self._databases_cached = self._cached.databases()
        return self._databases_cached

    def _remote(self, database: DatabaseKey) -> bool:
        record = self.changes.databases.get(database)
        return record.remote if record is not None else self._cached_databases().get(database, False)

    def _leave_out(self, key: TableKey, table_id: int, table_type: bytes) -> None:
        """Lists the table without loading it: it is loaded later, never, or when there is room."""
        if not self._selection.admits(key[1], key[2]):
            self._work.discard(key)
            reason = EXCLUDED
        elif not self.limits.admit:
            self._work.refuse(key)
            reason = FULL
        else:
            self._work.add([key])
            reason = LOADING
        self.changes.stubs[key] = TableStub(table_id, table_type, reason)

    # --- tables

    def _tables(self, keys: Iterable[TableKey], partitions: Mapping[TableKey, PartitionNames]) -> None:
        wanted = sorted(keys)
        for start in range(0, len(wanted), TABLES_PER_READ):
            self._some_tables(wanted[start : start + TABLES_PER_READ], partitions)

    def _some_tables(self, keys: list[TableKey], partitions: Mapping[TableKey, PartitionNames]) -> None:
        found = self._source.tables_of(keys)
        entries = {key: self._cached.table(key) for key in keys}
        wholesale = [
            record.table_id
            for key, record in found.items()
            if self._wholesale(record, entries[key], partitions.get(key, NO_NAMES))
        ]
        counts = self._source.partition_counts(wholesale) if wholesale else {}
        for key in keys:
            record = found.get(key)
            self._read.add(key)
            self.read.add(targets.table(*key))
            if record is None:
                self._drop(key)
                continue
            self._table(key, record, entries[key], partitions.get(key, NO_NAMES), counts.get(record.table_id))
        self._parts.read_waiting()

    def _wholesale(self, record: TableRecord, entry: TableEntry | None, names: PartitionNames) -> bool:
        """Whether to read all of its partitions, not only `names`."""
        if not record.partition_keys or not self._selection.admits(record.database, record.name):
            return False
        key = record.catalog, record.database, record.name
        same = entry is not None and entry.body is not None and entry.table_id == record.table_id
        if names is None or entry is None or not same or not self._understood(key, record):
            return True
        load = self._work.loads.get(key)
        if (load is not None and load.table_id == record.table_id) or self._stays_unfit(key, names):
            return False
        return not entry.partitions_loaded or len(names) > max(self.limits.chunk, entry.partition_count // NAMED_SHARE)

    def _stays_unfit(self, key: TableKey, names: PartitionNames) -> bool:
        """Has the table a partition that the cache cannot hold, which is not among those that may have changed?"""
        unfit = self._work.unfit.get(key)
        return unfit is not None and names is not None and unfit not in names

    def _understood(self, key: TableKey, record: TableRecord) -> bool:
        """Are the partition names that clients gave for this table spelled as the store spells them?"""
        keys = [name for name, _ in record.partition_keys]
        return all(is_name(name, keys) for name in self._called[key])

    def _drop(self, key: TableKey) -> None:
        self._work.discard(key)
        self.changes.stubs.pop(key, None)
        self.changes.tables[key] = None

    def _table(
        self,
        key: TableKey,
        record: TableRecord,
        entry: TableEntry | None,
        names: PartitionNames,
        count: int | None,
    ) -> None:
        """`count`: the number of partitions if all are read; None if not."""
        known = entry is not None and entry.body is not None
        room = self.limits.admit or known
        self._held_bytes += len(record.body)
        whole = count is not None or not record.partition_keys
        later = self._has_enough and whole and bool(self.changes.tables)
        if later or not room or not self._selection.admits(record.database, record.name):
            self._leave_out(key, record.table_id, record.table_type)
            return
        if count is not None and self._queue_loads and key in self._work.tables and self._parts.fits_next_time(count):
            self._put_off = True  # it stays queued, and comes first in the next step
            return
        self.changes.stubs.pop(key, None)
        self.changes.tables[key] = record
        if record.transactional and record.catalog == DEFAULT_CATALOG:  # write ids have no catalog
            self._transactional[key] = record.table_id
            if self._queue_loads:
                self._unseen.add(key)
        if not record.partition_keys:
            self._work.discard(key)
        elif count is not None:
            self._parts.whole(key, record, count)
        elif names and not self._stays_unfit(key, names):
            # Also names that a later chunk will have: over Thrift, what the snapshot has of them is known only once
            # they are read.
            self._parts.named(key, record, names)

    def _unread(self, key: TableKey, table_id: int) -> None:
        """Takes back what events had this step read of a table that is now left out."""
        changes = self.changes
        changes.tables.pop(key, None)
        changes.partitions = [change for change in changes.partitions if change.table_id != table_id]
        self._transactional.pop(key, None)

    def _continue_loads(self) -> None:
        """Reads the next chunks, also of a table that is named in this step. Both are of one snapshot, and a named
        partition is in the part that is loaded, or in this chunk or a later one."""
        for key, load in list(self._work.loads.items()):
            if self._parts.room <= 0:
                return
            self._next_chunk(key, load)

    def _next_chunk(self, key: TableKey, load: ChunkedLoad) -> None:
        record = self.changes.tables.get(key) or self._source.tables(*key[:2], [key[2]]).get(key[2])
        if record is None or record.table_id != load.table_id:
            self._work.add([key])  # an event about it comes in a later step, or none
            return
        if not self.limits.admit:
            self._unread(key, record.table_id)
            self._leave_out(key, record.table_id, record.table_type)
            return
        cost = load.cost or self._parts.cost(key, record)
        if cost is None:
            self.ended_loads.add(key)
            return
        limit = max(1, int(self._parts.room / cost))
        found = self._parts.chunk(key, record, after=load.after, limit=limit)
        last = found is None or len(found) < limit
        if last:
            self.ended_loads.add(key)
        if found is None:
            return
        self.changes.chunks.append(PartitionChunk(record.table_id, found, first=load.after is None, last=last))
        if last:
            self.read.add(targets.table(*key))
            self._work.discard(key)
        else:
            self._work.loads[key] = ChunkedLoad(load.table_id, found[-1].name, cost)
