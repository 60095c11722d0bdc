"""Readers of partitions by filter.

Job: arguments and a snapshot in, result struct out; see base.py for what is declined. Must not know: sessions, fences.
Where a filter does not fix the first key, the names of all partitions are looked at (0.7 us each), which is only done
up to SCANNED of them. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.segments import Variant
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.wire.spec import Struct

from .base import Body, Context, Database, Decline, around_structs, no_projection, success_structs, unless, utf8
from .filter_grammar import LikeFilter, Node, parse
from .filter_match import Match, Unsure
from .partition import values_of

SCANNED = 5000
"""Names looked at for one request; larger tables' filters go upstream unless they fix the first key."""
CHUNK = 1000

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


def _by_filter(
    context: Context, database: Database, table: bytes | None, text: bytes | None, max_parts: int | None
) -> Body:
    context.only_hive4()
    context.list_of_partitions()
    entry = context.partitioned(database, table)
    node = _understood(text) if text else None
    if entry is None:
        named = context.stored(database, table)
        return context.error("NoSuchObjectException", b"Specified catalog.database.table does not exist : " + named)
    limit = None if max_parts is None or max_parts < 0 else max_parts
    if node is None:
        return _all(context, entry, limit)
    if not entry.partition_keys:
        raise Decline(Reason.FILTER)
    context.ordered()
    try:
        match = Match(node, entry.partition_keys, lambda name: _stored_values(context, entry, name))
        names = _selected(context, entry, match, limit)
    except Unsure:
        raise Decline(Reason.FILTER) from None
    pieces: list[bytes] = []
    return success_structs(context.snapshot.join_partitions(entry, names, pieces, Variant.FILTER), pieces)


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


def _selected(context: Context, entry: TableEntry, match: Match, limit: int | None) -> list[bytes]:
    """Names in order. All of a scan is looked at, limit or not: one value that breaks the call breaks it anyway."""
    if match.prefixes is None and entry.partition_count > SCANNED:
        raise Decline(Reason.FILTER)
    found: list[bytes] = []
    looked_at = 0
    for names in _candidates(context, entry, match.prefixes):
        looked_at += len(names)
        if looked_at > SCANNED:
            raise Decline(Reason.FILTER)
        found += [name for name in names if match.selects(name)]
    return found if limit is None else found[:limit]


def _stored_values(context: Context, entry: TableEntry, name: bytes) -> list[bytes]:
    struct = context.snapshot.partition(entry, name, Variant.FILTER)
    assert struct is not None, "a name of this very snapshot"
    return values_of(struct)


def _candidates(context: Context, entry: TableEntry, prefixes: list[bytes] | None) -> Iterator[list[bytes]]:
    for prefix in [b""] if prefixes is None else prefixes:
        after = prefix[:-1] + bytes((prefix[-1] - 1,)) + b"\xff" if prefix else None
        while True:
            names = context.snapshot.partition_names(entry, after, CHUNK)
            wanted = [name for name in names if name.startswith(prefix)]
            yield wanted
            if len(names) < CHUNK or (names[-1] > prefix and not names[-1].startswith(prefix)):
                break
            after = names[-1]
