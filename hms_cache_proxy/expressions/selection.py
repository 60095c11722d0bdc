"""Decides whether an expression selects a partition name, if a metastore does not push the expression down.

Job: `NameSelection` says for a tree and a table's keys whether values are selected, as Hive's classes evaluate it: with
values of the keys' types, in three-valued logic. Must not know: bytes, names, the cache, filters.

- A value that is the default partition's name is null. So `key = 'that name'` means "is null", and `<>` "is not null",
  for any type.
- If the result is unknown for a partition with such a value, the partition is not selected. Hive selects any other
  partition with an unknown result, and sets `hasUnknownPartitions`: for example, a text that is not a date is null as a
  date.
- Values must be written as Hive writes values of their type. Others raise `Odd`, because it is not known here how Hive
  reads them.

Source: Hive 4.2's PartitionPruner, GenericUDFBaseCompare, GenericUDFIn, GenericUDFBetween. Owner: any thread; no state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hms_cache_proxy.cache.key_types import DEFAULT_PARTITION
from hms_cache_proxy.filters.values import OPERATORS, Values, like

from .functions import takes_nulls, typed
from .pushed import Types
from .tree import (
    MOST_DIGITS,
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
    Like,
    Not,
    NotUnderstood,
    Null,
    Operand,
    Same,
    Subject,
    base,
)
from .values import BITS, Odd, characters, numbers, reader

Truth = bool | None
TruthOf = Callable[[Values], Truth]
ValueOf = Callable[[Values], Any]
"""Reads a value; None: null. Raises Odd."""
Places = Mapping[str, int]
"""The positions of the keys."""

_BEYOND: Final = 0xF0
"""Java's order of strings may differ from that of their bytes if they have characters beyond 16 bits, which begin with
such a byte."""
_NAME: Final = DEFAULT_PARTITION.decode()


class NameSelection:
    """An expression made ready for one table's keys."""

    __slots__ = ("_condition",)

    def __init__(self, expression: Expression, types: Types) -> None:
        """`types`: the keys in their order. NotUnderstood for what is not evaluated here."""
        self._condition = _compiled(expression, {key: at for at, key in enumerate(types)})

    def selects(self, values: Values) -> Truth:
        """Is the partition with these values selected? None: it is, because the result is unknown. Raises Odd."""
        found = self._condition(values)
        return False if found is None and DEFAULT_PARTITION in values else found


def _compiled(node: Expression, places: Places) -> TruthOf:
    if isinstance(node, Combined):
        terms = [_compiled(term, places) for term in node.terms]
        return _all(terms) if node.how == "and" else _any(terms)
    if isinstance(node, Not):
        term = _compiled(node.term, places)
        return lambda values: None if (found := term(values)) is None else not found
    if isinstance(node, AmongRows):
        return _among_rows(node, places)
    if isinstance(node, KeyColumn):
        return _value(node, places)
    if isinstance(node, Compared):
        return _two(node, places)
    subject = _value(node.subject, places)
    if isinstance(node, Null):
        negated = node.negated
        return lambda values: (subject(values) is None) is not negated
    if isinstance(node, Like):
        return _like(subject, node)
    if isinstance(node, Same):
        value = _comparable(node.subject, node.value, ordered=False)
        return lambda values: (found := subject(values)) is not None and found == value
    if isinstance(node, Between):
        return _between(subject, node)
    if isinstance(node, Among):
        members = frozenset(_comparable(node.subject, value, ordered=False) for value in node.values)
        return _unless_null(subject, lambda value: value in members)
    return _comparison(subject, node)


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


def _unless_null(subject: ValueOf, holds: Callable[[Any], bool]) -> TruthOf:
    """The condition; unknown if the subject is null."""

    def condition(values: Values) -> Truth:
        value = subject(values)
        return None if value is None else holds(value)

    return condition


def _comparison(subject: ValueOf, node: Comparison) -> TruthOf:
    if node.value.type == "string" and node.value.value == _NAME:
        if node.op not in ("=", "!=") or node.flipped or not isinstance(node.subject, KeyColumn):
            raise NotUnderstood("the default partition's name, compared")
        negated = node.op == "!="
        return lambda values: (subject(values) is None) is not negated
    ordered = node.op not in ("=", "!=")
    value, holds = _comparable(node.subject, node.value, ordered=ordered), OPERATORS[node.op]
    checked = _ordered(subject) if ordered and node.subject.type == "string" else subject
    return _unless_null(checked, lambda found: holds(found, value))


def _like(subject: ValueOf, node: Like) -> TruthOf:
    if node.subject.type != "string" or node.pattern == _NAME:
        raise NotUnderstood(f"LIKE of {node.subject.type}, or the default partition's name")
    matches = like(node.pattern).fullmatch
    return _unless_null(subject, lambda value: matches(characters(value)) is not None)


def _between(subject: ValueOf, node: Between) -> TruthOf:
    low, high = (_comparable(node.subject, value, ordered=True) for value in (node.low, node.high))
    checked = _ordered(subject) if node.subject.type == "string" else subject
    return _unless_null(checked, lambda value: (low <= value <= high) is not node.inverted)


def _among_rows(node: AmongRows, places: Places) -> TruthOf:
    """A struct with a null in it is not null, and like none of these."""
    subjects = [_value(column, places) for column in node.columns]
    rows = frozenset(
        tuple(_comparable(*pair, ordered=False) for pair in zip(node.columns, row, strict=True)) for row in node.rows
    )
    return lambda values: tuple(subject(values) for subject in subjects) in rows


def _two(node: Compared, places: Places) -> TruthOf:
    """Two subjects compared. They must have one type; otherwise Hive would convert one of them."""
    kinds = {node.left.type, node.right.type}
    if not (kinds <= BITS.keys() or kinds in ({"string"}, {"date"}, {"timestamp"})):
        raise NotUnderstood(f"a comparison of {' and '.join(sorted(kinds))}")
    left, right = _value(node.left, places), _value(node.right, places)
    if kinds == {"string"} and node.op not in ("=", "!="):
        left, right = _ordered(left), _ordered(right)
    holds = OPERATORS[node.op]

    def condition(values: Values) -> Truth:
        one, other = left(values), right(values)
        return None if one is None or other is None else holds(one, other)

    return condition


# -- values ----------------------------------------------------------------------------------------------------------


def _value(term: Operand, places: Places) -> ValueOf:
    if isinstance(term, KeyColumn):
        return _of_key(places[term.name], term.type)
    if isinstance(term, Constant):
        plain = term.value.encode() if isinstance(term.value, str) else term.value
        return lambda _: plain
    return _of_call(term, places)


def _of_key(at: int, kind: str) -> ValueOf:
    read = reader(kind)
    return lambda values: None if (value := values[at]) == DEFAULT_PARTITION else read(value)


def _of_call(call: FunctionCall, places: Places) -> ValueOf:
    meaning = typed(call.function, tuple(each.type for each in call.arguments), call.type)
    if meaning is None:
        raise NotUnderstood(f"{call.function} of other types")
    if any(isinstance(each, Constant) and each.value == _NAME for each in call.arguments):
        raise NotUnderstood("a function of the default partition's name")
    arguments, nulls = [_value(each, places) for each in call.arguments], takes_nulls(call.function)

    def called(values: Values) -> Any:
        given = [each(values) for each in arguments]
        return None if None in given and not nulls else meaning(*given)

    return called


def _ordered(subject: ValueOf) -> ValueOf:
    """The subject. Raises Odd for a text that Java does not order as its bytes."""

    def checked(values: Values) -> Any:
        value = subject(values)
        if value is not None and max(value, default=0) >= _BEYOND:
            raise Odd
        return value

    return checked


def _comparable(subject: Subject, value: Constant, *, ordered: bool) -> Any:
    """A constant, as values of the subject's type are read. NotUnderstood if Hive would convert one of the two."""
    plain, kind, given = value.value, base(subject.type), base(value.type)
    if kind == "string" and given == "string":
        if plain == _NAME:
            raise NotUnderstood("the default partition's name, compared")
        text = str(plain).encode()
        if ordered and max(text, default=0) >= _BEYOND:
            raise NotUnderstood("a text beyond 16 bits, ordered")
        return text
    if kind in BITS and given in BITS:
        return plain
    if kind == "decimal" and (given == "decimal" or given in BITS):
        _room(subject.type, value)
        return plain
    if kind == given and kind in ("date", "timestamp", "double") or (kind == given == "boolean" and not ordered):
        return plain
    raise NotUnderstood(f"{given} for {kind}")


def _room(subject: str, value: Constant) -> None:
    """NotUnderstood unless both fit into one decimal type, to which Hive converts them."""
    precision, scale = numbers(subject)
    other, others_scale = numbers(value.type) if base(value.type) == "decimal" else (19, 0)
    if max(precision - scale, other - others_scale) + max(scale, others_scale) > MOST_DIGITS:
        raise NotUnderstood("a decimal with too many digits")
