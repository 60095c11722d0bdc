"""Finds the smallest and the largest of many values, and the partitions that have them.

Job: take values, some at a time; raise Unsettled if it is not certain which of equal values a database would choose.
Must not know: what the values mean. Owner: its creator.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import copysign
from typing import Any


class Unsettled(Exception):
    """The metastore has to be asked."""


class Extreme:
    """The smallest value, or the largest; None until there is one."""

    __slots__ = ("_count", "_forms", "_place", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self._count = 0
        self._place = 0
        self._forms: set[int] = set()

    def meet(self, value: Any, better: bool, places: Sequence[int], values: Sequence[Any]) -> None:
        """`value` is the extreme of `values`; `better`: it beats the extreme so far."""
        if better:
            self.value, self._count, self._forms = value, 0, set()
        elif value != self.value:
            return
        self._count += values.count(value)
        self._place = places[values.index(value)]
        self._forms |= _forms(value, values)

    def only(self) -> Any:
        """The value. Raises Unsettled if equal values look different: 0.0 and -0.0, 1.0 and 1.00."""
        if len(self._forms) > 1:
            raise Unsettled(self.value)
        return self.value

    def place(self) -> int:
        """The place of its partition in the request. Raises Unsettled if there are several."""
        if self._count > 1:
            raise Unsettled(self.value)
        return self._place


class Extremes:
    """Both extremes. `missing`: some value was None. `negative_zero`: some value was -0.0."""

    __slots__ = ("largest", "missing", "negative_zero", "smallest")

    def __init__(self) -> None:
        self.smallest = Extreme()
        self.largest = Extreme()
        self.missing = self.negative_zero = False

    def add(self, places: Sequence[int], values: Sequence[Any]) -> None:
        """Add values, with the places of their partitions."""
        if None in values:
            self.missing = True
            present = [at for at, value in enumerate(values) if value is not None]
            places, values = [places[at] for at in present], [values[at] for at in present]
        if not values:
            return
        low, high = min(values), max(values)
        self.smallest.meet(low, self.smallest.value is None or low < self.smallest.value, places, values)
        self.largest.meet(high, self.largest.value is None or high > self.largest.value, places, values)
        if isinstance(low, float) and low <= 0 <= high and 0 in values:
            self.negative_zero |= any(value == 0 and copysign(1, value) < 0 for value in values)


def _forms(value: Any, values: Sequence[Any]) -> set[int]:
    """What distinguishes the values that are equal to this one."""
    if isinstance(value, float):
        return {int(copysign(1, one)) for one in values if one == 0} if value == 0 else set()
    if isinstance(value, Decimal):
        return {_exponent(one) for one in values if one == value}
    return set()


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return min(exponent, 0)
