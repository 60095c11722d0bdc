"""One commit is one step: what readers see of it, and what it touches."""

from __future__ import annotations

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, PartitionChange, PartitionChunk, TableStub
from hms_cache_proxy.cache.entries import ABSENT, DatabaseEntry, TableEntry
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.wire import spec
from tests.cache.conftest import Shelf
from tests.cache.records import DATABASE, LOCATION, TABLE, TABLE_ID, Part, database, days, flat_table, mapping, table

ORDERS = targets.table(*TABLE)


def entry_of(shelf: Shelf, name: bytes = b"orders") -> TableEntry:
    with shelf.reader.snapshot() as snapshot:
        entry = snapshot.table(b"hive", b"sales", name)
    assert isinstance(entry, TableEntry)
    return entry


def names_of(shelf: Shelf, name: bytes = b"orders") -> list[bytes]:
    entry = entry_of(shelf, name)
    with shelf.reader.snapshot() as snapshot:
        return snapshot.partition_names(entry)


def struct_of(shelf: Shelf, name: bytes, table_name: bytes = b"orders") -> object:
    with shelf.reader.snapshot() as snapshot:
        entry = snapshot.table(b"hive", b"sales", table_name)
        assert isinstance(entry, TableEntry)
        body = snapshot.partition(entry, name)
    return None if body is None else spec.decode(spec.struct("Partition"), body)[0]


def test_everything_of_a_step_and_the_page(shelf: Shelf) -> None:
    parts = days(50)
    seq = shelf.fill(parts, cursor=10)
    assert [shelf.page[slot] for slot in (Slot.CACHE_SEQ, Slot.CURSOR)] == [seq, 10]
    with shelf.reader.snapshot() as snapshot:
        assert (snapshot.seq, snapshot.meta.cursor, snapshot.identity.hive_line) == (seq, 10, "4.2")
        found = snapshot.database(*DATABASE)
        assert found is not None and found is not ABSENT
        assert (found.body, found.remote) == (b"database body", False)
        assert snapshot.database_list(b"hive") == [b"sales"]
        assert snapshot.table_list(*DATABASE) == [(b"orders", b"MANAGED_TABLE", True)]
        entry = snapshot.table(*TABLE)
        assert isinstance(entry, TableEntry)
        assert (entry.table_id, entry.body, entry.location) == (TABLE_ID, b"table body", LOCATION)
        assert entry.partition_keys == ((b"dt", b"string"), (b"hour", b"int"))
        assert entry.partitions_loaded and entry.partition_count == 50
        assert snapshot.partition_names(entry) == [part.name for part in parts]
        bodies = snapshot.partitions(entry, [parts[3].name, b"no=1", parts[1].name])
        decode = [None if body is None else spec.decode(spec.struct("Partition"), body)[0] for body in bodies]
        wanted = [spec.decode(spec.struct("Partition"), parts[at].struct())[0] for at in (3, 1)]
        assert decode == [wanted[0], None, wanted[1]]
        pieces: list[bytes] = []
        assert snapshot.join_partitions(entry, [parts[3].name, b"no=1", parts[1].name], pieces) == 2
        assert b"".join(pieces) == b"".join(body for body in bodies if body is not None)
    assert shelf.writer.counts() == {"databases": 1, "tables": 1, "partitions": 50}


def test_absent_is_not_the_same_as_unknown(shelf: Shelf) -> None:
    shelf.writer.commit(Changes(cursor=1, databases={DATABASE: database()}))
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.database(b"hive", b"other") is None
        assert snapshot.database_list(b"hive") is None
        assert snapshot.table(*TABLE) is None
        assert snapshot.table_list(*DATABASE) is None
    shelf.writer.commit(Changes(cursor=2, complete={targets.databases(b"hive")}))
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.database(b"hive", b"other") is ABSENT
        assert snapshot.database(b"spark", b"other") is None
        assert snapshot.table(b"hive", b"other", b"any") is ABSENT  # no database, no table
        assert snapshot.table(*TABLE) is None
    shelf.writer.commit(Changes(cursor=3, complete={targets.tables(*DATABASE)}))
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.table(*TABLE) is ABSENT
        assert snapshot.table_list(*DATABASE) == []


def test_a_database_is_as_of_its_snapshot(shelf: Shelf) -> None:
    """A process keeps the databases that it has read, for as long as no later commit is seen; an older snapshot that is
    still open shows what was true then."""
    shelf.fill(days(1))

    def body(snapshot: CacheSnapshot) -> bytes:
        found = snapshot.database(*DATABASE)
        assert isinstance(found, DatabaseEntry)
        return found.body

    with shelf.reader.snapshot() as older:
        assert body(older) == body(older) == b"database body"
        shelf.writer.commit(Changes(cursor=11, databases={DATABASE: database(body=b"altered")}))
        with shelf.reader.snapshot() as newer:
            assert [body(newer), body(older), body(newer)] == [b"altered", b"database body", b"altered"]
    shelf.writer.commit(Changes(cursor=12, databases={DATABASE: None}))
    with shelf.reader.snapshot() as last:
        assert last.database(*DATABASE) is ABSENT


def test_names_with_a_common_beginning_stay_apart(shelf: Shelf) -> None:
    """`sales` and `sales2`, `hive` and `hive2`."""
    shelf.writer.commit(
        Changes(
            cursor=1,
            databases={
                key: database(key[1], b"%b %b" % key) for key in [(b"hive", b"sales2"), (b"hive2", b"x"), DATABASE]
            },
            tables={(b"hive", b"sales2", b"t"): flat_table(b"t", 1), (b"hive", b"sales", b"u"): flat_table(b"u", 2)},
            complete={targets.databases(b"hive"), targets.tables(*DATABASE)},
        )
    )
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.database_list(b"hive") == [b"sales", b"sales2"]
        assert snapshot.table_list(*DATABASE) == [(b"u", b"MANAGED_TABLE", True)]


def test_single_partitions_change(shelf: Shelf) -> None:
    parts = days(20)
    shelf.fill(parts)
    changed = Part(parts[5].name, parts[5].values, parameters=((b"numFiles", b"99"),))
    added = Part(b"dt=1999-01-01/hour=0", (b"1999-01-01", b"0"))
    shelf.writer.commit(
        Changes(
            cursor=11,
            partitions=[PartitionChange(TABLE_ID, [changed.record(), added.record()], [parts[7].name, b"never=there"])],
        )
    )
    wanted = sorted({part.name for part in parts} - {parts[7].name} | {added.name})
    assert names_of(shelf) == wanted
    assert struct_of(shelf, parts[5].name) == spec.decode(spec.struct("Partition"), changed.struct())[0]
    assert struct_of(shelf, parts[7].name) is None
    assert shelf.writer.counts()["partitions"] == 20 == entry_of(shelf).partition_count


def test_a_rename_keeps_the_partitions(shelf: Shelf) -> None:
    parts = days(5)
    shelf.fill(parts)
    renamed = (b"hive", b"sales", b"bills")
    shelf.writer.commit(Changes(cursor=11, tables={TABLE: None, renamed: table(b"bills")}))
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.table(*TABLE) is ABSENT
    wanted = spec.decode(spec.struct("Partition"), parts[0].struct(table=b"bills"))[0]
    assert struct_of(shelf, parts[0].name, b"bills") == wanted
    assert not shelf.writer.collect(), "nothing became garbage"
    assert names_of(shelf, b"bills") == [part.name for part in parts]


def test_dropped_and_created_again_has_none_of_the_old_partitions(shelf: Shelf) -> None:
    shelf.fill(days(5))
    shelf.writer.commit(Changes(cursor=11, tables={TABLE: table(table_id=78)}))
    entry = entry_of(shelf)
    assert (entry.table_id, entry.partitions_loaded, entry.reason_not_loaded) == (78, False, "pending")
    assert shelf.writer.counts() == {"databases": 1, "tables": 1, "partitions": 0}


def test_the_first_names_that_begin_so(shelf: Shelf) -> None:
    long = b"x" * 600
    names = [b"a", b"orders", b"orders_2", long, long + b"a", long + b"b", b"y"]
    stubs = {(*DATABASE, name): TableStub(at, b"VIRTUAL_VIEW", "excluded") for at, name in enumerate(names)}
    shelf.fill(days(1))
    shelf.writer.commit(Changes(cursor=11, stubs={key: stub for key, stub in stubs.items() if key != TABLE}))
    with shelf.reader.snapshot() as snapshot:
        assert [(name, loaded) for name, _, loaded in snapshot.table_list(*DATABASE) or ()] == [
            (name, name == b"orders") for name in sorted(names)
        ]
        for prefix in (b"", b"o", b"orders", b"orders_", long[:-1], long, long + b"a", b"z"):
            found = [name for name in sorted(names) if name.startswith(prefix)]
            for limit in (0, 1, 2, 3, 100):
                given = snapshot.table_list(*DATABASE, prefix, limit)
                assert given is not None and [name for name, *_ in given] == found[:limit]
        assert snapshot.table_list(b"hive", b"elsewhere") is None


def test_a_dropped_database_takes_everything_below(shelf: Shelf) -> None:
    shelf.fill(days(5))
    stub = (b"hive", b"sales", b"left_out")
    shelf.writer.commit(Changes(cursor=11, stubs={stub: TableStub(5, b"VIRTUAL_VIEW", "excluded")}))
    with shelf.reader.snapshot() as snapshot:
        entry = snapshot.table(*stub)
        assert isinstance(entry, TableEntry)
        assert (entry.body, entry.reason_not_loaded, entry.table_type) == (None, "excluded", b"VIRTUAL_VIEW")
        assert snapshot.table_list(*DATABASE) == [
            (b"left_out", b"VIRTUAL_VIEW", False),
            (b"orders", b"MANAGED_TABLE", True),
        ]
    seq = shelf.writer.commit(Changes(cursor=12, databases={DATABASE: None}))
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.database(*DATABASE) is ABSENT and snapshot.table(*TABLE) is ABSENT
        assert snapshot.table_list(*DATABASE) is None
        for target in (ORDERS, targets.table(*stub), targets.tables(*DATABASE), targets.databases(b"hive")):
            assert snapshot.version(target) == seq
    assert shelf.writer.counts() == {"databases": 0, "tables": 0, "partitions": 0}
    while shelf.writer.collect():
        pass
    assert shelf.writer._environment.env.stat()["entries"]  # the databases themselves
    with shelf.writer._environment.env.begin() as txn:
        assert txn.stat(shelf.writer._environment.partitions)["entries"] == 0
        assert txn.stat(shelf.writer._environment.shared)["entries"] == 0


def test_a_loaded_table_can_become_a_stub_and_come_back(shelf: Shelf) -> None:
    shelf.fill(days(5))
    shelf.writer.commit(Changes(cursor=11, stubs={TABLE: TableStub(TABLE_ID, b"MANAGED_TABLE", "full")}))
    assert entry_of(shelf).reason_not_loaded == "full"
    assert shelf.writer.counts() == {"databases": 1, "tables": 0, "partitions": 0}
    shelf.fill(days(3), cursor=12)
    assert len(names_of(shelf)) == 3


def test_versions(shelf: Shelf) -> None:
    first = shelf.fill(days(3))
    other = targets.table(b"hive", b"sales", b"other")
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.version(ORDERS) == first
        assert snapshot.version(other) < first
    second = shelf.writer.commit(Changes(cursor=10, touched={other}))
    third = shelf.writer.commit(Changes(cursor=10, partitions=[PartitionChange(TABLE_ID, deletes=[days(3)[0].name])]))
    with shelf.reader.snapshot() as snapshot:
        assert (snapshot.version(other), snapshot.version(ORDERS)) == (second, third)
        assert snapshot.version(targets.tables(*DATABASE)) == first, "a list does not change with a partition"
    last = shelf.writer.commit(Changes(cursor=10, touched={targets.ALL}))
    with shelf.reader.snapshot() as snapshot:
        assert {snapshot.version(target) for target in (other, ORDERS, b"never seen")} == {last}
    while shelf.writer.collect(rows=2):
        pass
    with shelf.reader.snapshot() as snapshot, shelf.writer._environment.env.begin() as txn:
        assert snapshot.version(ORDERS) == last
        assert txn.stat(shelf.writer._environment.versions)["entries"] == 0


def test_a_reset_hides_everything_at_once(shelf: Shelf) -> None:
    shelf.fill(days(100), cursor=500)
    reader = shelf.reader.snapshot()
    seq = shelf.writer.commit(Changes(cursor=20, reset="the log has a gap", fingerprint=b"f"))
    with shelf.reader.snapshot() as snapshot:
        assert (snapshot.meta.cursor, snapshot.meta.generation, snapshot.meta.fingerprint) == (20, 2, b"f")
        assert snapshot.table(*TABLE) is None and snapshot.database(*DATABASE) is None
        assert snapshot.database_list(b"hive") is None
        assert snapshot.version(ORDERS) == seq
    entry = reader.table(*TABLE)
    assert isinstance(entry, TableEntry), "an open snapshot keeps what it had"
    assert len(reader.partition_names(entry)) == 100
    reader.close()
    assert shelf.writer.counts() == {"databases": 0, "tables": 0, "partitions": 0}
    shelf.fill(days(10), cursor=21)
    slices = 0
    while shelf.writer.collect(rows=20):
        slices += 1
    assert slices >= 5
    assert len(names_of(shelf)) == 10
    with shelf.writer._environment.env.begin() as txn:
        assert txn.stat(shelf.writer._environment.partitions)["entries"] == 10
        assert txn.stat(shelf.writer._environment.garbage)["entries"] == 0


def test_the_cursor_does_not_go_back(shelf: Shelf) -> None:
    shelf.writer.commit(Changes(cursor=10))
    with pytest.raises(AssertionError, match="cursor back"):
        shelf.writer.commit(Changes(cursor=9))
    assert shelf.page[Slot.CURSOR] == 10


def test_done_tickets_only_grow(shelf: Shelf) -> None:
    shelf.writer.commit(Changes(cursor=1, done_ticket=7))
    shelf.writer.commit(Changes(cursor=2))
    assert shelf.page[Slot.DONE_TICKET] == 7 == shelf.writer.meta.done_ticket


def chunks(parts: list[Part], size: int) -> list[PartitionChunk]:
    cut = [parts[at : at + size] for at in range(0, len(parts), size)]
    return [
        PartitionChunk(TABLE_ID, [part.record() for part in some], first=number == 0, last=number == len(cut) - 1)
        for number, some in enumerate(cut)
    ]


def test_a_huge_table_comes_in_chunks_and_is_seen_at_once(shelf: Shelf) -> None:
    shelf.writer.commit(Changes(cursor=1, databases={DATABASE: database()}, tables={TABLE: table()}))
    parts = days(95)
    *begin, last = chunks(parts, 20)
    for number, chunk in enumerate(begin):
        shelf.writer.commit(Changes(cursor=2 + number, chunks=[chunk]))
        assert not entry_of(shelf).partitions_loaded
    shelf.writer.commit(Changes(cursor=10, chunks=[last]))
    assert names_of(shelf) == [part.name for part in parts]


def test_changes_during_a_load_reach_the_old_and_the_new_set(shelf: Shelf) -> None:
    old, new = days(60), days(60, files=2)
    shelf.fill(old)
    first, second, third = chunks(new, 20)
    shelf.writer.commit(Changes(cursor=11, chunks=[first]))
    early, late = new[3], new[50]
    change = PartitionChange(
        TABLE_ID,
        [Part(part.name, part.values, parameters=((b"numFiles", b"3"),)).record() for part in (early, late)],
        [new[5].name, new[45].name],
    )
    shelf.writer.commit(Changes(cursor=12, partitions=[change]))
    assert len(names_of(shelf)) == 58, "the old set follows too"
    shelf.writer.commit(Changes(cursor=12, partitions=[PartitionChange(TABLE_ID, deletes=[late.name])]))
    gone = {new[45].name, late.name}
    later = [record for record in third.records if record.name not in gone]  # as a newer snapshot reads them
    shelf.writer.commit(Changes(cursor=13, chunks=[second]))
    shelf.writer.commit(Changes(cursor=14, chunks=[PartitionChunk(TABLE_ID, later, last=True)]))
    assert names_of(shelf) == sorted({part.name for part in new} - {new[5].name} - gone)
    found = struct_of(shelf, early.name)
    assert found is not None and found.parameters == {b"numFiles": b"3"}  # type: ignore[attr-defined]
    assert shelf.writer.counts()["partitions"] == 57
    while shelf.writer.collect():
        pass
    assert len(names_of(shelf)) == 57


@pytest.mark.parametrize("at", [0, 18, 19, 20, 39])
def test_a_change_around_the_end_of_what_is_loaded_is_not_lost(shelf: Shelf, at: int) -> None:
    """The chunks before it have loaded 20 partitions; later ones read what they load in a newer snapshot."""
    parts = days(40)
    shelf.fill(parts)
    first, second = chunks(parts, 20)
    shelf.writer.commit(Changes(cursor=11, chunks=[first]))
    changed = Part(parts[at].name, parts[at].values, parameters=((b"numFiles", b"9"),)).record()
    shelf.writer.commit(Changes(cursor=12, partitions=[PartitionChange(TABLE_ID, [changed])]))
    newer = [changed if record.name == changed.name else record for record in second.records]
    shelf.writer.commit(Changes(cursor=13, chunks=[PartitionChunk(TABLE_ID, newer, last=True)]))
    found = struct_of(shelf, changed.name)
    assert found is not None and found.parameters == {b"numFiles": b"9"}  # type: ignore[attr-defined]
    gone = [part.name for part in parts if part.name != changed.name]
    shelf.writer.commit(Changes(cursor=14, chunks=[first]))
    shelf.writer.commit(Changes(cursor=15, partitions=[PartitionChange(TABLE_ID, deletes=[changed.name])]))
    left = [record for record in second.records if record.name != changed.name]
    shelf.writer.commit(Changes(cursor=16, chunks=[PartitionChunk(TABLE_ID, left, last=True)]))
    assert names_of(shelf) == gone and shelf.writer.counts()["partitions"] == 39


def test_a_load_that_is_not_finished_begins_anew(shelf: Shelf) -> None:
    parts = days(40)
    shelf.fill(parts)
    shelf.writer.commit(Changes(cursor=11, chunks=[chunks(days(40, files=2), 20)[0]]))
    shelf.reopen(clean=False)
    assert shelf.writer.rebuilt is None
    assert names_of(shelf) == sorted(part.name for part in parts), "the set before is whole"
    with pytest.raises(AssertionError, match="without a first one"):
        shelf.writer.commit(Changes(cursor=12, chunks=[chunks(parts, 20)[1]]))
    for number, chunk in enumerate(chunks(parts, 20)):
        shelf.writer.commit(Changes(cursor=13 + number, chunks=[chunk]))
    assert len(names_of(shelf)) == 40
    while shelf.writer.collect():
        pass
    assert len(names_of(shelf)) == 40


def test_partitions_that_must_not_be_used(shelf: Shelf) -> None:
    shelf.fill(days(10))
    seq = shelf.writer.commit(Changes(cursor=11, not_loaded={TABLE_ID: "too large"}))
    entry = entry_of(shelf)
    assert (entry.partitions_loaded, entry.reason_not_loaded, entry.body) == (False, "too large", b"table body")
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.version(ORDERS) == seq
    assert shelf.writer.counts()["partitions"] == 0
    shelf.writer.commit(Changes(cursor=12, partitions=[PartitionChange(TABLE_ID, [days(1)[0].record()])]))
    assert not entry_of(shelf).partitions_loaded, "a single partition does not make a set complete"


def test_partitions_out_of_order_are_refused(shelf: Shelf) -> None:
    parts = days(3)
    shelf.writer.commit(Changes(cursor=1, databases={DATABASE: database()}, tables={TABLE: table()}))
    records = [part.record() for part in reversed(parts)]
    with pytest.raises(AssertionError, match="bytewise order"):
        shelf.writer.commit(Changes(cursor=2, partitions=[PartitionChange(TABLE_ID, records, replace_all=True)]))
    assert shelf.page[Slot.CURSOR] == 1
    shelf.fill(parts)
    assert len(names_of(shelf)) == 3


def test_names_longer_than_a_key(shelf: Shelf) -> None:
    """767 bytes is what the metastore's column holds; they differ only in their last bytes."""
    stem = b"dt=" + b"x" * 758
    parts = [Part(stem + b"%06d" % number, (b"x", b"%d" % number)) for number in range(300)]
    mixed = sorted(
        [*parts, Part(stem[:506]), Part(stem[:507]), Part(stem[:508]), *days(20)], key=lambda part: part.name
    )
    shelf.fill(mixed)
    wanted = [part.name for part in mixed]
    assert names_of(shelf) == wanted
    assert struct_of(shelf, parts[150].name) == spec.decode(spec.struct("Partition"), parts[150].struct())[0]
    entry = entry_of(shelf)
    with shelf.reader.snapshot() as snapshot:
        assert b"".join(snapshot.iter_partitions(entry)) == b"".join(
            body for body in snapshot.partitions(entry, wanted) if body is not None
        )
        assert snapshot.partition_names(entry, after=parts[7].name, limit=5) == [p.name for p in parts[8:13]]
    shelf.writer.commit(Changes(cursor=11, partitions=[PartitionChange(TABLE_ID, deletes=[parts[7].name])]))
    assert names_of(shelf) == [name for name in wanted if name != parts[7].name]


def test_an_error_leaves_nothing_behind(shelf: Shelf) -> None:
    shelf.fill(days(10))
    bad = Part(b"p=1", parameters=())
    broken = bad.record()._replace(parameters=mapping(7, {b"abc": b""})[:-6])
    with pytest.raises(CacheError):
        shelf.writer.commit(
            Changes(
                cursor=11,
                databases={(b"hive", b"x"): database(b"x")},
                partitions=[PartitionChange(TABLE_ID, [broken])],
            )
        )
    assert shelf.page[Slot.CURSOR] == 10
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.database(b"hive", b"x") is ABSENT
    assert len(names_of(shelf)) == 10
    shelf.writer.commit(Changes(cursor=11, partitions=[PartitionChange(TABLE_ID, [bad.record()])]))
    assert len(names_of(shelf)) == 11


def test_a_reset_and_the_first_chunk_in_one_step(shelf: Shelf) -> None:
    shelf.fill(days(10))
    first, second = chunks(days(40), 20)
    shelf.writer.commit(
        Changes(cursor=3, reset="gap", databases={DATABASE: database()}, tables={TABLE: table()}, chunks=[first])
    )
    shelf.writer.commit(Changes(cursor=4, chunks=[second]))
    assert len(names_of(shelf)) == 40


def test_two_tables_swap_their_names(shelf: Shelf) -> None:
    parts = days(5)
    shelf.fill(parts)
    other = (b"hive", b"sales", b"bills")
    few = PartitionChange(78, [part.record() for part in parts[:2]], replace_all=True)
    shelf.writer.commit(Changes(cursor=11, tables={other: table(b"bills", 78)}, partitions=[few]))
    shelf.writer.commit(Changes(cursor=12, tables={TABLE: table(table_id=78), other: table(b"bills", TABLE_ID)}))
    assert (len(names_of(shelf)), len(names_of(shelf, b"bills"))) == (2, 5)
    assert not shelf.writer.collect()
    assert shelf.writer.counts() == {"databases": 1, "tables": 2, "partitions": 7}


def test_another_writer_is_noticed(shelf: Shelf) -> None:
    """A follower that hung, was replaced and woke up again must not write what it believes."""
    shelf.fill(days(3))
    believed = shelf.writer.meta
    shelf.writer.commit(Changes(cursor=11))
    shelf.writer.meta = believed
    with pytest.raises(CacheError, match="another process"):
        shelf.writer.commit(Changes(cursor=12))


def test_partitions_that_have_nothing_in_common(shelf: Shelf) -> None:
    """A directory of its own for each, statistics that all differ: shared rows stay few."""
    parts = [
        Part(
            b"p=%04d" % number,
            (b"%04d" % number,),
            location=b"s3://elsewhere/%d/p=%04d" % (number, number),
            parameters=((b"COLUMN_STATS_ACCURATE", b"%d" % number), (b"numFiles", b"1")),
        )
        for number in range(500)
    ]
    shelf.fill(parts)
    entry = entry_of(shelf)
    with shelf.reader.snapshot() as snapshot:
        bodies = snapshot.partitions(entry, [part.name for part in parts])
    for part, body in zip(parts, bodies, strict=True):
        assert body is not None
        assert spec.decode(spec.struct("Partition"), body) == (
            spec.decode(spec.struct("Partition"), part.struct())[0],
            len(body),
        )
    with shelf.writer._environment.env.begin() as txn:
        assert txn.stat(shelf.writer._environment.shared)["entries"] < 250
