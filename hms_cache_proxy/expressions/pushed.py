"""The filter that a metastore makes of an expression, if it makes one.

Job: `filter_of(expression, types)` returns the tree of that filter; None if the metastore certainly makes none, and
evaluates the expression over the names of all partitions (`selection.py`); NotUnderstood if that is not certain. Must
not know: bytes, partitions, what comparisons mean.

A metastore writes the expression as a text and parses it as a filter. If the text does not parse, or the database
cannot evaluate the filter, it evaluates the expression over names. The answers differ, so it must be known which way
the metastore takes. These never parse: NOT, `IS NOT DISTINCT FROM` (as `<=>` is written), a key alone, a key compared
with a key, functions, casts and arithmetic (a key or a parenthesis is where a comparison is required), numbers followed
by a letter (all except int and decimal), times with a fraction of a second. Keys of some types are never evaluated. If
one part of an expression cannot be pushed down, no part is. "Is null" of a key is pushed down as a comparison with the
default partition's name.

Other times are left to the metastore: it passes them to the database as times of its own time zone, which is not known
here. A time that does not exist in this zone, because clocks are put forward, becomes another time.

Source: PartitionExpressionForMetastore and PartitionFilter.g4 of Hive 4.2, compared with a running 4.2.0. Owner: any
thread; no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from hms_cache_proxy.cache.key_types import DEFAULT_PARTITION
from hms_cache_proxy.filters.tree import Compare, Joined, Literal, Node, joined

from .tree import (
    Among,
    AmongRows,
    Between,
    Combined,
    Compared,
    Comparison,
    Constant,
    Expression,
    FunctionCall,
    KeyColumn,
    Leaf,
    Like,
    Not,
    NotUnderstood,
    Null,
    Operand,
    Same,
    base,
)

Types = Mapping[str, str]
"""The types of a table's keys, in lower case."""

_NEVER: Final = frozenset(("decimal", "double", "float", "boolean"))
"""Types of keys for which no filter is pushed down."""
_WITH_LETTER: Final = frozenset(("tinyint", "smallint", "bigint"))
_TEXTS: Final = frozenset(("string", "char", "varchar"))
_ROWS: Final = 2
"""As many structs as the grammar wants: of one or three it makes no filter."""
_LONG: Final = 1 << 63
_DEFAULT: Final = Literal(DEFAULT_PARTITION.decode(), "string")


def filter_of(expression: Expression, types: Types) -> Node | None:
    """The filter; None if there is certainly none. Raises NotUnderstood."""
    if isinstance(expression, Combined):
        terms = [filter_of(term, types) for term in expression.terms]
        found = [term for term in terms if term is not None]
        return joined(found, every=expression.how == "and") if len(found) == len(terms) else None
    if isinstance(expression, Not):
        filter_of(expression.term, types)  # may raise NotUnderstood
        return None
    if isinstance(expression, KeyColumn):
        _known(expression, types)
        if expression.type != "boolean":
            raise NotUnderstood("a key alone")
        return None
    if isinstance(expression, AmongRows):
        return _of_rows(expression, types)
    if isinstance(expression, Compared):
        for each in (expression.left, expression.right):
            _known(each, types)
        return None
    return _of_subject(expression, types)


def _known(term: Operand, types: Types) -> None:
    if isinstance(term, FunctionCall):
        for each in term.arguments:
            _known(each, types)
    elif isinstance(term, KeyColumn) and types.get(term.name) != term.type:
        raise NotUnderstood("a key that the table does not have, or with another type")


def _of_subject(leaf: Leaf, types: Types) -> Node | None:
    column = leaf.subject
    _known(column, types)
    if isinstance(column, FunctionCall):
        return None
    kind = base(column.type)
    values = _constants(leaf)
    if kind in _NEVER:
        return None
    if kind == "timestamp" and any(isinstance(each.value, datetime) and each.value.microsecond for each in values):
        return None
    if any(base(value.type) in _WITH_LETTER for value in values) or isinstance(leaf, Same):
        return None
    key = column.name
    if isinstance(leaf, Like):
        if kind not in _TEXTS:
            raise NotUnderstood("LIKE of a key that is no text")
        return Compare(key, "like", Literal(leaf.pattern, "string"))
    if isinstance(leaf, Null):
        return Compare(key, "!=" if leaf.negated else "=", _DEFAULT)
    if isinstance(leaf, Between):
        low, high = map(_literal, values)
        if leaf.inverted:
            return Joined((Compare(key, "<", low), Compare(key, ">", high)), every=False)
        return Joined((Compare(key, ">=", low), Compare(key, "<=", high)), every=True)
    if isinstance(leaf, Among):
        return joined([Compare(key, "=", _literal(value)) for value in values], every=False)
    assert isinstance(leaf, Comparison)
    return Compare(key, leaf.op, _literal(leaf.value), leaf.flipped)


def _constants(leaf: Leaf) -> tuple[Constant, ...]:
    if isinstance(leaf, Between):
        return leaf.low, leaf.high
    if isinstance(leaf, Among):
        return leaf.values
    return () if isinstance(leaf, (Null, Like)) else (leaf.value,)


def _of_rows(leaf: AmongRows, types: Types) -> Node | None:
    for column in leaf.columns:
        _known(column, types)
    if len(leaf.rows) != _ROWS:
        return None
    return joined([joined(list(_pairs(leaf.columns, row)), every=True) for row in leaf.rows], every=False)


def _pairs(columns: Iterable[KeyColumn], row: Iterable[Constant]) -> Iterable[Node]:
    return (Compare(column.name, "=", _literal(value)) for column, value in zip(columns, row, strict=True))


def _literal(value: Constant) -> Literal:
    """A constant as Hive writes it. NotUnderstood if that is not a literal, or may be read as another value."""
    plain, kind = value.value, base(value.type)
    if kind in _TEXTS:
        return Literal(str(plain), "string")
    if kind == "int":
        return Literal(str(plain), "integer")
    if kind == "date" and isinstance(plain, date):
        return Literal(plain.isoformat(), "date")
    if isinstance(plain, Decimal) and plain == plain.to_integral_value() and abs(plain) < _LONG:
        return Literal(str(int(plain)), "integer")
    raise NotUnderstood(f"a constant of {kind}")
