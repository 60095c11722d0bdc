"""Turns rows of `partitions` into pieces of a reply, for one table. Large replies spend most of their time in this
loop.

The shared pieces of each template are resolved once for each process and table (`Joiner`). So a partition costs one
look-up (0.4 us), two slices, and four references in the list that is joined at the end. Must not know: snapshots,
replies. Owner: one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.environment import Environment
from hms_cache_proxy.cache.layout import KEY_BYTES
from hms_cache_proxy.cache.segments import END, INDEX_BYTES, PartitionPieces, TableNames, Variant, pieces
from hms_cache_proxy.errors import CacheError

KEPT_JOINERS: Final = 256  # tables whose templates a process keeps resolved
KEPT_BYTES: Final = 64 << 20  # of resolved templates of all tables; beyond that, all are forgotten

_PIECES: Final = 4  # pieces that a partition adds to the list
_OWN: Final = INDEX_BYTES  # where the row continues after its template


class Joiner:
    """Joins the partitions of one set, as one table's, in one variant."""

    __slots__ = ("_environment", "_keeper", "_long_names", "_names", "_pieces", "_prefix", "_variant")

    def __init__(self, environment: Environment, entry: TableEntry, variant: Variant, keeper: Joiners) -> None:
        self._environment = environment
        self._keeper = keeper
        self._prefix = layout.SET.pack(entry.set_number)
        self._long_names = entry.long_names
        self._names = TableNames(entry.database, entry.name, entry.catalog if keeper.with_catalog else None)
        self._variant = variant
        self._pieces: dict[bytes, PartitionPieces] = {}

    @property
    def prefix(self) -> bytes:
        """The beginning of the keys of its partitions."""
        return self._prefix

    def cursor(self, txn: Any) -> Any:
        """A cursor over the rows of all sets."""
        return txn.cursor(self._environment.partitions)

    def one(self, txn: Any, name: bytes) -> bytes | None:
        """One partition; None if the table has no partition of this name."""
        row = layout.find(txn, self._environment.partitions, self._prefix, name)
        if row is None:
            return None
        template = row[:_OWN]
        begin, body, own = self._pieces.get(template) or self._resolve(txn, template)
        if own < 0:
            return b"".join((begin[len(END) :], row[_OWN:], body, name, END))
        return b"".join((begin[len(END) :], row[_OWN + own :], body, row[_OWN : _OWN + own], END))

    def by_names(self, txn: Any, names: Sequence[bytes], out: list[bytes]) -> int:
        """Appends the pieces of these partitions to `out`, without names that have none; returns the number of
        partitions."""
        return self.join(txn, self.named(txn, names), out)

    def named(self, txn: Any, names: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """(name, row) of these partitions, without names that have none.

        Uses a cursor: adjacent names are usually on one page, and a cursor looks there before it descends from the
        root.
        """
        prefix = self._prefix
        if not names or len(prefix) + max(map(len, names)) >= KEY_BYTES:
            found = ((name, layout.find(txn, self._environment.partitions, prefix, name)) for name in names)
            return [(name, row) for name, row in found if row is not None]
        with txn.cursor(self._environment.partitions) as cursor:
            get = cursor.get
            return [(name, row) for name in names if (row := get(prefix + name)) is not None]

    def join(self, txn: Any | None, rows: Sequence[tuple[bytes, bytes]], out: list[bytes]) -> int:
        """Appends the pieces of (name, row) pairs that were read; returns their number. A detached joiner needs no
        transaction."""
        known = self._pieces
        begin_at, last, begin, body, own = len(out), b"", b"", b"", 0
        for name, row in rows:
            template = row[:_OWN]
            if template != last:
                last = template
                begin, body, own = known.get(template) or self._resolve(txn, template)
            if own < 0:
                out += (begin, row[_OWN:], body, name)
            else:
                out += (begin, row[_OWN + own :], body, row[_OWN : _OWN + own])
        return _finish(out, begin_at)

    def rows(self, txn: Any, after: bytes | None, limit: int) -> list[tuple[bytes, bytes]]:
        """(name, row) in bytewise order of names, after `after`, at most `limit`."""
        with txn.cursor(self._environment.partitions) as cursor:
            if not self._seek(cursor, after):
                return []
            found = list(islice(cursor.iternext(), limit + 1))
        if found and not found[-1][0].startswith(self._prefix):
            found = [item for item in found if item[0].startswith(self._prefix)]
        cut = len(self._prefix)
        rows = self._expand(found) if self._long_names else [(key[cut:], row) for key, row in found]
        if after is not None and rows and rows[0][0] <= after:
            rows = [row for row in rows if row[0] > after]
        return rows if len(rows) <= limit else rows[:limit]

    def names(self, txn: Any, after: bytes | None, limit: int) -> list[bytes]:
        """Names in bytewise order, after `after`, at most `limit`."""
        if self._long_names:
            return [name for name, _ in self.rows(txn, after, limit)]
        with txn.cursor(self._environment.partitions) as cursor:
            if not self._seek(cursor, after):
                return []
            keys = list(islice(cursor.iternext(values=False), limit + 1))
        if keys and not keys[-1].startswith(self._prefix):
            keys = [key for key in keys if key.startswith(self._prefix)]
        cut = len(self._prefix)
        begin = 1 if after is not None and keys and keys[0][cut:] == after else 0
        return [key[cut:] for key in keys[begin : begin + limit]]

    def detached(self, txn: Any, templates: set[bytes]) -> Joiner:
        """A copy that joins rows of these templates without a transaction."""
        copy = object.__new__(Joiner)
        for slot in self.__slots__:
            setattr(copy, slot, getattr(self, slot))
        copy._pieces = {template: self._pieces.get(template) or self._resolve(txn, template) for template in templates}
        return copy

    @staticmethod
    def templates_of(rows: Sequence[tuple[bytes, bytes]]) -> set[bytes]:
        """The templates that rows refer to."""
        return {row[:INDEX_BYTES] for _, row in rows}

    def _seek(self, cursor: Any, after: bytes | None) -> bool:
        start = self._prefix if after is None else (self._prefix + after)[:KEY_BYTES]
        return bool(cursor.set_range(start))

    def _expand(self, found: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        cut = len(self._prefix)
        rows: list[tuple[bytes, bytes]] = []
        for key, row in found:
            if len(key) < KEY_BYTES:
                rows.append((key[cut:], row))
            else:
                rows.extend((key[cut:] + rest, inner) for rest, inner in layout.bucket_items(row))
        return rows

    def _resolve(self, txn: Any, template: bytes) -> PartitionPieces:
        found = self._pieces[template] = pieces(
            self._shared(txn, template), self._names, self._variant, lambda index: self._shared(txn, index)
        )
        self._keeper.count_template(len(found[0]) + len(found[1]))
        return found

    def _shared(self, txn: Any, index: bytes) -> bytes:
        row: bytes | None = txn.get(self._prefix + index, db=self._environment.shared)
        if row is None:
            raise CacheError("a partition refers to a missing shared row")
        return row


def _finish(out: list[bytes], begin_at: int) -> int:
    """Each partition's first piece begins with the end of the partition before. Moves that end from the first piece to
    the end of the list; returns the number of partitions."""
    count = (len(out) - begin_at) // _PIECES
    if count:
        out[begin_at] = out[begin_at][len(END) :]
        out.append(END)
    return count


class Joiners:
    """The joiners that a process keeps. The oldest is dropped first."""

    __slots__ = ("_kept", "_templates_bytes", "with_catalog")

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Variant, bytes, bytes, bytes, bool], Joiner] = {}
        self._templates_bytes = 0
        self.with_catalog = True

    def get(self, environment: Environment, entry: TableEntry, variant: Variant) -> Joiner:
        """The joiner of a table's set under its present name."""
        key = (entry.set_number, variant, entry.name, entry.database, entry.catalog, entry.long_names)
        joiner = self._kept.get(key)
        if joiner is None:
            if len(self._kept) >= KEPT_JOINERS:
                del self._kept[next(iter(self._kept))]
            joiner = self._kept[key] = Joiner(environment, entry, variant, self)
        return joiner

    def count_template(self, size_bytes: int) -> None:
        """A template was resolved. If they take too much, all joiners are forgotten; those in use go on."""
        self._templates_bytes += size_bytes
        if self._templates_bytes > KEPT_BYTES:
            self.clear()

    def clear(self) -> None:
        """Forget all: the file has changed, or they take too much room."""
        self._kept.clear()
        self._templates_bytes = 0
