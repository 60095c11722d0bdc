"""Fills an empty cache from a snapshot in files instead of from the store.

    is the cache usable? -> the newest snapshot of this store -> can the log be followed from there? -> commits, all at
    the snapshot's first event, each from files whose checksums are right

Afterwards the cache is as if this proxy had followed the log up to that event and then been stopped; the next step
follows from there. Nothing is served before that step is published (BEGAN_NS is 0), and not before the cursor has
reached START_EVENT, the event id that the store had before the first of these commits. That id is at or beyond the last
event of the snapshot.

Job: keep this order, and make commits of the right size. Must not know: file systems, sockets, pacing.

Invariants:
- Each file is read at most once, and its checksum is verified before anything in it is used.
- After a snapshot that cannot be used the cache is empty: SnapshotError says why, and the ordinary prewarm runs. If a
  file turns out to be damaged when others have been loaded, a commit removes what was loaded.
- Tables that are left out, for lack of room or because the load ended early, are marked as not loaded, and later steps
  load them from the store.

Owner: the follower's process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, PartitionChange, PartitionChunk, TableStub, TableWriteIds
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config.selection import Selection
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.follower import step
from hms_cache_proxy.follower.limits import TABLE_COST
from hms_cache_proxy.follower.load_queue import EXCLUDED, FULL, LOADING, UNFIT
from hms_cache_proxy.follower.step import LogState, Position, ResetReason
from hms_cache_proxy.snapshots.layers import Runs
from hms_cache_proxy.snapshots.manifest import Manifest
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.snapshots.reading import Reading
from hms_cache_proxy.snapshots.rows import TableRow
from hms_cache_proxy.store.protocol import (
    DatabaseKey,
    DatabaseRecord,
    PartitionRecord,
    RawStore,
    Snapshot,
    StoreIdentity,
    TableKey,
)

_REFUSED = {
    ResetReason.WENT_BACK: "the log ends at event {event_id}: the database is older than the snapshot",
    ResetReason.OTHER_HISTORY: "event {before} of the log is not the one that the snapshot knows: another or a restored"
    " database",
    ResetReason.PURGED: "the log no longer has event {before}, from which to follow it (its oldest is {oldest})",
}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoadScope:
    """What is cached, and how much room there is. `chunk`: partitions in one commit."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    max_bytes: int
    chunk: int


@dataclass(frozen=True, slots=True)
class Filled:
    """What was taken from a snapshot."""

    uri: str
    event_id: int
    tables: int
    partitions: int
    seconds: float


class BootstrapEnded(SnapshotError):
    """Raised by `alive`: this process is to end. What has been loaded is right, and stays."""


class Bootstrap:
    """One attempt. `alive` is called often, and may raise BootstrapEnded."""

    def __init__(
        self,
        uri: str,
        store: RawStore,
        writer: CacheWriter,
        page: StatePage,
        scope: LoadScope,
        alive: Callable[[], None],
    ) -> None:
        self._uri = uri
        self._store = store
        self._writer = writer
        self._page = page
        self._scope = scope
        self._alive = alive

    def run(self) -> Filled | None:
        """Fills the cache; returns None if the cache that is there can be used. Raises SnapshotError if no snapshot can
        be used."""
        began_s = time.monotonic()
        with self._store.snapshot() as source:
            if self._usable(source):
                return None
            scope = self._scope.include, self._scope.exclude
            place, manifest = choose(self._uri, self._store.identity, source, scope, _log_refused, self._alive)
            start_event = source.event_id
        self._page[Slot.START_EVENT] = self._page[Slot.UPSTREAM_EVENT] = start_event
        filling = _Filling(self._writer, manifest, self._scope, self._alive)
        filling.run(place)
        seconds = time.monotonic() - began_s
        return Filled(place.uri, manifest.before, filling.tables, filling.partitions, seconds)

    def _usable(self, source: Snapshot) -> bool:
        """Is there a cache from which the log can be followed?"""
        meta = self._writer.meta
        if not meta.cursor and not meta.databases:
            return False
        return refusal(source, Position(meta.cursor, meta.fingerprint)) is None


Scope = tuple[tuple[str, ...], tuple[str, ...]]
"""The settings `include` and `exclude`."""


def choose(
    uri: str,
    identity: StoreIdentity,
    source: Snapshot,
    scope: Scope,
    refused: Callable[[str, str], None],
    waiting: Callable[[], None] | None = None,
) -> tuple[Place, Manifest]:
    """The newest snapshot at a URI that may be used for this store; `refused`: told the URI of each that may not, and
    why; `waiting` as in Place. SnapshotError if there is none."""
    why = "there is no snapshot"
    for place in Place(uri, waiting).snapshots():
        try:
            manifest = place.manifest()
            if manifest is None:
                continue  # being made, or given up
            _check(place, manifest, identity, source, scope)
        except BootstrapEnded:
            raise
        except SnapshotError as error:
            why = str(error)
            refused(place.uri, why)
        else:
            return place, manifest
    raise SnapshotError(why)


def _log_refused(uri: str, why: str) -> None:
    _log.warning("snapshot not used", uri=uri, reason=why)


def _check(place: Place, manifest: Manifest, identity: StoreIdentity, source: Snapshot, scope: Scope) -> None:
    why = manifest.differs(identity, *scope)
    if why is None and source.event_id < manifest.after:
        why = _REFUSED[ResetReason.WENT_BACK].format(event_id=source.event_id)
    if why is None:
        why = refusal(source, Position(manifest.before, manifest.fingerprint))
    gone = place.gone(manifest) if why is None else None
    if gone is not None:
        why = f"it needs files of {gone}, which is not there any more"
    if why is not None:
        raise SnapshotError(why)


def refusal(source: Snapshot, position: Position) -> str | None:
    """Why a process that has not seen this position before cannot follow the log from it; None if it can."""
    at_cursor = source.fingerprint(position.cursor)
    log = LogState(source.event_id, source.oldest_event_id() if at_cursor is None else None, at_cursor)
    reset = step.continues(position, log, verified=False)
    if reset is None:
        return None
    return _REFUSED[reset.reason].format(event_id=log.event_id, before=position.cursor, oldest=log.oldest)


class _Filling:
    """The commits of one bootstrap."""

    def __init__(self, writer: CacheWriter, manifest: Manifest, scope: LoadScope, alive: Callable[[], None]) -> None:
        self._writer = writer
        self._manifest = manifest
        self._scope = scope
        self._alive = alive
        self._selection = Selection(scope.include, scope.exclude)
        self._lists: list[DatabaseKey] = []
        self._changes = self._empty()
        self._cost = 0
        self._admit = True
        self._ambiguous: set[int] = set()
        self.tables = 0
        self.partitions = 0

    def run(self, place: Place) -> None:
        """Loads everything. Raises SnapshotError if it cannot; then the cache is empty."""
        try:
            self._load(place)
        except BootstrapEnded:
            raise
        except SnapshotError:
            self._writer.commit(Changes(0, None, reset="bootstrap failed"))
            raise

    def _load(self, place: Place) -> None:
        admits = None if self._selection.everything else self._selection.admits
        reading = Reading(place, self._manifest, admits)
        self._changes.reset = "bootstrap"
        self._ambiguous = reading.twice()
        self._databases(reading.databases())
        runs = reading.runs()
        for row in reading.tables():
            self._table(row, runs)
            if self._cost >= self._scope.chunk:
                self._commit()
        if runs.table_id is not None:
            raise SnapshotError(f"it has partitions of table {runs.table_id}, but not this table")
        self._changes.complete |= {targets.tables(*key) for key in self._lists}
        self._commit()

    def _databases(self, records: Iterable[DatabaseRecord]) -> None:
        """All databases, in the first commit: a list of databases is complete or missing."""
        for record in records:
            key = record.catalog, record.name
            self._changes.databases[key] = record
            self._changes.complete.add(targets.databases(record.catalog))
            if not record.remote:  # a remote database lists what its source has
                self._lists.append(key)
        marks = self._manifest.marks
        if marks is not None:
            self._changes.marks = {targets.FUNCTIONS: marks.functions, targets.CATALOGS: marks.catalogs}
            if marks.databases is not None:
                self._changes.marks[targets.DESCRIPTIONS] = marks.databases
        self._commit()

    def _table(self, row: TableRow, runs: Runs) -> None:
        key = row.catalog, row.database, row.name
        admitted = self._selection.admits(row.database, row.name)
        self._cost += TABLE_COST
        wanted = row.record is not None and admitted
        if row.record is None or not wanted or not self._admit or row.table_id in self._ambiguous:
            reason = EXCLUDED if not wanted else LOADING if self._admit else FULL
            self._changes.stubs[key] = TableStub(row.table_id, row.table_type, reason)
            for _ in runs.of(row.table_id):
                pass
            return
        self._changes.tables[key] = row.record
        self.tables += 1
        if row.write_ids is not None:
            self._changes.write_ids[row.table_id] = TableWriteIds(key, row.write_ids.text, row.write_ids.open)
        if row.record.partition_keys:
            self._partitions(key, row, runs)

    def _partitions(self, key: TableKey, row: TableRow, runs: Runs) -> None:
        """In one commit if they fit, else in chunks."""
        table_id, some, first = row.table_id, list[PartitionRecord](), True
        why: str | None = None
        for run in runs.of(table_id):
            why = why or run.unfit
            if why is not None or not self._admit:
                some = []
                continue
            some += run.records()
            if len(some) >= self._scope.chunk:
                self._chunk(PartitionChunk(table_id, some, first=first))
                some, first = [], False
        if why is not None:
            _log.warning("partitions that cannot be held in the cache; they are relayed", table=_shown(key), reason=why)
            self._changes.not_loaded[table_id] = UNFIT
        elif not self._admit and not first:
            self._changes.tables.pop(key, None)
            self._changes.stubs[key] = TableStub(table_id, row.table_type, FULL)
        elif first:
            self._changes.partitions.append(PartitionChange(table_id, some, replace_all=True))
        else:
            self._changes.chunks.append(PartitionChunk(table_id, some, last=True))
        self._cost += len(some)
        self.partitions += len(some)

    def _chunk(self, chunk: PartitionChunk) -> None:
        self._changes.chunks.append(chunk)
        self.partitions += len(chunk.records)
        self._commit()

    def _commit(self) -> None:
        """May raise CacheFull; then later steps load the rest."""
        self._writer.commit(self._changes)
        self._changes, self._cost = self._empty(), 0
        self._admit = self._writer.cache_bytes < self._scope.max_bytes
        self._alive()

    def _empty(self) -> Changes:
        return Changes(self._manifest.before, self._manifest.fingerprint)


def _shown(key: TableKey) -> str:
    return b".".join(key).decode("utf-8", "replace")
