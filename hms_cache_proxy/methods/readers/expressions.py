"""Readers of partitions by expression, as Hive's planner requests them.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences, how expressions are written.

A metastore pushes an expression down as a filter, or evaluates it over the names of all partitions. The two ways differ
in what they select, and in the form of the partitions: that of answers to filters if the expression is pushed down,
otherwise that of lists. Only what is certain is answered (hms_cache_proxy/expressions), and only if the metastore has
recently been seen to use that way.
Source: Hive 4.2's ObjectStore.getPartitionsByExpr, compared with a running 4.2.0. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.segments import Variant
from hms_cache_proxy.cache.walk import NameWalk
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.expressions.decode import decode
from hms_cache_proxy.expressions.pushed import filter_of
from hms_cache_proxy.expressions.selection import NameSelection
from hms_cache_proxy.expressions.tree import Expression, NotUnderstood
from hms_cache_proxy.expressions.values import Odd
from hms_cache_proxy.filters.tree import Node, comparisons
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.wire.spec import Struct

from .base import (
    STOP,
    Body,
    Context,
    Decline,
    Unfinished,
    around_structs,
    listed_names,
    no_projection,
    started,
    unless,
)
from .filter_match import Unsure, begins_of, values_in
from .filter_walk import Names, Search, TooFar, by_looking_at_all
from .filters import chosen, framed, searched, stored_values
from .part_names import DEFAULT_PARTITION
from .shared_specs import shared_specs

_LINE: Final = "4.2"
"""The Hive with which the answers were compared."""
ALL_KNOWN: Final = b"\x02\x00\x02\x00" + STOP
"""The end of a result: `hasUnknownPartitions` is false."""
SOME_UNKNOWN: Final = b"\x02\x00\x02\x01" + STOP

Made = Callable[["_Asked", list[bytes]], Generator[None, None, Body]]
"""Makes the result for these names."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request selects: the partitions of a filter, or those selected by their names."""

    context: Context
    entry: TableEntry
    node: Node | None
    by_name: _ByName | None

    @property
    def end(self) -> bytes:
        """Of the result, once the names are known."""
        return SOME_UNKNOWN if self.by_name is not None and self.by_name.unknown else ALL_KNOWN

    @property
    def variant(self) -> Variant:
        return Variant.LIST if self.node is None else Variant.FILTER

    def names(self, walk: NameWalk, search: Search) -> Names:
        if self.node is not None:
            return (yield from chosen(self.context, self.entry, walk, self.node, None, search))
        assert self.by_name is not None, "it is not pushed down"
        try:
            return (yield from by_looking_at_all(walk, self.by_name, None))
        except (Unsure, TooFar):
            raise Decline(Reason.FILTER) from None


class _ByName:
    """A selection over names. `unknown`: Hive does not know of one that was selected, and so keeps it."""

    __slots__ = ("_begins", "_selection", "_stored", "unknown")

    def __init__(self, context: Context, entry: TableEntry, selection: NameSelection) -> None:
        self._selection = selection
        self._begins = begins_of(entry.partition_keys)
        self._stored = partial(stored_values, context, entry)
        self.unknown = False

    def selects(self, name: bytes) -> bool:
        """Whether the partition of this name is selected. Raises Unsure."""
        values = values_in(name, self._begins)
        if DEFAULT_PARTITION in name and self._stored(name) != values:
            raise Unsure  # an empty value has the same name as the default partition
        try:
            found = self._selection.selects(values)
        except Odd:
            raise Unsure from None
        self.unknown = self.unknown or found is None
        return found is not False


def get_partitions_by_expr(context: Context, args: Struct) -> Body | Unfinished:
    """Partitions that an expression selects, in order of their names."""
    return _answered(context, args.req, _listed)


def get_partitions_spec_by_expr(context: Context, args: Struct) -> Body | Unfinished:
    """The same as PartitionSpecs."""
    return _answered(context, args.req, _as_specs)


def names_by_expression(context: Context, request: Struct) -> Body | Unfinished:
    """The names of partitions that an expression selects."""
    return _answered(context, request, _named)


def _answered(context: Context, request: Struct | None, made: Made) -> Body | Unfinished:
    unless(request is None or request.expr is None)
    assert request is not None
    asked = _asked(context, request, _decoded(request.expr))
    work = partial(_found, asked, made)
    if asked.node is None:
        return started(work(Search()))
    return started(searched(context, asked.entry, work))


def _found(asked: _Asked, made: Made, search: Search) -> Generator[None, None, Body]:
    with closing(asked.context.snapshot.walk(asked.entry)) as walk:  # keeps the snapshot's state
        names = yield from asked.names(walk, search)
        return (yield from made(asked, names))


def _decoded(expression: bytes) -> Expression:
    try:
        return decode(expression)
    except NotUnderstood:
        raise Decline(Reason.FILTER) from None


def _asked(context: Context, request: Struct, expression: Expression) -> _Asked:
    context.as_usual(AnswerDifferences.LISTS | AnswerDifferences.EXPRESSIONS)
    no_projection(request)
    if request.order:
        raise Decline(Reason.ORDER)
    if context.line != _LINE:
        raise Decline(Reason.RELEASE)
    unless(request.maxParts is not None and request.maxParts >= 0)  # the two ways treat limits differently
    unless(request.defaultPartitionName != DEFAULT_PARTITION)
    database = context.plain(request.catName, request.dbName)
    entry = context.partitioned(database, request.tblName)
    if entry is None or not entry.partition_keys:
        raise Decline(Reason.ARGUMENTS)
    types = {key.decode("utf-8", "replace"): kind.decode("utf-8", "replace") for key, kind in entry.partition_keys}
    try:
        node = filter_of(expression, types)
        by_name = _ByName(context, entry, NameSelection(expression, types)) if node is None else None
    except NotUnderstood:
        raise Decline(Reason.FILTER) from None
    identity = context.snapshot.identity
    if node is not None and any(each.op == "like" for each in comparisons(node)):
        if not identity.exact or not identity.exact_text:  # only PostgreSQL's LIKE is known
            raise Decline(Reason.FILTER_LIKE)
    if node is None:  # the metastore then reads partitions by the selected names
        context.as_usual(AnswerDifferences.NAMES)
        if not identity.exact_text:
            raise Decline(Reason.COLLATION)
    context.ordered()
    route = Reason.EXPRESSION_PUSHED if node is not None else Reason.EXPRESSION_NAMES
    if context.routes is None or not context.routes.open(route):
        raise Decline(route)
    return _Asked(context, entry, node, by_name)


def _named(_asked: _Asked, names: list[bytes]) -> Generator[None, None, Body]:
    yield from ()
    return listed_names(names)


def _listed(asked: _Asked, names: list[bytes]) -> Generator[None, None, Body]:
    def around(_entry: TableEntry, count: int) -> tuple[bytes, bytes]:
        before, _ = around_structs(count, wrapped=True)
        return before, asked.end + STOP

    return (yield from framed(asked.context, asked.entry, names, around, asked.variant))


def _as_specs(asked: _Asked, names: list[bytes]) -> Generator[None, None, Body]:
    before, _ = around_structs(min(len(names), 1), wrapped=True)
    specs = yield from shared_specs(asked.context, asked.entry, names, asked.variant)
    return b"".join((before, specs, asked.end, STOP))
