"""The functions that an expression may call, and what they compute.

Job: hold a table of Hive's classes; `typed(cls, kinds, result)` returns what a function computes for arguments of these
types. Functions that are not in the table, and other types, are left to the metastore. Values are those of values.py:
bytes for strings, int, date, datetime. If an argument is null, the result is null, unless the function `takes_nulls`.

Source: the classes of Hive 4.2, run over values of every shape. Owner: any thread; no state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from . import dates, texts
from .meaning import Meaning, Typing
from .values import BITS

_GENERIC: Final = "org.apache.hadoop.hive.ql.udf.generic."
_OLD: Final = "org.apache.hadoop.hive.ql.udf."


@dataclass(frozen=True, slots=True)
class Function:
    """`names`: possible names of a function that GenericUDFBridge calls; `sign`: the name of an operator; `factor`: the
    signModifier of a function that has one; `nulls`: the function takes nulls."""

    typing: Typing
    names: frozenset[str] = frozenset()
    sign: str = ""
    factor: int = 0
    nulls: bool = False


def typed(cls: str, kinds: tuple[str, ...], result: str) -> Meaning | None:
    """What this function computes for such arguments, if that is known."""
    return FUNCTIONS[cls].typing(kinds, result)


def takes_nulls(cls: str) -> bool:
    """May arguments of this function be null?"""
    return FUNCTIONS[cls].nulls


def _arithmetic(compute: Callable[[int, int], int | None]) -> Typing:
    """Arithmetic in the wider type of both, which wraps around as in Java."""

    def meaning_of(kinds: tuple[str, ...], result: str) -> Meaning | None:
        if len(kinds) != 2 or not BITS.keys() >= set(kinds) or result != max(kinds, key=lambda kind: BITS[kind]):
            return None
        half = 1 << BITS[result] - 1

        def computed(left: int, right: int) -> int | None:
            found = compute(left, right)
            return None if found is None else (found + half) % (2 * half) - half

        return computed

    return meaning_of


def _remainder(left: int, right: int) -> int | None:
    """The remainder, with the sign of `left`; null for a division by zero."""
    if right == 0:
        return None
    found = abs(left) % abs(right)
    return -found if left < 0 else found


def _to_integer(returned: str) -> Typing:
    """An integer as a wider type, or a text as an integer."""

    def meaning_of(kinds: tuple[str, ...], result: str) -> Meaning | None:
        if len(kinds) != 1 or result != returned:
            return None
        if kinds[0] == "string":
            return texts.integer_of_text(BITS[result])
        return (lambda value: value) if kinds[0] in BITS and BITS[kinds[0]] <= BITS[result] else None

    return meaning_of


def _to_double(kinds: tuple[str, ...], result: str) -> Meaning | None:
    """An integer that a double holds exactly, or a text as a double."""
    if len(kinds) != 1 or result != "double":
        return None
    if kinds[0] == "string":
        return texts.double_of_text
    return float if kinds[0] in BITS and BITS[kinds[0]] <= 32 else None


def _first(kinds: tuple[str, ...], result: str) -> Meaning | None:
    """The first argument that is not null."""
    if {result} != set(kinds) or result not in ("string", "date", "timestamp", *BITS):
        return None

    def first(*values: Any) -> Any:
        return next((value for value in values if value is not None), None)

    return first


FUNCTIONS: Final[Mapping[str, Function]] = {
    _GENERIC + "GenericUDFToDate": Function(dates.to_date),  # CAST AS DATE
    _GENERIC + "GenericUDFDate": Function(dates.to_date),  # to_date
    _GENERIC + "GenericUDFTimestamp": Function(dates.to_timestamp),  # CAST AS TIMESTAMP
    _OLD + "UDFYear": Function(dates.part("year")),
    _OLD + "UDFMonth": Function(dates.part("month")),
    _OLD + "UDFDayOfMonth": Function(dates.part("day")),
    _OLD + "UDFHour": Function(dates.part("hour")),
    _OLD + "UDFMinute": Function(dates.part("minute")),
    _GENERIC + "GenericUDFDateAdd": Function(dates.days_later(1), factor=1),
    _GENERIC + "GenericUDFDateSub": Function(dates.days_later(-1), factor=-1),
    _GENERIC + "GenericUDFDateDiff": Function(dates.days_between),
    _GENERIC + "GenericUDFOPPlus": Function(_arithmetic(lambda left, right: left + right), sign="+"),
    _GENERIC + "GenericUDFOPMinus": Function(_arithmetic(lambda left, right: left - right), sign="-"),
    _GENERIC + "GenericUDFOPMultiply": Function(_arithmetic(lambda left, right: left * right), sign="*"),
    _GENERIC + "GenericUDFOPMod": Function(_arithmetic(_remainder), sign="%"),
    _OLD + "UDFToInteger": Function(_to_integer("int"), frozenset(("UDFToInteger",))),
    _OLD + "UDFToLong": Function(_to_integer("bigint"), frozenset(("UDFToLong",))),
    _OLD + "UDFToDouble": Function(_to_double, frozenset(("UDFToDouble",))),
    _OLD + "UDFSubstr": Function(texts.part_of_text, frozenset(("substr", "substring", "mid"))),
    _OLD + "UDFReplace": Function(texts.replaced(regular=False), frozenset(("replace",))),
    _OLD + "UDFRegExpReplace": Function(texts.replaced(regular=True), frozenset(("regexp_replace",))),
    _GENERIC + "GenericUDFConcat": Function(texts.concatenated),
    _GENERIC + "GenericUDFToString": Function(texts.to_text),  # CAST AS STRING
    _GENERIC + "GenericUDFLower": Function(texts.converted(bytes.lower)),
    _GENERIC + "GenericUDFUpper": Function(texts.converted(bytes.upper)),
    _GENERIC + "GenericUDFCoalesce": Function(_first, nulls=True),
}
