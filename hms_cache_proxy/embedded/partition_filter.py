"""Which partitions a filter selects.

Job: the text of get_partitions_by_filter to a predicate over partitions' values; the grammar is
methods/readers/filter_grammar.py; IN and LIKE, which it has not, are rewritten first. Must not know: rows. The rules
are of methods/readers/filter_match.py, found by asking Hive 4: strings as bytes; `=` on integer keys with the
literal's decimal form, else numbers; LIKE as in SQL (`%`, `_`); dates as dates; the default partition is in no
comparison of a typed key, but may be named.
Owner: any thread; no state.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import structlog

from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.names import DEFAULT_PARTITION
from hms_cache_proxy.methods.readers.filter_grammar import (
    Between,
    Both,
    Compare,
    Either,
    Node,
    Op,
    Value,
    parse,
)
from hms_cache_proxy.wire.spec import Struct

log = structlog.get_logger()

Predicate = Callable[[Sequence[str]], bool]
Like = TypeVar("Like")
_TOKEN = re.compile(r""""[^"]*"|'[^']*'|`[^`]*`|[\w.:-]+|<=|>=|!=|<>|==|[^\s\w]""")
_MEMBER = re.compile(r"\( \S+ \) (?P<no>not )?in \(", re.IGNORECASE)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
OPERATORS: dict[Op, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def selects(text: str, keys: Sequence[Struct]) -> Predicate:
    """A predicate over the values of a partition; an empty text selects all. MetaException for what is no filter."""
    if not text.strip():
        return lambda values: True
    positions = {key.name.lower(): (at, key.type.lower()) for at, key in enumerate(keys)}

    def like(name: str, pattern: str, negated: bool) -> Predicate:
        return _like(_position(name, positions)[0], pattern, negated)

    node, patterns = understood(text, like)
    return _compiled(node, positions, patterns)


def understood(text: str, like: Callable[[str, str, bool], Like]) -> tuple[Node, dict[str, Like]]:
    """The tree of a filter. `like(key, pattern, negated)` makes what a LIKE means; a comparison with one of the keys of
    the second result stands for it. MetaException for what is no filter."""
    patterns: dict[str, Like] = {}
    node = parse(_rewritten(text, like, patterns).encode())
    if node is None:
        log.warning("a filter is not understood", filter=text)
        raise meta(f"Error parsing partition filter: {text!r} is not understood")
    return node, patterns


def _rewritten(text: str, like_of: Callable[[str, str, bool], Like], patterns: dict[str, Like]) -> str:
    """`(k) IN (a, b)` as comparisons, `k LIKE p` as one with a name that stands for what it means in `patterns`."""
    tokens = _TOKEN.findall(text)
    out: list[str] = []
    at = 0
    while at < len(tokens):
        negated = at + 1 < len(tokens) and tokens[at + 1].lower() == "not"
        like, pattern = at + 1 + negated, at + 2 + negated
        found = _MEMBER.match(" ".join(tokens[at : at + 6])) if tokens[at] == "(" else None
        if found is not None and ")" in tokens[at + 5 :]:
            start = at + 5 + bool(found["no"])
            end = tokens.index(")", start)
            op, joined = ("!=", " and ") if found["no"] else ("=", " or ")
            values = [token for token in tokens[start:end] if token != ","]
            out.append("(" + joined.join(f"{tokens[at + 1]} {op} {value}" for value in values) + ")")
            at = end + 1
        elif pattern < len(tokens) and tokens[like].lower() == "like":
            name = f"like{len(patterns)}pattern"
            patterns[name] = like_of(tokens[at].strip("`").lower(), tokens[pattern][1:-1], negated)
            out.append(f'{name} = "1"')
            at = pattern + 1
        else:
            out.append(tokens[at])
            at += 1
    return " ".join(out)


def _like(at: int, pattern: str, negated: bool) -> Predicate:
    parts = ({"%": ".*", "_": "."}.get(char) or re.escape(char) for char in pattern)
    matches = re.compile("".join(parts), re.DOTALL).fullmatch
    return lambda values: (matches(values[at]) is None) is negated


def _position(name: str, keys: dict[str, tuple[int, str]]) -> tuple[int, str]:
    if name not in keys:
        raise meta(f"Specified key <{name}> is not a partitioning key for the table")
    return keys[name]


def _compiled(node: Node, keys: dict[str, tuple[int, str]], patterns: dict[str, Predicate]) -> Predicate:
    if isinstance(node, Both):
        terms = [_compiled(term, keys, patterns) for term in node.terms]
        return lambda values: all(term(values) for term in terms)
    if isinstance(node, Either):
        terms = [_compiled(term, keys, patterns) for term in node.terms]
        return lambda values: any(term(values) for term in terms)
    name = node.key.decode()
    if name in patterns:
        return patterns[name]
    at, kind = _position(name, keys)
    if isinstance(node, Between):
        return _between(node, at, kind)
    assert isinstance(node, Compare)
    return _comparison(at, kind, node.op, node.value)


def _between(node: Between, at: int, kind: str) -> Predicate:
    low, high = _comparison(at, kind, ">=", node.low), _comparison(at, kind, "<=", node.high)
    if not node.negated:
        return lambda values: low(values) and high(values)
    typed = kind in _INTEGERS or kind == "date"
    return lambda values: not (typed and values[at] == DEFAULT_PARTITION) and not (low(values) and high(values))


def _comparison(at: int, kind: str, op: Op, value: Value) -> Predicate:
    holds, text = OPERATORS[op], value.text.decode()
    if text == DEFAULT_PARTITION or kind not in (*_INTEGERS, "date"):
        wanted = text.encode()
        return lambda values: holds(values[at].encode(), wanted)
    if kind == "date":
        return lambda values: values[at] != DEFAULT_PARTITION and holds(values[at], text)
    if value.kind == "string" or not re.fullmatch(r"-?\d+", text):
        raise meta("Filtering is supported only on partition keys of type string")
    if op == "=":
        return lambda values: values[at] == text
    number = int(text)
    return lambda values: values[at] != DEFAULT_PARTITION and holds(_number(values[at]), number)


def _number(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise meta(f"the partition value {value!r} is no number") from None
