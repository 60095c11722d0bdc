"""Reader of aggregate statistics, which combine the column statistics of the named partitions.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined, statistics.py
how a metastore finds statistics, aggregation.py how it combines them. Columns are in the order of their names: the
metastore's order depends on its database's plan, and clients find a column by its name. Must not know: sessions,
fences.

A reader with a ValidWriteIdList gets an answer for a transactional table if the statistics of all named partitions are
valid for it (compliance.py; compared with 4.2.0 only); any other request with a list is declined.

Work is done in turns (statistics.in_turns), each with a new snapshot; the table must be the same in all of them. Owner:
the worker's loop.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from struct import Struct as Packer
from typing import Final

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.wire.spec import Struct

from .aggregation import Total
from .base import Body, Context, Decline, Unfinished, started, success_struct, unless
from .column_arrays import NONE, ROW, SLICE, ColumnGathering, Memory, TableChanged
from .compliance import ListReader
from .extremes import Unsettled
from .statistics import columns_of, comparable, engine_of, in_turns, requested, tells_partitions

FEW: Final = 15_000
"""Statistics and rows of one request, 30 ms. For more, columns are held in memory (column_arrays.py)."""
MOST: Final = 100_000
"""The same, 0.2 s. For more, unless they are in memory, the metastore's own answer is kept: adding them up here saves
the metastore work, but takes as long as there if a request names all columns of wide tables."""
CHECK: Final = 6
"""What it costs to find out whether a partition's statistics are valid for a reader, where those of a column cost 1."""
RUN: Final = 2_500
"""Partitions of one held column that are combined in one turn of the loop, 0.6 us each."""

_NOTHING: Final = Packer(">bhbibhqb").pack(15, 1, 12, 0, 10, 2, 0, 0)


def get_aggr_stats_for(context: Context, args: Struct) -> Body | Unfinished:
    """Aggregate statistics of columns over partitions."""
    return started(_aggregated(context, args.request))


def _aggregated(context: Context, request: Struct) -> Generator[None, None, Body]:
    unless(request is None or request.partNames is None)
    entry = requested(context, request)
    if isinstance(entry, bytes):
        return entry
    context.as_usual(AnswerDifferences.AGGREGATES)
    unless(request.validWriteIdList is not None and not entry.transactional)
    reader = ListReader(request.validWriteIdList)
    unless(reader.asks and not request.partNames)
    columns = columns_of(request.colNames)
    engine = engine_of(request)
    comparable(context, columns, engine)
    if not columns or not tells_partitions(context, entry, request.partNames):
        return success_struct(_NOTHING)
    size = len(request.partNames) * (len(columns) + ROW)
    try:
        if size > FEW and not reader.asks and context.statistics is not None:
            body = yield from _from_memory(context, entry, request, columns, engine, context.statistics)
            if body is not None:
                return body
        if size > MOST:
            raise Decline(Reason.STATISTICS)
        asked = _AskedColumns(columns, engine, len(request.colNames), reader)
        return (yield from _added_up(context, entry, request, asked))
    except (Unsettled, TableChanged):
        raise Decline(Reason.STATISTICS) from None


def _from_memory(
    context: Context, entry: TableEntry, request: Struct, columns: frozenset[bytes], engine: bytes, memory: Memory
) -> Generator[None, None, Body | None]:
    """The result from held columns; None if they are not held and cannot be. None comes before anything is read."""
    names = _places(request)
    place = (entry.catalog, entry.database, entry.name, engine)
    rows = memory.rows(place, context.snapshot.state(entry), len(names), len(columns))
    if rows is None or any(column in rows.columns and rows.columns[column] is None for column in columns):
        return None
    filling = ColumnGathering(entry, engine, context.snapshot.again(entry))
    whole, rows.busy = False, True
    try:
        yield
        yield from filling.fill(rows, names, columns, exact=context.partitions_by_exact_name)
        whole = True
    finally:
        rows.busy = False
        if not whole:
            memory.forget(place, rows)
    memory.make_room()
    held = [rows.columns[column] for column in sorted(columns)]
    if None in held:
        raise Decline(Reason.STATISTICS)
    total = _total(context)
    there = [(row, at) for row, at in ((rows.index[name], at) for name, at in names.items()) if row != NONE]
    yield
    there.sort()
    runs = [tuple(zip(*there[begin : begin + RUN], strict=True)) for begin in range(0, len(there), RUN)]
    for column in held:
        assert column is not None
        for run, places in runs:
            yield
            assert column.head is not None, "there are statistics"
            total.add_values(column.head, places, column.of(run))
    complete = len(there) if len(columns) == len(request.colNames) else 0
    return success_struct(total.result(len(request.partNames), len(names), complete))


def _added_up(
    context: Context, entry: TableEntry, request: Struct, asked: _AskedColumns
) -> Generator[None, None, Body]:
    places = [(place, name) for name, place in _places(request).items()]
    total = _total(context)
    complete = 0

    def read(snapshot: CacheSnapshot, some: Sequence[tuple[int, bytes]]) -> None:
        nonlocal complete
        complete += _added(context, snapshot, entry, some, asked, total)

    most = SLICE // (len(asked.names) + ROW + (CHECK if asked.reader.asks else 0))
    yield from in_turns(context, entry, places, most, read)
    return success_struct(total.result(len(request.partNames), len(places), complete))


def _places(request: Struct) -> dict[bytes, int]:
    """The place of each partition in the request; the last place if it is named twice."""
    return {name: place for place, name in enumerate(request.partNames)}


def _total(context: Context) -> Total:
    return Total(decimals=context.snapshot.identity.exact_text, complete_fails=context.aggregates_fail)


@dataclass(frozen=True, slots=True)
class _AskedColumns:
    """The statistics that a request names, for this reader. A partition is complete if it has `most` of them."""

    names: frozenset[bytes]
    engine: bytes
    most: int
    reader: ListReader


def _added(
    context: Context,
    snapshot: CacheSnapshot,
    entry: TableEntry,
    some: Sequence[tuple[int, bytes]],
    asked: _AskedColumns,
    total: Total,
) -> int:
    """Add these partitions to the total; how many of them are complete. Declines if the statistics of one are not valid
    for the reader: it gets none at all."""
    names = [name for _, name in some]
    if asked.reader.asks:
        for body in snapshot.partitions(entry, names):
            if body is not None and not asked.reader.accepts_partition(body):
                raise Decline(Reason.STATISTICS)
    if not context.partitions_by_exact_name and not snapshot.has_partitions(entry, names):
        raise Decline(Reason.ARGUMENTS)
    found, complete = snapshot.gather_statistics(entry, some, asked.names, asked.engine, asked.most)
    total.add(found)
    return complete
