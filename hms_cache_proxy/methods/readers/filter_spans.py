"""Finds where the partitions that a filter selects can be among a table's names, by the conditions on one key.

Job: turn the tree of a filter into ranges, which are spans of names (in bytewise order) or numbers. A range may contain
more than the filter selects, never less; what is found there is matched afterwards. None means anywhere. Must not know:
the cache, what comparisons mean, except that strings and dates compare bytewise and integers as numbers. Owner: any
process; no state.

Names are escaped, so their order is not that of the values: an escaped character sorts as `%`. Bounds with such
characters, or with characters below `%`, are not used. For other bounds there is a further span, for values that differ
from the low bound in an escaped character.

A span is about names without the components before the key.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from hms_cache_proxy.filters.tree import Compare, Literal, Node

from .filter_numbers import first_number
from .part_names import DEFAULT_PARTITION, escape

NameSpan = tuple[bytes, bytes]
"""From the first name, included, to the second, excluded."""
Bound = TypeVar("Bound", bytes, int)
Interval = tuple[Bound | None, Bound | None]
"""Lowest and highest value, both included; None: no bound."""

MOST_INTERVALS = 100
MOST_NUMBERS = 8
"""Intervals of numbers that are looked through for each name (20 us each); more are joined with their neighbors."""
LONGEST = 64
"""Bytes of a bound that count: a bound has as many spans as bytes."""
_LOWEST = ord("%")
_WILD = re.compile("[%_]")
_AFTER_ALL = b"\xff"
"""No text has this byte."""


class ScanRanges(Protocol):
    """Where the rests of names can be that a filter selects."""

    def first(self, rest: bytes) -> bytes | None:
        """The first place that is not less than `rest`: `rest` itself, or where to go on; None if there is none."""


class Spans:
    """Spans in order, without overlaps."""

    __slots__ = ("_highs", "_lows")

    def __init__(self, spans: Iterable[NameSpan]) -> None:
        merged = _merged(spans)
        self._lows = [low for low, _ in merged]
        self._highs = [high for _, high in merged]

    def first(self, rest: bytes) -> bytes | None:
        """See ScanRanges."""
        at = bisect_right(self._lows, rest)
        if at and rest < self._highs[at - 1]:
            return rest
        return self._lows[at] if at < len(self._lows) else None


class NumberSpans:
    """Integers in intervals, as decimals without leading zeros; odd spellings (`007`, `-0`) have spans too."""

    __slots__ = ("_begin", "_intervals", "_others")

    def __init__(self, key: bytes, intervals: list[Interval[int]]) -> None:
        self._begin = begin = escape(key) + b"="
        self._intervals = _few(intervals)
        self._others = Spans([_after_prefix(begin + odd) for odd in (DEFAULT_PARTITION, b"0", b"-0")])

    def first(self, rest: bytes) -> bytes | None:
        """See ScanRanges."""
        begin = self._begin
        value = rest[len(begin) :].partition(b"/")[0] if rest.startswith(begin) else b""
        found = [] if rest > begin and not rest.startswith(begin) else [first_number(value, self._intervals)]
        if found == [value]:
            return rest
        places = [begin + number for number in found if number is not None]
        other = self._others.first(rest)
        return min(places if other is None else [*places, other], default=None)


def places(node: Node, key: bytes, *, last: bool, bytewise: bool, integer: bool) -> ScanRanges | None:
    """Where the values of a key (in lower case) can be. `last`: it is the last key. `bytewise`, `integer`: how it is
    compared; all values of an `integer` key are integers."""
    values = exact(node, key)
    if values is not None:
        begin = escape(key) + b"="
        return Spans(under({begin + escape(value) for value in values}, last=last))
    if bytewise:
        spans = between(node, key, last=last)
        return None if spans is None else Spans(spans)
    if integer:
        intervals = _intervals(node, key, _number)
        return None if intervals is None else NumberSpans(key, intervals)
    return None


def exact(node: Node, key: bytes) -> list[bytes] | None:
    """Every value that a key can have where the filter is true; None if the filter does not list them."""
    if isinstance(node, Compare):
        return [node.value.encoded] if node.op == "=" and node.folded == key else None
    found = [exact(term, key) for term in node.terms]
    if node.every:
        return min((values for values in found if values is not None), key=len, default=None)
    if any(values is None for values in found):
        return None
    return [value for values in found for value in values or ()]


def under(components: Iterable[bytes], *, last: bool) -> list[NameSpan]:
    """The names that begin with one of these components; `last`: it is the last one."""
    return _merged((component if last else component + b"/", _through(component, last)) for component in components)


def between(node: Node, key: bytes, *, last: bool) -> list[NameSpan] | None:
    """The spans for a key that is compared bytewise; `last`: it is the last key."""
    exact_bounds = _intervals(node, key, _text)
    found = None if exact_bounds is None else [_shortened(*interval) for interval in exact_bounds]
    if found is None or any(_unusable(bound) for interval in found for bound in interval if bound is not None):
        return None
    begin = escape(key) + b"="
    spans = [_after_prefix(begin + DEFAULT_PARTITION)]  # an empty value has this name too
    for low, high in found:
        spans.append((begin + (low or b""), _after_prefix(begin)[1] if high is None else _through(begin + high, last)))
        if high is not None and not last:  # the end of a value sorts as the slash
            spans += [(begin + high[:at] + b"/", begin + high[:at] + b"0") for at in range(1, len(high))]
        if low is not None:
            spans += [_after_prefix(begin + low[:at] + b"%") for at in range(len(low))]
    return _merged(spans)


def _text(value: Literal) -> bytes | None:
    return value.encoded


def _number(value: Literal) -> int | None:
    return int(value.text) if value.kind == "integer" else None


def _intervals(node: Node, key: bytes, read: Callable[[Literal], Bound | None]) -> list[Interval[Bound]] | None:
    if isinstance(node, Compare):
        if node.op == "like":
            return _beginning(node, key, read)
        bound = read(node.value)
        if node.folded != key or bound is None or node.op == "!=":
            return None
        return [(None if node.op[0] == "<" else bound, None if node.op[0] == ">" else bound)]
    found = [_intervals(term, key, read) for term in node.terms]
    if not node.every:
        if any(some is None for some in found):
            return None
        return [interval for some in found for interval in some or ()]
    result: list[Interval[Bound]] | None = None
    for some in found:
        if some is not None and (result is None or len(result) * len(some) <= MOST_INTERVALS):
            result = some if result is None else [both for a in result for b in some if (both := _common(a, b))]
    return result


def _beginning(node: Compare, key: bytes, read: Callable[[Literal], Bound | None]) -> list[Interval[Bound]] | None:
    """Where values are that begin as a pattern does."""
    if node.folded != key:
        return None
    low = read(Literal(_WILD.split(node.value.text)[0], "string"))
    return [(low, low + _AFTER_ALL)] if isinstance(low, bytes) and low else None


def _common(a: Interval[Bound], b: Interval[Bound]) -> Interval[Bound] | None:
    lows = [low for low, _ in (a, b) if low is not None]
    highs = [high for _, high in (a, b) if high is not None]
    low, high = max(lows, default=None), min(highs, default=None)
    return None if low is not None and high is not None and low > high else (low, high)


def _shortened(low: bytes | None, high: bytes | None) -> Interval[bytes]:
    """An interval with short bounds that contains this one."""
    if high is not None and len(high) > LONGEST:
        high = high[:LONGEST] + _AFTER_ALL
    return None if low is None else low[:LONGEST], high


def _few(intervals: Iterable[Interval[int]]) -> list[Interval[int]]:
    """At most MOST_NUMBERS intervals, in order, that contain these."""
    found: list[Interval[int]] = []
    for low, high in sorted(intervals, key=lambda one: (one[0] is not None, one[0] or 0)):
        before = found[-1] if found else None
        if before is not None and (before[1] is None or low is None or low <= before[1] + 1):
            found[-1] = before[0], None if before[1] is None or high is None else max(before[1], high)
        else:
            found.append((low, high))
    while len(found) > MOST_NUMBERS:
        found = [(found[at][0], found[min(at + 1, len(found) - 1)][1]) for at in range(0, len(found), 2)]
    return found


def _unusable(bound: bytes) -> bool:
    return escape(bound) != bound or min(bound, default=_LOWEST) < _LOWEST


def _through(component: bytes, last: bool) -> bytes:
    return component + (b"\0" if last else b"0")


def _after_prefix(prefix: bytes) -> NameSpan:
    return prefix, prefix[:-1] + bytes((prefix[-1] + 1,))


def _merged(spans: Iterable[NameSpan]) -> list[NameSpan]:
    """The spans in order, without overlaps."""
    found: list[NameSpan] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found
