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
class Comparison:
    """A key and a constant. `op` is that of the key, also if it is `flipped`: the constant first."""

    column: KeyColumn
    op: Op
    value: Constant
    flipped: bool = False


@dataclass(frozen=True, slots=True)
class Same:
    """`key <=> constant`: two nulls are the same, and nothing is unknown."""

    column: KeyColumn
    value: Constant


@dataclass(frozen=True, slots=True)
class Between:
    """Both bounds belong; `inverted`: the values outside of them."""

    column: KeyColumn
    low: Constant
    high: Constant
    inverted: bool


@dataclass(frozen=True, slots=True)
class Among:
    """The key has one of these values."""

    column: KeyColumn
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class AmongRows:
    """These keys have together the values of one of these rows."""

    columns: tuple[KeyColumn, ...]
    rows: tuple[tuple[Constant, ...], ...]


@dataclass(frozen=True, slots=True)
class Null:
    """The key is null, or is `negated`: is not."""

    column: KeyColumn
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


Expression = KeyColumn | Comparison | Same | Between | Among | AmongRows | Null | Not | Combined
"""A condition. A column alone is one if its type is boolean."""
