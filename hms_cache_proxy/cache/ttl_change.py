"""One write transaction in TTL mode's environment.

Job: make the changes of a commit: entries with their places in the order of use, the sizes of each kind, invalidations,
numbers. Must not know: loads, claims, whether an entry may be published (ttl.py).

Invariants
- The counters are read at the beginning, and written once, by `write` at the end.
- Each entry has one place, and each place one row in the order; the sizes of a kind are those of its entries.
Owner: the thread that has begun the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.cache.ttl_layout import (
    COUNTERS,
    NUMBER,
    ORDER,
    PLACE,
    SIZES,
    Sizes,
    last_invalidation,
    read_counters,
    read_sizes,
    target_key,
)

INVALIDATIONS: Final = 100_000
"""Targets whose invalidation is remembered. Beyond that, all entries are invalidated at once."""


class Bounds(NamedTuple):
    """The most entries and bytes that a kind may have."""

    entries: int
    bytes: int


class TtlChange:
    """One write transaction."""

    __slots__ = ("_dbs", "_hold", "_order", "_sizes", "floor", "seq", "txn")

    def __init__(self, txn: Any, databases: Mapping[bytes, Any]) -> None:
        self.txn = txn
        self._dbs = databases
        self.seq, self._order, self._hold, self.floor = read_counters(txn, databases)
        self._sizes: dict[int, Sizes] = {}

    def write(self) -> None:
        """Writes the counters that have changed."""
        counters = (self.seq, self._order, self._hold, self.floor)
        if counters != read_counters(self.txn, self._dbs):
            self.txn.put(b"n", COUNTERS.pack(*counters), db=self._dbs[b"meta"])
        for kind, sizes in self._sizes.items():
            self.txn.put(b"k" + bytes((kind,)), SIZES.pack(*sizes), db=self._dbs[b"meta"])

    def next_hold(self) -> int:
        """A number that no hold has had before."""
        self._hold += 1
        return self._hold - 1

    def place(self, key: bytes, kind: int, size: int) -> None:
        """Puts the key last in the order."""
        self.txn.put(key, PLACE.pack(kind, self._order, size), db=self._dbs[b"places"])
        self.txn.put(ORDER.pack(kind, self._order), key, db=self._dbs[b"order"])
        self._order += 1

    def touch(self, key: bytes) -> None:
        """Puts the key last in the order, if it has an entry."""
        row = self.txn.get(key, db=self._dbs[b"places"])
        if row is not None:
            kind, number, size = PLACE.unpack(row)
            self.txn.delete(ORDER.pack(kind, number), db=self._dbs[b"order"])
            self.place(key, kind, size)

    def drop(self, key: bytes) -> None:
        """Deletes the entry, if there is one."""
        row = self.txn.pop(key, db=self._dbs[b"places"])
        if row is None:
            return
        kind, number, size = PLACE.unpack(row)
        self.txn.delete(ORDER.pack(kind, number), db=self._dbs[b"order"])
        self.txn.delete(key, db=self._dbs[b"entries"])
        self.count(kind, -1, -size)

    def count(self, kind: int, entries: int, size: int) -> None:
        """The kind has so many more entries and bytes."""
        known = self._sizes.get(kind) or read_sizes(self.txn, self._dbs, kind)
        self._sizes[kind] = Sizes(known.entries + entries, known.bytes + size)

    def make_room(self, kind: int, bound: Bounds) -> int:
        """Drops the least recently used entries until the kind is within its bounds; returns their number."""
        dropped = 0
        while (sizes := self._sizes[kind]).entries > bound.entries or sizes.bytes > bound.bytes:
            with self.txn.cursor(self._dbs[b"order"]) as cursor:
                there = cursor.set_range(ORDER.pack(kind, 0)) and cursor.key()[0] == kind
                key = cursor.value() if there else None
            if key is None:
                break
            self.drop(key)
            dropped += 1
        return dropped

    def invalidated(self, depends: Iterable[Target]) -> int:
        """The `seq` of the last invalidation of any of these; for `ALL`, of the last invalidation at all."""
        return last_invalidation(self.txn, self._dbs, depends, self.seq)

    def invalidate(self, targets: Iterable[Target]) -> None:
        """What was loaded before does not count for these targets any more."""
        self.seq += 1
        invalid = self._dbs[b"invalid"]
        for target in targets:
            if target == ALL or self.txn.stat(invalid)["entries"] >= INVALIDATIONS:
                self.txn.drop(invalid, delete=False)
                self.floor = self.seq
                break
            self.txn.put(target_key(target), NUMBER.pack(self.seq), db=invalid)
