"""Decides which partitions a filter selects.

Job: turn the tree of a filter (filters/text.py) into a predicate over partitions' names. Must not know: rows, replies.

A metastore has its database compare, if the database can compare every key with its literal: strings as bytes, integers
as numbers, dates and timestamps as such (filters/values.py). There the default partition is NULL if the key is not a
string; a literal may name it. `=` also requires `key=literal` in the partition's name, and `!=` requires its absence,
so 07 is not 7; for several keys, and for dates, this is a LIKE pattern. If one comparison cannot be made in this way,
all are made in the second way: as texts, only for strings, dates and timestamps.

Source: MetaStoreDirectSql.PartitionFilterGenerator, ExpressionTree.JDOFilterGenerator of 4.2; compared with a running
4.2.0 over PostgreSQL. Owner: any thread; no state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hms_cache_proxy.cache.key_types import DEFAULT_PARTITION
from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.names import escape, partition_values
from hms_cache_proxy.filters import text as language
from hms_cache_proxy.filters.tree import Compare, Node, compiled
from hms_cache_proxy.filters.values import like, moment, of_bytes, of_moments, of_numbers, of_pattern
from hms_cache_proxy.wire.spec import Struct

Selects = Callable[[str, Sequence[str] | None], bool]
INTEGERS = ("tinyint", "smallint", "int", "bigint")
TEXTS = ("string", "char", "varchar")
TIMES = ("date", "timestamp")
_EQUALITIES = ("=", "!=")
_TYPES_REFUSED = "Filtering is supported only on partition keys of type string"


class _Partition(NamedTuple):
    name: str
    values: Sequence[bytes]


Term = Callable[[_Partition], bool]


class _Other(Exception):
    """The database cannot compare this: use the second way."""


def parsed(text: str) -> Node:
    """The tree of a filter. MetaException for text that is not a filter."""
    try:
        return language.parse(text)
    except language.Refused as refusal:
        raise meta(str(refusal)) from None


def selects(text: str, keys: Sequence[Struct]) -> Selects:
    """A predicate over names of partitions, and over their values if the name does not tell them. An empty text selects
    all. MetaException for text that is not a filter."""
    if not text:
        return lambda name, values: True
    node = parsed(text)
    compared = _Compared(keys)
    try:
        holds = compiled(node, compared.in_sql)
    except _Other:
        compared = _Compared(keys)
        holds = compiled(node, compared.as_text)

    def chosen(name: str, values: Sequence[str] | None) -> bool:
        stored = [value.encode() for value in (partition_values(name) if values is None else values)]
        compared.check(stored)
        return holds(_Partition(name, stored))

    return chosen


class _Compared:
    """Comparisons with the keys of one table."""

    def __init__(self, keys: Sequence[Struct]) -> None:
        self._keys = keys
        self._numbers: set[int] = set()  # keys whose values are cast

    def check(self, values: Sequence[bytes]) -> None:
        """MetaException if the database's cast fails, because the second way then refuses the key."""
        for at in self._numbers:
            try:
                int(0 if values[at] == DEFAULT_PARTITION else values[at])
            except ValueError:
                raise meta(_TYPES_REFUSED) from None

    def _position(self, key: str) -> tuple[int, str, str]:
        """The position of a key, its name as in partitions' names, and its type without parameters in parentheses."""
        for at, each in enumerate(self._keys):
            if each.name.lower() == key.lower():
                return at, each.name, each.type.lower().partition("(")[0].partition("<")[0]
        raise KeyError(key)

    def in_sql(self, node: Compare) -> Term:
        """The comparison as the database makes it. Raises _Other if it cannot."""
        try:
            at, key, kind = self._position(node.key)
        except KeyError:
            raise _Other from None
        op, text, number = node.op, node.value.text, node.value.kind == "integer"
        named = text == DEFAULT_PARTITION.decode()
        if kind in INTEGERS and number and op != "like":
            self._numbers.add(at)
            compare = of_numbers(at, op, int(text))
        elif kind in TIMES and not number and (wanted := moment(kind, text)) is not None and op != "like":
            compare = of_moments(at, op, kind, wanted)
        elif number or not (kind in TEXTS or (named and kind in INTEGERS + TIMES)):
            raise _Other
        elif op == "like":
            if node.flipped:
                raise _Other
            compare = of_pattern(at, like(text))
        else:
            compare = of_bytes(at, op, text.encode())
        if op not in _EQUALITIES or not text:
            return lambda partition: compare(partition.values)
        in_name, equal = self._in_name(at, key, kind, text), op == "="
        return lambda partition: compare(partition.values) and in_name(partition.name) is equal

    def _in_name(self, at: int, key: str, kind: str, value: str) -> Callable[[str], bool]:
        """Does a name contain `key=value`?"""
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
        """The comparison in the second way. MetaException for a key that is not a text."""
        try:
            at, key, kind = self._position(node.key)
        except KeyError:
            raise meta(f"Specified key <{node.key}> is not a partitioning key for the table") from None
        if kind not in (*TEXTS, *TIMES) or node.value.kind == "integer":
            raise meta(_TYPES_REFUSED)
        if node.op == "like" and node.flipped:
            raise meta(f"Value should be on the RHS for LIKE operator : Key <{node.key}>")
        if node.op in _EQUALITIES and not node.value.text:
            raise meta(f"Partition spec is incorrect. {{{key}=}}")
        text = node.value.text
        compare = of_pattern(at, like(text)) if node.op == "like" else of_bytes(at, node.op, text.encode())
        return lambda partition: compare(partition.values)
