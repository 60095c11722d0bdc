"""An index of the values of partition keys in large tables, for filters that do not name the first keys.

Job: hold for each key of a table its values, and for each value the blocks of names (BLOCK names in order) in which it
occurs. The names in the blocks that a filter can select are then matched one by one. Must not know: requests, replies.

A walk (filter_walk.py) finds names only by their first keys: a search by a later key looks under every value of the
keys before it. Searches that walk far and find little build the index. After its answer, such a search adds
NAMES_PER_MOVE names for each of its moves; the second search in the same state of the table adds twice as many, and so
on. So if a table changes with every search, its searches take about twice as long. The index is used when all names are
in it. It belongs to one state of the table: any change of the table ends it. The memory of a worker is bounded; the
least recently used table is evicted first. Owner: one `KeyIndexes` per worker, on its loop.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Sequence
from time import perf_counter_ns
from typing import Final, NamedTuple

from hms_cache_proxy.cache.entries import TableEntry, TableState
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.store.protocol import TableKey

BLOCK: Final = 32
"""Names in a block, 0.3 us each to match. A block takes 4 bytes for each of its values, and its first name."""
AT_ONCE: Final = 32 * BLOCK
"""Names that are read in one turn of the loop (1 us each)."""
WORTH_MOVES: Final = 2000
"""A search with fewer moves (2 us each) needs no index."""
NAMES_PER_MOVE: Final = 4
MOST_PAID: Final = 100 * AT_ONCE
"""Names that one search adds (100 ms)."""
MOST_VALUES: Final = 20_000
"""A key with more distinct values is left out."""
TRIED_NS: Final = 500_000
"""Values are checked against a filter for so long in one turn of the loop; one takes 0.5 us, or much more if the filter
has many comparisons."""
USEFUL: Final = 50
"""The index is used if a filter leaves at most one in so many blocks: beyond that a walk costs about as much."""

_VALUE_BYTES: Final = 220  # in a dictionary, with an array of its own
_NAME_BYTES: Final = 150

Accepted = frozenset[bytes] | Callable[[bytes], bool]
"""Components that a selected name can have; or a function that says whether it can (raises filter_match.Unsure)."""


class Chosen(NamedTuple):
    """Blocks in order, and the components of key number `at` that selected names can have."""

    at: int
    components: set[bytes]
    blocks: list[int]


def most_bytes(keys: int, partitions: int) -> int:
    """About the largest size of an index."""
    return keys * (4 * partitions + _VALUE_BYTES * MOST_VALUES) + _NAME_BYTES * (partitions // BLOCK + 1)


class KeyIndex:
    """The values of one table's keys in one state."""

    __slots__ = ("after", "busy", "complete", "firsts", "postings", "searches", "state", "weights")

    def __init__(self, state: TableState, keys: int) -> None:
        self.state = state
        self.firsts: list[bytes] = []
        self.postings: list[dict[bytes, array[int]] | None] = [{} for _ in range(keys)]
        self.after: bytes | None = None
        self.searches = 0
        self.weights = [0] * keys  # bytes
        self.complete = self.busy = False

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        return sum(self.weights) + _NAME_BYTES * len(self.firsts)

    def add(self, names: Sequence[bytes]) -> None:
        """Add the next names of the table: AT_ONCE of them, or fewer if they are the last."""
        for begin in range(0, len(names), BLOCK):
            some = names[begin : begin + BLOCK]
            block = len(self.firsts)
            self.firsts.append(some[0])
            columns = list(zip(*[name.split(b"/") for name in some], strict=False))
            for at, posting in enumerate(self.postings):
                if posting is None:
                    continue
                known_values = len(posting)
                components = set(columns[at]) if at < len(columns) else set[bytes]()
                for component in components:
                    known = posting.get(component)
                    if known is None:
                        posting[component] = array("I", (block,))
                    else:
                        known.append(block)
                self.weights[at] += 4 * len(components) + _VALUE_BYTES * (len(posting) - known_values)
                if len(posting) > MOST_VALUES or at >= len(columns):
                    self.postings[at], self.weights[at] = None, 0
        self.after = names[-1] if names else self.after
        self.complete = len(names) < AT_ONCE

    def chosen(self, accepts: Sequence[Accepted | None]) -> Generator[None, None, Chosen | None]:
        """The blocks where selected names can be; None if there are too many to be useful. `accepts`: the components of
        each key that a selected name can have, None if the filter does not restrict it. Yields between slices."""
        best: Chosen | None = None
        blocks: set[int] | None = None
        most = len(self.firsts) // USEFUL
        until_ns = perf_counter_ns() + TRIED_NS
        for at, (posting, accepted) in enumerate(zip(self.postings, accepts, strict=True)):
            if posting is None or accepted is None:
                continue
            left = most
            components: set[bytes] = set()
            for component in posting if callable(accepted) else accepted:
                if component in posting and (not callable(accepted) or accepted(component)):
                    components.add(component)
                    left -= len(posting[component])
                    if left < 0:
                        break
                if perf_counter_ns() >= until_ns:
                    yield
                    until_ns = perf_counter_ns() + TRIED_NS
            if left >= 0:
                there = set[int]().union(*(posting[component] for component in components))
                if best is None or len(there) < len(best.blocks):
                    best = Chosen(at, components, sorted(there))
                blocks = there if blocks is None else blocks & there
        return None if best is None or blocks is None else best._replace(blocks=sorted(blocks))


class KeyIndexes:
    """The indexes of a worker, in about `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._tables: dict[TableKey, KeyIndex] = {}

    def of(self, entry: TableEntry, state: TableState) -> KeyIndex | None:
        """The whole index of a table in this state, if there is one."""
        place = entry.catalog, entry.database, entry.name
        index = self._tables.get(place)
        if index is None or index.state != state or not index.complete:
            return None
        self._tables[place] = self._tables.pop(place)  # it is evicted last
        return index

    def pay(
        self, entry: TableEntry, state: TableState, moves: int, opened: Callable[[], CacheSnapshot | None]
    ) -> Generator[None, None, None]:
        """Add names to a table's index after a search that it would have helped. Yields between slices. `opened`:
        CacheSnapshot.again of the state."""
        place = entry.catalog, entry.database, entry.name
        index = self._tables.get(place)
        if moves < WORTH_MOVES or most_bytes(len(entry.partition_keys), entry.partition_count) > self._most_bytes:
            return
        if index is None or index.state != state:
            self._tables.pop(place, None)
            index = self._tables[place] = KeyIndex(state, len(entry.partition_keys))
        if index.busy or index.complete:
            return
        index.busy = True
        index.searches += 1
        try:
            for _ in range(0, min(moves * NAMES_PER_MOVE * index.searches, MOST_PAID), AT_ONCE):
                yield
                snapshot = opened()
                if snapshot is None:  # the table has changed
                    self._forget(place, index)
                    return
                with snapshot:
                    index.add(snapshot.partition_names(entry, index.after, AT_ONCE))
                if index.complete:
                    break
        finally:
            index.busy = False
        self._make_room()

    def _forget(self, place: TableKey, index: KeyIndex) -> None:
        if self._tables.get(place) is index:
            del self._tables[place]

    def _make_room(self) -> None:
        size = sum(index.size_bytes for index in self._tables.values())
        while size > self._most_bytes:
            size -= self._tables.pop(next(iter(self._tables))).size_bytes
