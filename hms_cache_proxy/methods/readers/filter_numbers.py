"""Finds the next number in the bytewise order of decimals: 1, 10, 100, 101, 11, 2.

Job: for an integer key, find where the next value can be that a filter selects. Must not know: names, filters. Owner:
any process; no state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_DECIMAL = re.compile(rb"-?[0-9]*")
_MOST_DIGITS = 20  # in a value that a metastore's database can cast

NumberBounds = tuple[int | None, int | None]
"""Lowest and highest number, both included; None: no bound."""


def first_number(value: bytes, intervals: Iterable[NumberBounds]) -> bytes | None:
    """The first decimal, in bytewise order from `value` on, of a number in one of the intervals; None if there is none.
    A value that does not begin like a decimal is returned unchanged."""
    if _DECIMAL.fullmatch(value) is None:
        return value if value[:1] <= b"9" else None
    return min((found for interval in intervals for found in _firsts(value, *interval)), default=None)


def _firsts(value: bytes, low: int | None, high: int | None) -> Iterator[bytes]:
    if (low is None or low < 0) and not value[:1].isdigit():
        least = 1 if high is None or high >= 0 else -high
        found = _first_decimal(value[1:], least, None if low is None else -low)
        if found is not None:
            yield b"-" + found
    if high is None or high >= 0:
        least = 0 if low is None else max(low, 0)
        found = _first_decimal(b"" if value[:1] == b"-" else value, least, high)
        if found is not None:
            yield found


def _first_decimal(value: bytes, low: int, high: int | None) -> bytes | None:
    """The first decimal of a number from low to high, both not negative, that is bytewise not less than `value`."""
    candidates: list[bytes] = []
    for digits in range(len(str(low)), _MOST_DIGITS + 1 if high is None else len(str(high)) + 1):
        head = value[:digits]
        number = int(head or b"0") * 10 ** (digits - len(head)) + (len(value) > digits)
        number = max(number, low, 10 ** (digits - 1) if digits > 1 else 0)
        if number < 10**digits and (high is None or number <= high):
            candidates.append(b"%d" % number)
    return min(candidates, default=None)
