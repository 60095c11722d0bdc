"""The functions that an expression may call, and what they compute.

Job: a table of Hive's classes; `typed(cls, kinds, result)` returns what a function computes for arguments of these
types. Functions that are not in the table, and other types, are left to the metastore. Values are those of values.py:
bytes for strings, int, date. If an argument is null, so is the result.

Source: the classes of Hive 4.2, run over values of every shape. Owner: any thread; no state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from .values import BITS, Odd, day

Meaning = Callable[..., Any]
"""Computes a value from arguments that are not null. None: null. Raises Odd."""
Typing = Callable[[tuple[str, ...], str], Meaning | None]
"""What a function computes, for these types of arguments and of the result; None: unknown."""

_GENERIC: Final = "org.apache.hadoop.hive.ql.udf.generic."
_OLD: Final = "org.apache.hadoop.hive.ql.udf."


@dataclass(frozen=True, slots=True)
class Function:
    """`names`: possible names of a function that GenericUDFBridge calls; `sign`: the name of an operator."""

    typing: Typing
    names: frozenset[str] = frozenset()
    sign: str = ""


def typed(cls: str, kinds: tuple[str, ...], result: str) -> Meaning | None:
    """What this function computes for such arguments, if that is known."""
    return FUNCTIONS[cls].typing(kinds, result)


# -- dates -----------------------------------------------------------------------------------------------------------


def _date_of_text(text: bytes) -> date | None:
    """The date in a text; None for a text without a dash. Raises Odd for others that are not written as dates."""
    return day(text) if b"-" in text else None


def _to_date(kinds: tuple[str, ...], result: str) -> Meaning | None:
    meanings: dict[tuple[str, ...], Meaning] = {("string",): _date_of_text, ("date",): lambda value: value}
    return meanings.get(kinds) if result == "date" else None


def _part_of_date(part: str) -> Typing:
    def meaning_of(kinds: tuple[str, ...], result: str) -> Meaning | None:
        to_date = _to_date(kinds, "date")
        if to_date is None or result != "int":
            return None
        return lambda value: None if (found := to_date(value)) is None else getattr(found, part)

    return meaning_of


# -- numbers ---------------------------------------------------------------------------------------------------------


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


def _widened(kinds: tuple[str, ...], result: str) -> Meaning | None:
    """An integer as a wider type."""
    right = len(kinds) == 1 and kinds[0] in BITS and result in BITS and BITS[kinds[0]] <= BITS[result]
    return (lambda value: value) if right else None


def _to_double(kinds: tuple[str, ...], result: str) -> Meaning | None:
    """An integer that a double holds exactly."""
    right = len(kinds) == 1 and kinds[0] in BITS and BITS[kinds[0]] <= 32 and result == "double"
    return float if right else None


# -- texts -----------------------------------------------------------------------------------------------------------


def _texts(meaning: Meaning) -> Typing:
    def meaning_of(kinds: tuple[str, ...], result: str) -> Meaning | None:
        return meaning if kinds == ("string",) and result == "string" else None

    return meaning_of


def _ascii(text: bytes) -> bytes:
    if not text.isascii():
        raise Odd
    return text


def _part_of_text(kinds: tuple[str, ...], result: str) -> Meaning | None:
    if kinds not in (("string", "int"), ("string", "int", "int")) or result != "string":
        return None
    return _substring


def _substring(text: bytes, at: int, length: int | None = None) -> bytes:
    """A part of a text. Characters are counted from 1, from the end if `at` is negative; 0 means 1."""
    characters = _characters(text)
    begin = at - 1 if at > 0 else len(characters) + at if at < 0 else 0
    if begin < 0 or (length is not None and length <= 0):
        return b""
    end = None if length is None else begin + length
    return characters[begin:end].encode()


def _characters(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise Odd from None


def _concatenated(kinds: tuple[str, ...], result: str) -> Meaning | None:
    if len(kinds) < 2 or result != "string" or not {"string", *BITS} >= set(kinds):
        return None
    return lambda *values: b"".join(map(_text, values))


def _to_text(kinds: tuple[str, ...], result: str) -> Meaning | None:
    right = len(kinds) == 1 and kinds[0] in ("string", "date", *BITS) and result == "string"
    return _text if right else None


def _text(value: bytes | int | date) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


FUNCTIONS: Final[Mapping[str, Function]] = {
    _GENERIC + "GenericUDFToDate": Function(_to_date),  # CAST AS DATE
    _GENERIC + "GenericUDFDate": Function(_to_date),  # to_date
    _OLD + "UDFYear": Function(_part_of_date("year")),
    _OLD + "UDFMonth": Function(_part_of_date("month")),
    _OLD + "UDFDayOfMonth": Function(_part_of_date("day")),
    _GENERIC + "GenericUDFOPPlus": Function(_arithmetic(lambda left, right: left + right), sign="+"),
    _GENERIC + "GenericUDFOPMinus": Function(_arithmetic(lambda left, right: left - right), sign="-"),
    _GENERIC + "GenericUDFOPMultiply": Function(_arithmetic(lambda left, right: left * right), sign="*"),
    _GENERIC + "GenericUDFOPMod": Function(_arithmetic(_remainder), sign="%"),
    _OLD + "UDFToInteger": Function(_widened, frozenset(("UDFToInteger",))),
    _OLD + "UDFToLong": Function(_widened, frozenset(("UDFToLong",))),
    _OLD + "UDFToDouble": Function(_to_double, frozenset(("UDFToDouble",))),
    _OLD + "UDFSubstr": Function(_part_of_text, frozenset(("substr", "substring", "mid"))),
    _GENERIC + "GenericUDFConcat": Function(_concatenated),
    _GENERIC + "GenericUDFToString": Function(_to_text),  # CAST AS STRING
    _GENERIC + "GenericUDFLower": Function(_texts(lambda text: _ascii(text).lower())),
    _GENERIC + "GenericUDFUpper": Function(_texts(lambda text: _ascii(text).upper())),
}
