"""The filter language of get_partitions_by_filter: text to a tree, for the part of it that is answered here.

Job: parse comparisons of partition keys with strings, integers and dates, BETWEEN, AND, OR and parentheses. Must not
know: partitions, the cache. Owner: any process; the parser is made on first use.

The language is Hive's; the grammar is this project's and says less: `parse` gives None for everything that it does not
say (backslashes in strings, leading zeros, timestamps, text after the end, which Hive ignores), and the metastore is
asked. LIKE is a token of its own, as its meaning differs between releases and databases.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from lark import Lark, Transformer, v_args
from lark.exceptions import LarkError

Op = Literal["=", "!=", "<", "<=", ">", ">="]

MAX_FILTER_BYTES = 8192
"""Longer filters go upstream: parsing takes about 20 us per comparison, on the worker's loop."""
MAX_DEPTH = 50
"""Nested parentheses."""

_KEYWORDS = "and|or|not|between|in|struct|values|const|date|timestamp|is|true|false|like"
"""No names of keys without back-quotes, also where no table is there to have one (Filter.g4; 3.1 has fewer)."""
_GRAMMAR = r"""
?start: either
?either: both (_OR both)*                 -> either
?both: term (_AND term)*                  -> both
?term: "(" either ")"
     | KEY OP _value                      -> key_first
     | _value OP KEY                      -> value_first
     | KEY _BETWEEN _value _AND _value    -> between
     | KEY _NOT _BETWEEN _value _AND _value -> not_between
     | KEY LIKE STRING                    -> like
_value: STRING | INTEGER | DATE

OP: "<=" | ">=" | "!=" | "<>" | "==" | "=" | "<" | ">"
STRING: "\"" /[^"'\\]*/ "\"" | "'" /[^"'\\]*/ "'"
DATE.4: /[0-9]{4}-[0-9]{2}-[0-9]{2}(?![\w.:-])/
INTEGER.3: /(0|-?[1-9][0-9]{0,18})(?![\w.:-])/
_AND.3: /and(?!\w)/i
_OR.3: /or(?!\w)/i
_NOT.3: /not(?!\w)/i
_BETWEEN.3: /between(?!\w)/i
LIKE.3: /like(?!\w)/i
KEY.1: /(?!(?:WORDS)(?!\w))[a-z][a-z0-9_]*/i | "`" /[A-Za-z0-9_]+/ "`"
%ignore /[ \t\r\n]+/
""".replace("WORDS", _KEYWORDS)
_FLIPPED: dict[str, Op] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Value:
    """A literal as bytes, and how it was written."""

    text: bytes
    kind: Literal["string", "integer", "date"]


@dataclass(frozen=True, slots=True)
class Compare:
    """A key (folded) and a literal."""

    key: bytes
    op: Op
    value: Value


@dataclass(frozen=True, slots=True)
class Between:
    """A key between two literals, both included, or not."""

    key: bytes
    low: Value
    high: Value
    negated: bool


@dataclass(frozen=True, slots=True)
class Both:
    """All of these."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of these."""

    terms: tuple[Node, ...]


Node = Compare | Between | Both | Either


class LikeFilter(Exception):
    """The filter has a LIKE in it."""


def parse(text: bytes) -> Node | None:
    """The tree; None for what is not understood. Raises LikeFilter."""
    if len(text) > MAX_FILTER_BYTES or text.count(b"(") > MAX_DEPTH:
        return None
    try:
        tree = _parser().parse(text.decode("utf-8"))
        found: Node = _Build().transform(tree)
    except (LarkError, UnicodeDecodeError) as error:
        if isinstance(error.__context__, LikeFilter) or isinstance(getattr(error, "orig_exc", None), LikeFilter):
            raise LikeFilter from None
        return None
    return found


def literals(node: Node) -> list[bytes]:
    """Every literal of a filter."""
    if isinstance(node, Compare):
        return [node.value.text]
    if isinstance(node, Between):
        return [node.low.text, node.high.text]
    return [literal for term in node.terms for literal in literals(term)]


def keys_of(node: Node) -> set[bytes]:
    """Every key of a filter."""
    if isinstance(node, Compare | Between):
        return {node.key}
    return {key for term in node.terms for key in keys_of(term)}


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", lexer="contextual")


@v_args(inline=True)
class _Build(Transformer[Any, Node]):
    """Lark's tree to nodes."""

    def KEY(self, token: str) -> bytes:
        return token.strip("`").lower().encode()

    def OP(self, token: str) -> str:
        return {"==": "=", "<>": "!="}.get(str(token), str(token))

    def STRING(self, token: str) -> Value:
        return Value(token[1:-1].encode(), "string")

    def INTEGER(self, token: str) -> Value:
        return Value(token.encode(), "integer")

    def DATE(self, token: str) -> Value:
        return Value(token.encode(), "date")

    def key_first(self, key: bytes, op: Op, value: Value) -> Node:
        return Compare(key, op, value)

    def value_first(self, value: Value, op: str, key: bytes) -> Node:
        return Compare(key, _FLIPPED[op], value)

    def between(self, key: bytes, low: Value, high: Value) -> Node:
        return Between(key, low, high, negated=False)

    def not_between(self, key: bytes, low: Value, high: Value) -> Node:
        return Between(key, low, high, negated=True)

    def like(self, *_: object) -> Node:
        raise LikeFilter

    def both(self, *terms: Node) -> Node:
        return terms[0] if len(terms) == 1 else Both(terms)

    def either(self, *terms: Node) -> Node:
        return terms[0] if len(terms) == 1 else Either(terms)
