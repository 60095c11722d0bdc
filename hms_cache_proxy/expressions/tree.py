"""The tree of an expression, and the exception for expressions that are refused.

Job: define the nodes that `decode.py` makes. Must not know: bytes, tables, partitions. Owner: any thread; no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Final
from typing import Literal as OneOf

from hms_cache_proxy.filters.tree import Op


class NotUnderstood(Exception):
    """Only the metastore can evaluate this expression; the message says why."""


MOST_DIGITS: Final = 38
"""Digits of a decimal."""
FIRST_YEAR: Final = 1583
"""The first full year of the Gregorian calendar; Java has two calendars for earlier dates."""

Plain = bool | int | float | str | date | datetime | Decimal
"""The value of a constant, in the Python type of the constant's type."""


def base(kind: str) -> str:
    """A type without its numbers."""
    return kind.partition("(")[0]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key, with its type according to the planner, in lower case."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value and its type."""

    type: str
    value: Plain


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of functions.py, or a cast, of keys and constants."""

    function: str
    arguments: tuple[Operand, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A subject and a constant. `op` is read from the subject, even if it is `flipped`, with the constant first."""

    subject: Subject
    op: Op
    value: Constant
    flipped: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """Two subjects compared."""

    left: Subject
    op: Op
    right: Subject


@dataclass(frozen=True, slots=True)
class Same:
    """`subject <=> constant`: two nulls are equal, and the result is never unknown."""

    subject: Subject
    value: Constant


@dataclass(frozen=True, slots=True)
class Between:
    """The subject is between two bounds, which are included; `inverted`: it is not."""

    subject: Subject
    low: Constant
    high: Constant
    inverted: bool


@dataclass(frozen=True, slots=True)
class Among:
    """The subject has one of these values."""

    subject: Subject
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class AmongRows:
    """These keys together have the values of one of these rows."""

    columns: tuple[KeyColumn, ...]
    rows: tuple[tuple[Constant, ...], ...]


@dataclass(frozen=True, slots=True)
class Like:
    """The subject is like a pattern, in which `%` is any text and `_` one character."""

    subject: Subject
    pattern: str


@dataclass(frozen=True, slots=True)
class Null:
    """The subject is null; `negated`: it is not."""

    subject: Subject
    negated: bool


@dataclass(frozen=True, slots=True)
class Not:
    """The term is false."""

    term: Expression


@dataclass(frozen=True, slots=True)
class Combined:
    """All of these terms, or one of them."""

    terms: tuple[Expression, ...]
    how: OneOf["and", "or"]


Subject = KeyColumn | FunctionCall
Operand = Subject | Constant
Leaf = Comparison | Same | Between | Among | Like | Null
"""A condition on one subject."""
Expression = KeyColumn | Leaf | Compared | AmongRows | Not | Combined
"""A condition. A key alone is one if its type is boolean."""
