"""Readers of column statistics of tables and partitions.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences.

What a metastore of Hive 4 does (4.0.0 and 4.2.0): it changes column names to lower case without trimming them, and
keeps the case of engines. It leaves out columns without statistics; if the request names only one, no field of the
result is set. Its lists are in the order in which its database finds the rows, and its maps in the order of a hash.
Here both are in order of names, because clients find a column by its name. Until 4.1 it also finds a partition by other
spellings of its name.

Of a transactional table or its partitions, a reader with a ValidWriteIdList gets only statistics that are valid for it
(compliance.py; compared with 4.2.0 only).

Not answered here: statistics that the metastore itself cannot return (`ColumnStatistics.data`).
Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import nullcontext
from itertools import chain
from struct import Struct as Packer
from typing import Final, TypeVar

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import ColumnStatistics
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.wire.spec import Struct

from .base import (
    STOP,
    Body,
    Context,
    DatabaseName,
    Decline,
    Unfinished,
    gathered,
    started,
    unless,
    utf8,
    wrapped_structs,
)
from .compliance import ListReader
from .portions import Portions

HIVE: Final = b"hive"
"""The engine if a request names none."""
MAX_PARTITIONS: Final = 10_000
"""Partitions of one request. For more, the metastore's own answer is kept."""
MAX_STATISTICS: Final = 200_000
"""Columns of all partitions of one request: the reply has 20 MB, and is put together in memory."""
SLICE: Final = 50
"""Partitions that are read at once, about a millisecond if few columns have statistics."""

_Item = TypeVar("_Item")

_LIST: Final = Packer("!bi")
_MAP: Final = Packer("!bbi")
_STRUCT, _LIST_TYPE, _STRING = 12, 15, 11
_SUCCESS_STRUCT: Final = b"\x0c\x00\x00"
_FIRST_MAP: Final = b"\x0d\x00\x01"
_NO_TABLE: Final = b"Specified catalog.database.table does not exist : "


def get_table_column_statistics(context: Context, args: Struct) -> Body:
    """Statistics of one column of a table."""
    unless(args.col_name is None)  # refused before the table is looked for
    entry = _table(context, context.split(args.db_name), args.tbl_name)
    if isinstance(entry, bytes):
        return entry
    found = _of_table(context, entry, [args.col_name], HIVE)
    return _one(entry, None, found)


def get_partition_column_statistics(context: Context, args: Struct) -> Body:
    """Statistics of one column of one partition."""
    unless(args.col_name is None or args.part_name is None)
    entry = _table(context, context.split(args.db_name), args.tbl_name)
    if isinstance(entry, bytes):
        return entry
    columns, names = _asked(context, entry, [args.part_name], [args.col_name], HIVE)
    found = _found(context, context.snapshot, entry, names, columns, HIVE) if names else []
    return _one(entry, args.part_name, found[0][1] if found else [])


def get_table_statistics_req(context: Context, args: Struct) -> Body:
    """Statistics of columns of a table."""
    request = args.request
    entry = requested(context, request)
    if isinstance(entry, bytes):
        return entry
    found = _of_table(context, entry, request.colNames, engine_of(request))
    assert entry.body is not None, "it is loaded"
    if entry.transactional and not ListReader(request.validWriteIdList).accepts_table(entry.body):
        found = []
    return wrapped_structs(len(found), [each.element for each in found])


def get_partitions_statistics_req(context: Context, args: Struct) -> Body | Unfinished:
    """Statistics of columns of partitions."""
    return started(_of_many(context, args.request))


def _of_many(context: Context, request: Struct | None) -> Generator[None, None, Body]:
    unless(request is None or request.partNames is None)
    assert request is not None
    entry = requested(context, request)
    if isinstance(entry, bytes):  # an empty request gets no error
        return entry if request.partNames and request.colNames else b"".join((*_map_of(0), STOP, STOP))
    engine = engine_of(request)
    columns, names = _asked(context, entry, request.partNames, request.colNames, engine)
    count, parts = 0, list[bytes]()
    reader = ListReader(request.validWriteIdList)  # of all tables: their partitions may have write ids

    def read(snapshot: CacheSnapshot, some: Sequence[bytes]) -> None:
        nonlocal count
        found = _valid(snapshot, entry, reader, _found(context, snapshot, entry, some, columns, engine))
        count += len(found)
        parts.append(b"".join(chain.from_iterable(map(_listed, found))))

    yield from in_turns(context, entry, names, SLICE, read)
    return gathered(b"".join(_map_of(count)), iter(parts), STOP + STOP)


def in_turns(
    context: Context,
    entry: TableEntry,
    items: Sequence[_Item],
    most: int,
    read: Callable[[CacheSnapshot, Sequence[_Item]], None],
) -> Generator[None, None, None]:
    """Read all items, at most so many at once, in turns of the loop. Each turn but the first has a snapshot of its own;
    declines if the table is another one in it."""
    work, at = Portions(most), 0
    opened = context.snapshot.again(entry)
    while at < len(items):
        snapshot: CacheSnapshot | None = context.snapshot
        if at:
            yield
            snapshot = opened()
        if snapshot is None:
            raise Decline(Reason.STATISTICS)
        with snapshot if at else nullcontext():
            for some in work.of_turn(items, at):
                at += len(some)
                read(snapshot, some)


def _listed(one: tuple[bytes, list[ColumnStatistics]]) -> tuple[bytes, ...]:
    """A partition's entry of the map."""
    name, statistics = one
    return encode.string(name), _LIST.pack(_STRUCT, len(statistics)), *(each.element for each in statistics)


def _map_of(count: int) -> tuple[bytes, ...]:
    return _SUCCESS_STRUCT, _FIRST_MAP, _MAP.pack(_STRING, _LIST_TYPE, count)


def columns_of(names: list[bytes] | None) -> frozenset[bytes]:
    """The names of columns as they are stored."""
    if names is None or not all(name is not None and name.isascii() and b"\0" not in name for name in names):
        raise Decline(Reason.ARGUMENTS)
    return frozenset(name.lower() for name in names)


def engine_of(request: Struct) -> bytes:
    """The engine whose statistics are requested."""
    engine: bytes = HIVE if request.engine is None else request.engine
    utf8(engine)
    return engine


def requested(context: Context, request: Struct | None) -> TableEntry | bytes:
    """The table of a request, or the result that says that it does not exist."""
    if request is None or request.colNames is None:
        raise Decline(Reason.ARGUMENTS)
    return _table(context, context.plain(request.catName, request.dbName), request.tblName)


def _table(context: Context, database: DatabaseName, raw: bytes | None) -> TableEntry | bytes:
    """The table, or the result that says that it does not exist."""
    entry = context.table(database, raw)
    context.only_hive4()
    context.as_usual(AnswerDifferences.STATISTICS)
    if entry is None:
        return context.error("NoSuchObjectException", _NO_TABLE + context.stored(database, raw))
    if not entry.statistics_known or (entry.transactional and context.line != "4.2"):
        raise Decline(Reason.NO_READER)
    return entry


def _of_table(context: Context, entry: TableEntry, names: list[bytes] | None, engine: bytes) -> list[ColumnStatistics]:
    columns = columns_of(names)
    comparable(context, columns, engine)
    found = context.snapshot.table_statistics(entry)
    if found is None:
        raise Decline(Reason.NO_READER)
    return _told([each for each in found if each.engine == engine and each.column in columns])


def _asked(
    context: Context, entry: TableEntry, names: list[bytes] | None, columns: list[bytes] | None, engine: bytes
) -> tuple[frozenset[bytes], list[bytes]]:
    """The columns and partitions of a request; no partitions if none can have statistics."""
    stored = columns_of(columns)
    if names is None or len(names) > MAX_PARTITIONS or len(names) * len(stored) > MAX_STATISTICS:
        raise Decline(Reason.ARGUMENTS)
    comparable(context, stored, engine)
    return stored, list(dict.fromkeys(names)) if tells_partitions(context, entry, names) else []


def _found(
    context: Context,
    snapshot: CacheSnapshot,
    entry: TableEntry,
    names: Sequence[bytes],
    columns: frozenset[bytes],
    engine: bytes,
) -> list[tuple[bytes, list[ColumnStatistics]]]:
    """The statistics of these partitions. Declines a name of no partition if it may be another spelling of one."""
    if not context.partitions_by_exact_name and not snapshot.has_partitions(entry, names):
        raise Decline(Reason.ARGUMENTS)
    found = snapshot.partition_statistics(entry, names, columns, engine)
    for _, statistics in found:
        _told(statistics)
    return found


def _valid(
    snapshot: CacheSnapshot, entry: TableEntry, reader: ListReader, found: list[tuple[bytes, list[ColumnStatistics]]]
) -> list[tuple[bytes, list[ColumnStatistics]]]:
    """Those of them that are valid for the reader."""
    if not reader.asks or not found:
        return found
    bodies = snapshot.partitions(entry, [name for name, _ in found])
    return [one for one, body in zip(found, bodies, strict=True) if body is not None and reader.accepts_partition(body)]


def tells_partitions(context: Context, entry: TableEntry, names: list[bytes]) -> bool:
    """Can partitions of the table have statistics? Declines if the cache does not know them."""
    if None in names:
        raise Decline(Reason.ARGUMENTS)
    utf8(*names)
    context.comparable(*names)
    if not entry.partition_keys or not names:
        return False
    if not entry.statistics_of_partitions:
        raise Decline(Reason.NO_READER if entry.partitions_loaded else Reason.NOT_LOADED)
    return True


def comparable(context: Context, columns: Iterable[bytes], engine: bytes) -> None:
    """Decline names that the database may treat as equal to others. If it does not compare bytes, an engine may equal
    its spelling in lower case."""
    context.comparable(engine, *columns)
    if not context.snapshot.identity.exact_text and engine != engine.lower():
        raise Decline(Reason.COLLATION)


def _told(found: list[ColumnStatistics]) -> list[ColumnStatistics]:
    if not all(each.data for each in found):
        raise Decline(Reason.NO_READER)
    return found


def _one(entry: TableEntry, partition: bytes | None, found: list[ColumnStatistics]) -> bytes:
    """A result with ColumnStatistics, or without any field."""
    if not found:
        return STOP
    return b"".join(
        (
            _SUCCESS_STRUCT,
            encode.header(encode.STRUCT, 1),
            encode.bool_field(1, partition is None),
            encode.string_field(2, entry.database),
            encode.string_field(3, entry.name),
            encode.string_field(4, partition),
            encode.i64_field(5, found[-1].analyzed_s),
            encode.string_field(6, entry.catalog),
            STOP,
            encode.header(encode.LIST, 2),
            encode.structs([each.element for each in found]),
            encode.string_field(4, HIVE),
            STOP,
            STOP,
        )
    )
