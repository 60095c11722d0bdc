"""Readers of lists of partitions and of their names: all of a table, by names, by some of their values.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences.

Lists are in the order of partition names, except lists of names by some values (no ORDER BY). A limit below 0 means no
limit; 0 gives nothing. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from heapq import merge
from itertools import islice
from typing import NamedTuple

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.segments import Variant
from hms_cache_proxy.cache.walk import NameWalk
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.wire.spec import Struct

from .base import (
    NAMED_AT_ONCE,
    Body,
    Context,
    DatabaseName,
    Decline,
    Slices,
    Unfinished,
    around,
    around_strings,
    around_structs,
    as_stored,
    gathered,
    joined,
    listed_names,
    no_projection,
    started,
    success_strings,
    success_structs,
    unless,
    utf8,
    wrapped_structs,
)
from .expressions import names_by_expression
from .filters import framed
from .partial import matching
from .partition import without_privileges

JOINED_AT_ONCE = 1000
"""Partitions that are joined in one go (about 1 ms); more are built while they are sent."""
JOINED_IN_SLICES = 4000
"""Partitions by names that are joined, and kept; a longer answer is built while it is sent."""
_NO_EXPRESSION = b"\xff"
_NO_VALUES = b"Invalid partition key & values; keys [], values []"


def get_partitions(context: Context, args: Struct) -> Body:
    """Partitions of a table. If it does not exist: none; before Hive 4 an error."""
    database = context.split(args.db_name)
    entry = context.partitioned(database, args.tbl_name)
    if entry is None and context.before_4:
        return context.no_table(database, args.tbl_name)
    return _all(context, entry, args.max_parts, wrapped=False)


def get_partitions_req(context: Context, args: Struct) -> Body:
    """Partitions of a table by request."""
    request = args.req
    unless(request is None)
    no_projection(request)
    entry = context.partitioned(context.plain(request.catName, request.dbName), request.tblName)
    return _all(context, entry, request.maxParts, wrapped=True)


def get_partition_names(context: Context, args: Struct) -> Body:
    """Names of a table's partitions. If it does not exist: none; before Hive 4 an error."""
    database = context.split(args.db_name)
    entry = context.partitioned(database, args.tbl_name)
    if entry is None and context.before_4:
        context.not_hive2()  # whose error has no message
        return context.no_table(database, args.tbl_name)
    return _names(context, entry, args.max_parts)


def fetch_partition_names_req(context: Context, args: Struct) -> Body:
    """Names of a table's partitions by request; it must name the catalog."""
    request = args.partitionReq
    unless(request is None or request.catName is None)
    entry = context.partitioned(context.plain(request.catName, request.dbName), request.tblName)
    return _names(context, entry, request.maxParts)


def get_partitions_by_names(context: Context, args: Struct) -> Body | Unfinished:
    """Partitions by their exact names; unknown names are left out."""
    return _by_names(context, context.split(args.db_name), args.tbl_name, args.names, wrapped=False)


def get_partitions_by_names_req(context: Context, args: Struct) -> Body | Unfinished:
    """Partitions by their exact names, by request (the database's name in it may carry the catalog)."""
    request = args.req
    unless(request is None)
    database = context.split(request.db_name)
    capable = context.capable(request, database)
    unless(request.get_col_stats, request.getFileMetadata)
    no_projection(request)
    return _by_names(context, database, request.tbl_name, request.names, wrapped=True, capable=capable)


def get_partition_names_req(context: Context, args: Struct) -> Body | Unfinished:
    """Names of a table's partitions, as SHOW PARTITIONS of Hive 4 requests them: by an expression, or with the byte
    that means no expression. A request with an order (by values) is declined."""
    request = args.req
    unless(request is None or request.expr is None)
    context.as_usual(AnswerDifferences.LISTS)
    if request.expr != _NO_EXPRESSION:
        return names_by_expression(context, request)
    if request.order:
        raise Decline(Reason.ORDER)
    database = context.plain(request.catName, request.dbName)
    entry = context.partitioned(database, request.tblName)
    if entry is None:
        message = b"Specified catalog.database.table does not exist : " + context.stored(database, request.tblName)
        return context.no_table(database, request.tblName, message=message)
    return _names(context, entry, request.maxParts)


def get_partition_names_ps(context: Context, args: Struct) -> Body | Unfinished:
    """Names of partitions by some of their values."""
    wanted = _SomeValues(context.split(args.db_name), args.tbl_name, args.part_vals, args.max_parts)
    return started(_names_of_some(context, wanted, wrapped=False))


def get_partition_names_ps_req(context: Context, args: Struct) -> Body | Unfinished:
    """Names of partitions by some of their values, by request."""
    request = args.req
    unless(request is None)
    database = context.plain(request.catName, request.dbName)
    wanted = _SomeValues(database, request.tblName, request.partValues, request.maxParts)
    return started(_names_of_some(context, wanted, wrapped=True))


def get_partitions_ps(context: Context, args: Struct) -> Body | Unfinished:
    """Partitions by some of their values."""
    wanted = _SomeValues(context.split(args.db_name), args.tbl_name, args.part_vals, args.max_parts)
    return started(_some(context, wanted, wrapped=False))


def get_partitions_ps_with_auth(context: Context, args: Struct) -> Body | Unfinished:
    """Partitions by some of their values, with their privileges."""
    wanted = _SomeValues(context.split(args.db_name), args.tbl_name, args.part_vals, args.max_parts)
    return started(_some(context, wanted, wrapped=False, auth=True))


def get_partitions_ps_with_auth_req(context: Context, args: Struct) -> Body | Unfinished:
    """Partitions by some of their values, with their privileges, by request."""
    request = args.req
    unless(request is None)
    no_projection(request)
    unless(request.partNames is not None)
    database = context.plain(request.catName, request.dbName)
    wanted = _SomeValues(database, request.tblName, request.partVals, request.maxParts)
    return started(_some(context, wanted, wrapped=True, auth=True))


def _limit(max_parts: int | None) -> int | None:
    """The limit; None for no limit. An absent field has the client's default, -1."""
    return None if max_parts is None or max_parts < 0 else max_parts


def _names(context: Context, entry: TableEntry | None, max_parts: int | None) -> Body:
    limit = _limit(max_parts)
    if limit == 0:  # for Hive 2.3, 0 means no limit
        context.not_hive2()
    if entry is None or not entry.partition_keys or limit == 0:
        return success_strings([])
    context.ordered()
    count = entry.partition_count if limit is None else min(limit, entry.partition_count)
    if count <= NAMED_AT_ONCE:
        return success_strings(context.snapshot.partition_names(entry, limit=count))
    before, after = around_strings(count)
    return Slices(around(before, context.snapshot.iter_names(entry, limit=count), after))


def _all(context: Context, entry: TableEntry | None, max_parts: int | None, *, wrapped: bool) -> Body:
    context.as_usual(AnswerDifferences.LISTS)
    limit = _limit(max_parts)
    count = 0 if entry is None or not entry.partition_keys else entry.partition_count
    count = count if limit is None else min(count, limit)
    before, after = around_structs(count, wrapped=wrapped)
    if entry is None or not count:
        return before + after
    context.ordered()
    stream = context.snapshot.iter_partitions(entry, limit=count, variant=Variant.LIST)
    return gathered(before, stream, after) if count <= JOINED_AT_ONCE else Slices(around(before, stream, after))


def _by_names(
    context: Context,
    database: DatabaseName,
    table: bytes | None,
    names: list[bytes] | None,
    *,
    wrapped: bool,
    capable: bool = False,
) -> Body | Unfinished:
    context.as_usual(AnswerDifferences.LISTS)
    entry = context.partitioned(database, table)
    if capable and entry is not None and entry.body is not None:
        as_stored(entry.body)
    if names is None:
        raise Decline(Reason.ARGUMENTS)
    if entry is None:
        return context.no_table(database, table, "InvalidObjectException")
    if len(names) > 1:
        context.as_usual(AnswerDifferences.NAMES)
        context.ordered()
    if len(names) > JOINED_AT_ONCE:
        return started(_of_many_names(context, entry, names, wrapped=wrapped))
    utf8(*names)
    context.comparable(*names)
    in_order = sorted(dict.fromkeys(names))  # names that are in order already sort quickly
    return _joined(context, entry, in_order, wrapped=wrapped)


def _of_many_names(
    context: Context, entry: TableEntry, names: list[bytes], *, wrapped: bool
) -> Generator[None, None, Body]:
    """The same in slices; a long answer is built while it is sent."""
    snapshot = context.snapshot
    if not entry.partition_keys:
        yield from _in_order(context, names)
        context.known_absent()
        return wrapped_structs(0, []) if wrapped else success_structs(0, [])
    with closing(snapshot.walk(entry)) as walk:  # keeps the snapshot's state
        ordered = yield from _in_order(context, names)
        found: list[bytes] = []
        for some in _batches(ordered, JOINED_AT_ONCE):
            walk.check()
            found += snapshot.partitions_among(entry, some)
            yield
        walk.check()
        if len(found) < len(ordered):
            context.known_absent()
        if len(found) > JOINED_IN_SLICES:
            before, after = around_structs(len(found), wrapped=wrapped)
            return Slices(around(before, snapshot.iter_chosen(entry, found), after))
        pieces: list[bytes] = []
        for some in _batches(found, JOINED_AT_ONCE):
            walk.check()
            snapshot.join_partitions(entry, some, pieces, Variant.LIST)
            yield
        before, after = around_structs(len(found), wrapped=wrapped)
        return joined(before, pieces, after)


def _in_order(context: Context, names: list[bytes]) -> Generator[None, None, list[bytes]]:
    """Each name once, in order."""
    runs: list[list[bytes]] = []
    for some in _batches(names, JOINED_AT_ONCE):
        utf8(*some)
        context.comparable(*some)
        runs.append(sorted(some))
        yield
    ordered: list[bytes] = []
    merged = merge(*runs)
    while some := list(islice(merged, JOINED_AT_ONCE)):
        if ordered and some[0] == ordered[-1]:
            ordered.pop()
        ordered += dict.fromkeys(some)
        yield
    return ordered


def _batches(names: list[bytes], size: int) -> Iterator[list[bytes]]:
    """The names in batches of at most `size`."""
    return (names[at : at + size] for at in range(0, len(names), size))


def _joined(context: Context, entry: TableEntry, names: list[bytes], *, wrapped: bool) -> Body:
    pieces: list[bytes] = []
    count = context.snapshot.join_partitions(entry, names, pieces) if entry.partition_keys else 0
    if count < len(names):
        context.known_absent()
    before, after = around_structs(count, wrapped=wrapped)
    return joined(before, pieces, after)


class _SomeValues(NamedTuple):
    """The partitions that a call selects: those with these values of the first keys. An empty value matches any."""

    database: DatabaseName
    table: bytes | None
    values: list[bytes] | None
    max_parts: int | None


def _names_of_some(context: Context, wanted: _SomeValues, *, wrapped: bool) -> Generator[None, None, Body]:
    database, table, values, max_parts = wanted
    entry = context.partitioned(database, table)
    if values is None:
        raise Decline(Reason.ARGUMENTS)
    if entry is None:
        return context.no_table(database, table, message=context.stored(database, table) + b" table not found")
    if not values:
        return context.error("MetaException", _NO_VALUES)
    if len(values) > len(entry.partition_keys):
        return _too_many(context, entry, values)
    with closing(context.snapshot.walk(entry)) as walk:
        found = yield from _matching(context, walk, entry, values, None)
    context.unordered(len(found))
    return listed_names(found[: _limit(max_parts)], wrapped=wrapped)


def _some(context: Context, wanted: _SomeValues, *, wrapped: bool, auth: bool = False) -> Generator[None, None, Body]:
    database, table, values, max_parts = wanted
    context.as_usual(AnswerDifferences.LISTS)
    entry = context.partitioned(database, table)
    if entry is None:
        return context.no_table(database, table)
    if auth:
        without_privileges(entry)
    if context.before_4:
        if values is None:
            raise Decline(Reason.ARGUMENTS)
        if not values:
            return context.error("MetaException", _NO_VALUES)
        if not any(values):
            max_parts = -1  # it then ignores the limit
    if not values:
        return _all(context, entry, max_parts, wrapped=wrapped)
    if len(values) > len(entry.partition_keys):
        if not any(values):
            raise Decline(Reason.ARGUMENTS)  # 4.2 returns all partitions, others refuse
        return _too_many(context, entry, values)
    if not any(values):
        variant = Variant.LIST
    else:
        variant = Variant.SINGLE if context.before_4 else Variant.FILTER
    either = context.line == "4.0" and any(values)  # 4.0.0 answers as earlier releases do, 4.0.1 as later ones
    one_by_one = either or variant is Variant.SINGLE
    with closing(context.snapshot.walk(entry)) as walk:  # keeps the snapshot's state until all is read
        found = yield from _matching(context, walk, entry, values, None if one_by_one else max_parts)
        if one_by_one:  # not always in order, and in the form of the calls for one partition
            context.unordered(len(found))
            found = found[: _limit(max_parts)]
            if found and not context.snapshot.identity.single_partitions:
                raise Decline(Reason.VARIANT)
        if either:
            yield from _alike(context, entry, walk, found)
        return (yield from framed(context, entry, found, partial(_around, wrapped=wrapped), variant))


def _alike(context: Context, entry: TableEntry, walk: NameWalk, names: list[bytes]) -> Generator[None, None, None]:
    """Declines if one of these partitions has another form in calls for one partition than in calls by filter."""
    for some in _batches(names, JOINED_AT_ONCE):
        walk.check()
        forms: tuple[list[bytes], list[bytes]] = [], []
        for pieces, variant in zip(forms, (Variant.FILTER, Variant.SINGLE), strict=True):
            context.snapshot.join_partitions(entry, some, pieces, variant)
        if forms[0] != forms[1]:
            raise Decline(Reason.VARIANT)
        if len(names) > len(some):
            yield


def _around(entry: TableEntry, count: int, *, wrapped: bool) -> tuple[bytes, bytes]:
    return around_structs(count, wrapped=wrapped)


def _too_many(context: Context, entry: TableEntry, values: list[bytes]) -> bytes:
    """The refusal of more values than there are keys."""
    shown = b"%d" % len(values) if context.hive2 else b"[" + b", ".join(values) + b"]"
    text = b"Incorrect number of partition values. numPartKeys=%d, part_val=%b" % (len(entry.partition_keys), shown)
    return context.error("MetaException", text)


def _matching(
    context: Context, walk: NameWalk, entry: TableEntry, values: list[bytes], max_parts: int | None
) -> Generator[None, None, list[bytes]]:
    utf8(*values)
    context.comparable(*values)
    context.ordered()
    return (yield from matching(context.snapshot, walk, entry, values, _limit(max_parts)))
