"""What an expression means for a partition by its name, where a metastore does not push it down.

Job: `NameSelection`: a tree and a table's keys to "are these values selected", as Hive's classes evaluate them: with
values of the keys' types, and three-valued. Must not know: bytes, names, the cache, filters.

- A value that is the default partition's name is null; so `key = 'that name'` asks whether it is null, `<>` whether
  it is not, in whatever type.
- What is unknown of a partition with such a value is dropped. (Of others Hive keeps it, and says so with
  `hasUnknownPartitions`: that needs a null that is no value of a key, and there is none in what is evaluated here.)
- Values have to be written as Hive writes values of their type: what it makes of others is not known here, `Odd`.

Source: Hive 4.2's PartitionPruner, GenericUDFBaseCompare, GenericUDFIn, GenericUDFBetween. Owner: any thread; no state.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

from hms_cache_proxy.cache.typed import DEFAULT_PARTITION, INTEGER_TYPES
from hms_cache_proxy.filters.values import OPERATORS, Values

from .decode import FIRST_YEAR
from .pushed import Types
from .tree import (
    MOST_DIGITS,
    Among,
    AmongRows,
    Between,
    Combined,
    Comparison,
    Constant,
    Expression,
    KeyColumn,
    Not,
    NotUnderstood,
    Null,
    Same,
    base,
)

Truth = bool | None
TruthOf = Callable[[Values], Truth]
ValueReader = Callable[[bytes], Any]

_INTEGERS: Final = frozenset(kind.decode() for kind in INTEGER_TYPES)
_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_DECIMAL: Final = re.compile(rb"-?(0|[1-9][0-9]*)(?:\.([0-9]*[1-9]))?")
_DOUBLE: Final = re.compile(rb"-?(0|[1-9][0-9]{0,6})\.([0-9]|[0-9]{0,7}[1-9])")
_DATE: Final = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BEYOND: Final = 0xF0
"""Where Java orders strings otherwise than their bytes: a character beyond 16 bits begins with such a byte."""
_NAME: Final = DEFAULT_PARTITION.decode()


class Odd(Exception):
    """A value is not written in the usual way."""


class NameSelection:
    """An expression made ready for one table's keys."""

    __slots__ = ("_condition",)

    def __init__(self, expression: Expression, types: Types) -> None:
        """`types`: the keys in their order. NotUnderstood for what is not evaluated here."""
        self._condition = _compiled(expression, {key: at for at, key in enumerate(types)})

    def selects(self, values: Values) -> bool:
        """Whether the partition with these values is selected. Raises Odd."""
        return self._condition(values) is True


def _compiled(node: Expression, places: Mapping[str, int]) -> TruthOf:
    if isinstance(node, Combined):
        terms = [_compiled(term, places) for term in node.terms]
        return _all(terms) if node.how == "and" else _any(terms)
    if isinstance(node, Not):
        term = _compiled(node.term, places)
        return lambda values: None if (found := term(values)) is None else not found
    if isinstance(node, AmongRows):
        raise NotUnderstood("structs over names")
    column = node if isinstance(node, KeyColumn) else node.column
    at, read = places[column.name], _reader(column.type)
    if isinstance(node, KeyColumn):
        return _of_value(at, read, bool)
    if isinstance(node, Null):
        return _null(at, read, node.negated)
    if isinstance(node, Same):
        value = _comparable(column, node.value, ordered=False)
        return lambda values: values[at] != DEFAULT_PARTITION and read(values[at]) == value
    if isinstance(node, Between):
        return _between(at, read, node)
    if isinstance(node, Among):
        members = frozenset(_comparable(column, value, ordered=False) for value in node.values)
        return _of_value(at, read, lambda value: value in members)
    return _comparison(at, read, node)


def _all(terms: list[TruthOf]) -> TruthOf:
    def holds(values: Values) -> Truth:
        found = [term(values) for term in terms]
        return False if False in found else None if None in found else True

    return holds


def _any(terms: list[TruthOf]) -> TruthOf:
    def holds(values: Values) -> Truth:
        found = [term(values) for term in terms]
        return True if True in found else None if None in found else False

    return holds


def _of_value(at: int, read: ValueReader, holds: Callable[[Any], bool]) -> TruthOf:
    """Unknown of null."""

    def condition(values: Values) -> Truth:
        value = values[at]
        return None if value == DEFAULT_PARTITION else holds(read(value))

    return condition


def _null(at: int, read: ValueReader, negated: bool) -> TruthOf:
    def condition(values: Values) -> Truth:
        null = values[at] == DEFAULT_PARTITION
        if not null:
            read(values[at])  # an odd value may be null, too
        return null is not negated

    return condition


def _comparison(at: int, read: ValueReader, node: Comparison) -> TruthOf:
    if node.value.type == "string" and node.value.value == _NAME:
        if node.op not in ("=", "!=") or node.flipped:
            raise NotUnderstood("the default partition's name, compared")
        return _null(at, read, node.op == "!=")
    ordered = node.op not in ("=", "!=")
    value, holds = _comparable(node.column, node.value, ordered=ordered), OPERATORS[node.op]
    checked = _ordered(read) if ordered and node.column.type == "string" else read
    return _of_value(at, checked, lambda found: holds(found, value))


def _between(at: int, read: ValueReader, node: Between) -> TruthOf:
    low, high = (_comparable(node.column, value, ordered=True) for value in (node.low, node.high))
    checked = _ordered(read) if node.column.type == "string" else read
    return _of_value(at, checked, lambda value: (low <= value <= high) is not node.inverted)


def _ordered(read: ValueReader) -> ValueReader:
    def checked(value: bytes) -> Any:
        if max(value, default=0) >= _BEYOND:
            raise Odd
        return read(value)

    return checked


def _comparable(column: KeyColumn, value: Constant, *, ordered: bool) -> Any:
    """A constant as values of the key's type are read. NotUnderstood if Hive would convert one of both."""
    plain, kind, given = value.value, base(column.type), base(value.type)
    if kind == "string" and given == "string":
        if plain == _NAME:
            raise NotUnderstood("the default partition's name, compared")
        text = str(plain).encode()
        if ordered and max(text, default=0) >= _BEYOND:
            raise NotUnderstood("a text beyond 16 bits, ordered")
        return text
    if kind in _INTEGERS and given in _INTEGERS:
        return plain
    if kind == "decimal" and (given == "decimal" or given in _INTEGERS):
        _room(column.type, value)
        return plain
    if kind == given and kind in ("date", "double") or (kind == given == "boolean" and not ordered):
        return plain
    raise NotUnderstood(f"{given} for a key of {kind}")


def _room(column: str, value: Constant) -> None:
    """Both have to fit into one decimal, as Hive converts them to it."""
    precision, scale = _numbers(column)
    other, others_scale = _numbers(value.type) if base(value.type) == "decimal" else (19, 0)
    if max(precision - scale, other - others_scale) + max(scale, others_scale) > MOST_DIGITS:
        raise NotUnderstood("a decimal with too many digits")


def _numbers(kind: str) -> tuple[int, int]:
    precision, _, scale = kind[len("decimal(") : -1].partition(",")
    return int(precision), int(scale)


# -- values ----------------------------------------------------------------------------------------------------------


def _reader(kind: str) -> ValueReader:
    """What makes a value of a name's text. NotUnderstood for types whose values are not read here."""
    known = base(kind)
    if known == "string":
        return lambda value: value
    if known in _INTEGERS:
        most = 1 << _BITS[known] - 1
        return lambda value: _integer(value, most)
    if known == "decimal":
        precision, scale = _numbers(kind)
        return lambda value: _decimal(value, precision, scale)
    readers: dict[str, ValueReader] = {"date": _day, "double": _double, "boolean": _truth}
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


def _day(value: bytes) -> date:
    if _DATE.fullmatch(value) is None:
        raise Odd
    try:
        found = date.fromisoformat(value.decode())
    except ValueError:
        raise Odd from None
    if found.year < FIRST_YEAR:
        raise Odd
    return found


def _truth(value: bytes) -> bool:
    if value not in (b"true", b"false"):
        raise Odd
    return value == b"true"
