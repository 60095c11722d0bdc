"""The values in a partition's name, as Hive writes and reads them for each type.

Job: `reader(kind)` returns a function from the text in a name to a value. It raises `Odd` for a text that Hive does not
write for a value of the type, because it is not known here how Hive reads it. Strings are their bytes. Owner: any
thread; no state.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

from .tree import FIRST_YEAR, NotUnderstood, base

ValueReader = Callable[[bytes], Any]
_Day = TypeVar("_Day", bound=date)  # a datetime is one

BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_DECIMAL: Final = re.compile(rb"-?(0|[1-9][0-9]*)(?:\.([0-9]*[1-9]))?")
_DOUBLE: Final = re.compile(rb"-?(0|[1-9][0-9]{0,6})\.([0-9]|[0-9]{0,7}[1-9])")
_DATE: Final = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT: Final = re.compile(_DATE.pattern + rb" [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{0,5}[1-9])?")


class Odd(Exception):
    """A value is not written in the usual way, or it is not known here how Hive treats it."""


def numbers(kind: str) -> tuple[int, int]:
    """Precision and scale of a decimal type."""
    precision, _, scale = kind[len("decimal(") : -1].partition(",")
    return int(precision), int(scale)


def reader(kind: str) -> ValueReader:
    """The function that reads values of a type. NotUnderstood for types whose values are not read here."""
    known = base(kind)
    if known == "string":
        return lambda value: value
    if known in BITS:
        most = 1 << BITS[known] - 1
        return lambda value: _integer(value, most)
    if known == "decimal":
        precision, scale = numbers(kind)
        return lambda value: _decimal(value, precision, scale)
    readers: dict[str, ValueReader] = {"date": day, "timestamp": moment, "double": _double, "boolean": _truth}
    if known not in readers:
        raise NotUnderstood(f"a key of {known} over names")
    return readers[known]


def _integer(value: bytes, most: int) -> int:
    if _INTEGER.fullmatch(value) is None or not -most <= (number := int(value)) < most:
        raise Odd
    return number


def _decimal(value: bytes, precision: int, scale: int) -> Decimal:
    parts = _DECIMAL.fullmatch(value)
    if parts is None or value == b"-0":
        raise Odd
    whole, rest = parts[1], parts[2] or b""
    if len(rest) > scale or (len(whole) > precision - scale and whole != b"0"):
        raise Odd
    return Decimal(value.decode())


def _double(value: bytes) -> float:
    if _DOUBLE.fullmatch(value) is None:
        raise Odd
    found = float(value)
    if found == 0 and math.copysign(1, found) < 0:
        raise Odd
    return found


def day(value: bytes) -> date:
    """A date. Raises Odd."""
    return _calendar(value, _DATE, date.fromisoformat)


def moment(value: bytes) -> datetime:
    """A timestamp, to the microsecond. Raises Odd."""
    return _calendar(value, _MOMENT, datetime.fromisoformat)


def _calendar(value: bytes, form: re.Pattern[bytes], read: Callable[[str], _Day]) -> _Day:
    if form.fullmatch(value) is None:
        raise Odd
    try:
        found = read(value.decode())
    except ValueError:
        raise Odd from None
    if found.year < FIRST_YEAR:
        raise Odd
    return found


def characters(text: bytes) -> str:
    """The characters of a text. Raises Odd."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise Odd from None


def _truth(value: bytes) -> bool:
    if value not in (b"true", b"false"):
        raise Odd
    return value == b"true"
