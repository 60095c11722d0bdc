"""Computes functions of dates and timestamps.

Job: implement them for the table in functions.py. Must not know: how expressions are written. Source: the classes of
Hive 4.2, run over values of every shape. A text without a dash is no date, unless it has a colon, because a time alone
is a time of today. A text that begins with a date, and has anything else after it, may be a date. Owner: any thread; no
state.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Final

from .meaning import Meaning, Typing
from .tree import FIRST_YEAR
from .values import BITS, Odd, day, moment

_DAY_LENGTH: Final = len("2024-01-02")


def _moment_of_text(text: bytes) -> datetime | None:
    """The date or timestamp in a text. Raises Odd for a text that may be one and is not written as one."""
    if b"-" not in text and b":" not in text:
        return None
    return _midnight(day(text)) if len(text) == _DAY_LENGTH else moment(text)


def _midnight(value: date) -> datetime:
    return datetime(value.year, value.month, value.day)


_MOMENTS: Final[dict[str, Callable[..., datetime | None]]] = {
    "string": _moment_of_text,
    "date": _midnight,
    "timestamp": lambda value: value,
}


def _of_moment(compute: Callable[[datetime], object], returned: str) -> Typing:
    """A function of a date, a timestamp, or a text that is one."""

    def meaning_of(kinds: tuple[str, ...], result: str) -> Meaning | None:
        read = _MOMENTS.get(kinds[0])
        if len(kinds) != 1 or read is None or result != returned:
            return None
        return lambda value: None if (found := read(value)) is None else compute(found)

    return meaning_of


to_date: Final = _of_moment(lambda found: found.date(), "date")
to_timestamp: Final = _of_moment(lambda found: found, "timestamp")


def part(name: str) -> Typing:
    """`year`, `month`, `day`, `hour` or `minute`."""
    return _of_moment(lambda found: getattr(found, name), "int")


def days_later(factor: int) -> Typing:
    """A date so many days later; earlier, with the factor -1."""

    def meaning_of(kinds: tuple[str, ...], result: str) -> Meaning | None:
        if len(kinds) != 2 or kinds[0] not in ("string", "date") or not _days(kinds[1]) or result != "date":
            return None
        read = _MOMENTS[kinds[0]]
        return lambda value, days: None if (found := read(value)) is None else _added(found.date(), factor * days)

    return meaning_of


def _days(kind: str) -> bool:
    return kind in BITS and BITS[kind] <= 32


def _added(value: date, days: int) -> date:
    try:
        found = value + timedelta(days)
    except OverflowError:
        raise Odd from None
    if found.year < FIRST_YEAR:
        raise Odd
    return found


def days_between(kinds: tuple[str, ...], result: str) -> Meaning | None:
    """The days from the second date to the first."""
    if len(kinds) != 2 or not {"string", "date"} >= set(kinds) or result != "int":
        return None
    first, second = (_MOMENTS[kind] for kind in kinds)

    def between(left: object, right: object) -> int | None:
        end, begin = first(left), second(right)
        return None if end is None or begin is None else (end.date() - begin.date()).days

    return between
