"""Readers of partitions by filter.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences. Of a large table, only the names are read that the filter can select (filter_walk.py), in
slices. The caller decides what contains the partitions: a list, or a PartitionSpec (part_specs.py). Owner: the worker's
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from functools import lru_cache, partial

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.segments import Variant
from hms_cache_proxy.cache.walk import NameWalk
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.filters.tree import Node, comparisons, keys_of
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.wire.spec import Struct

from .base import (
    Body,
    Context,
    DatabaseName,
    Decline,
    Slices,
    Unfinished,
    around,
    around_structs,
    gathered,
    joined,
    no_projection,
    started,
    success_i32,
    unless,
    utf8,
)
from .filter_declined import LikeFilter, tree_of
from .filter_match import Match, Unsure
from .filter_walk import (
    MOVES,
    MOVES_FIRST,
    Names,
    Search,
    TooFar,
    by_blocks,
    by_jumping,
    by_last_key,
    by_looking_at_all,
)
from .partition import values_of

SMALL = 1000
"""A table with no more partitions is searched completely."""
MANY = 50
"""More comparisons than these take a turn of the loop to be parsed, one to be compiled, and one to begin to search."""
JOINED_AT_ONCE = 1000
"""Partitions that are joined in one go (about 1 ms)."""
JOINED_IN_TURN = 200
"""The same, in the turn of the loop in which the last of them was found."""
_LATER = (b"`", b"==")
"""Words that Hive before 4 does not know."""

_parsed = lru_cache(maxsize=512)(tree_of)

ResultFrame = Callable[[TableEntry, int], tuple[bytes, bytes]]
"""Bytes of a result before and after the given number of partitions of a table."""


def _plain(entry: TableEntry, count: int) -> tuple[bytes, bytes]:
    return around_structs(count, wrapped=False)


def get_partitions_by_filter(context: Context, args: Struct) -> Body | Unfinished:
    """Partitions that a filter selects, in order of their names."""
    return started(by_filter(context, context.split(args.db_name), args.tbl_name, args.filter, args.max_parts))


def get_partitions_by_filter_req(context: Context, args: Struct) -> Body | Unfinished:
    """Partitions that a filter selects, by request; it must name the catalog."""
    request = args.req
    unless(request is None or request.catName is None)
    no_projection(request)
    database = context.plain(request.catName, request.dbName)
    return started(by_filter(context, database, request.tblName, request.filter, request.maxParts))


def get_num_partitions_by_filter(context: Context, args: Struct) -> Body | Unfinished:
    """How many partitions a filter selects."""
    context.only_hive4()
    return started(_number(context, args))


def _number(context: Context, args: Struct) -> Generator[None, None, Body]:
    database = context.split(args.db_name)
    entry, node = _asked(context, database, args.tbl_name, args.filter)
    if entry is None:
        return _no_table(context, database, args.tbl_name)
    if node is None:
        return success_i32(entry.partition_count if entry.partition_keys else 0)
    return (yield from searched(context, entry, partial(_counted, context, entry, node)))


def by_filter(
    context: Context,
    database: DatabaseName,
    table: bytes | None,
    text: bytes | None,
    max_parts: int | None,
    frame: ResultFrame = _plain,
) -> Generator[None, None, Body]:
    """The partitions of a table that a filter selects, in order of their names."""
    entry, node = _asked(context, database, table, text)
    if entry is None:
        return _no_table(context, database, table)
    limit = None if max_parts is None or max_parts < 0 else max_parts
    if node is None:
        return _all(context, entry, limit, frame)
    return (yield from searched(context, entry, partial(_joined, context, entry, node, limit, frame)))


def searched(
    context: Context, entry: TableEntry, work: Callable[[Search], Generator[None, None, Body]]
) -> Generator[None, None, Body]:
    """The result of a search. If the search had many moves, it then adds names to the table's index."""
    indexes = context.indexes
    if indexes is None or entry.partition_count <= SMALL or len(entry.partition_keys) < 2:
        return (yield from work(Search()))
    state, opened = context.snapshot.state(entry), context.snapshot.again(entry)
    search = Search()
    try:
        body = yield from work(search)
    except Decline:
        yield from indexes.pay(entry, state, search.moves, opened)
        raise
    yield from indexes.pay(entry, state, search.moves, opened)
    return body


def _counted(context: Context, entry: TableEntry, node: Node, search: Search) -> Generator[None, None, Body]:
    with closing(context.snapshot.walk(entry)) as walk:
        return success_i32(len((yield from chosen(context, entry, walk, node, None, search))))


def _joined(
    context: Context, entry: TableEntry, node: Node, limit: int | None, frame: ResultFrame, search: Search
) -> Generator[None, None, Body]:
    with closing(context.snapshot.walk(entry)) as walk:  # keeps the snapshot's state until all is read
        names = yield from chosen(context, entry, walk, node, limit, search)
        return (yield from framed(context, entry, names, frame, Variant.FILTER))


def framed(
    context: Context, entry: TableEntry, names: list[bytes], frame: ResultFrame, variant: Variant
) -> Generator[None, None, Body]:
    """The result with the partitions of these names, while a walk keeps their state."""
    before, after = frame(entry, len(names))
    if len(names) > JOINED_AT_ONCE:
        return Slices(around(before, context.snapshot.iter_chosen(entry, names, variant), after))
    if len(names) > JOINED_IN_TURN:
        yield
    pieces: list[bytes] = []
    context.snapshot.join_partitions(entry, names, pieces, variant)
    return joined(before, pieces, after)


def _asked(
    context: Context, database: DatabaseName, table: bytes | None, text: bytes | None
) -> tuple[TableEntry | None, Node | None]:
    """The table (None if it does not exist), and the filter (None if it is empty)."""
    context.as_usual(AnswerDifferences.LISTS)
    entry = context.partitioned(database, table)
    if context.before_4 and text and any(word in text for word in _LATER):
        raise Decline(Reason.FILTER)
    node = _understood(text) if text else None
    if node is not None and entry is not None and not entry.partition_keys:
        raise Decline(Reason.FILTER)
    return entry, node


def _no_table(context: Context, database: DatabaseName, table: bytes | None) -> Body:
    message = b"Specified catalog.database.table does not exist : " + context.stored(database, table)
    return context.no_table(database, table, message=message)


def chosen(context: Context, entry: TableEntry, walk: NameWalk, node: Node, limit: int | None, search: Search) -> Names:
    """The names that a filter selects."""
    context.ordered()
    _timestamps(context, entry, node)
    compared = [each.value.encoded for each in comparisons(node)]
    context.comparable(*compared)
    if len(compared) > MANY:
        yield  # parsing took this turn
    try:
        stored = partial(stored_values, context, entry)
        match = Match(node, entry.partition_keys, entry.typed, stored, before_4=context.before_4)
        if len(compared) > MANY:
            yield
        if entry.partition_count <= SMALL or match.checked or entry.long_names:
            return (yield from by_looking_at_all(walk, match, limit))
        index = None if context.indexes is None else context.indexes.of(entry, context.snapshot.state(entry))
        if index is not None:
            search.most = MOVES_FIRST
            try:
                return (yield from _walked(entry, walk, match, limit, search))
            except TooFar:
                search.moves, search.most = 0, MOVES
            chosen = yield from index.chosen(match.accepts())
            if chosen is not None:
                return (yield from by_blocks(walk, match, index, chosen, limit))
        return (yield from _walked(entry, walk, match, limit, search))
    except (Unsure, TooFar):
        raise Decline(Reason.FILTER) from None


def _timestamps(context: Context, entry: TableEntry, node: Node) -> None:
    """Declines a filter with a timestamp, unless the metastore's database is known to be PostgreSQL. On MySQL and Derby
    a metastore pushes no such filter down, and what it then does selects other partitions."""
    identity = context.snapshot.identity
    if identity.exact and identity.exact_text:
        return
    named = keys_of(node)
    if any(kind.lower() == b"timestamp" and key.lower() in named for key, kind in entry.partition_keys):
        raise Decline(Reason.FILTER)


def _walked(entry: TableEntry, walk: NameWalk, match: Match, limit: int | None, search: Search) -> Names:
    ends = match.last_components()
    if ends is not None:
        return (yield from by_last_key(walk, ends, limit, search))
    return (yield from by_jumping(walk, match, len(entry.partition_keys), limit, search))


def _understood(text: bytes) -> Node:
    utf8(text)
    try:
        node = _parsed(text)
    except LikeFilter:
        raise Decline(Reason.FILTER_LIKE) from None
    if node is None:
        raise Decline(Reason.FILTER)
    return node


def _all(context: Context, entry: TableEntry, limit: int | None, frame: ResultFrame) -> Body:
    """All partitions, for an empty filter."""
    count = entry.partition_count if entry.partition_keys else 0
    count = count if limit is None else min(count, limit)
    before, after = frame(entry, count)
    if not count:
        return before + after
    context.ordered()
    stream = context.snapshot.iter_partitions(entry, limit=count, variant=Variant.FILTER)
    return gathered(before, stream, after) if count <= JOINED_AT_ONCE else Slices(around(before, stream, after))


def stored_values(context: Context, entry: TableEntry, name: bytes) -> list[bytes]:
    """The values of a partition, if its name does not tell them."""
    struct = context.snapshot.partition(entry, name, Variant.FILTER)
    assert struct is not None, "a name of this very snapshot"
    return values_of(struct)
