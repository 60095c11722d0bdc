"""Statistics of many partitions of one table, read some at a time in one state of the cache.

Job: what aggregates are made from. It keeps its LMDB transaction open until it is closed, over as many turns of the
loop as it takes; `Streams.tend` ends it when it holds the transaction for too long (cache/streams.py): `holds` is
false then. Must not know: what statistics mean, replies. Owner: one thread.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.environment import Environment
from hms_cache_proxy.cache.statistics import Gathered, StatisticsDecoder
from hms_cache_proxy.cache.streams import Lease
from hms_cache_proxy.errors import CacheError


class StatisticsWalk:
    """Of one set of partitions."""

    __slots__ = ("_decoder", "_environment", "_lease", "_prefix", "begun_ns")

    def __init__(
        self, lease: Lease, environment: Environment, set_number: int, decoder: StatisticsDecoder, begun_ns: int
    ) -> None:
        lease.users += 1
        self._lease: Lease | None = lease
        self._environment = environment
        self._prefix = layout.SET.pack(set_number)
        self._decoder = decoder
        self.begun_ns = begun_ns

    @property
    def holds(self) -> bool:
        """Whether it keeps a transaction open."""
        return self._lease is not None

    def detach(self) -> None:
        """End the transaction; it cannot go on without."""
        self.close()

    def close(self) -> None:
        """Give everything up."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def gather(
        self, names: Sequence[tuple[int, bytes]], columns: Container[bytes], engine: bytes, most: int
    ) -> tuple[Gathered, int]:
        """The statistics of the named partitions (place, name), of these columns by this engine, column by column; and
        how many of the partitions have `most` of them."""
        return self._decoder.gather(self._rows(names), columns, engine, most, self._shared)

    def absent(self, names: Iterable[bytes]) -> bool:
        """Whether one of these is no partition."""
        lease = self._held()
        database = self._environment.partitions
        return any(layout.find(lease.txn, database, self._prefix, name) is None for name in names)

    def _rows(self, names: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        txn, database, prefix = self._held().txn, self._environment.statistics, self._prefix
        for place, name in names:
            row = layout.find(txn, database, prefix, name)
            if row is not None:
                yield place, row

    def _shared(self, index: bytes) -> bytes:
        row: bytes | None = self._held().txn.get(self._prefix + index, db=self._environment.shared)
        if row is None:
            raise CacheError("statistics refer to a shared row that is not there")
        return row

    def _held(self) -> Lease:
        if self._lease is None:
            raise CacheError("statistics are read of a state of the cache that was given up")
        return self._lease
