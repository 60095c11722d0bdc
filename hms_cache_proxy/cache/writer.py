"""CacheWriter: the one writer of the shared cache. One `commit` is one step of the follower in one LMDB transaction.

The transaction has changed and dropped objects, versions of all touched targets, completeness of lists, held targets,
the cursor with its fingerprint, the done ticket, the generation, and the commit's sequence number `seq`. This number is
unique and grows, even when the file is rebuilt (it starts at the clock). The state page is written only after the
transaction (cache/state.py says in which order).

If the writer dies before LMDB's commit, readers see nothing of the step; after it, they see all of it. An unfinished
load in chunks is forgotten at the next open, and begins again.

Generations: a Reset takes a new generation number in the commit that moves the cursor. Every row of the old generation
is invisible at once; `collect` deletes them in slices afterwards.

Errors: CacheFull if the step would exceed `max_bytes` (then nothing was written), or if LMDB's map is full; CacheError
for all other errors of LMDB. After an error nothing of the step is in the cache, and the writer can be used again.
Owner: the follower's process, one thread. Must not know: events, snapshots, sockets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from struct import error as StructError
from typing import Any, Final, TypeVar

import lmdb

from hms_cache_proxy.cache import environment as files
from hms_cache_proxy.cache import layout, targets
from hms_cache_proxy.cache.attached_rows import AttachedRows
from hms_cache_proxy.cache.attachments import constraints_pack
from hms_cache_proxy.cache.changes import Changes, TableStub
from hms_cache_proxy.cache.compaction import compacted
from hms_cache_proxy.cache.environment import Environment
from hms_cache_proxy.cache.garbage import collect_slice
from hms_cache_proxy.cache.identity import identity_row
from hms_cache_proxy.cache.layout import Meta
from hms_cache_proxy.cache.listings import Listings
from hms_cache_proxy.cache.reuse import failure, forget_loads, initialise, open_trusted
from hms_cache_proxy.cache.sets import Filling, Interner, PartitionSets, SetOwner
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.statistics import table_pack
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.cache.write_id_rows import WriteIdRows
from hms_cache_proxy.errors import CacheError, CacheFull
from hms_cache_proxy.store.protocol import DatabaseKey, DatabaseRecord, StoreIdentity, TableKey, TableRecord

_T = TypeVar("_T")

KEPT_INTERNERS: Final = 64  # sets whose shared rows the writer remembers between commits
READER_CHECK_NS: Final = 5_000_000_000  # how often slots of dead readers are cleared
MAX_VERSIONS: Final = 2_000_000  # rows of `versions`; beyond them every target is touched and the rows are deleted


class CacheWriter:
    """The open cache. `rebuilt`: why an existing file was not used; None if it was used, or there was none.
    `transactions`: the open transactions, from the last commit that had any; None if none had."""

    def __init__(self, environment: Environment, page: StatePage, *, max_bytes: int, rebuilt: str | None) -> None:
        self._environment = environment
        self._page = page
        self._max_bytes = max_bytes
        self._interners: dict[int, Interner] = {}
        self._fillings: dict[int, Filling] = {}
        self._checked_ns = 0
        self.rebuilt = rebuilt
        with environment.env.begin(write=True) as txn:
            self.meta = Meta.unpack(txn.get(layout.META_KEY, db=environment.meta))
            self.transactions: bytes | None = txn.get(layout.TRANSACTIONS_KEY, db=environment.meta)
            forget_loads(environment, txn, self.meta)
        self._publish()

    @classmethod
    def open(
        cls,
        path: Path,
        page: StatePage,
        identity: StoreIdentity,
        *,
        scope: str = "",
        max_bytes: int = 0,
        map_size: int = 0,
    ) -> CacheWriter:
        """Opens the cache of this store. If it cannot be used, it is moved aside and rebuilt (`rebuilt` says why).
        Raises CacheError; if damage is found only now, the next call rebuilds it.

        `scope`: the settings that decide what is cached (include, exclude); a cache of another scope cannot be used.
        `max_bytes` 0: unlimited. `map_size` 0: chosen from `max_bytes`.
        """
        size = map_size or (2 * max_bytes + files.RESERVE_BYTES if max_bytes else files.UNBOUNDED_MAP)
        wanted = identity_row(identity, scope)
        environment, reason = open_trusted(path, size, wanted)
        if environment is None:
            files.move_aside(path)
            environment = files.open_for_writing(path, size)
        else:
            environment = compacted(environment, size)
        try:
            initialise(environment, wanted, page)
            return cls(environment, page, max_bytes=max_bytes, rebuilt=reason)
        except BaseException as error:
            environment.detach(writer=True)  # else this process could not open it again
            if isinstance(error, lmdb.Error | StructError):
                raise failure(path, error) from error
            raise

    def commit(self, changes: Changes) -> int:
        """Applies one step; returns its sequence number. Raises CacheFull or CacheError; then nothing has changed."""
        if changes.cursor < self.meta.cursor and changes.reset is None:
            raise AssertionError(f"cursor back from {self.meta.cursor} to {changes.cursor} without a reset")
        self._admit(changes)
        fillings = {number: replace(filling) for number, filling in self._fillings.items()}
        notes = self.transactions if changes.transactions is None else changes.transactions

        def apply(txn: Any) -> Meta:
            if txn.get(layout.META_KEY, db=self._environment.meta) != self.meta.pack():
                raise CacheError("another process has written to the cache; this process must reopen it")
            if notes is not None and notes != self.transactions:
                txn.put(layout.TRANSACTIONS_KEY, notes, db=self._environment.meta)
            return _Step(self._environment, txn, self.meta, self._interners, self._fillings).apply(changes)

        try:
            self.meta = self._transact(apply)
        except BaseException:
            self._fillings = fillings
            raise
        self.transactions = notes
        files.lengthen(self._environment.env, self._environment.path)
        self._publish()
        self._forget_interners()
        self._clear_dead_readers()
        return self.meta.seq

    def collect(self, rows: int = 2000) -> bool:
        """Deletes at most about `rows` rows that no reader can see any more; True if some are left."""
        return self._transact(lambda txn: collect_slice(self._environment, txn, self.meta, rows))

    def filled(self) -> dict[int, bytes]:
        """The sets that are being filled in chunks, and the last name in each."""
        return {number: one.last for number, one in self._fillings.items() if one.last is not None}

    def counts(self) -> dict[str, int]:
        """Loaded objects by kind."""
        return {
            "databases": self.meta.databases,
            "tables": self.meta.tables,
            "partitions": self.meta.partitions,
        }

    def write_id_counts(self) -> dict[str, int]:
        """Transactional tables with write ids, and those of them that an open transaction has changed."""
        return {"transactional_tables": self.meta.write_ids, "tables_being_written": self.meta.being_written}

    @property
    def cache_bytes(self) -> int:
        """Bytes of the file that are in use. Free pages, which later commits use, do not count."""
        return files.used_bytes(self._environment)

    @property
    def bytes_per_partition(self) -> float:
        """The mean size of a partition, over all tables."""
        with self._environment.env.begin() as txn:
            stats = [txn.stat(db) for db in (self._environment.partitions, self._environment.statistics)]
        return float(sum(map(files.bytes_in, stats)) / max(1, stats[0]["entries"]))

    def check(self) -> None:
        """Raises CacheError if the cache must be rebuilt, because something has happened to its lock file, or a reader
        has found it damaged."""
        self._environment.check()
        reason = files.condemned(self._environment.path)
        if reason is not None:
            raise CacheError(f"the cache must be rebuilt: {reason}")

    def close(self) -> None:
        """Syncs everything to disk, marks the file as clean, and closes it."""
        files.mark_clean(self._environment.env, self._environment.path)
        self._environment.detach(writer=True)

    def _admit(self, changes: Changes) -> None:
        if not self._max_bytes:
            return
        growth = changes.admitted_bytes()
        if growth and self.cache_bytes + growth > self._max_bytes:
            raise CacheFull(f"the cache has reached its limit of {self._max_bytes} bytes")

    def _transact(self, work: Callable[[Any], _T]) -> _T:
        try:
            with self._environment.env.begin(write=True) as txn:
                return work(txn)
        except BaseException as error:
            self._interners.clear()
            if isinstance(error, lmdb.MapFullError):
                raise CacheFull("the cache's map is full") from error
            if isinstance(error, lmdb.Error | StructError):
                raise failure(self._environment.path, error) from error
            raise

    def _publish(self) -> None:
        page, meta = self._page, self.meta
        page[Slot.CACHE_SEQ] = meta.seq
        page[Slot.GENERATION] = meta.generation
        page[Slot.CURSOR] = meta.cursor
        page[Slot.DONE_TICKET] = meta.done_ticket
        page[Slot.CACHE_FILE] = self._environment.inode

    def _forget_interners(self) -> None:
        for number in list(self._interners)[:-KEPT_INTERNERS]:
            if number not in self._fillings:
                del self._interners[number]

    def _clear_dead_readers(self) -> None:
        now_ns = time.monotonic_ns()
        if now_ns - self._checked_ns > READER_CHECK_NS:
            self._checked_ns = now_ns
            self._environment.env.reader_check()


class _Step:
    """One commit being applied."""

    __slots__ = (
        *("_attached", "_counts", "_environment", "_listings", "_meta", "_objects", "_sets", "_touched", "_txn"),
        *("_vacated", "_write_ids"),
    )

    def __init__(
        self,
        environment: Environment,
        txn: Any,
        meta: Meta,
        interners: dict[int, Interner],
        fillings: dict[int, Filling],
    ) -> None:
        self._environment = environment
        self._objects = environment.objects
        self._txn = txn
        self._meta = replace(meta, seq=meta.seq + 1)
        self._touched: set[Target] = set()
        self._vacated: dict[int, bytes] = {}  # table ids that lost their row, and under which name
        self._counts = {"databases": 0, "tables": 0}
        self._listings = Listings(txn, environment.objects, meta.generation)
        self._write_ids = WriteIdRows(txn, environment.objects, meta.generation)
        self._attached = AttachedRows(txn, environment.objects, meta.generation)
        self._sets = PartitionSets(environment, txn, meta.generation, meta.next_set, interners, fillings)

    def apply(self, changes: Changes) -> Meta:
        """Applies everything in `changes`; writes and returns the new meta record."""
        if changes.reset is not None:
            self._reset(changes)
        self._touched.update(changes.touched, changes.touched_by_objects())
        for key, database in changes.databases.items():
            self._database(key, database)
        for name, table in changes.tables.items():
            self._table(name, table)
        for name, stub in changes.stubs.items():
            self._stub(name, stub)
        kept = {record.table_id for record in changes.tables.values() if record is not None}
        for table_id, owner in self._vacated.items():
            self._sets.drop(table_id, owner)
            if table_id not in kept:
                self._write_ids.put(table_id, None)
                self._attached.remove(table_id)
        for table_id, write_ids in changes.write_ids.items():
            owner = targets.SEPARATOR.join(write_ids.key)
            self._write_ids.put(table_id, layout.WriteIdsRow(owner, write_ids.text, write_ids.writers))
        self._partitions(changes)
        self._completeness(changes)
        self._listings.finish()
        self._touched |= self._listings.changed
        self._versions()
        return self._finish(changes)

    def _reset(self, changes: Changes) -> None:
        """All old rows are invisible from this commit on, and every version is raised."""
        meta = self._meta
        self._meta = replace(meta, generation=meta.generation + 1)
        self._meta = replace(self._meta, databases=0, tables=0, partitions=0, write_ids=0, being_written=0)
        self._raise_floor()
        self._sets = self._sets.of_generation(meta.generation + 1)
        self._listings = Listings(self._txn, self._objects, meta.generation + 1)
        self._write_ids = WriteIdRows(self._txn, self._objects, meta.generation + 1)
        self._attached = AttachedRows(self._txn, self._objects, meta.generation + 1)

    def _prefix(self, tag: bytes) -> bytes:
        return layout.objects_prefix(self._meta.generation, tag)

    def _put(self, tag: bytes, name: bytes, value: bytes) -> bool:
        return layout.store(self._txn, self._objects, self._prefix(tag), name, value)

    def _database(self, key: DatabaseKey, record: DatabaseRecord | None) -> None:
        name = targets.SEPARATOR.join(key)
        if record is not None:
            row = bytes((layout.REMOTE if record.remote else 0,)) + record.body
            self._counts["databases"] += self._put(b"d", name, row)
            return
        self._counts["databases"] -= layout.remove(self._txn, self._objects, self._prefix(b"d"), name)
        below = layout.names_under(self._txn, self._objects, self._prefix(b"n"), name + targets.SEPARATOR)
        for full, _ in below:
            self._drop_table(full)
            self._touched.add(targets.table_of_key(full))
        self._touched.add(targets.tables(*key))
        self._set_complete(targets.tables(*key), False)

    def _table(self, key: TableKey, record: TableRecord | None) -> None:
        name = targets.SEPARATOR.join(key)
        if record is None:
            self._drop_table(name)
            return
        self._vacate(name, record.table_id)
        self._counts["tables"] += self._put(b"t", name, _table_row(record))
        self._listings.loaded(name, record)
        constraints = b"" if record.constraints is None else constraints_pack(name, record.constraints)
        self._attached.put(record.table_id, constraints, table_pack(record.statistics or ()))
        if record.partition_keys:
            self._sets.adopt(record.table_id, name)

    def _stub(self, key: TableKey, stub: TableStub) -> None:
        name = targets.SEPARATOR.join(key)
        self._drop_table(name)
        self._listings.stub(name, stub)

    def _drop_table(self, name: bytes) -> None:
        self._vacate(name, None)
        self._counts["tables"] -= layout.remove(self._txn, self._objects, self._prefix(b"t"), name)
        self._listings.remove(name)

    def _vacate(self, name: bytes, successor: int | None) -> None:
        row = layout.find(self._txn, self._objects, self._prefix(b"t"), name)
        if row is not None:
            table_id = layout.TABLE_ROW.unpack_from(row)[0]
            if table_id != successor:
                self._vacated[table_id] = name

    def _partitions(self, changes: Changes) -> None:
        for table_id, reason in changes.not_loaded.items():
            self._touch_owner(self._sets.mark_not_loaded(table_id, reason))
        for change in changes.partitions:
            owner = self._owner(change.table_id)
            if change.replace_all:
                self._sets.replace_all(change.table_id, change.upserts, owner)
            else:
                self._sets.change(change.table_id, change.upserts, change.deletes, owner)
            self._touch_owner(owner.name)
        for chunk in changes.chunks:
            owner = self._owner(chunk.table_id)
            self._sets.fill(chunk.table_id, chunk.records, owner, first=chunk.first, last=chunk.last)
            if chunk.last:
                self._touch_owner(owner.name)

    def _touch_owner(self, owner: bytes | None) -> None:
        if owner is not None:
            self._touched.add(targets.table_of_key(owner))

    def _owner(self, table_id: int) -> SetOwner:
        """The table that uses a set."""
        row = self._sets.get(table_id)
        assert row is not None, f"partitions of table {table_id}, which is not in the cache or has no partition keys"
        table = layout.find(self._txn, self._objects, self._prefix(b"t"), row.owner)
        assert table is not None, f"the set of table {table_id} has an owner that is not loaded"
        _, flags, kind, location, keys = layout.TABLE_ROW.unpack_from(table)
        at = layout.TABLE_ROW.size + kind
        end = at + location
        directory = table[at:end] + b"/" if flags & layout.HAS_LOCATION else None
        return SetOwner(row.owner, directory, layout.partition_keys_unpack(table[end : end + keys]))

    def _completeness(self, changes: Changes) -> None:
        for target in changes.complete:
            self._set_complete(target, True)
            self._touched.add(target)
        for target, mark in changes.marks.items():
            self._set_complete(target, mark is not None, mark or b"")
            self._touched.add(target)

    def _set_complete(self, target: Target, complete: bool, mark: bytes = b"") -> None:
        key = layout.version_key(self._prefix(b"c") + target)
        if complete:
            self._txn.put(key, mark, db=self._objects)
        else:
            self._txn.delete(key, db=self._objects)

    def _versions(self) -> None:
        """Gives every touched target this commit's sequence number. ALL raises the floor under all versions."""
        versions = self._environment.versions
        if targets.ALL in self._touched or self._txn.stat(versions)["entries"] > MAX_VERSIONS:
            self._raise_floor()
            return
        row = layout.SEQ.pack(self._meta.seq)
        listed = {listing for target in self._touched if (listing := targets.members_of(target)) is not None}
        for target in self._touched | listed:
            self._txn.put(layout.version_key(target), row, db=versions)

    def _raise_floor(self) -> None:
        self._meta = replace(self._meta, floor_version=self._meta.seq)
        self._txn.put(layout.SWEEP_VERSIONS, b"", db=self._environment.garbage)

    def _finish(self, changes: Changes) -> Meta:
        meta = replace(
            self._meta,
            cursor=changes.cursor,
            fingerprint=changes.fingerprint,
            held=changes.held,
            done_ticket=max(changes.done_ticket, self._meta.done_ticket),
            next_set=self._sets.next_set,
            databases=self._meta.databases + self._counts["databases"],
            tables=self._meta.tables + self._counts["tables"],
            write_ids=self._meta.write_ids + self._write_ids.known,
            being_written=self._meta.being_written + self._write_ids.being_written,
            partitions=self._meta.partitions + self._sets.counted,
        )
        self._txn.put(layout.META_KEY, meta.pack(), db=self._environment.meta)
        return meta


def _table_row(record: TableRecord) -> bytes:
    flags = (
        (layout.TRANSACTIONAL if record.transactional else 0)
        | (layout.MATERIALIZED_VIEW if record.materialized_view else 0)
        | (layout.HAS_LOCATION if record.location is not None else 0)
        | (layout.CONSTRAINTS_KNOWN if record.constraints is not None else 0)
        | (layout.STATISTICS_KNOWN if record.statistics is not None else 0)
    )
    keys = layout.partition_keys_pack(record.partition_keys)
    location = record.location or b""
    fixed = layout.TABLE_ROW.pack(record.table_id, flags, len(record.table_type), len(location), len(keys))
    return b"".join((fixed, record.table_type, location, keys, record.body))
