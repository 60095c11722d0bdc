"""Column statistics as rows: one for a table, and one for each partition, which refers to what the partitions of its
set share.

Job: convert a store's `ColumnStatistics` to rows and back. A table or partition without statistics has no row. Must not
know LMDB, replies. Owner: the follower packs, every process unpacks.

    table row      for each column: u16 length of the engine, u16 of the column's name, u32 of the prefix, i64
                   analyzed_s, u32 length of the data; then engine, column, prefix and data
    partition row  zlib of, for each column: u24 shared row, i64 analyzed_s, u32 length of the data, the data
    shared row     a run of bytes of the set (cache/segments.py): u16 length of the engine, u16 of the column, both,
                   prefix
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from struct import Struct
from typing import Final

from hms_cache_proxy.cache import segments
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.store.protocol import ColumnStatistics, Statistics, StatisticsHead

_TABLE: Final = Struct(">HHIqI")
_PARTITION: Final = Struct(">3sqI")
_LENGTH: Final = Struct(">3s8xI")  # of a partition row's entry
_ANALYZED: Final = Struct(">3xq")
_HEAD: Final = Struct(">HH")
_LEVEL: Final = 1  # 16 us for 20 columns, a fifth to a half of the bytes; higher levels save hardly more
MAX_HEADS: Final = 4096  # that a process remembers of one set


def table_pack(statistics: Statistics) -> bytes:
    """A table's row; empty if there are no statistics."""
    parts: list[bytes] = []
    for (engine, column, prefix), analyzed_s, data in statistics:
        fixed = _TABLE.pack(len(engine), len(column), len(prefix), analyzed_s, len(data))
        parts += (fixed, engine, column, prefix, data)
    return b"".join(parts)


def table_unpack(row: bytes) -> Statistics:
    """The inverse of `table_pack`; struct.error for a damaged row."""
    found, at = [], 0
    while at < len(row):
        engine, column, prefix, analyzed_s, data = _TABLE.unpack_from(row, at)
        ends = [at + _TABLE.size]
        for length in (engine, column, prefix, data):
            ends.append(ends[-1] + length)
        texts = [row[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]
        found.append(ColumnStatistics(StatisticsHead(*texts[:3]), analyzed_s, texts[3]))
        at = ends[-1]
    return tuple(found)


Gathered = dict[StatisticsHead, tuple[list[int], list[bytes]]]
"""By column: the places of partitions, and their `ColumnStatistics.data`."""


class StatisticsEncoder:
    """Encodes the statistics of one set's partitions. `intern` stores a shared row if it is new, and returns its
    index."""

    __slots__ = ("_indexes", "_intern")

    def __init__(self, intern: Callable[[bytes], bytes]) -> None:
        self._intern = intern
        self._indexes: dict[StatisticsHead, bytes] = {}

    def encode(self, statistics: Statistics) -> bytes:
        """The partition's row."""
        known, pack = self._indexes, _PARTITION.pack
        parts: list[bytes] = []
        for head, analyzed_s, data in statistics:
            parts += (pack(known.get(head) or self._index(head), analyzed_s, len(data)), data)
        return zlib.compress(b"".join(parts), _LEVEL)

    def _index(self, head: StatisticsHead) -> bytes:
        if len(self._indexes) >= MAX_HEADS:
            self._indexes.clear()
        engine, column, prefix = head
        blob = _HEAD.pack(len(engine), len(column)) + engine + column + prefix
        found = self._indexes[head] = self._intern(segments.blob_row(blob))
        return found


class StatisticsDecoder:
    """Decodes the rows of one set. `shared` returns the shared row of an index; resolved ones are remembered."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[bytes, StatisticsHead] = {}

    def decode(
        self,
        rows: Iterable[tuple[bytes, bytes]],
        columns: Container[bytes] | None,
        engine: bytes | None,
        shared: Callable[[bytes], bytes],
    ) -> Iterator[tuple[bytes, list[ColumnStatistics]]]:
        """The statistics in each (partition, row) for these columns and this engine (None: all). Rows without any are
        left out."""
        wanted: dict[bytes, StatisticsHead | None] = {}
        size, unpack, analyzed = _PARTITION.size, _LENGTH.unpack_from, _ANALYZED.unpack_from
        for key, packed in rows:
            row = zlib.decompress(packed)
            found: list[ColumnStatistics] = []
            at, end = 0, len(row)
            while at < end:
                index, length = unpack(row, at)
                begin = at + size
                if index not in wanted:
                    head = self._heads.get(index) or self._head(index, shared)
                    asked = (engine is None or head.engine == engine) and (columns is None or head.column in columns)
                    wanted[index] = head if asked else None
                kept = wanted[index]
                if kept is not None:
                    found.append(ColumnStatistics(kept, analyzed(row, at)[0], row[begin : begin + length]))
                at = begin + length
            if at != end:
                raise CacheError("statistics of a partition end before their lengths say")
            if found:
                yield key, found

    def gather(
        self,
        rows: Iterable[tuple[int, bytes]],
        columns: Container[bytes],
        engine: bytes,
        most: int,
        shared: Callable[[bytes], bytes],
    ) -> tuple[Gathered, int]:
        """The statistics for these columns and this engine, by column (0.4 us each); and the number of rows that have
        `most`."""
        gathered: Gathered = {}
        sinks: dict[bytes, tuple[Callable[[int], None], Callable[[bytes], None]] | None] = {}
        size, unpack = _LENGTH.size, _LENGTH.unpack_from
        full = 0
        for place, packed in rows:
            row = zlib.decompress(packed)
            found = at = 0
            end = len(row)
            while at < end:
                index, length = unpack(row, at)
                if index not in sinks:
                    head = self._heads.get(index) or self._head(index, shared)
                    sinks[index] = None
                    if head.engine == engine and head.column in columns:
                        places, data = gathered[head] = ([], [])
                        sinks[index] = places.append, data.append
                sink = sinks[index]
                begin = at + size
                at = begin + length
                if sink is not None:
                    sink[0](place)
                    sink[1](row[begin:at])
                    found += 1
            if at != end:
                raise CacheError("statistics of a partition end before their lengths say")
            full += found == most
        return gathered, full

    def _head(self, index: bytes, shared: Callable[[bytes], bytes]) -> StatisticsHead:
        if len(self._heads) >= MAX_HEADS:
            self._heads.clear()
        blob = segments.blob_data(shared(index))
        engine, column = _HEAD.unpack_from(blob)
        middle = _HEAD.size + engine
        end = middle + column
        head = self._heads[index] = StatisticsHead(blob[_HEAD.size : middle], blob[middle:end], blob[end:])
        return head


def row_bytes(statistics: Statistics | None) -> int:
    """About how many bytes these take."""
    return sum(len(data) // 2 + _PARTITION.size for _, _, data in statistics or ())
