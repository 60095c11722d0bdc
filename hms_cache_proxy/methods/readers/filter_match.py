"""Decides which partitions a filter selects.

Job: make a predicate over partition names from a filter's tree and a table's partition keys, with the meaning that
comparisons have when Hive 4 lets its database evaluate them. Must not know: requests, results, the cache.

What a metastore does (4.0.0 and 4.2.0 over PostgreSQL agree):
- string, varchar, char keys: bytes are compared; the default partition is a string like any other.
- `!=` in tables with several keys: 4.2.0 also leaves out names that are LIKE `key=literal`, where `_` and `%` (even
  those of escapes) are wildcards: `s != 'a_b'` leaves out `axb`. `Unsure` here.
- LIKE of such keys: a pattern for the whole value; only expressions have it here, on PostgreSQL.
- integer keys: `=` compares with the literal's decimal form, so `hr = 3` misses the partition 03. Other operators
  compare numbers, and leave out the default partition.
- date keys: dates are compared, and the default partition is left out.
- the default partition's name as a literal selects it, or with `!=` the others, whatever the key's type.
- A value that cannot be cast to its key's type makes the whole call fail: `Unsure` here.

3.1.3 compares string keys in the same way. Of other types it accepts only integers, and casts their values without a
guard: its database's plan decides whether a value of another table makes the call fail. So these are relayed.

Owner: any process; no state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import NamedTuple

from hms_cache_proxy.cache import key_types
from hms_cache_proxy.cache.key_types import PartitionKeys
from hms_cache_proxy.filters.tree import Compare, Node, comparisons, compiled, keys_of
from hms_cache_proxy.filters.values import Predicate, Values, like, of_bytes, of_dates, of_numbers, of_pattern

from . import filter_spans
from .filter_spans import ScanRanges
from .key_index import Accepted
from .part_names import DEFAULT_PARTITION, escape

Index = dict[bytes, tuple[int, bytes]]

STRINGS = re.compile(rb"string|varchar\(\d+\)|char\(\d+\)")
_COMPARED = re.compile(rb"tinyint|smallint|int|bigint|date|timestamp")
"""The other types of keys that a filter may name: Hive refuses filters on any further type."""
MOST_ENDS = 8
"""Last components that are looked up under each parent."""
_RESERVED = frozenset((b"date", b"timestamp"))


class Unsure(Exception):
    """The metastore has to be asked."""


class KeyLevel(NamedTuple):
    """What a filter says of one key, given the values of the keys before it."""

    begin: bytes
    """`key=`"""
    places: ScanRanges | None
    holds: Predicate | None
    """Can partitions with these values, up to this key, be selected? For the last level: are they? None: this level
    says no more than the one before."""


class Match:
    """A filter made ready for one table's keys."""

    __slots__ = ("_before_4", "_checks", "_index", "_keys", "_node", "_stored", "_table_keys", "_typed", "matches")

    def __init__(
        self,
        node: Node,
        keys: PartitionKeys,
        typed_keys: bytes,
        stored: Callable[[bytes], Values],
        *,
        before_4: bool = False,
    ) -> None:
        """`typed_keys`: see cache/key_types.py. `stored` returns the values of a partition by its name. Raises Unsure
        for filters that are not evaluated here."""
        self._stored = stored
        self._before_4 = before_4
        self._typed = typed_keys
        self._table_keys = keys
        self._keys = begins_of(keys)
        self._checks: dict[int, Callable[[bytes], bool]] = {}
        index = {key.lower(): (at, kind.lower()) for at, (key, kind) in enumerate(keys)}
        self.matches: Predicate = self._compile(node, index)
        self._node, self._index = node, index

    @property
    def checked(self) -> bool:
        """May some value in the table not be of its key's type, and make the call fail?"""
        return bool(self._checks)

    @property
    def comparisons(self) -> int:
        """How many comparisons the filter has."""
        return sum(1 for _ in comparisons(self._node))

    def levels(self) -> list[KeyLevel]:
        """What the filter says of each key, up to the last one that it names. Not for a filter that is `checked`."""
        named = [at for at, _ in (self._index[key] for key in keys_of(self._node))]
        found: list[KeyLevel] = []
        for at in range(max(named) + 1):
            key, kind = self._table_keys[at][0].lower(), self._typed[at : at + 1]
            known = {key: row for key, row in self._index.items() if row[0] <= at}
            text = STRINGS.fullmatch(self._table_keys[at][1].lower()) is not None
            where = filter_spans.places(
                self._node,
                key,
                last=at == len(self._keys) - 1,
                bytewise=text or kind == key_types.DATE,
                integer=kind == key_types.INTEGER,
            )
            holds = self._compile(self._node, known, self._index) if at in named else None
            found.append(KeyLevel(self._keys[at], where, holds))
        return found

    def accepts(self) -> list[Accepted | None]:
        """The components of each key that a selected name can have, whatever the other keys are; None: any. Not for a
        filter that is `checked`."""
        named = keys_of(self._node)
        found: list[Accepted | None] = []
        for at, begin in enumerate(self._keys):
            key = self._table_keys[at][0].lower()
            values = filter_spans.exact(self._node, key) if key in named else None
            if key not in named:
                found.append(None)
            elif values is not None:
                found.append(frozenset(begin + escape(value) for value in [*values, DEFAULT_PARTITION]))
            else:
                found.append(self._accepts(at, begin, self._compile(self._node, {key: self._index[key]}, self._index)))
        return found

    @staticmethod
    def _accepts(at: int, begin: bytes, holds: Predicate) -> Accepted:
        before = [b""] * at

        def accepts(component: bytes) -> bool:
            if not component.startswith(begin):
                raise Unsure
            value = component[len(begin) :]
            if DEFAULT_PARTITION in value:  # or an empty value, which has the same name
                return True
            return holds([*before, unescaped(value) if b"%" in value else value])

        return accepts

    def last_components(self) -> list[bytes] | None:
        """The last components of all selected names, in order, if the filter names only the last of several keys and
        lists its values; else None. Not for a filter that is `checked`."""
        at = len(self._keys) - 1
        key = self._table_keys[at][0].lower()
        if not at or keys_of(self._node) != {key} or self._index[key][0] != at:
            return None
        values = filter_spans.exact(self._node, key)
        if values is None or len(values) > MOST_ENDS or DEFAULT_PARTITION in values:
            return None
        holding = {value for value in values if self.matches([*[b""] * at, value])}
        return sorted(self._keys[at] + escape(value) for value in holding)

    def selects(self, name: bytes) -> bool:
        """Does the filter select the partition of this name? Raises Unsure for a value that makes the call fail."""
        # An empty value has the same name as the default partition.
        values = self._stored(name) if DEFAULT_PARTITION in name else values_in(name, self._keys)
        for at, check in self._checks.items():
            if not check(values[at]):
                raise Unsure
        return self.matches(values)

    def _compile(self, node: Node, index: Index, unknown: Container[bytes] = ()) -> Predicate:
        """A predicate over the values of the keys in `index`. Comparisons of `unknown` keys count as true."""

        def leaf(node: Compare) -> Predicate:
            key = node.folded
            if key in _RESERVED or (key not in index and key not in unknown):
                raise Unsure
            if key not in index:
                return lambda _: True
            return self._comparison(*index[key], node)

        return compiled(node, leaf)

    def _comparison(self, at: int, kind: bytes, node: Compare) -> Predicate:
        op, written, text = node.op, node.value.kind, node.value.encoded
        if not text or b"\0" in text:
            raise Unsure
        if self._before_4 and kind != b"string":
            raise Unsure
        if STRINGS.fullmatch(kind):
            if written != "string" or (op == "!=" and len(self._keys) > 1 and _is_pattern(text)):
                raise Unsure
            return _of_pattern(at, node.value.text) if op == "like" else of_bytes(at, op, text)
        if op == "like":
            raise Unsure
        if text == DEFAULT_PARTITION and written == "string":
            if op not in ("=", "!=") or not _COMPARED.fullmatch(kind):
                raise Unsure
            return of_bytes(at, op, text)
        if kind in key_types.INTEGER_TYPES and written == "integer":
            if op == "=":
                return of_bytes(at, op, text)
            self._check(at, key_types.INTEGER)
            return of_numbers(at, op, int(text))
        if kind == b"date" and written in ("string", "date") and text != DEFAULT_PARTITION and key_types.is_date(text):
            self._check(at, key_types.DATE)
            return of_dates(at, op, text)
        raise Unsure

    def _check(self, at: int, kind: bytes) -> None:
        if self._typed[at : at + 1] != kind:
            self._checks[at] = key_types.CHECKS[kind]


def _of_pattern(at: int, pattern: str) -> Predicate:
    matches = of_pattern(at, like(pattern))

    def holds(values: Values) -> bool:
        try:
            return matches(values)
        except UnicodeDecodeError:
            raise Unsure from None

    return holds


def values_in(name: bytes, begins: list[bytes]) -> list[bytes]:
    """The values in a name whose components begin with `begins`. Raises Unsure for any other name."""
    parts = name.split(b"/")
    if len(parts) != len(begins):
        raise Unsure
    values: list[bytes] = []
    for part, begin in zip(parts, begins, strict=True):
        if not part.startswith(begin):
            raise Unsure
        value = part[len(begin) :]
        values.append(unescaped(value) if b"%" in value else value)
    return values


def begins_of(keys: PartitionKeys) -> list[bytes]:
    """`key=` for each key, as in names."""
    return [escape(key.lower()) + b"=" for key, _ in keys]


def _is_pattern(text: bytes) -> bool:
    """May `!=` leave out other values too? Nothing else matches the default partition's name, which is long."""
    return text != DEFAULT_PARTITION and re.search(rb"[_%]", escape(text)) is not None


def unescaped(value: bytes) -> bytes:
    """A component's value. Raises Unsure if it is not escaped as the metastore escapes it."""

    def character(found: re.Match[bytes]) -> bytes:
        return bytes((int(found.group(1), 16),))

    plain = re.sub(rb"%([0-7][0-9A-F])", character, value)
    if escape(plain) != value:
        raise Unsure
    return plain
