"""The tree of a filter, and what AND and OR mean.

Job: define the nodes `Compare` and `Joined`; `compiled` turns a tree into a predicate. Must not know: texts, types of
keys, what is selected. Source: ExpressionTree of Hive 4.2 (LeafNode, TreeNode). Owner: any thread; no state.

The tree does not show how a filter was written: BETWEEN, IN, STRUCT and IS TRUE become comparisons, joined by AND and
OR.

Invariant: no node negates another, because Hive inverts comparisons while it parses. So unknown (SQL's NULL) can be
treated as false: AND and OR never turn either into true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeVar

Op = OneOf["=", "!=", "<", "<=", ">", ">=", "like"]
Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True)
class Literal:
    """What a key is compared with: its text without quotes (for an integer, the decimal form), and its kind."""

    text: str
    kind: OneOf["string", "integer", "date", "timestamp"]

    @property
    def encoded(self) -> bytes:
        """The text as on the wire."""
        return self.text.encode()


@dataclass(frozen=True, slots=True)
class Compare:
    """A key, as written, and a literal. `op` has the key on its left, even if the filter has the literal first
    (`flipped`)."""

    key: str
    op: Op
    value: Literal
    flipped: bool = False

    @property
    def folded(self) -> bytes:
        """The key in lower case, as on the wire; partition keys are compared in this form."""
        return self.key.lower().encode()


@dataclass(frozen=True, slots=True)
class Joined:
    """All of the terms (`every`), or at least one of them."""

    terms: tuple[Node, ...]
    every: bool


Node = Compare | Joined


def joined(terms: list[Node], *, every: bool) -> Node:
    """A single term itself, or several terms joined."""
    return terms[0] if len(terms) == 1 else Joined(tuple(terms), every)


def compiled(node: Node, leaf: Callable[[Compare], Callable[[Subject], bool]]) -> Callable[[Subject], bool]:
    """A predicate for the tree; `leaf` makes one for each comparison."""
    if isinstance(node, Compare):
        return leaf(node)
    terms = [compiled(term, leaf) for term in node.terms]
    if node.every:
        return lambda subject: all(term(subject) for term in terms)
    return lambda subject: any(term(subject) for term in terms)


def comparisons(node: Node) -> Iterator[Compare]:
    """Every comparison of a filter, in order."""
    if isinstance(node, Compare):
        yield node
    else:
        for term in node.terms:
            yield from comparisons(term)


def keys_of(node: Node) -> set[bytes]:
    """Every key of a filter (folded)."""
    return {each.folded for each in comparisons(node)}
