"""The loading cache of TTL mode: replies of a metastore whose log cannot be followed, shared by all workers.

Job: keep entries by key, with the time at which their load began; record loads in progress and invalidations; limit
each kind. Its rows are in ttl_layout.py, a write transaction in ttl_change.py. Must not know: methods, the form of
replies, sockets, the clock (callers pass the time), the ttl that a reader wants.

Invariants
- **Readers never see a load that began before an invalidation.** A load notes `seq` before its request is sent. An
  invalidation raises `seq` and writes it at its targets. Readers see an entry only if its number is not less than those
  of all targets that it depends on. So a late load may publish at any time, and an invalidation need not search for
  entries.
- **One load for many readers.** `begin` gives each key to one load at a time, across all processes; later readers wait,
  or use the entry that is there. Nobody waits for a refresh.
- Times are in ns, the same in all processes. Those of claims and holds are on CLOCK_MONOTONIC, which stops while the
  machine sleeps, so they last longer then. An entry's age counts from the beginning of its load, on CLOCK_BOOTTIME,
  which goes on while the machine sleeps; so an answer is never older than its age says.
- Entries and bytes of a kind stay within its bounds. The least recently used are evicted first (`touch` records uses,
  in batches).

The environment lasts for one run of the proxy: the first process of a start creates it (`create`), and keeps only the
holds of the last one. Owner: every worker reads and writes (a commit costs about 20 us), the supervisor flushes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from hms_cache_proxy.cache.environment import translated
from hms_cache_proxy.cache.lock_file import lengthen_lock
from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.cache.ttl_change import Bounds, TtlChange
from hms_cache_proxy.cache.ttl_claims import FOREVER, Claim, claim_all, claim_of, end_claims, stands
from hms_cache_proxy.cache.ttl_file import open_ttl
from hms_cache_proxy.cache.ttl_holds import add_hold, emptied, forget_holds, is_held, keep_holds, left_holds, note_boot
from hms_cache_proxy.cache.ttl_layout import (
    ABSENT,
    DATABASES,
    ENTRY,
    NUMBER,
    Sizes,
    last_invalidation,
    read_counters,
    read_sizes,
    target_key,
)
from hms_cache_proxy.config.ttl import TtlSection

ENTRY_OVERHEAD_BYTES: Final = 150
"""Roughly, for each entry: keys, numbers, free room in pages."""


class EntryKind(IntEnum):
    """The kind of an entry. Each has its own bounds, times and counters."""

    DATABASE = 1
    DATABASE_NAMES = 2
    TABLE = 3
    TABLE_NAMES = 4
    VIEW_NAMES = 5
    PARTITION = 6
    PARTITION_NAMES = 7
    PARTITION_FILTER = 8
    TABLE_STATISTICS = 9
    PARTITION_STATISTICS = 10
    CONSTRAINTS = 11
    FUNCTIONS = 12
    ROLES = 13
    ROLE_GRANTS = 14
    TABLE_PRIVILEGES = 15

    @property
    def label(self) -> str:
        """The name in settings, metrics and documents."""
        return self.name.lower()


class TtlEntry(NamedTuple):
    """An entry: the reply (`absent`: there is no such object), and when its load began (CLOCK_BOOTTIME)."""

    body: bytes
    loaded_ns: int
    absent: bool


class NewEntry(NamedTuple):
    """One reply to publish under its key. Body None: the object no longer exists, and this is not remembered."""

    kind: EntryKind
    key: bytes
    depends: tuple[Target, ...]
    body: bytes | None
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """A load that has begun. What it publishes is as of `seq` and of that moment: `began_ns` on CLOCK_MONOTONIC,
    `loaded_ns` on CLOCK_BOOTTIME. `claimed`: the keys that it loads; `theirs`: keys that another load has claimed.
    `claim`: as what."""

    seq: int
    began_ns: int
    loaded_ns: int
    claimed: tuple[bytes, ...]
    theirs: tuple[bytes, ...]
    claim: Claim


def bounds_of(section: TtlSection) -> dict[EntryKind, Bounds]:
    """The bounds that the settings give each kind."""
    return {kind: Bounds(*section.bounds(kind.label)) for kind in EntryKind}


def key_of(kind: EntryKind, user: bytes, *parts: bytes) -> bytes:
    """The key of an object: a 128-bit hash of its kind, the user that it was shown to, and its names."""
    digest = blake2b(digest_size=16)
    for part in (bytes((kind,)), user, *parts):
        digest.update(NUMBER.pack(len(part)))
        digest.update(part)
    return digest.digest()


class TtlSnapshot:
    """One state of the cache. Short-lived."""

    __slots__ = ("_databases", "_floor", "_txn", "seq")

    def __init__(self, txn: Any, databases: Mapping[bytes, Any]) -> None:
        self._txn = txn
        self._databases = databases
        self.seq, _, _, self._floor = read_counters(txn, databases)

    def since(self, key: bytes, seq: int) -> TtlEntry | None:
        """The entry, if its load began at this `seq` or later."""
        row = self._txn.get(key, db=self._databases[b"entries"])
        if row is None:
            return None
        began_seq, loaded_ns, flags = ENTRY.unpack_from(row)
        return TtlEntry(row[ENTRY.size :], loaded_ns, bool(flags & ABSENT)) if began_seq >= seq else None

    def invalidated(self, depends: Iterable[Target]) -> int:
        """The `seq` of the last invalidation of any of these."""
        return max(self._floor, last_invalidation(self._txn, self._databases, depends, self.seq))

    def is_any_invalidated(self, prefix: Target) -> bool:
        """Was a target that begins with `prefix` ever invalidated?"""
        prefix = target_key(prefix)
        with self._txn.cursor(self._databases[b"invalid"]) as cursor:
            return bool(cursor.set_range(prefix) and cursor.key().startswith(prefix))


class TtlCache:
    """The environment. One object per process."""

    def __init__(
        self,
        path: Path,
        bounds: Mapping[EntryKind, Bounds],
        started: Callable[[int], int | None],
        pid: int | None = None,
    ) -> None:
        """`started` returns when a process was started (consistency/processes.py); so claims of a dead one are
        recognised."""
        self._path = path
        self._bounds = bounds
        self._started = started
        self._pid = os.getpid() if pid is None else pid
        self._start = started(self._pid) or 0
        self._evicted: dict[EntryKind, int] = {}
        self._open()

    def _open(self) -> None:
        total = sum(bound.bytes for bound in self._bounds.values())
        self._env, self._dbs, self.lock = open_ttl(self._path, 2 * total + (256 << 20), DATABASES)

    @classmethod
    def create(
        cls,
        path: Path,
        bounds: Mapping[EntryKind, Bounds],
        started: Callable[[int], int | None],
        *,
        now_ns: int = 0,
        request_timeout_ns: int = 0,
    ) -> TtlCache:
        """Creates an empty cache. Called by the first process of a start. What writes of the last run hold stays held,
        at most for the request timeout; everything, if it is not known."""
        left, until_ns = left_holds(path, b"holds", now_ns), now_ns + request_timeout_ns
        if path.exists():
            emptied(path)
        made = cls(path, bounds, started)
        if left is None:
            made.hold([ALL], until_ns, now_ns)
        elif left:
            with made._change() as change:
                keep_holds(change.txn, made._dbs[b"holds"], left, change.next_hold(), until_ns)
        note_boot(path)
        return made

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()

    def end(self) -> None:
        """The run ends in order: leaves nothing but what is held. No other process may have it open."""
        with translated(self._path), self._env.begin() as txn:
            held = txn.stat(self._dbs[b"holds"])["entries"]
        self.close()
        if not held:
            shutil.rmtree(self._path, ignore_errors=True)

    def renew(self) -> None:
        """Opens the environment with a new lock file. No other process may have it open."""
        lengthen_lock(self._path)
        self._env.close()
        (self._path / "lock.mdb").unlink(missing_ok=True)
        self._open()

    @contextmanager
    def snapshot(self) -> Iterator[TtlSnapshot]:
        """Opens a snapshot."""
        with translated(self._path), self._env.begin() as txn:
            yield TtlSnapshot(txn, self._dbs)

    def moved(self) -> int:
        """A number that changes with every commit."""
        number: int = self._env.info()["last_txnid"]
        return number

    # Loads

    def begin(
        self,
        keys: Sequence[bytes],
        now_ns: int,
        deadline_ns: int,
        *,
        alone: bool = False,
        latest_ns: int = FOREVER,
        refresh: bool = False,
    ) -> Load:
        """Begins a load of these keys, before its request is sent. The caller gives it `loaded_ns`. `alone`: claims
        nothing if another load has claimed one of them. Loads that began after `latest_ns` do not count: their claims
        are taken over. `refresh`: nobody waits for it; another load, but no other refresh, may take over its claims."""
        started = cache(self._started)  # a file is read for each process
        claim, claims = Claim(self._pid, self._start, now_ns, deadline_ns, refresh), self._dbs[b"claims"]
        claimed: list[bytes] = []
        theirs: list[bytes] = []
        with self._change() as change:
            for key in dict.fromkeys(keys):
                others = claim_of(change.txn, claims, key)
                (theirs if stands(others, claim, started, latest_ns) else claimed).append(key)
            if alone and theirs:
                claimed = []
            claim_all(change.txn, claims, claimed, claim)
        return Load(change.seq, now_ns, now_ns, tuple(claimed), tuple(theirs), claim)

    def is_claimed(self, keys: Iterable[bytes], now_ns: int, latest_ns: int) -> bool:
        """Would a load that begins now find one of these claimed by another, which began no later than `latest_ns`?"""
        by, found = Claim(self._pid, self._start, now_ns, FOREVER, refresh=False), cache(self._started)
        with translated(self._path), self._env.begin() as txn:
            return any(stands(claim_of(txn, self._dbs[b"claims"], key), by, found, latest_ns) for key in keys)

    def publish(self, load: Load, items: Iterable[NewEntry]) -> int:
        """Publishes what a load found, except entries that a write in progress may change. Returns the number of
        entries that were stored."""
        put = 0
        with self._change() as change:
            for item in items:
                if not is_held(change.txn, self._dbs[b"holds"], item.depends, load.began_ns):
                    put += self._put(change, load, item)
            end_claims(change.txn, self._dbs[b"claims"], load.claimed, load.claim)
        return put

    def release(self, load: Load) -> None:
        """Ends a load that found nothing to keep."""
        if load.claimed:
            with self._change() as change:
                end_claims(change.txn, self._dbs[b"claims"], load.claimed, load.claim)

    def touch(self, keys: Iterable[bytes]) -> None:
        """These entries were used; they are evicted last."""
        with self._change() as change:
            for key in keys:
                change.touch(key)

    def forget_dead_readers(self) -> None:
        """Clears slots of killed processes, which would keep pages from being reused. Called now and then."""
        with translated(self._path):
            self._env.reader_check()

    # Writes of clients

    def hold(self, targets: Sequence[Target], until_ns: int, now_ns: int) -> tuple[bytes, ...]:
        """A write is about to be sent: invalidates its targets, and lets nothing that depends on them be published
        before `end_hold`, nor what a load finds that begins before `until_ns`, the request timeout from
        now. Returns the holds."""
        with self._change() as change:
            change.invalidate(targets)
            forget_holds(change.txn, self._dbs[b"holds"], now_ns - max(0, until_ns - now_ns))
            return add_hold(change.txn, self._dbs[b"holds"], targets, change.next_hold(), until_ns)

    def end_hold(self, holds: Iterable[bytes], targets: Sequence[Target]) -> None:
        """The write has ended, with or without success: invalidates its targets again."""
        with self._change() as change:
            for key in holds:
                change.txn.delete(key, db=self._dbs[b"holds"])
            change.invalidate(targets)

    def invalidate(self, targets: Sequence[Target]) -> None:
        """What was loaded before does not count for these targets any more."""
        with self._change() as change:
            change.invalidate(targets)

    # Figures

    def sizes(self) -> dict[EntryKind, Sizes]:
        """The sizes of every kind, also of empty ones. Invalidated entries count until they are replaced or evicted."""
        with translated(self._path), self._env.begin() as txn:
            return {kind: read_sizes(txn, self._dbs, kind) for kind in EntryKind}

    def take_evicted(self) -> dict[EntryKind, int]:
        """How many entries this process has evicted since the last call."""
        evicted, self._evicted = self._evicted, {}
        return evicted

    # inside a transaction

    @contextmanager
    def _change(self) -> Iterator[TtlChange]:
        with translated(self._path), self._env.begin(write=True) as txn:
            change = TtlChange(txn, self._dbs)
            yield change
            change.write()

    def _put(self, change: TtlChange, load: Load, item: NewEntry) -> bool:
        """Stores an entry. False if it is older than the one that is there, already invalidated, empty, or larger than
        its kind may be."""
        if load.seq < max(change.floor, change.invalidated(item.depends)):
            return False
        entries = self._dbs[b"entries"]
        known = change.txn.get(item.key, db=entries)
        if known is not None and ENTRY.unpack_from(known)[1] > load.loaded_ns:
            return False
        change.drop(item.key)
        bound = self._bounds[item.kind]
        size = len(item.body or b"") + ENTRY_OVERHEAD_BYTES
        if item.body is None or size > bound.bytes or not bound.entries:
            return False
        flags = ABSENT if item.absent else 0
        change.txn.put(item.key, ENTRY.pack(load.seq, load.loaded_ns, flags) + item.body, db=entries)
        change.place(item.key, item.kind, size)
        change.count(item.kind, 1, size)
        evicted = change.make_room(item.kind, bound)
        if evicted:
            self._evicted[item.kind] = self._evicted.get(item.kind, 0) + evicted
        return True
