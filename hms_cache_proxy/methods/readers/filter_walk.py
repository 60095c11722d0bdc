"""Finds the names that a filter selects by jumping over those that it does not.

Job: walk a table's names in order. Each key has a level: where its values can be, and whether the values up to it can
be part of an answer. One look-up jumps over everything that a level excludes: the cost of a search depends on the
values that it reads, not on the number of partitions. Must not know: the cache's rows, requests.

Work is cut into slices of SLICE_NS: the generators here yield between them. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Generator
from time import perf_counter_ns
from typing import Protocol

from hms_cache_proxy.cache.walk import NameWalk

from .filter_match import KeyLevel, Match, Unsure, unescaped
from .key_index import BLOCK, Chosen, KeyIndex
from .part_names import DEFAULT_PARTITION

Names = Generator[None, None, list[bytes]]
"""Yields between slices; returns names in order."""

SLICE_NS = 1_000_000
"""Work in one turn of the loop."""
MOVES = 100_000
"""Moves of one search (about 2 us each); one that needs more goes upstream."""
RUN = 1000
"""Names that are read at once (0.3 us each; two count as a move) after shorter runs of names that all match."""
_SHORT_RUN = 16
MOVES_FIRST = 1000
"""Moves before a search uses the table's index."""
LISTED = 1000
"""Names that are read at once where each is matched (1.5 us each, if there are few comparisons)."""
_MATCHED = 4
"""Names that are matched between two readings of the clock: a filter may have a thousand comparisons."""
PARENTS = 100
"""Look-ups of `by_last_key` at once (0.7 us each; three count as a move)."""
_PER_LOOK = 64
"""Moves between two readings of the clock; fewer if a filter has many comparisons."""
_CHEAP = 8
"""So many comparisons double the time of a move."""


class NameMatcher(Protocol):
    """Decides about each name."""

    def selects(self, name: bytes) -> bool:
        """Is the partition of this name selected? Raises Unsure."""


def by_looking_at_all(walk: NameWalk, match: NameMatcher, limit: int | None) -> Names:
    """Match every name, whatever the limit: a value that makes the call fail may be anywhere."""
    found: list[bytes] = []
    after: bytes | None = None
    looked_at = 0
    until_ns = perf_counter_ns() + SLICE_NS
    while True:
        names = walk.listing(after, LISTED)
        for at in range(0, len(names), _MATCHED):
            if perf_counter_ns() >= until_ns:
                yield
                until_ns = perf_counter_ns() + SLICE_NS
            found += [name for name in names[at : at + _MATCHED] if match.selects(name)]
        if len(names) < LISTED:
            return found if limit is None else found[:limit]
        after = names[-1]
        looked_at += len(names)
        if looked_at > MOVES:
            raise TooFar


class TooFar(Exception):
    """A search needs more moves than it may make."""


class Search:
    """The cost of a search: `moves` that found nothing, of `most`."""

    __slots__ = ("most", "moves")

    def __init__(self) -> None:
        self.moves = 0
        self.most = MOVES

    def went(self, moves: int, found: int) -> None:
        """The search has made so many moves in all. Raises TooFar."""
        self.moves = moves - found
        if moves > self.most:
            raise TooFar


def by_blocks(walk: NameWalk, match: Match, index: KeyIndex, chosen: Chosen, limit: int | None) -> Names:
    """Match the names in these blocks. The index is of the walk's state."""
    found: list[bytes] = []
    at, components = chosen.at, chosen.components
    until_ns = perf_counter_ns() + SLICE_NS
    for block in chosen.blocks:
        if limit is not None and len(found) >= limit:
            break
        walk.at(index.firsts[block])
        some = [name for name in walk.run(BLOCK) if name.split(b"/")[at] in components]
        found += [name for name in some if match.selects(name)]
        if perf_counter_ns() >= until_ns:
            yield
            until_ns = perf_counter_ns() + SLICE_NS
    return found if limit is None else found[:limit]


def by_jumping(walk: NameWalk, match: Match, keys: int, limit: int | None, search: Search) -> Names:
    """Read the names that can be selected and jump over the others, in a table with so many keys and no long names."""
    levels = match.levels()
    deepest = len(levels) - 1
    found: list[bytes] = []
    begins: list[bytes] = []  # of the previous name: up to and with each slash, while the levels hold
    values: list[bytes] = []
    name = walk.at(b"")
    per_look = max(1, _PER_LOOK // (1 + match.comparisons // _CHEAP))
    moves, look, run = 0, per_look, _SHORT_RUN
    until_ns = perf_counter_ns() + SLICE_NS
    while name is not None and (limit is None or len(found) < limit):
        moves += 1
        if moves >= look:
            look = moves + per_look
            if perf_counter_ns() >= until_ns:
                search.went(moves, len(found))
                yield
                until_ns = perf_counter_ns() + SLICE_NS
        while begins and not name.startswith(begins[-1]):
            begins.pop()
        del values[len(begins) :]
        there, jump = _judged(name, levels, begins, values, keys)
        if there is None:
            name = None if jump is None else walk.at(jump)
        elif DEFAULT_PARTITION in there:  # or an empty value, which has the same name
            if match.selects(name):
                found.append(name)
            name = walk.next()
        elif deepest == keys - 1:
            found.append(name)
            name = walk.next()
        else:  # all names that begin so
            names = walk.run(run if limit is None else min(run, limit - len(found)))
            inside = [each for each in names if each.startswith(there)]
            found += inside
            moves += len(names) // 2
            more = len(inside) == len(names)
            run = min(4 * run, RUN) if more else _SHORT_RUN
            name = walk.at(names[-1] + b"\0" if more else there[:-1] + b"0")
    search.moves = moves - len(found)
    return found


def by_last_key(walk: NameWalk, ends: list[bytes], limit: int | None, search: Search) -> Names:
    """Find the names that end with one of these last components, in a table with several keys, for a filter that names
    only the last key. Takes half of the time of by_jumping."""
    found: list[bytes] = []
    at_once = max(1, PARENTS // (1 + len(ends)))
    more = walk.at(b"") is not None
    moves, until_ns = 0, perf_counter_ns() + SLICE_NS
    while more and (limit is None or len(found) < limit):
        some, more = walk.ending(ends, at_once)
        found += some
        moves += PARENTS // 3
        if more and perf_counter_ns() >= until_ns:
            search.went(moves, len(found))
            yield
            until_ns = perf_counter_ns() + SLICE_NS
    search.moves = moves - len(found)
    return found if limit is None else found[:limit]


def _judged(
    name: bytes, levels: list[KeyLevel], begins: list[bytes], values: list[bytes], keys: int
) -> tuple[bytes | None, bytes | None]:
    """(the beginning for which all levels hold, None), or (None, where to go on; None if nowhere)."""
    for at in range(len(begins), len(levels)):
        level = levels[at]
        start = len(begins[at - 1]) if at else 0
        if level.places is not None:
            rest = name[start:]
            first = level.places.first(rest)
            if first is None:
                return None, (name[: start - 1] + b"0" if start else None)
            if first != rest:
                return None, name[:start] + first
        slash = name.find(b"/", start)
        last = at == keys - 1
        if (slash < 0) is not last:
            raise Unsure
        component = name[start:] if last else name[start:slash]
        if not component.startswith(level.begin):
            raise Unsure
        value = component[len(level.begin) :]
        values.append(unescaped(value) if b"%" in value else value)
        if level.holds is not None and DEFAULT_PARTITION not in values and not level.holds(values):
            values.pop()
            return None, name[: start + len(component)] + (b"\0" if last else b"0")
        if last:
            return name, None
        begins.append(name[: slash + 1])
    return begins[-1], None
