"""Encoded replies that one worker keeps, made from objects or learned from the metastore, limited in bytes.

An entry carries what it depends on: targets, and the version that each had. It is **valid** for a state of the cache in
which all those versions are the same. Two ways to know that:

- the fast one (`get`, 0.3 us): the cache's sequence number is still the one for which the entry was last found valid;
- `revalidate` (0.7 us per dependency): no version in a snapshot is above that sequence number; note the snapshot's.
  (A version is the number of the last commit that touched its target.)

A **learned** entry was the metastore's answer at some moment between sending and receiving. Its `versions` are those
from a snapshot that was opened *before* the request left, and it may be used only once the follower has confirmed a
step that began *after* the reply arrived (`learned_ns`): that step holds everything the answer can have shown; if it
changed no version, the answer is what the cache's state would give. Until then `revalidate` says no and keeps the
entry.

**Large replies** are kept when they are asked for the second time: most are never asked for again, and each would evict
hundreds of small ones. One that the metastore gave is kept at once while there is room.

Must not know: what a reply means, who may see it (the key says so). Owner: one worker; nothing is shared.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.metrics import CallCounts

ENTRY_OVERHEAD_BYTES: Final = 600  # objects around an entry, its place in the dictionary and its targets, roughly

LARGE_BYTES: Final = 64 << 10
ASKED_ONCE: Final = 4096  # large replies of which it is remembered that they were asked for


class Stamp:
    """Marks a state of cache and page; it is equal only to itself."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class HitLabel:
    """How a kept reply is served: the beginning of its message, and how it is counted."""

    head: bytes
    counts: CallCounts
    method: str
    reason: str


@dataclass(slots=True)
class ReplyEntry:
    """One reply. Only `seq` changes after it was put, and what is the dispatcher's own.

    `label` says how it is served; `approved` and `valid` in which states it was found good (methods/hot.py).
    """

    body: bytes
    depends: tuple[Target, ...]
    versions: tuple[int, ...] = ()  # of a learned one, which no state is known to fit yet
    learned_ns: int = 0  # when the reply arrived, time.monotonic_ns(); 0: assembled from a snapshot
    seq: int = 0  # the last sequence number of the cache for which it is known to be valid; 0: none yet
    label: HitLabel | None = None
    approved: Stamp | None = None
    valid: Stamp | None = None


def versions_of(snapshot: CacheSnapshot, depends: tuple[Target, ...]) -> tuple[int, ...]:
    """The versions that an entry with these dependencies has in a state of the cache."""
    return tuple(map(snapshot.version, depends))


class ReplyCache:
    """Replies by key; beyond `max_bytes` the least recently used are dropped first."""

    __slots__ = ("_asked_once", "_entries", "_max_bytes", "_max_entry_bytes", "_reader", "evicted", "size_bytes")

    def __init__(self, reader: CacheReader, max_bytes: int, max_entry_bytes: int | None = None) -> None:
        """`max_entry_bytes`: larger replies are not kept; a quarter of `max_bytes` where it is not given."""
        self._reader = reader
        self._max_bytes = max_bytes
        self._max_entry_bytes = min(max_bytes, max_bytes // 4 if max_entry_bytes is None else max_entry_bytes)
        self._entries: OrderedDict[bytes, ReplyEntry] = OrderedDict()
        self._asked_once: dict[int, None] = {}  # hashes of keys, the oldest first
        self.size_bytes = 0
        self.evicted = 0

    def get(self, key: bytes) -> ReplyEntry | None:
        """The entry if it is valid for the cache as published, without opening a snapshot. None proves nothing."""
        entry = self._entries.get(key)
        if entry is None or entry.seq != self._reader.current_seq():
            return None
        self._entries.move_to_end(key)
        return entry

    @property
    def lookup(self) -> Callable[[bytes], ReplyEntry | None]:
        """`peek` without the cost of a method call; good for as long as this object is."""
        return self._entries.get

    def touch(self, key: bytes) -> None:
        """Mark an existing entry as used."""
        self._entries.move_to_end(key)

    def peek(self, key: bytes) -> ReplyEntry | None:
        """The entry, valid or not: for `revalidate`, or to look at what it depends on."""
        return self._entries.get(key)

    def revalidate(self, key: bytes, snapshot: CacheSnapshot, began_ns: int) -> ReplyEntry | None:
        """The entry if it is valid in this snapshot; drops it if it never will be again.

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
        found = versions_of(snapshot, entry.depends)
        return max(found, default=0) <= entry.seq if entry.seq else found == entry.versions

    def put(self, key: bytes, entry: ReplyEntry) -> bool:
        """Keep a reply; False if it is too large, or large and asked for the first time."""
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
        """Is a large reply asked for again, or dear and evicts nothing?"""
        if key in self._entries or hash(key) in self._asked_once:
            self._asked_once.pop(hash(key), None)
            return True
        self._remember(key)
        return entry.learned_ns > 0 and self.size_bytes + size <= self._max_bytes

    def _remember(self, key: bytes) -> None:
        """It was asked for."""
        self._asked_once[hash(key)] = None
        if len(self._asked_once) > ASKED_ONCE:
            del self._asked_once[next(iter(self._asked_once))]

    def drop(self, key: bytes) -> None:
        """Forget a reply, if it is kept."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size_bytes -= self._size(key, entry)

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @staticmethod
    def _size(key: bytes, entry: ReplyEntry) -> int:
        return len(key) + len(entry.body) + ENTRY_OVERHEAD_BYTES + sum(map(len, entry.depends))
