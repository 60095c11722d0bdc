"""Large listings in slices: iterators whose steps take about a millisecond each.

A stream reads from the snapshot in which it was opened, so a listing is of one state however long it takes. It keeps
that LMDB transaction open, and LMDB cannot reuse pages meanwhile. So after COPY_AFTER_NS the rest is copied out of the
cache in its stored form (about 150 bytes for each partition), a slice with each `Streams.tend`, and the transaction
ends. All copies of one reader take COPIED_BYTES at most. A rest that does not fit stays in its transaction until it is
small enough, for HELD_AT_MOST_NS at most. After that, or if the file is closed while the rest does not fit, the stream
breaks: its next step raises CacheError, and its connection must be closed, because a part of the reply was already
sent. The worker calls `Streams.tend` on a timer.

Owner: one thread. Must not know: replies, connections.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Any, ClassVar, Final, Generic, TypeVar
from weakref import WeakSet, ref

import lmdb

from hms_cache_proxy.cache.joiner import Joiner
from hms_cache_proxy.cache.shared_transaction import SharedTransaction
from hms_cache_proxy.cache.walk import SnapshotWalk
from hms_cache_proxy.errors import CacheError

COPY_AFTER_NS: Final = 1_000_000_000
SEARCHED_NS: Final = 10_000_000_000  # searches take turns: fifty of a tenth of a second each end after five seconds
HELD_AT_MOST_NS: Final = 600_000_000_000  # as long as Hive's clients wait for a reply
COPIED_BYTES: Final = 64 << 20  # all copies of one reader
COPIED_AT_ONCE: Final = 2000  # rows: 1 ms
SAMPLE: Final = 200  # rows, to estimate the size of a rest
LOOK_NS: Final = 250_000_000  # between two estimates
ROW_OVERHEAD_BYTES: Final = 150  # two bytes objects and a tuple for each copied row

_LENGTH: Final = Struct(">i")
_LENGTHS: Final = tuple(_LENGTH.pack(length) for length in range(1024))

_Item = TypeVar("_Item")


class Stream(ABC, Generic[_Item]):
    """Slices of a listing as bytes: elements of a Thrift list, without the list's header."""

    SLICE: ClassVar[int]

    def __init__(self, transaction: SharedTransaction, joiner: Joiner, after: bytes | None, limit: int) -> None:
        transaction.users += 1
        self._transaction: SharedTransaction | None = transaction
        self._joiner = joiner
        self._after = after
        self._left = limit
        self._copied: deque[list[_Item]] = deque()  # slices
        self._copied_templates: set[bytes] = set()
        self._broken: str | None = None
        self.copying = False
        self.looked_ns = 0  # when its rest was last found too large to copy
        self.copied_bytes = 0  # bytes that are copied and not read yet
        self.begun_ns = time.monotonic_ns()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._broken is not None:
            raise CacheError(self._broken)
        try:
            items = self._slice()
            if items:
                return self._render(items)
        except (lmdb.Error, StructError) as error:
            raise CacheError(f"the cache cannot be read: {error}") from error
        self.close()
        raise StopIteration

    @property
    def holds(self) -> bool:
        """Whether it keeps a transaction open."""
        return self._transaction is not None

    def rest_bytes(self) -> int:
        """About how many bytes a copy of the rest would take."""
        if self._transaction is None or self._left <= 0:
            return 0
        items = self._read(self._transaction.txn, min(self._left, SAMPLE))
        return self._size(items) * self._left // max(len(items), 1)

    def copy_some(self) -> None:
        """Copies a slice of the rest. After the last one the transaction ends."""
        if self._transaction is None:
            return
        self.copying = True
        items = self._read(self._transaction.txn, min(self._left, COPIED_AT_ONCE)) if self._left > 0 else []
        if items:
            self.copied_bytes += self._size(items)
            self._copied.extend(items[at : at + self.SLICE] for at in range(0, len(items), self.SLICE))
            self._copied_templates |= self._templates_of(items)
            self._advance(items)
        if not items or self._left <= 0:
            self._joiner = self._joiner.detached(self._transaction.txn, self._copied_templates)
            self._end()

    def detach(self, most: int) -> None:
        """Copies the rest if it has at most `most` bytes, and ends the transaction. Else the stream breaks."""
        while self._transaction is not None:
            if self.copied_bytes > most:
                return self.break_off(f"the rest of a listing is over {most} bytes")
            self.copy_some()

    def break_off(self, why: str) -> None:
        """Ends the stream; its reader gets a CacheError that says why."""
        self.close()
        self._broken = why

    def close(self) -> None:
        """Releases the transaction and all copies."""
        self._left = 0
        self._copied.clear()
        self.copied_bytes = 0
        self._end()

    def _end(self) -> None:
        if self._transaction is not None:
            self._transaction.release()
            self._transaction = None

    def _slice(self) -> list[_Item]:
        items: list[_Item] = []
        if self._copied:
            items = self._copied.popleft()
            self.copied_bytes -= self._size(items)
            return items
        if self._transaction is not None and self._left > 0:
            items = self._read(self._transaction.txn, min(self._left, self.SLICE))
            if items:
                self._advance(items)
        return items

    def _advance(self, items: list[_Item]) -> None:
        self._left -= len(items)
        self._after = self._name(items[-1])

    def _templates_of(self, items: list[_Item]) -> set[bytes]:
        return set()

    @abstractmethod
    def _read(self, txn: Any, limit: int) -> list[_Item]: ...

    @abstractmethod
    def _render(self, items: list[_Item]) -> bytes: ...

    @abstractmethod
    def _size(self, items: list[_Item]) -> int: ...

    @abstractmethod
    def _name(self, item: _Item) -> bytes: ...


class PartitionStream(Stream[tuple[bytes, bytes]]):
    """`Partition` structs."""

    SLICE = 500

    def _read(self, txn: Any, limit: int) -> list[tuple[bytes, bytes]]:
        return self._joiner.rows(txn, self._after, limit)

    def _render(self, items: list[tuple[bytes, bytes]]) -> bytes:
        out: list[bytes] = []
        self._joiner.join(None if self._transaction is None else self._transaction.txn, items, out)
        return b"".join(out)

    def _size(self, items: list[tuple[bytes, bytes]]) -> int:
        return sum(len(name) + len(row) + ROW_OVERHEAD_BYTES for name, row in items)

    def _name(self, item: tuple[bytes, bytes]) -> bytes:
        return item[0]

    def _templates_of(self, items: list[tuple[bytes, bytes]]) -> set[bytes]:
        return self._joiner.templates_of(items)


class ChosenStream(PartitionStream):
    """`Partition` structs of these names; each must be a name of the stream's snapshot."""

    def __init__(self, transaction: SharedTransaction, joiner: Joiner, names: list[bytes]) -> None:
        super().__init__(transaction, joiner, None, len(names))
        self._names = names

    def _read(self, txn: Any, limit: int) -> list[tuple[bytes, bytes]]:
        begin = len(self._names) - self._left
        return self._joiner.named(txn, self._names[begin : begin + limit])


class NameStream(Stream[bytes]):
    """Partition names as Thrift strings."""

    SLICE = 3000

    def _read(self, txn: Any, limit: int) -> list[bytes]:
        return self._joiner.names(txn, self._after, limit)

    def _render(self, items: list[bytes]) -> bytes:
        return encode_strings(items)

    def _size(self, items: list[bytes]) -> int:
        return sum(map(len, items)) + len(items) * ROW_OVERHEAD_BYTES // 2

    def _name(self, item: bytes) -> bytes:
        return item


def encode_strings(strings: list[bytes]) -> bytes:
    """The elements of a Thrift list<string>."""
    lengths = set(map(len, strings))
    if len(lengths) == 1:  # as in names by day: the length acts as a separator
        length = _LENGTH.pack(lengths.pop())
        return length + length.join(strings)
    if lengths and max(lengths) < len(_LENGTHS):
        return b"".join([_LENGTHS[len(string)] + string for string in strings])
    return b"".join([_LENGTH.pack(len(string)) + string for string in strings])


class Streams:
    """The streams and walks that may still hold a transaction of one reader. References are weak: one that nobody uses
    any more is freed with its transaction."""

    __slots__ = ("_copies", "_holders", "most_copied_bytes")

    def __init__(self, most_copied_bytes: int = COPIED_BYTES) -> None:
        self.most_copied_bytes = most_copied_bytes
        self._holders: list[ref[SnapshotWalk | Stream[Any]]] = []
        self._copies: WeakSet[Stream[Any]] = WeakSet()

    @property
    def waiting(self) -> bool:
        """Does anything hold a transaction?"""
        return bool(self._holders)

    def add(self, holder: SnapshotWalk | Stream[Any]) -> None:
        """A new stream or walk."""
        self._holders.append(ref(holder))

    def tend(self, now_ns: int | None = None) -> bool:
        """Does some work on streams and walks that hold their transaction for too long, the oldest first; True if it
        did."""
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        holders = [holder for each in self._holders if (holder := each()) is not None and holder.holds]
        worked = False
        for holder in holders:
            held_ns = now_ns - holder.begun_ns
            if held_ns < COPY_AFTER_NS or worked:
                continue
            if not isinstance(holder, Stream):
                if held_ns > SEARCHED_NS:
                    holder.close()
            elif held_ns > HELD_AT_MOST_NS:
                holder.break_off(f"a listing has taken over {HELD_AT_MOST_NS // 10**9} s")
            elif holder.copying or now_ns - holder.looked_ns >= LOOK_NS:
                worked = True
                self._copy_some(holder, now_ns)
        self._holders = [ref(holder) for holder in holders if holder.holds]
        return worked

    def _copy_some(self, stream: Stream[Any], now_ns: int) -> None:
        if stream.copying or stream.rest_bytes() <= self.most_copied_bytes - self._copied_bytes():
            self._copies.add(stream)
            stream.copy_some()
        else:
            stream.looked_ns = now_ns

    def cut_off(self) -> None:
        """The file is about to be closed: copies what there is room for."""
        for each in self._holders:
            holder = each()
            if isinstance(holder, Stream):
                holder.detach(self.most_copied_bytes - self._copied_bytes())
                self._copies.add(holder)
            elif holder is not None:
                holder.close()
        self._holders.clear()

    def _copied_bytes(self) -> int:
        return sum(stream.copied_bytes for stream in self._copies)
