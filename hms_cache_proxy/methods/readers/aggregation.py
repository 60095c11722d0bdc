"""Combines the statistics of several partitions as the metastore does.

Job: combine column statistics of the named partitions into an `AggrStats`, as Hive 4.0.0 and 4.2.0 return it with their
default settings. These use SQL (MetaStoreDirectSql.aggrStatsUseDB): minima, maxima and sums, in integers and in doubles
that are only compared. The number of distinct values is the largest one of a partition, and at most the range of an
integer column. Must not know: the cache, requests, settings.

If some columns of some partitions lack statistics, the columns that have them for at least two partitions, but not for
all, are extrapolated (LinearExtrapolatePartStatus): along a line through the smallest and the largest value, by the
places of their partitions in the request; sums are scaled up. If several partitions have the smallest or the largest
value, the database chooses one of them. Other columns are combined as if nothing were missing; from 4.1 on that fails,
because the query lacks a column.

Raises `Unsettled` if the metastore refuses, or if its answer depends on more than the statistics. The database also
computes densities, which no result shows, and fails where it divides by 0 or a number is too large.
Owner: any process; a `Total` belongs to its creator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from operator import sub
from struct import Struct
from typing import Final

from hms_cache_proxy.cache.statistics import Gathered
from hms_cache_proxy.store.protocol import StatisticsHead

from . import statistics_data as data
from .extremes import Extremes, Unsettled
from .statistics_data import DECIMALS, DOUBLES, Value

_MIN_LONG, _MAX_LONG = -(1 << 63), (1 << 63) - 1
_LARGE: Final = 1e140
"""Larger doubles may overflow in the sums of squares that PostgreSQL's avg() keeps."""
_TINY: Final = 1e-290
"""Smaller differences may underflow when they are divided by a number of distinct values."""
_INTEGERS: Final = frozenset((2, 7, 8))
_ESTIMATED: Final = frozenset((2, 3, 6, 7, 8))
_SUMS: Final = frozenset(("nulls", "trues", "falses"))
_LIST: Final = Struct(">bhbi")
_PARTS_FOUND: Final = Struct(">bhq")


@dataclass(slots=True)
class _Column:
    head: StatisticsHead
    number: int
    count: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    extremes: dict[str, Extremes] = field(default_factory=dict)


class Total:
    """The combined statistics of the partitions of a request; they may be added some at a time.

    `decimals`: the database casts to decimals with fractions, not to integers of ten digits as MySQL does.
    `complete_fails`: the metastore fails where the query lacks a column, see above.
    """

    def __init__(self, *, decimals: bool, complete_fails: bool) -> None:
        self._decimals = decimals
        self._complete_fails = complete_fails
        self._columns: dict[bytes, _Column] = {}

    def add(self, found: Gathered) -> None:
        """Add partitions, by their places in the request. Raises Unsettled."""
        for head, (places, rows) in found.items():
            column = self._column(head)
            values = data.read(column.number, rows)
            if values is None:
                raise Unsettled(head.column)
            self._add(column, places, values)

    def add_values(self, head: StatisticsHead, places: Sequence[int], values: Mapping[str, Sequence[Value]]) -> None:
        """Add partitions for one column, with values as `statistics_data.read` returns them. Raises Unsettled."""
        self._add(self._column(head), places, values)

    def _column(self, head: StatisticsHead) -> _Column:
        column = self._columns.get(head.column)
        if column is None:
            column = self._columns[head.column] = _Column(head, head.prefix[-1])
        if column.head != head or column.number not in data.KINDS:  # the column's type was changed, or is unknown
            raise Unsettled(head.column)
        if column.number == DECIMALS and not self._decimals:
            raise Unsettled(head.column)
        return column

    @staticmethod
    def _add(column: _Column, places: Sequence[int], values: Mapping[str, Sequence[Value]]) -> None:
        _refused(column.number, values)
        column.count += len(places)
        for name, some in values.items():
            if name in _SUMS:
                column.sums[name] = column.sums.get(name, 0) + sum(some)
            else:
                column.extremes.setdefault(name, Extremes()).add(places, some)

    def result(self, named: int, distinct: int, complete: int) -> bytes:
        """The struct `AggrStats` with its stop byte, columns in order of their names. Raises Unsettled.

        `named`: how many partitions the request names, `distinct`: without the repeated ones; `complete`: how many have
        as many of the columns as the request names.
        """
        pieces = []
        for _, column in sorted(self._columns.items()):
            if complete == named or column.count == named or column.count < 2:
                if self._complete_fails and complete != named:
                    raise Unsettled(column.head.column)
                values = _added_up(column)
            else:
                values = _extrapolated(column, named, distinct - 1)
            if column.number in _ESTIMATED:
                values["distinct"] = _estimated(column.number, values)
            pieces += [column.head.prefix, data.write(column.number, values)]
        header = _LIST.pack(15, 1, 12, len(self._columns))
        return b"".join((header, *pieces, _PARTS_FOUND.pack(10, 2, complete), b"\0"))


def _refused(number: int, values: Mapping[str, Sequence[Value]]) -> None:
    """Raises Unsettled where a density cannot be computed, or the database may compare a double differently."""
    if "average" in values and not isfinite(sum(values["average"])):
        raise Unsettled("average")
    if "low" not in values:
        return
    lows, highs, distinct = values["low"], values["high"], values["distinct"]
    if 0 in distinct and any(
        count == 0 and low is not None and high is not None
        for low, high, count in zip(lows, highs, distinct, strict=True)
    ):
        raise Unsettled("distinct")
    if number == DOUBLES:
        for bounds in (lows, highs):
            present = [bound for bound in bounds if bound is not None] or [0.0]
            if not (isfinite(sum(present)) and -_LARGE < min(present) and max(present) < _LARGE):
                raise Unsettled("bound")
        if min(filter(None, map(abs, _ranges(lows, highs))), default=_TINY) < _TINY:
            raise Unsettled("range")
    elif number in _INTEGERS:
        ranges = list(_ranges(lows, highs)) or [0]
        if min(ranges) < _MIN_LONG or max(ranges) > _MAX_LONG:
            raise Unsettled("range")


def _ranges(lows: Sequence[Value], highs: Sequence[Value]) -> Iterable[Value]:
    if None in lows or None in highs:
        return [high - low for low, high in zip(lows, highs, strict=True) if low is not None and high is not None]
    return map(sub, highs, lows)


def _added_up(column: _Column) -> dict[str, Value]:
    values: dict[str, Value] = {name: _long(total) for name, total in column.sums.items()}
    for name, extremes in column.extremes.items():
        values[name] = extremes.smallest.only() if name == "low" else extremes.largest.only()
    return values


def _estimated(number: int, values: Mapping[str, Value]) -> int:
    """The number of distinct values: converted to a double and back, and at most the range of an integer column."""
    distinct = min(int(float(values["distinct"])), _MAX_LONG)
    if number in _INTEGERS and values["low"] is not None and values["high"] is not None:
        return min(distinct, _long(values["high"] - values["low"] + 1))
    return distinct


def _extrapolated(column: _Column, named: int, border: int) -> dict[str, Value]:
    """The values of a column that not all partitions have. `border`: the last place of the request."""
    values: dict[str, Value] = {
        name: _long(_quotient(_long(total), column.count) * named) for name, total in column.sums.items()
    }
    for name, extremes in column.extremes.items():
        if extremes.missing:
            values[name] = None
        elif column.number == DECIMALS and name in data.OPTIONAL:
            raise Unsettled(name)  # the database converts it to the text of a double
        else:
            values[name] = _at_border(name, extremes, border)
    return values


def _at_border(name: str, extremes: Extremes, border: int) -> Value:
    """The value at the end of the request, on the line through the smallest and the largest value."""
    smallest, largest = extremes.smallest.value, extremes.largest.value
    is_double = isinstance(smallest, float)
    if extremes.negative_zero:
        raise Unsettled(name)
    if smallest == largest:
        return smallest
    first, last = extremes.smallest.place(), extremes.largest.place()
    span = abs(last - first)
    if name == "low":
        steps = last if first < last else border - last
    else:
        steps = border - first if first < last else first
    if is_double:
        way = (largest - smallest) * steps / span
        return largest - way if name == "low" else smallest + way
    way = _quotient(_long(_long(largest - smallest) * steps), span)
    return _long(largest - way if name == "low" else smallest + way)


def _long(value: int) -> int:
    """The value wrapped to 64 bits, as in Java."""
    return (value - _MIN_LONG) % (1 << 64) + _MIN_LONG


def _quotient(value: int, divisor: int) -> int:
    """The quotient, rounded towards 0."""
    return value // divisor if value >= 0 else -(-value // divisor)
