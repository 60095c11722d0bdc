"""The tree of an expression, and what it is refused with.

Job: the nodes that `decode.py` makes. Must not know: bytes, tables, partitions. Owner: any thread; no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final
from typing import Literal as OneOf

from hms_cache_proxy.filters.tree import Op


class NotUnderstood(Exception):
    """This expression is the metastore's to read; the message says why."""


MOST_DIGITS: Final = 38
"""Of a decimal."""
FIRST_YEAR: Final = 1583
"""Of the calendar of today, whole; Java has two for what was before."""

Plain = bool | int | float | str | date | Decimal
"""A constant's value: that of its type, never of another."""


def base(kind: str) -> str:
    """A type without its numbers."""
    return kind.partition("(")[0]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key, with the type that the planner took it to have, in lower case."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value and its type."""

    type: str
    value: Plain


@dataclass(frozen=True, slots=True)
class Call:
    """A function of functions.py, or a cast, of keys and constants."""

    function: str
    arguments: tuple[Term, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A subject and a constant. `op` is that of the subject, also if it is `flipped`: the constant first."""

    subject: Subject
    op: Op
    value: Constant
    flipped: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """Two subjects."""

    left: Subject
    op: Op
    right: Subject


@dataclass(frozen=True, slots=True)
class Same:
    """`subject <=> constant`: two nulls are the same, and nothing is unknown."""

    subject: Subject
    value: Constant


@dataclass(frozen=True, slots=True)
class Between:
    """Both bounds belong; `inverted`: the values outside of them."""

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
    """These keys have together the values of one of these rows."""

    columns: tuple[KeyColumn, ...]
    rows: tuple[tuple[Constant, ...], ...]


@dataclass(frozen=True, slots=True)
class Null:
    """The subject is null, or is `negated`: is not."""

    subject: Subject
    negated: bool


@dataclass(frozen=True, slots=True)
class Not:
    """What the term says is not so."""

    term: Expression


@dataclass(frozen=True, slots=True)
class Combined:
    """All of these, or one of them."""

    terms: tuple[Expression, ...]
    how: OneOf["and", "or"]


Subject = KeyColumn | Call
Term = Subject | Constant
Leaf = Comparison | Same | Between | Among | Null
"""What is said of one subject."""
Expression = KeyColumn | Leaf | Compared | AmongRows | Not | Combined
"""A condition. A column alone is one if its type is boolean."""
