"""Numbers of column statistics as arrays, for tables whose partitions are aggregated again and again.

Job: hold the values of partitions' column statistics (`statistics_data.read`), column by column. To combine them then
takes a tenth of the time that the rows take. Must not know: requests, how values are combined.

A column is held only if every partition with statistics has it with all its fields; for other columns the rows are
read. `Memory.rows` returns a table's `Rows` only from the second request in the same state of the table on, because a
table that changes between two requests is not worth holding. The memory of a worker is bounded; the least recently used
table is evicted first. Owner: one per worker, on its loop; filled in slices, by one request at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterable, Sequence
from operator import itemgetter
from typing import Final

from hms_cache_proxy.cache.entries import TableEntry, TableState
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.statistics import Gathered
from hms_cache_proxy.store.protocol import StatisticsHead

from . import statistics_data as data
from .portions import Portions
from .statistics_data import Value

SLICE: Final = 1500
"""Column statistics that are read at once, 2 us each."""
ROW: Final = 5
"""Opening a partition's row costs as much as reading this many column statistics: 10 us."""
NONE: Final = -1
"""The row of a partition without statistics."""
_NAME_BYTES: Final = 150  # for a name in a dictionary
_DECIMAL_BYTES: Final = 110
_COLUMN_BYTES: Final = 32  # for a partition, in the common kinds
_ASKED: Final = 1000  # tables of which it is remembered that a request named them

EngineTable = tuple[bytes, bytes, bytes, bytes]
"""Catalog, database, table, engine."""


class TableChanged(Exception):
    """The table has changed since the snapshot, or no partition has one of the names."""


class ColumnArrays:
    """One column: what the statistics of all partitions have in common, and the values of each field by row."""

    __slots__ = ("_values", "head")

    def __init__(self) -> None:
        self.head: StatisticsHead | None = None
        self._values: dict[str, array[int] | array[float] | list[Value]] = {}

    @property
    def row_bytes(self) -> int:
        """About how much memory a row takes."""
        return sum(8 if isinstance(values, array) else _DECIMAL_BYTES for values in self._values.values())

    def extend(self, head: StatisticsHead, rows: Sequence[bytes]) -> bool:
        """Add rows; False if they have another form than the others."""
        if self.head not in (None, head) or head.prefix[-1] not in data.KINDS:
            return False
        read = data.read(head.prefix[-1], rows)
        if read is None or any(None in values for values in read.values()):
            return False
        self.head = head
        for name, values in read.items():
            known = self._values.get(name)
            if known is None:
                known = self._values[name] = _holder(values[0])
            known.extend(values)
        return True

    def of(self, rows: Sequence[int]) -> dict[str, Sequence[Value]]:
        """The values of these rows, given in ascending order."""
        begin, end = rows[0], rows[-1] + 1
        if end - begin == len(rows):
            return {name: values[begin:end] for name, values in self._values.items()}
        pick = itemgetter(*rows)
        return {name: pick(values) for name, values in self._values.items()}


def _holder(value: Value) -> array[int] | array[float] | list[Value]:
    if isinstance(value, int):
        return array("q")
    return array("d") if isinstance(value, float) else []


class Rows:
    """The held columns of one table and engine, as of one state of the table.

    `index`: the row of each partition that was read, NONE for those without statistics of the columns that were read.
    `count`: the number of rows.
    `columns`: None for a column that cannot be held.
    """

    __slots__ = ("busy", "columns", "count", "index", "state")

    def __init__(self, state: TableState) -> None:
        self.state = state
        self.index: dict[bytes, int] = {}
        self.count = 0
        self.columns: dict[bytes, ColumnArrays | None] = {}
        self.busy = False

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        row = sum(column.row_bytes for column in self.columns.values() if column is not None)
        return len(self.index) * _NAME_BYTES + self.count * row

    def add_columns(self, found: Gathered, begin: int, wanted: Iterable[bytes], places: Sequence[int]) -> None:
        """Add columns, for partitions that have rows already, the first of them `begin`. Exactly the partitions at
        `places` have statistics."""
        for name in wanted:
            column = self.columns.get(name) if begin else ColumnArrays()
            self.columns[name] = column if column is not None and _add(column, name, found, places) else None

    def look_again(self, found: Gathered, names: Sequence[bytes]) -> None:
        """These partitions had no statistics of the columns that were read. Forget those that have some of others."""
        for place in {place for places, _ in found.values() for place in places}:
            del self.index[names[place]]

    def add_partitions(self, found: Gathered, names: Sequence[bytes]) -> None:
        """Add partitions that have no row yet, with all held columns (places in `names`)."""
        some = sorted({place for places, _ in found.values() for place in places})
        for name, column in self.columns.items():
            if column is not None and not _add(column, name, found, some):
                self.columns[name] = None
        self.index.update(dict.fromkeys(names, NONE))
        self.index.update({names[place]: self.count + row for row, place in enumerate(some)})
        self.count += len(some)


def _add(column: ColumnArrays, name: bytes, found: Gathered, places: Sequence[int]) -> bool:
    """Extend the column by what was found; False unless exactly these places have it, all in one form."""
    parts = [(head, *part) for head, part in found.items() if head.column == name]
    if not parts:
        return not places
    head, where, rows = parts[0]
    return len(parts) == 1 and list(where) == list(places) and column.extend(head, rows)


class Memory:
    """The tables whose columns are held, in about `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._tables: dict[EngineTable, Rows] = {}
        self._asked: dict[EngineTable, TableState] = {}

    def rows(self, place: EngineTable, state: TableState, partitions: int, columns: int) -> Rows | None:
        """The rows of a table, to be filled and read. None the first time, while another request fills them, and if
        they are too large."""
        known = self._tables.pop(place, None)
        if known is not None and known.state == state:
            self._tables[place] = known  # it is evicted last
            return None if known.busy else known
        if self._asked.pop(place, None) != state:
            if len(self._asked) >= _ASKED:
                del self._asked[next(iter(self._asked))]
            self._asked[place] = state
            return None
        if partitions * (_NAME_BYTES + _COLUMN_BYTES * columns) > self._most_bytes:
            return None
        rows = self._tables[place] = Rows(state)
        return rows

    def forget(self, place: EngineTable, rows: Rows) -> None:
        """Discard rows that were being filled."""
        if self._tables.get(place) is rows:
            del self._tables[place]

    def make_room(self) -> None:
        """Evict tables if too much memory is used."""
        size = sum(rows.size_bytes for rows in self._tables.values())
        while size > self._most_bytes:
            size -= self._tables.pop(next(iter(self._tables))).size_bytes


class ColumnGathering:
    """Reads rows of the cache, in slices."""

    def __init__(self, entry: TableEntry, engine: bytes, opened: Callable[[], CacheSnapshot | None]) -> None:
        """`opened`: CacheSnapshot.again."""
        self._entry = entry
        self._engine = engine
        self._opened = opened

    def fill(
        self, rows: Rows, names: Iterable[bytes], columns: Iterable[bytes], *, exact: bool
    ) -> Generator[None, None, None]:
        """Read these columns of these partitions unless they are held. `exact` False: every name must be a partition's.
        Yields between slices. Raises TableChanged; the rows are then useless."""
        new = frozenset(columns).difference(rows.columns)
        if new:
            if not rows.count:
                rows.columns.update({name: ColumnArrays() for name in new})
            known = [name for name, row in rows.index.items() if row != NONE]
            without = [name for name, row in rows.index.items() if row == NONE]
            work, at = Portions(SLICE // (len(new) + ROW)), 0
            while at < len(known):
                for some in work.of_turn(known, at):
                    rows.add_columns(self._gathered(some, new), at, new, range(len(some)))
                    at += len(some)
                yield
            at = 0
            while at < len(without):
                for some in work.of_turn(without, at):
                    rows.look_again(self._gathered(some, new), some)
                    at += len(some)
                yield
        unknown = [name for name in dict.fromkeys(names) if name not in rows.index]
        work, at = Portions(SLICE // (len(rows.columns) + ROW)), 0
        while at < len(unknown):
            for some in work.of_turn(unknown, at):
                held = frozenset(name for name, column in rows.columns.items() if column is not None)
                rows.add_partitions(self._gathered(some, held, exact=exact), some)
                at += len(some)
            yield

    def _gathered(self, names: Sequence[bytes], columns: frozenset[bytes], *, exact: bool = True) -> Gathered:
        snapshot = self._opened()
        if snapshot is None:
            raise TableChanged
        with snapshot:
            found, _ = snapshot.gather_statistics(self._entry, enumerate(names), columns, self._engine, 0)
            if not exact:
                there = {place for places, _ in found.values() for place in places}
                others = (name for place, name in enumerate(names) if place not in there)
                if not snapshot.has_partitions(self._entry, others):
                    raise TableChanged
        return found
