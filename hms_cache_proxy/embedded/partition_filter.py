"""Which partitions a filter selects.

Job: the tree of a filter (filter_text.py) to a predicate over partitions' names. Must not know: rows, replies.

A metastore lets its database compare, with the truth values of SQL (None is NULL), if that can compare every key with
its literal: strings as bytes, integers as numbers, dates and timestamps as such. The default partition is NULL there
if the key is no string, and may be named. `=` also wants the partition's name to have `key=literal` in it, `!=` wants
it not to, so 07 is no 7; in names of several keys, and of dates, as a pattern of LIKE. If one comparison cannot be made
so, all are made by the second way: texts, of strings, dates and timestamps only.
Source: MetaStoreDirectSql.PartitionFilterGenerator, ExpressionTree.JDOFilterGenerator of 4.2; asked of a running 4.2.0
over PostgreSQL. Owner: any thread; no state.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.filter_text import Compare, Node, Op, parse
from hms_cache_proxy.embedded.names import DEFAULT_PARTITION, escape, partition_values
from hms_cache_proxy.wire.spec import Struct

Predicate = Callable[[str], bool]
Selects = Callable[[str, Sequence[str] | None], bool]
Truth = bool | None
Term = Callable[[str, Sequence[str]], Truth]
Leaf = Callable[[Compare], Term]
INTEGERS = ("tinyint", "smallint", "int", "bigint")
TEXTS = ("string", "char", "varchar")
TIMES = ("date", "timestamp")
OPERATORS: dict[Op, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FLIPPED: dict[Op, Op] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EQUALITIES = ("=", "<>", "!=")
_TYPES_REFUSED = "Filtering is supported only on partition keys of type string"


class _Other(Exception):
    """The database cannot compare this: the second way."""


def selects(text: str, keys: Sequence[Struct]) -> Selects:
    """A predicate over names of partitions, and their values where the name does not say them; an empty text selects
    all. MetaException for what is no filter."""
    if not text:
        return lambda name, values: True
    node = parse(text)
    try:
        return _predicate(compiled(node, _Compared(keys).in_sql))
    except _Other:
        return _predicate(compiled(node, _Compared(keys).as_text))


def _predicate(term: Term) -> Selects:
    return lambda name, values: term(name, partition_values(name) if values is None else values) is True


def compiled(node: Node, leaf: Leaf) -> Term:
    """What a tree means, if `leaf` says what a comparison means."""
    if isinstance(node, Compare):
        return leaf(node)
    terms = [compiled(each, leaf) for each in node.terms]
    decisive = not node.every

    def joined(name: str, values: Sequence[str]) -> Truth:
        found = [term(name, values) for term in terms]
        return decisive if decisive in found else None if None in found else not decisive

    return joined


class _Compared:
    """Comparisons with the keys of one table."""

    def __init__(self, keys: Sequence[Struct]) -> None:
        self._keys = keys

    def _position(self, key: str) -> tuple[int, str, str]:
        """Of a key: where, its name as it is in partitions' names, its type without what is in parentheses."""
        for at, each in enumerate(self._keys):
            if each.name.lower() == key.lower():
                return at, each.name, each.type.lower().partition("(")[0].partition("<")[0]
        raise KeyError(key)

    def in_sql(self, node: Compare) -> Term:
        """As the database compares. _Other if it cannot."""
        try:
            at, key, kind = self._position(node.key)
        except KeyError:
            raise _Other from None
        value = node.value
        named = value == DEFAULT_PARTITION
        read: Callable[[str], Any] = _as_stored
        wanted: Any = value
        if kind in INTEGERS and isinstance(value, int):
            read = _number
        elif kind in TIMES and isinstance(value, str) and (moment := _moment(kind, value)) is not None:
            read, wanted = _reader(kind), moment
        elif not (isinstance(value, str) and (kind in TEXTS or (named and kind in INTEGERS + TIMES))):
            raise _Other
        if node.op == "like":
            if node.flipped or read is not _as_stored:
                raise _Other
            matches = like(str(value)).fullmatch
            return lambda name, values: matches(values[at]) is not None
        compare = _comparison(node)
        wanted = wanted.encode() if read is _as_stored else wanted
        in_name = self._in_name(at, key, kind, str(value)) if node.op in _EQUALITIES and value != "" else None
        equal = node.op == "="

        def holds(name: str, values: Sequence[str]) -> Truth:
            found = read(values[at])
            if found is None:
                return None if in_name is None or in_name(name) is equal else False
            return compare(found, wanted) and (in_name is None or in_name(name) is equal)

        return holds

    def _in_name(self, at: int, key: str, kind: str, value: str) -> Predicate:
        """Whether a name has `key=value`."""
        part = f"{escape(key)}={escape(value)}" + ("%" if kind == "date" else "")
        if len(self._keys) == 1:
            if kind != "date":
                return lambda name: name == part
            pattern = part
        else:
            pattern = ("" if at == 0 else "%/") + part + ("" if at + 1 == len(self._keys) else "/%")
        matches = like(pattern).fullmatch
        return lambda name: matches(name) is not None

    def as_text(self, node: Compare) -> Term:
        """The second way. MetaException for a key that is no text."""
        try:
            at, key, kind = self._position(node.key)
        except KeyError:
            raise meta(f"Specified key <{node.key}> is not a partitioning key for the table") from None
        if kind not in (*TEXTS, *TIMES) or not isinstance(node.value, str):
            raise meta(_TYPES_REFUSED)
        if node.op == "like":
            if node.flipped:
                raise meta(f"Value should be on the RHS for LIKE operator : Key <{node.key}>")
            wild = like(node.value).fullmatch
            return lambda name, values: wild(values[at]) is not None
        if node.op in _EQUALITIES and not node.value:
            raise meta(f"Partition spec is incorrect. {{{key}=}}")
        compare, wanted = _comparison(node), node.value.encode()
        return lambda name, values: compare(values[at].encode(), wanted)


def _comparison(node: Compare) -> Callable[[Any, Any], bool]:
    return OPERATORS[FLIPPED.get(node.op, node.op) if node.flipped else node.op]


def _as_stored(value: str) -> Any:
    return value.encode()


def _number(value: str) -> Any:
    if value == DEFAULT_PARTITION:
        return None
    try:
        return int(value)
    except ValueError:
        raise meta(_TYPES_REFUSED) from None  # the database's cast fails, and the second way refuses the key


def _reader(kind: str) -> Callable[[str], Any]:
    return lambda value: None if value == DEFAULT_PARTITION else _moment(kind, value)


def _moment(kind: str, text: str) -> date | datetime | None:
    """A date or a timestamp; None for a text that is none."""
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
