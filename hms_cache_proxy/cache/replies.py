"""Encoded replies that one worker keeps. They are built from the cache or learned from the metastore, and limited in
bytes.

An entry has the targets that it depends on, and the version of each. It is **valid** for a state of the cache in which
all these versions are the same. There are two ways to know that:

- `get` (0.3 us): the cache's sequence number is still the one for which the entry was last found valid;
- `revalidate` (0.7 us for each dependency): in a snapshot, no version is above that sequence number. Then the entry
  gets the snapshot's number. (A version is the number of the last commit that touched its target.)

A **learned** entry was the metastore's answer at some moment between sending and receiving. Its `versions` are from a
snapshot that was opened *before* the request was sent. It may be used only when the follower has confirmed a step that
began *after* the reply arrived (`learned_ns`): that step has everything that the answer can have shown, and if no
version has changed, the answer agrees with the cache. Until then `revalidate` returns None and keeps the entry.

An entry that agrees with the cache may depend on less than before (`lasting`): a change that is undone while the
metastore answers matters only until they agree.

**Large replies** are kept when they are asked for a second time: most are asked for only once, and each would evict
hundreds of small ones. A large reply from the metastore is kept at once if there is room.

Must not know: what a reply means, or who may see it (the key includes that). Owner: one worker; nothing is shared.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Final

from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.state import boottime_ns
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.metrics import CallCounts

ENTRY_OVERHEAD_BYTES: Final = 600  # roughly: objects around an entry, its place in the dictionary, its targets

LARGE_BYTES: Final = 64 << 10
ASKED_ONCE: Final = 4096  # large replies that are remembered as asked for once


class Stamp:
    """Marks a state of the cache and the page. It is equal only to itself."""

    __slots__ = ()


class UserVerdict:
    """One user may be shown something until this moment (CLOCK_BOOTTIME: rights may be revoked while the machine
    sleeps), as far as is known. `seq`: the state of the cache whose answer was compared with the metastore's."""

    __slots__ = ("seq", "until_ns")

    def __init__(self, seq: int, until_ns: int) -> None:
        self.seq = seq
        self.until_ns = until_ns


def stand(verdicts: tuple[UserVerdict, ...]) -> bool:
    """May their reader be answered now? Not without any."""
    now_ns = boottime_ns()
    for verdict in verdicts:
        if verdict.until_ns <= now_ns:
            return False
    return bool(verdicts)


@dataclass(frozen=True, slots=True, eq=False)
class HitLabel:
    """How a kept reply is sent and counted. `head`: the beginning of its message."""

    head: bytes
    counts: CallCounts
    method: str
    reason: str


@dataclass(slots=True)
class ReplyEntry:
    """One reply. After `put`, only `seq` changes here; the fields below it belong to the dispatcher.

    `label`: how it is served; `approved`, `valid`: in which states it was found good (methods/hot.py); `by_look`: only
    for a read that arrived before the last look began (consistency/looks.py); `verdicts`: with `authorization =
    "learned"`, all of them must stand (methods/verdicts.py).
    """

    body: bytes
    depends: tuple[Target, ...]
    versions: tuple[int, ...] = ()  # of a learned entry that was not found valid yet
    learned_ns: int = 0  # when the reply arrived, time.monotonic_ns(); 0: assembled from a snapshot
    seq: int = 0  # the last sequence number for which it was found valid; 0: none yet
    label: HitLabel | None = None
    approved: Stamp | None = None
    valid: Stamp | None = None
    by_look: bool = False
    verdicts: tuple[UserVerdict, ...] = ()
    lasting: tuple[Target, ...] | None = None  # what it depends on once it was found valid; None: on the same


def versions_of(snapshot: CacheSnapshot, depends: tuple[Target, ...]) -> tuple[int, ...]:
    """The versions of these targets in a state of the cache."""
    return tuple(map(snapshot.version, depends))


class ReplyCache:
    """Replies by key. Beyond `max_bytes` the least recently used are dropped."""

    __slots__ = (
        "_asked_once",
        "_entries",
        "_max_bytes",
        "_max_entry_bytes",
        "_reader",
        "cleared_ns",
        "evicted",
        "size_bytes",
    )

    def __init__(self, reader: CacheReader, max_bytes: int, max_entry_bytes: int | None = None) -> None:
        """`max_entry_bytes`: larger replies are not kept; by default a quarter of `max_bytes`."""
        self._reader = reader
        self._max_bytes = max_bytes
        self._max_entry_bytes = min(max_bytes, max_bytes // 4 if max_entry_bytes is None else max_entry_bytes)
        self._entries: OrderedDict[bytes, ReplyEntry] = OrderedDict()
        self._asked_once: dict[int, None] = {}  # hashes of keys, the oldest first
        self.size_bytes = 0
        self.evicted = 0
        self.cleared_ns = 0
        """When all were last forgotten: what was decided before that must not be kept."""

    def get(self, key: bytes) -> ReplyEntry | None:
        """The entry if it is valid for the published state of the cache, without opening a snapshot. None proves
        nothing."""
        entry = self._entries.get(key)
        if entry is None or entry.seq != self._reader.current_seq():
            return None
        self._entries.move_to_end(key)
        return entry

    @property
    def lookup(self) -> Callable[[bytes], ReplyEntry | None]:
        """`peek` without the cost of a method call; usable as long as this object."""
        return self._entries.get

    def touch(self, key: bytes) -> None:
        """Mark an existing entry as used."""
        self._entries.move_to_end(key)

    def peek(self, key: bytes) -> ReplyEntry | None:
        """The entry, valid or not."""
        return self._entries.get(key)

    def revalidate(self, key: bytes, snapshot: CacheSnapshot, began_ns: int) -> ReplyEntry | None:
        """The entry if it is valid in this snapshot. Drops it if it can never be valid again.

        `began_ns`: the page's BEGAN_NS, read before the snapshot was opened.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.seq != snapshot.seq:
            if not self._unchanged(entry, snapshot):
                self.drop(key)
                self._remember(key)
                return None
            if began_ns <= entry.learned_ns:
                return None
            entry.seq = snapshot.seq
        self._entries.move_to_end(key)
        return entry

    @staticmethod
    def _unchanged(entry: ReplyEntry, snapshot: CacheSnapshot) -> bool:
        if not entry.seq:
            return versions_of(snapshot, entry.depends) == entry.versions
        lasting = entry.depends if entry.lasting is None else entry.lasting
        return max(versions_of(snapshot, lasting), default=0) <= entry.seq

    def put(self, key: bytes, entry: ReplyEntry) -> bool:
        """Keeps a reply; False if it is too large, or large and asked for the first time."""
        size = self._size(key, entry)
        if len(entry.body) > self._max_entry_bytes or size > self._max_bytes:
            return False
        if len(entry.body) > LARGE_BYTES and not self._wanted(key, entry, size):
            return False
        self.drop(key)
        self._entries[key] = entry
        self.size_bytes += size
        while self.size_bytes > self._max_bytes:
            oldest, dropped = self._entries.popitem(last=False)
            self.size_bytes -= self._size(oldest, dropped)
            self.evicted += 1
        return True

    def _wanted(self, key: bytes, entry: ReplyEntry, size: int) -> bool:
        """Whether a large reply is asked for again, or comes from the metastore and evicts nothing."""
        if key in self._entries or hash(key) in self._asked_once:
            self._asked_once.pop(hash(key), None)
            return True
        self._remember(key)
        return entry.learned_ns > 0 and self.size_bytes + size <= self._max_bytes

    def _remember(self, key: bytes) -> None:
        """Remembers that a reply was asked for."""
        self._asked_once[hash(key)] = None
        if len(self._asked_once) > ASKED_ONCE:
            del self._asked_once[next(iter(self._asked_once))]

    def drop(self, key: bytes) -> None:
        """Forgets a reply, if it is kept."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size_bytes -= self._size(key, entry)

    def clear(self) -> None:
        """Forgets all replies."""
        self._entries.clear()
        self.size_bytes = 0
        self.cleared_ns = monotonic_ns()

    def __len__(self) -> int:
        return len(self._entries)

    @staticmethod
    def _size(key: bytes, entry: ReplyEntry) -> int:
        return len(key) + len(entry.body) + ENTRY_OVERHEAD_BYTES + sum(map(len, entry.depends))
