"""The tree of a filter, and what AND and OR mean.

Job: `Compare` and `Joined`, and `compiled`, which folds a tree into a predicate. Must not know: texts, types of keys,
what is selected. Source: ExpressionTree of Hive 4.2 (LeafNode, TreeNode). Owner: any thread; no state.

The tree says nothing of how it was written: BETWEEN, IN, STRUCT, IS TRUE and a literal before its key are comparisons
and joints of these.

Invariant: no node negates another, as Hive inverts comparisons while it parses. So what SQL leaves unknown (NULL) is
as good as false: AND and OR make no truth of either.
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
    """What a key is compared with: its text without quotes (of an integer, its decimal form), and how it is written."""

    text: str
    kind: OneOf["string", "integer", "date", "timestamp"]

    @property
    def encoded(self) -> bytes:
        """The text as the wire has it."""
        return self.text.encode()


@dataclass(frozen=True, slots=True)
class Compare:
    """A key, as it is written, and a literal. `op` is that of the key, also if it is `flipped`: the literal first."""

    key: str
    op: Op
    value: Literal
    flipped: bool = False

    @property
    def folded(self) -> bytes:
        """The key as partition keys are compared: lower case, as the wire has it."""
        return self.key.lower().encode()


@dataclass(frozen=True, slots=True)
class Joined:
    """All of these, or one of them."""

    terms: tuple[Node, ...]
    every: bool


Node = Compare | Joined


def joined(terms: list[Node], *, every: bool) -> Node:
    """One term as it is, more of them joined."""
    return terms[0] if len(terms) == 1 else Joined(tuple(terms), every)


def compiled(node: Node, leaf: Callable[[Compare], Callable[[Subject], bool]]) -> Callable[[Subject], bool]:
    """A predicate, if `leaf` makes one of each comparison."""
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
