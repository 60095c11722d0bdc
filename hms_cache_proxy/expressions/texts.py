"""Computes functions of texts.

Job: implement them for the table in functions.py. Must not know: how expressions are written. Texts are bytes. Source:
the classes of Hive 4.2, run over values of every shape. Owner: any thread; no state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final

from .meaning import Meaning, Typing
from .values import BITS, Odd, characters

_WHOLE: Final = re.compile(rb"-?[0-9]{1,18}")
_NO_NUMBER: Final = re.compile(rb" *(?:[0-9]+[-:/_,]|[A-HJ-MO-Za-z_\x80-\xff]).*", re.DOTALL)
"""Texts that Java reads as no number: I and N begin numbers, too."""
_EXACT: Final = 1 << 53
"""Doubles below this are exact."""
_PLAIN: Final = re.compile(rb"[A-Za-z0-9 _-]+")
"""A regular expression that matches itself only."""


def converted(convert: Callable[[bytes], bytes]) -> Typing:
    """An ASCII text to another one."""

    def ascii_only(text: bytes) -> bytes:
        if not text.isascii():
            raise Odd
        return convert(text)

    return lambda kinds, result: ascii_only if kinds == ("string",) and result == "string" else None


def part_of_text(kinds: tuple[str, ...], result: str) -> Meaning | None:
    """substr"""
    if kinds not in (("string", "int"), ("string", "int", "int")) or result != "string":
        return None
    return _substring


def _substring(text: bytes, at: int, length: int | None = None) -> bytes:
    """A part of a text. Characters are counted from 1, from the end if `at` is negative; 0 means 1."""
    whole = characters(text)
    begin = at - 1 if at > 0 else len(whole) + at if at < 0 else 0
    if begin < 0 or (length is not None and length <= 0):
        return b""
    end = None if length is None else begin + length
    return whole[begin:end].encode()


def replaced(*, regular: bool) -> Typing:
    """A text with all occurrences of another one replaced; `regular`: the other one is a regular expression."""

    def replace(text: bytes, old: bytes, new: bytes) -> bytes:
        if not old or (regular and (_PLAIN.fullmatch(old) is None or b"$" in new)):
            raise Odd
        return characters(text).replace(characters(old), characters(new)).encode()

    return lambda kinds, result: replace if kinds == ("string",) * 3 and result == "string" else None


def concatenated(kinds: tuple[str, ...], result: str) -> Meaning | None:
    """concat"""
    if len(kinds) < 2 or result != "string" or not {"string", *BITS} >= set(kinds):
        return None
    return lambda *values: b"".join(map(_text, values))


def to_text(kinds: tuple[str, ...], result: str) -> Meaning | None:
    """CAST AS STRING"""
    right = len(kinds) == 1 and kinds[0] in ("string", "date", *BITS) and result == "string"
    return _text if right else None


def _text(value: bytes | int | date) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


# -- numbers in texts ------------------------------------------------------------------------------------------------


def integer_of_text(bits: int) -> Meaning:
    """The integer of so many bits that a text is; null for a greater one."""
    half = 1 << bits - 1

    def read(text: bytes) -> int | None:
        found = _number(text)
        return None if found is None or not -half <= found < half else found

    return read


def double_of_text(text: bytes) -> float | None:
    """The double that a text is."""
    found = _number(text)
    if found is not None and (abs(found) >= _EXACT or (found == 0 and b"-" in text)):
        raise Odd
    return None if found is None else float(found)


def _number(text: bytes) -> int | None:
    """The number that a text is; None for a text that is certainly none. Raises Odd."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NO_NUMBER.fullmatch(text):
        return None
    raise Odd
