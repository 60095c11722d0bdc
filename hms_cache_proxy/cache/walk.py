"""Walks through one state of the cache: over the names of one table's partitions, with jumps, or over a listing of
tables or databases.

Job: provide the cursors that filters and listings move. Each keeps its LMDB transaction open until it is closed, even
if the search takes several turns of the event loop. `Streams.tend` closes it if it stays open for too long
(cache/streams.py); each move after that raises CacheError. Must not know: filters, replies. Owner: one thread.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.joiner import Joiner
from hms_cache_proxy.cache.shared_transaction import SharedTransaction
from hms_cache_proxy.errors import CacheError


class SnapshotWalk:
    """A cursor that keeps its transaction open until it is closed."""

    __slots__ = ("__weakref__", "_cursor", "_transaction", "begun_ns")

    def __init__(self, transaction: SharedTransaction, cursor: Any, begun_ns: int) -> None:
        transaction.users += 1
        self._transaction: SharedTransaction | None = transaction
        self._cursor = cursor
        self.begun_ns = begun_ns

    @property
    def holds(self) -> bool:
        """Whether it keeps a transaction open."""
        return self._transaction is not None

    def close(self) -> None:
        """Give everything up."""
        if self._transaction is not None:
            self._cursor.close()
            self._transaction.release()
            self._transaction = None

    def check(self) -> None:
        """Raise CacheError if it is closed."""
        if self._transaction is None:
            raise CacheError("a search has kept a snapshot of the cache open for too long")


class NameWalk(SnapshotWalk):
    """Its position is the name that the last move returned. A move costs 1.3 us; each name of `run` 0.2 us."""

    __slots__ = ("_cut", "_joiner", "_prefix")

    def __init__(self, transaction: SharedTransaction, joiner: Joiner, begun_ns: int) -> None:
        super().__init__(transaction, joiner.cursor(transaction.txn), begun_ns)
        self._joiner = joiner
        self._prefix = joiner.prefix
        self._cut = len(self._prefix)

    def at(self, name: bytes) -> bytes | None:
        """Moves to the first name that is not less than this one; None after the last. Not for sets with long names."""
        self.check()
        return self._here(self._cursor.set_range(self._prefix + name))

    def next(self) -> bytes | None:
        """Moves to the next name; None after the last."""
        self.check()
        return self._here(self._cursor.next())

    def run(self, most: int) -> list[bytes]:
        """The current name and those that follow, at most `most`; moves behind them."""
        self.check()
        keys = list(islice(self._cursor.iternext(values=False), most))
        cut = self._cut
        if keys and not keys[-1].startswith(self._prefix):
            keys = [key for key in keys if key.startswith(self._prefix)]
        return [key[cut:] for key in keys]

    def ending(self, ends: list[bytes], parents: int) -> tuple[list[bytes], bool]:
        """Names from the current one on that end with one of `ends` (last components, in order), and whether there may
        be more; afterwards the position is where to go on. Looks at `parents` different beginnings at most; each costs
        one look-up for each end, and one more (1.5 us each). For names of several components."""
        self.check()
        cursor, prefix, cut = self._cursor, self._prefix, self._cut
        seek, here = cursor.set_range, cursor.key
        found: list[bytes] = []
        key = here()
        for _ in range(parents):
            begin = key[: key.rfind(b"/", cut) + 1]
            if not begin:
                raise CacheError("a partition's name lacks components")
            after = key
            for end in ends:
                wanted = begin + end
                if not seek(wanted):
                    break
                after = here()
                if after == wanted:
                    found.append(after[cut:])
            if after.startswith(begin) and not seek(begin[:-1] + b"0"):
                return found, False
            key = here()
            if not key.startswith(prefix):
                return found, False
        return found, True

    def listing(self, after: bytes | None, most: int) -> list[bytes]:
        """Names in bytewise order, after `after`, at most `most`; also long names."""
        self.check()
        assert self._transaction is not None
        return self._joiner.names(self._transaction.txn, after, most)

    def _here(self, found: bool) -> bytes | None:
        if found:
            key: bytes = self._cursor.key()
            if key.startswith(self._prefix):
                return key[self._cut :]
        return None


class ListingWalk(SnapshotWalk):
    """The rows of a listing in the order of their names, some at a time (0.5 us each)."""

    __slots__ = ("_begin", "_cut", "_ended", "_rows")

    def __init__(
        self, transaction: SharedTransaction, cursor: Any, listing: bytes, begin: bytes, begun_ns: int
    ) -> None:
        """`listing`: what the keys of its rows begin with; of these names, those that begin with `begin`."""
        super().__init__(transaction, cursor, begun_ns)
        self._begin = listing + begin
        self._cut = len(listing)
        self._ended = False
        self._rows = cursor.iternext() if cursor.set_range(self._begin[: layout.KEY_BYTES]) else iter(())

    def rows(self, most: int) -> list[tuple[bytes, bytes]]:
        """The next names with their rows, about so many; none at the end."""
        self.check()
        begin, cut, found = self._begin, self._cut, list[tuple[bytes, bytes]]()
        while not found and not self._ended:
            rows = list(islice(self._rows, most))
            self._ended = len(rows) < most or not rows[-1][0].startswith(begin[: layout.KEY_BYTES])
            for key, row in rows:
                if len(key) < layout.KEY_BYTES:
                    if key.startswith(begin):
                        found.append((key[cut:], row))
                else:
                    inside = ((key + rest, one) for rest, one in layout.bucket_items(row))
                    found += [(full[cut:], one) for full, one in inside if full.startswith(begin)]
        return found
