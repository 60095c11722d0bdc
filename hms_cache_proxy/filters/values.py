"""Compares stored values with a literal.

Job: make predicates over the values of a partition, one for each way in which a metastore's database compares a value:
as bytes, numbers, dates and timestamps, patterns. Must not know: filters, types of keys, names of partitions. Source:
MetaStoreDirectSql.PartitionFilterGenerator of Hive 4.2. Owner: any thread; no state.

When numbers, dates or timestamps are compared, the name of the default partition is NULL, and no comparison is true.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

from hms_cache_proxy.cache.key_types import DEFAULT_PARTITION

from .tree import Op
from .wildcards import any_text_between

Values = Sequence[bytes]
Predicate = Callable[[Values], bool]

OPERATORS: dict[Op, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def of_bytes(at: int, op: Op, text: bytes) -> Predicate:
    """Compares the value at index `at` as bytes. The default partition's name is a text like others."""
    predicates: dict[Op, Predicate] = {
        "=": lambda values: values[at] == text,
        "!=": lambda values: values[at] != text,
        "<": lambda values: values[at] < text,
        "<=": lambda values: values[at] <= text,
        ">": lambda values: values[at] > text,
        ">=": lambda values: values[at] >= text,
    }
    return predicates[op]


def of_numbers(at: int, op: Op, number: int) -> Predicate:
    """Compares the value, which must be a number, as a number."""
    predicates: dict[Op, Callable[[int], bool]] = {
        "=": lambda value: value == number,
        "!=": lambda value: value != number,
        "<": lambda value: value < number,
        "<=": lambda value: value <= number,
        ">": lambda value: value > number,
        ">=": lambda value: value >= number,
    }
    holds = predicates[op]
    return lambda values: values[at] != DEFAULT_PARTITION and holds(int(values[at]))


def of_dates(at: int, op: Op, text: bytes) -> Predicate:
    """Compares the value as a date. All values must have the form of ISO 8601, so the order of bytes is that of
    dates."""
    compare = of_bytes(at, op, text)
    return lambda values: values[at] != DEFAULT_PARTITION and compare(values)


def of_moments(at: int, op: Op, kind: str, wanted: date) -> Predicate:
    """Compares the value as a date or a timestamp. Any other text is NULL."""
    compare = OPERATORS[op]
    return lambda values: (found := moment(kind, values[at].decode())) is not None and compare(found, wanted)


def of_pattern(at: int, pattern: re.Pattern[str]) -> Predicate:
    """Matches the whole value with a pattern."""
    matches = pattern.fullmatch
    return lambda values: matches(values[at].decode()) is not None


def moment(kind: str, text: str) -> date | None:
    """A date, or a timestamp (a datetime); None for any other text, such as the default partition's name."""
    try:
        if kind == "date":
            return date.fromisoformat(text)
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None


def like(pattern: str) -> re.Pattern[str]:
    """The pattern of SQL's LIKE: `%` is any text, `_` one character; a backslash quotes the next character."""
    return re.compile(any_text_between(like_segments(pattern)), re.DOTALL)


def like_segments(pattern: str) -> list[str]:
    """The parts of such a pattern between its `%`, as regular expressions."""
    segments = [""]
    for piece in re.findall(r"\\.|.", pattern, re.DOTALL):
        if piece == "%":
            segments.append("")
        else:
            segments[-1] += "." if piece == "_" else re.escape(piece[-1])
    return segments
