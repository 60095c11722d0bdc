"""Decides which tables a filter of get_table_names_by_filter selects.

Job: turn the text of a filter into a predicate over `FilteredTable`. The language is that of partition filters; its
keys are hive_filter_field_owner__, _last_access__, _tableName__, _tableType__ and _params__NAME. If a table lacks the
key, no comparison matches, not even `!=`. LIKE has the patterns of JDO's `matches`: `.*` is any run of characters, `.`
any one.

Must not know: rows. Source: ExpressionTree.generateJDOFilterOverTables of 4.0. Owner: any thread; no state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.partition_filter import parsed
from hms_cache_proxy.filters.tree import Compare, compiled
from hms_cache_proxy.filters.values import OPERATORS
from hms_cache_proxy.filters.wildcards import any_text_between, literal

PREFIX = "hive_filter_field_"
_PARAMETERS = PREFIX + "params__"
_LAST_ACCESS = PREFIX + "last_access__"
_DISCOVER = "discover__partitions"


@dataclass(frozen=True, slots=True)
class FilteredTable:
    """The part of a table that filters use."""

    name: str
    kind: str | None
    owner: str | None
    last_access: int
    parameters: Mapping[str, str]


TablePredicate = Callable[[FilteredTable], bool]
_FIELDS: dict[str, Callable[[FilteredTable], str | None]] = {
    PREFIX + "owner__": lambda table: table.owner,
    PREFIX + "tableName__": lambda table: table.name,
    PREFIX + "tableType__": lambda table: table.kind,
}


def selects(text: str) -> TablePredicate:
    """A predicate over tables; an empty text selects all. MetaException for text that is not a filter."""
    if not text:
        return lambda table: True
    return compiled(parsed(text), _comparison)


def _comparison(node: Compare) -> TablePredicate:
    key, text = node.key, node.value.text
    like = node.op == "like"
    if key == _LAST_ACCESS:
        if like:
            raise meta("Like is not supported for HIVE_FILTER_FIELD_LAST_ACCESS")
        if node.value.kind != "integer":
            raise meta(f"the last access is a number, not {text!r}")
        number, by_number = int(text), OPERATORS[node.op]
        return lambda table: by_number(table.last_access, number)
    read = _text_of(key)
    if key.startswith(_PARAMETERS) and node.op not in ("=", "!=", "like"):
        raise meta("Only [=, <>, LIKE, !=] are supported operators for HIVE_FILTER_FIELD_PARAMS")
    if like and node.flipped:
        raise meta(f"Value should be on the RHS for LIKE operator : Key <{key}>")
    wanted = text.upper() if key == _PARAMETERS + _DISCOVER else text
    if like:
        matches = re.compile(any_text_between(_segments(wanted)), re.DOTALL).fullmatch
        return lambda table: (value := read(table)) is not None and matches(value) is not None
    holds = OPERATORS[node.op]
    return lambda table: (value := read(table)) is not None and holds(value, wanted)


def _segments(pattern: str) -> list[str]:
    """The parts of a pattern between its `.*`; line ends in it do not count."""
    return [literal(text.replace("\n", "")) for text in pattern.split(".*")]


def _text_of(key: str) -> Callable[[FilteredTable], str | None]:
    """A function that reads the value of a text key."""
    if key.startswith(_PARAMETERS):
        name = key[len(_PARAMETERS) :]
        if name == _DISCOVER:
            return lambda table: _upper(table.parameters.get("discover.partitions"))
        return lambda table: table.parameters.get(name)
    if key not in _FIELDS:
        raise meta("Invalid key name in filter.  Use constants from org.apache.hadoop.hive.metastore.api")
    return _FIELDS[key]


def _upper(value: str | None) -> str | None:
    return None if value is None else value.upper()
