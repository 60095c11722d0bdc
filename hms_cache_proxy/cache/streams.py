"""Large listings in slices: iterators whose every step is about a millisecond of work.

A stream reads on in the snapshot in which it was opened, so a listing is of one state however long its client takes. It
keeps that LMDB transaction open for at most HOLD_NS. After that (or when its server calls `detach`, because the client
does not read) what is left is copied out of the cache in its stored form (about 150 bytes a partition) and the
transaction ends. A stream whose rest is larger than COPIED_BYTES breaks: CacheError at its next step; the connection
that it was for has to be closed, as part of the reply is out. `Streams.tend` is called with every snapshot and, by the
worker, on a timer (at least once per HOLD_NS).

Owner: one thread. Must not know: replies, connections.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import lmdb

from hms_cache_proxy.cache.joiner import Joiner
from hms_cache_proxy.errors import CacheError

HOLD_NS: Final = 1_000_000_000
COPIED_BYTES: Final = 64 << 20
ROW_OVERHEAD_BYTES: Final = 150  # two bytes objects and a tuple per copied row

_LENGTH: Final = Struct(">i")
_LENGTHS: Final = tuple(_LENGTH.pack(length) for length in range(1024))

_Item = TypeVar("_Item")


class Lease:
    """A read transaction with several users; the last one ends it."""

    __slots__ = ("txn", "users")

    def __init__(self, txn: Any) -> None:
        self.txn = txn
        self.users = 1

    def release(self) -> None:
        """One user less."""
        self.users -= 1
        if self.users == 0:
            self.txn.abort()


class Stream(ABC, Generic[_Item]):
    """Slices of a listing as bytes: elements of a Thrift list, without the list's header."""

    SLICE: ClassVar[int]

    def __init__(self, lease: Lease, joiner: Joiner, after: bytes | None, limit: int) -> None:
        lease.users += 1
        self._lease: Lease | None = lease
        self._joiner = joiner
        self._after = after
        self._left = limit
        self._copied: list[_Item] = []
        self._at = 0
        self._broken: str | None = None
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
        return self._lease is not None

    def detach(self) -> None:
        """Copy what is left and end the transaction."""
        if self._lease is None:
            return
        size = 0
        while self._left > 0:
            items = self._read(self._lease.txn, min(self._left, 4096))
            if not items:
                break
            size += self._size(items)
            if size > COPIED_BYTES:
                self._broken = f"the rest of a listing is over {COPIED_BYTES} bytes and its client is too slow"
                break
            self._copied += items
            self._advance(items)
        self._joiner = self._joiner.detached(self._lease.txn, self._templates())
        self._end()

    def close(self) -> None:
        """Give everything up."""
        self._left = 0
        self._copied.clear()
        self._at = 0
        self._end()

    def _end(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _slice(self) -> list[_Item]:
        if self._lease is not None:
            items = self._read(self._lease.txn, min(self._left, self.SLICE)) if self._left > 0 else []
            if items:
                self._advance(items)
            return items
        begin, self._at = self._at, self._at + self.SLICE
        return self._copied[begin : self._at]

    def _advance(self, items: list[_Item]) -> None:
        self._left -= len(items)
        self._after = self._name(items[-1])

    def _templates(self) -> set[bytes]:
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
        self._joiner.join(None if self._lease is None else self._lease.txn, items, out)
        return b"".join(out)

    def _size(self, items: list[tuple[bytes, bytes]]) -> int:
        return sum(len(name) + len(row) + ROW_OVERHEAD_BYTES for name, row in items)

    def _name(self, item: tuple[bytes, bytes]) -> bytes:
        return item[0]

    def _templates(self) -> set[bytes]:
        return self._joiner.templates_of(self._copied)


class ChosenStream(PartitionStream):
    """`Partition` structs of these names, which are names of this very state."""

    def __init__(self, lease: Lease, joiner: Joiner, names: list[bytes]) -> None:
        super().__init__(lease, joiner, None, len(names))
        self._names = names

    def _read(self, txn: Any, limit: int) -> list[tuple[bytes, bytes]]:
        begin = len(self._names) - self._left
        return self._joiner.named(txn, self._names[begin : begin + limit])


class NameStream(Stream[bytes]):
    """Partition names, as strings with their lengths."""

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
    if len(lengths) == 1:  # as names by day are: the length is a separator
        length = _LENGTH.pack(lengths.pop())
        return length + length.join(strings)
    if lengths and max(lengths) < len(_LENGTHS):
        return b"".join([_LENGTHS[len(string)] + string for string in strings])
    return b"".join([_LENGTH.pack(len(string)) + string for string in strings])


class TransactionHolder(Protocol):
    """What keeps a transaction open beyond its snapshot."""

    begun_ns: int

    @property
    def holds(self) -> bool:
        """Whether it does so now."""

    def detach(self) -> None:
        """End the transaction."""


class Streams:
    """What may still hold a transaction of one reader."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[TransactionHolder] = []

    def add(self, stream: TransactionHolder) -> None:
        """A new stream or walk."""
        self.waiting.append(stream)

    def tend(self, now_ns: int | None = None) -> None:
        """Cut streams off that hold their transaction for too long."""
        overdue = (time.monotonic_ns() if now_ns is None else now_ns) - HOLD_NS
        for stream in self.waiting:
            if stream.begun_ns <= overdue:
                stream.detach()
        self.waiting = [stream for stream in self.waiting if stream.holds]

    def detach_all(self) -> None:
        """Cut all off: the file is about to be closed."""
        for stream in self.waiting:
            stream.detach()
        self.waiting.clear()
