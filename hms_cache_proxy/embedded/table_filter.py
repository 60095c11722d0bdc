"""Which tables a filter of get_table_names_by_filter selects.

Job: the text of a filter to a predicate over `Named` tables. The language is that of partition filters; its keys are
hive_filter_field_owner__, _last_access__, _tableName__, _tableType__ and _params__NAME. What a table does not have is
in no comparison, not even `!=`; LIKE has the patterns of the `matches` of JDO: `.*` any run, `.` any character.
Must not know: rows. Source: ExpressionTree.generateJDOFilterOverTables of 4.0. Owner: any thread; no state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.partition_filter import OPERATORS, understood
from hms_cache_proxy.methods.readers.filter_grammar import Between, Both, Compare, Either, Node, Op

PREFIX = "hive_filter_field_"
_PARAMETERS = PREFIX + "params__"
_LAST_ACCESS = PREFIX + "last_access__"
_DISCOVER = "discover__partitions"
_KEY = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True, slots=True)
class Named:
    """A table, as far as filters see it."""

    name: str
    kind: str | None
    owner: str | None
    last_access: int
    parameters: Mapping[str, str]


Predicate = Callable[[Named], bool]
_FIELDS: dict[str, Callable[[Named], str | None]] = {
    PREFIX + "owner__": lambda table: table.owner,
    PREFIX + "tablename__": lambda table: table.name,
    PREFIX + "tabletype__": lambda table: table.kind,
}


def selects(text: str) -> Predicate:
    """A predicate over tables. MetaException for what is no filter."""
    written = {key.lower(): key for key in _KEY.findall(text)}  # the parser folds keys; parameters' names have cases

    def like(key: str, pattern: str, negated: bool) -> Predicate:
        if key == _LAST_ACCESS:
            raise meta("Like is not supported for HIVE_FILTER_FIELD_LAST_ACCESS")
        read = _text_of(key, written)
        matches = re.compile("".join(_pieces(pattern)), re.DOTALL).fullmatch

        def holds(table: Named) -> bool:
            value = read(table)
            return value is not None and (matches(value) is None) is negated

        return holds

    node, patterns = understood(text, like)
    return _compiled(node, written, patterns)


def _pieces(pattern: str) -> list[str]:
    return [{".*": ".*", ".": "."}.get(piece) or re.escape(piece) for piece in re.findall(r"\.\*|.", pattern)]


def _text_of(key: str, written: Mapping[str, str]) -> Callable[[Named], str | None]:
    """What reads a key's value, a text."""
    if key.startswith(_PARAMETERS):
        name = written[key][len(_PARAMETERS) :]
        if name == _DISCOVER:
            return lambda table: _upper(table.parameters.get("discover.partitions"))
        return lambda table: table.parameters.get(name)
    if key not in _FIELDS:
        raise meta("Invalid key name in filter.  Use constants from org.apache.hadoop.hive.metastore.api")
    return _FIELDS[key]


def _upper(value: str | None) -> str | None:
    return None if value is None else value.upper()


def _compiled(node: Node, written: Mapping[str, str], patterns: Mapping[str, Predicate]) -> Predicate:
    if isinstance(node, Both):
        terms = [_compiled(term, written, patterns) for term in node.terms]
        return lambda table: all(term(table) for term in terms)
    if isinstance(node, Either):
        terms = [_compiled(term, written, patterns) for term in node.terms]
        return lambda table: any(term(table) for term in terms)
    if isinstance(node, Between):
        low = _comparison(node.key.decode(), ">=", node.low.text.decode(), written)
        high = _comparison(node.key.decode(), "<=", node.high.text.decode(), written)
        return lambda table: (low(table) and high(table)) is not node.negated
    assert isinstance(node, Compare)
    key = node.key.decode()
    return patterns.get(key) or _comparison(key, node.op, node.value.text.decode(), written)


def _comparison(key: str, op: Op, text: str, written: Mapping[str, str]) -> Predicate:
    holds = OPERATORS[op]
    if key == _LAST_ACCESS:
        if not re.fullmatch(r"-?\d+", text):
            raise meta(f"the last access is a number, not {text!r}")
        number = int(text)
        return lambda table: holds(table.last_access, number)
    read = _text_of(key, written)
    if key.startswith(_PARAMETERS) and op not in ("=", "!="):
        raise meta("Only [=, <>, LIKE, !=] are supported operators for HIVE_FILTER_FIELD_PARAMS")
    wanted = text.upper() if key == _PARAMETERS + _DISCOVER else text

    def compared(table: Named) -> bool:
        value = read(table)
        return value is not None and holds(value, wanted)

    return compared
