"""Reader of aggregate statistics: what column statistics of named partitions come to.

Job: arguments and a snapshot in, result struct out; see base.py for what is declined, statistics.py for how a metastore
finds statistics, aggregation.py for how it adds them up. Columns come in order of their names: the metastore gives them
in the order of its database's plan, and a reader finds a column by its name. Must not know: sessions, fences.

Work is cut into slices of about 3 ms, each of a snapshot of its own: the table must be the same in all of them. Not
answered here: transactional tables and requests with a ValidWriteIdList, as what counts then depends on parameters of
the partitions. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct as Packer
from typing import Final

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.reader import CacheSnapshot
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.upstream.differs import Differs
from hms_cache_proxy.wire.spec import Struct

from .aggregation import Total
from .base import Body, Context, Decline, Unfinished, started, success_struct, unless
from .extremes import Unsettled
from .statistics import columns_of, comparable, engine_of, requested, tells_partitions

SLICE: Final = 1500
"""Statistics that are added up in one turn of the loop, 2 us each."""
ROW: Final = 5
"""As many statistics cost what a partition's row does before any of it is read: 10 us."""
MOST: Final = 100_000
"""Statistics and rows of one request, 0.2 s; of more the metastore's own answer is kept. Adding them up here saves the
metastore its work, but takes as long as it does where all columns of wide rows are asked for."""

_NOTHING: Final = Packer(">bhbibhqb").pack(15, 1, 12, 0, 10, 2, 0, 0)


def get_aggr_stats_for(context: Context, args: Struct) -> Body | Unfinished:
    """Of columns of partitions."""
    return started(_aggregated(context, args.request))


def _aggregated(context: Context, request: Struct) -> Generator[None, None, Body]:
    entry = requested(context, request)
    if isinstance(entry, bytes):
        return entry
    context.as_usual(Differs.AGGREGATES)
    unless(request.validWriteIdList is not None, request.partNames is None)
    columns = columns_of(request.colNames)
    engine = engine_of(request)
    comparable(context, columns, engine)
    if not columns or not tells_partitions(context, entry, request.partNames):
        return success_struct(_NOTHING)
    if len(request.partNames) * (len(columns) + ROW) > MOST:
        raise Decline(Reason.STATISTICS)
    try:
        return (yield from _added_up(context, entry, request, columns, engine))
    except Unsettled:
        raise Decline(Reason.STATISTICS) from None


def _added_up(
    context: Context, entry: TableEntry, request: Struct, columns: frozenset[bytes], engine: bytes
) -> Generator[None, None, Body]:
    names: list[bytes] = request.partNames
    places = [(place, name) for name, place in {name: place for place, name in enumerate(names)}.items()]
    total = Total(decimals=context.snapshot.identity.exact_text, complete_fails=context.aggregates_fail)
    most = len(request.colNames)
    complete = 0
    size = max(1, SLICE // (len(columns) + ROW))
    opened = context.snapshot.again(entry)
    for begin in range(0, len(places), size):
        some = places[begin : begin + size]
        if not begin:
            complete += _added(context, context.snapshot, entry, some, columns, engine, most, total)
            continue
        yield
        snapshot = opened()
        if snapshot is None:  # the table has changed
            raise Decline(Reason.STATISTICS)
        with snapshot:
            complete += _added(context, snapshot, entry, some, columns, engine, most, total)
    return success_struct(total.result(len(names), len(places), complete))


def _added(
    context: Context,
    snapshot: CacheSnapshot,
    entry: TableEntry,
    some: list[tuple[int, bytes]],
    columns: frozenset[bytes],
    engine: bytes,
    most: int,
    total: Total,
) -> int:
    """How many of these partitions are complete."""
    if not context.partitions_by_exact_name and not snapshot.has_partitions(entry, (name for _, name in some)):
        raise Decline(Reason.ARGUMENTS)
    found, complete = snapshot.gather_statistics(entry, some, columns, engine, most)
    total.add(found)
    return complete
