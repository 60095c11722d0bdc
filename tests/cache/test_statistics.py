"""Column statistics in the cache: what goes in comes out, and goes where its table and partition go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hms_cache_proxy.cache import statistics as rows
from hms_cache_proxy.cache.changes import Changes, PartitionChange, PartitionChunk
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.store.protocol import ColumnStatistics, PartitionRecord, Statistics, StatisticsHead
from tests.cache.conftest import Shelf
from tests.cache.records import DATABASE, TABLE, TABLE_ID, Part, database, days, table

LONG = b"dt=" + b"x" * 600


def one(column: bytes, engine: bytes = b"hive", *, data: bytes = b"data", analyzed_s: int = 1) -> ColumnStatistics:
    return ColumnStatistics(StatisticsHead(engine, column, b"prefix of " + column), analyzed_s, data)


def some(number: int) -> Statistics:
    impala = one(b"b", b"impala", analyzed_s=-number)
    return tuple(sorted((one(b"a", data=b"%d" % number), impala, one(b"b", data=b""))))


def record(name: bytes, statistics: Statistics | None = ()) -> PartitionRecord:
    return Part(name).record()._replace(statistics=statistics)


def commit(shelf: Shelf, cursor: int, **changes: object) -> None:
    shelf.writer.commit(Changes(cursor=cursor, **changes))  # type: ignore[arg-type]  # each test says which


def known(shelf: Shelf, records: list[PartitionRecord], own: Statistics | None = ()) -> None:
    tables = {TABLE: replace(table(), statistics=own)}
    change = PartitionChange(TABLE_ID, records, replace_all=True)
    commit(shelf, 1, databases={DATABASE: database()}, tables=tables, partitions=[change])


def entry(shelf: Shelf, name: bytes = b"orders") -> TableEntry:
    with shelf.reader.snapshot() as snapshot:
        found = snapshot.table(*DATABASE, name)
    assert isinstance(found, TableEntry)
    return found


def found(
    shelf: Shelf, names: list[bytes], *, columns: set[bytes] | None = None, engine: bytes | None = None
) -> dict[bytes, Statistics]:
    with shelf.reader.snapshot() as snapshot:
        listed = snapshot.partition_statistics(entry(shelf), names, columns, engine)
        return {name: tuple(each) for name, each in listed}


def rows_left(shelf: Shelf) -> int:
    environment = shelf.writer._environment
    with environment.env.begin() as txn:
        return int(txn.stat(environment.statistics)["entries"])


@pytest.mark.parametrize("statistics", [(), some(1), (one(b"", b"", data=b"\0" * 70_000, analyzed_s=1 << 62),)])
def test_rows(statistics: Statistics) -> None:
    assert rows.table_unpack(rows.table_pack(statistics)) == statistics
    shared: list[bytes] = []

    def intern(row: bytes) -> bytes:
        shared.append(row)
        return len(shared).to_bytes(3, "big")

    row = rows.StatisticsEncoder(intern).encode(statistics)
    decoder = rows.StatisticsDecoder()
    decoded = decoder.decode([(b"", row)], None, None, lambda index: shared[int.from_bytes(index, "big") - 1])
    assert [tuple(found) for _, found in decoded] == ([statistics] if statistics else [])


def test_only_what_is_asked_for(shelf: Shelf) -> None:
    known(shelf, [record(b"a=1", some(1)), record(b"a=2"), record(b"a=3", some(3))], some(9))
    assert found(shelf, [b"a=3", b"a=1", b"a=2", b"a=9"]) == {b"a=3": some(3), b"a=1": some(1)}
    assert found(shelf, [b"a=1"], columns={b"b"}, engine=b"impala") == {b"a=1": (one(b"b", b"impala", analyzed_s=-1),)}
    assert found(shelf, [b"a=1"], columns={b"c"}) == {} == found(shelf, [b"a=1"], engine=b"none")
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.table_statistics(entry(shelf)) == some(9)


def test_none_are_not_the_same_as_unknown(shelf: Shelf) -> None:
    known(shelf, [record(b"a=1", some(1)), record(b"a=2", None)], None)
    where = entry(shelf)
    assert not where.statistics_known and not where.statistics_of_partitions
    known(shelf, [record(b"a=1", some(1)), record(b"a=2", None)])
    where = entry(shelf)
    assert where.statistics_known and not where.statistics_of_partitions
    known(shelf, [record(b"a=1"), record(b"a=2")])
    where = entry(shelf)
    assert where.statistics_of_partitions and not where.has_statistics and found(shelf, [b"a=1"]) == {}
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.table_statistics(where) == ()
    commit(shelf, 2, partitions=[PartitionChange(TABLE_ID, [record(b"a=1", None)])])
    assert not entry(shelf).statistics_of_partitions


def test_single_partitions_change(shelf: Shelf) -> None:
    names = [b"a=1", b"a=2", LONG, LONG + b"y"]
    known(shelf, [record(b"a=1"), record(b"a=2"), record(LONG), record(LONG + b"y")])
    changed = [record(b"a=2", some(2)), record(LONG, some(3)), record(LONG + b"y", some(4))]
    commit(shelf, 2, partitions=[PartitionChange(TABLE_ID, changed)])
    assert found(shelf, names) == {b"a=2": some(2), LONG: some(3), LONG + b"y": some(4)}
    commit(shelf, 3, partitions=[PartitionChange(TABLE_ID, [record(b"a=2"), record(LONG, some(5))], [LONG + b"y"])])
    assert found(shelf, names) == {LONG: some(5)}
    commit(shelf, 4, partitions=[PartitionChange(TABLE_ID, [record(LONG + b"y")], [LONG])])
    assert found(shelf, names) == {} and rows_left(shelf) == 0


def test_chunks_and_what_changes_between_them(shelf: Shelf) -> None:
    parts = [part.record()._replace(statistics=some(at)) for at, part in enumerate(days(30))]
    names = [part.name for part in parts]
    known(shelf, [part._replace(statistics=()) for part in parts])
    commit(shelf, 2, chunks=[PartitionChunk(TABLE_ID, parts[:10], first=True)])
    upserts = [parts[3]._replace(statistics=some(100)), parts[4]._replace(statistics=()), parts[20]]
    commit(shelf, 3, partitions=[PartitionChange(TABLE_ID, upserts, [names[5]])])
    assert found(shelf, names) == {names[3]: some(100), names[20]: some(20)}
    commit(shelf, 4, chunks=[PartitionChunk(TABLE_ID, parts[10:], last=True)])
    wanted = {part.name: part.statistics for at, part in enumerate(parts) if at not in (3, 4, 5)}
    assert found(shelf, names) == wanted | {names[3]: some(100)}
    while shelf.writer.collect():
        pass
    assert rows_left(shelf) == 28


def test_they_follow_their_table(shelf: Shelf) -> None:
    known(shelf, [record(b"a=1", some(1))], some(2))
    renamed = replace(table(b"renamed"), statistics=some(2))
    commit(shelf, 2, tables={TABLE: None, (*DATABASE, b"renamed"): renamed})
    where = entry(shelf, b"renamed")
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.table_statistics(where) == some(2)
        assert dict(snapshot.partition_statistics(where, [b"a=1"], None, None)) == {b"a=1": list(some(1))}
    commit(shelf, 3, tables={(*DATABASE, b"renamed"): replace(renamed, statistics=())})
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.table_statistics(entry(shelf, b"renamed")) == ()
    commit(shelf, 4, tables={(*DATABASE, b"renamed"): renamed})
    commit(shelf, 5, tables={(*DATABASE, b"renamed"): None})
    while shelf.writer.collect():
        pass
    assert rows_left(shelf) == 0
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.table_statistics(where) == ()  # of a table id that is gone


def test_they_count_where_room_is_short() -> None:
    many = tuple(one(b"c%d" % number, data=b"x" * 400) for number in range(50))
    changes = [PartitionChange(TABLE_ID, [record(b"a=1", many)])]
    assert Changes(cursor=1, partitions=changes).admitted_bytes() > 10_000
    assert Changes(cursor=1, tables={TABLE: replace(table(), statistics=many)}).admitted_bytes() > 20_000
