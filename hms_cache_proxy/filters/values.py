"""How stored values compare with a literal.

Job: a predicate over the values of a partition, for each way in which a metastore's database compares one of them:
bytes, numbers, dates and timestamps, patterns. Must not know: filters, types of keys, names of partitions. Source:
MetaStoreDirectSql.PartitionFilterGenerator of Hive 4.2. Owner: any thread; no state.

The name of the default partition is NULL where numbers or moments are compared: no comparison holds.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

from hms_cache_proxy.cache.typed import DEFAULT_PARTITION

from .tree import Op

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
    """The value at this place as bytes; the default partition's name is a text like others."""
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
    """The value, which must be a number, as a number."""
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
    """The value as a date, where all values are written as ISO 8601 does: in the order of their bytes."""
    compare = of_bytes(at, op, text)
    return lambda values: values[at] != DEFAULT_PARTITION and compare(values)


def of_moments(at: int, op: Op, kind: str, wanted: date) -> Predicate:
    """The value as a date or a timestamp; NULL if it is neither."""
    compare = OPERATORS[op]
    return lambda values: (found := moment(kind, values[at].decode())) is not None and compare(found, wanted)


def of_pattern(at: int, pattern: re.Pattern[str]) -> Predicate:
    """The whole value by a pattern."""
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
    """A pattern of SQL: `%` any run, `_` one character, a backslash before what is itself."""
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    parts = ({"%": ".*", "_": "."}.get(piece) or re.escape(piece[-1]) for piece in pieces)
    return re.compile("".join(parts), re.DOTALL)
