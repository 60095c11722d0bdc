"""Readers of partitions by filter.

Job: arguments and a snapshot in, result struct out; see base.py for what is declined. Must not know: sessions, fences.
Of a large table only the names are looked at (0.7 us each) that the filter's conditions on the first key leave, and no
more than SCANNED of them. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial

from hms_cache_proxy.cache import typed
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.segments import Variant
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.wire.spec import Struct

from . import filter_spans
from .base import (
    Body,
    Context,
    Database,
    Decline,
    around_structs,
    no_projection,
    success_i32,
    success_structs,
    unless,
    utf8,
)
from .filter_grammar import LikeFilter, Node, literals, parse
from .filter_match import STRINGS, Match, Unsure
from .filter_spans import Span
from .part_names import escape
from .partition import values_of

SCANNED = 5000
"""Names looked at for one request; a filter that needs more goes upstream."""
FIRST_VALUES = 2000
"""Values of the first key looked at (1.5 us each) where the table has other keys too."""
SMALL = 1000
"""Partitions of a table that is looked at whole."""
CHUNK = 1000
_LATER = (b"`", b"==")
"""Words that Hive 3.1 does not know."""

_parsed = lru_cache(maxsize=512)(parse)


def get_partitions_by_filter(context: Context, args: Struct) -> Body:
    """Partitions that a filter selects, in order of their names."""
    return _by_filter(context, context.split(args.db_name), args.tbl_name, args.filter, args.max_parts)


def get_partitions_by_filter_req(context: Context, args: Struct) -> Body:
    """Partitions that a filter selects, by request; it must name the catalog."""
    request = args.req
    unless(request is None or request.catName is None)
    no_projection(request)
    database = context.plain(request.catName, request.dbName)
    return _by_filter(context, database, request.tblName, request.filter, request.maxParts)


def get_num_partitions_by_filter(context: Context, args: Struct) -> Body:
    """How many partitions a filter selects."""
    context.only_hive4()
    database = context.split(args.db_name)
    entry, node = _asked(context, database, args.tbl_name, args.filter)
    if entry is None:
        return _no_table(context, database, args.tbl_name)
    if node is None:
        return success_i32(entry.partition_count if entry.partition_keys else 0)
    return success_i32(len(_names(context, entry, node, None)))


def _by_filter(
    context: Context, database: Database, table: bytes | None, text: bytes | None, max_parts: int | None
) -> Body:
    entry, node = _asked(context, database, table, text)
    if entry is None:
        return _no_table(context, database, table)
    limit = None if max_parts is None or max_parts < 0 else max_parts
    if node is None:
        return _all(context, entry, limit)
    names = _names(context, entry, node, limit)
    pieces: list[bytes] = []
    return success_structs(context.snapshot.join_partitions(entry, names, pieces, Variant.FILTER), pieces)


def _asked(
    context: Context, database: Database, table: bytes | None, text: bytes | None
) -> tuple[TableEntry | None, Node | None]:
    """The table, None if there is none, and the filter, None if it is empty."""
    context.not_hive2()
    context.list_of_partitions()
    entry = context.partitioned(database, table)
    if context.is_31 and text and any(word in text for word in _LATER):
        raise Decline(Reason.FILTER)
    return entry, _understood(text) if text else None


def _no_table(context: Context, database: Database, table: bytes | None) -> Body:
    message = b"Specified catalog.database.table does not exist : " + context.stored(database, table)
    return context.no_table(database, table, message=message)


def _names(context: Context, entry: TableEntry, node: Node, limit: int | None) -> list[bytes]:
    if not entry.partition_keys:
        raise Decline(Reason.FILTER)
    context.ordered()
    context.comparable(*literals(node))
    try:
        stored = partial(_stored_values, context, entry)
        match = Match(node, entry.partition_keys, entry.typed, stored, is_31=context.is_31)
        return _selected(context, entry, match, _spans(context, entry, node, match), limit)
    except Unsure:
        raise Decline(Reason.FILTER) from None


def _understood(text: bytes) -> Node:
    utf8(text)
    try:
        node = _parsed(text)
    except LikeFilter:
        raise Decline(Reason.FILTER_LIKE) from None
    if node is None:
        raise Decline(Reason.FILTER)
    return node


def _all(context: Context, entry: TableEntry, limit: int | None) -> Body:
    """An empty filter selects everything."""
    count = entry.partition_count if entry.partition_keys else 0
    count = count if limit is None else min(count, limit)
    before, after = around_structs(count, wrapped=False)
    if not count:
        return before + after
    if count > SCANNED:
        raise Decline(Reason.FILTER)
    context.ordered()
    return b"".join((before, *context.snapshot.iter_partitions(entry, limit=count, variant=Variant.FILTER), after))


def _spans(context: Context, entry: TableEntry, node: Node, match: Match) -> list[Span]:
    """Where the names are that have to be looked at."""
    everything = [(b"", b"\xff")]
    if entry.partition_count <= SMALL or match.checked:
        return everything
    (first, kind), *others = entry.partition_keys
    begin = escape(first.lower()) + b"="
    values = filter_spans.exact(node, first.lower())
    if values is not None:
        return filter_spans.under({begin + escape(value) for value in values}, last=not others)
    if STRINGS.fullmatch(kind.lower()) is not None or entry.typed[:1] == typed.DATE:
        spans = filter_spans.between(node, first.lower(), last=not others)
        if spans is not None:
            return spans
    if not others or entry.long_names:
        return everything
    components = context.snapshot.first_values(entry, FIRST_VALUES)
    if len(components) == FIRST_VALUES:
        return everything
    return filter_spans.under(filter(match.by_first(), components), last=False)


def _selected(context: Context, entry: TableEntry, match: Match, spans: list[Span], limit: int | None) -> list[bytes]:
    """Names in order. All that may break the call is looked at, limit or not."""
    found: list[bytes] = []
    looked_at = 0
    for names in _within(context, entry, spans):
        looked_at += len(names)
        if looked_at > SCANNED:
            raise Decline(Reason.FILTER)
        found += [name for name in names if match.selects(name)]
    return found if limit is None else found[:limit]


def _stored_values(context: Context, entry: TableEntry, name: bytes) -> list[bytes]:
    struct = context.snapshot.partition(entry, name, Variant.FILTER)
    assert struct is not None, "a name of this very snapshot"
    return values_of(struct)


def _within(context: Context, entry: TableEntry, spans: list[Span]) -> Iterator[list[bytes]]:
    for low, high in spans:
        after = low[:-1] + bytes((low[-1] - 1,)) + b"\xff" if low else None
        while True:
            names = context.snapshot.partition_names(entry, after, CHUNK)
            yield [name for name in names if low <= name < high]
            if len(names) < CHUNK or names[-1] >= high:
                break
            after = names[-1]
