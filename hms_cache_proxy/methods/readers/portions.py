"""Splits work into turns of the loop if nobody knows in advance how long an item takes.

Job: `Portions.of_turn` gives the items of one turn, a portion at a time, until the turn's time is used up. The first
portion is one item; how large the next one is depends on how long the last one took: a row of statistics may have two
columns, or two thousand. Must not know: what the items are. Owner: the request that works.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter_ns
from typing import Final, TypeVar

TURN_NS: Final = 2_000_000
"""The time of one turn."""

_Item = TypeVar("_Item")


class Portions:
    """The portions of one piece of work. `most`: items of one portion."""

    __slots__ = ("_most", "_size")

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._size = 1

    def of_turn(self, items: Sequence[_Item], at: int) -> Iterator[Sequence[_Item]]:
        """The items from place `at` on, as far as this turn takes them. At least one portion, if there are items."""
        until_ns = perf_counter_ns() + TURN_NS
        while at < len(items):
            some = items[at : at + self._size]
            began_ns = perf_counter_ns()
            yield some
            now_ns = perf_counter_ns()
            at += len(some)
            each_ns = max((now_ns - began_ns) // len(some), 1)
            left_ns = until_ns - now_ns
            self._size = min(max((left_ns if left_ns > 0 else TURN_NS // 2) // each_ns, 1), self._most)
            if left_ns <= 0:
                return
