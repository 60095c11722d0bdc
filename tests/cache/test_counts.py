"""What each commit keeps up to date by itself: versions of a database's members, and counts."""

from __future__ import annotations

from hms_cache_proxy.cache import layout, targets
from hms_cache_proxy.cache.changes import Changes, PartitionChange, TableStub, TableWriteIds
from tests.cache.conftest import Shelf
from tests.cache.records import DATABASE, TABLE, TABLE_ID, database, days, flat_table

ORDERS = targets.table(*TABLE)


def test_every_table_of_a_database_is_touched_with_any_of_them(shelf: Shelf) -> None:
    every, elsewhere = targets.members(*DATABASE), targets.members(b"hive", b"sale")
    shelf.fill(days(2), cursor=10)
    for cursor, changes in (
        (11, Changes(11, touched={ORDERS})),
        (12, Changes(12, partitions=[PartitionChange(TABLE_ID, [part.record() for part in days(3)])])),
        (13, Changes(13, tables={TABLE: None})),
    ):
        seq = shelf.writer.commit(changes)
        with shelf.reader.snapshot() as snapshot:
            assert (snapshot.version(every), snapshot.meta.cursor) == (seq, cursor)
            assert snapshot.version(elsewhere) < seq
    shelf.writer.commit(Changes(14, held=frozenset({ORDERS})))
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.holds([every]) and snapshot.holds([ORDERS]) and not snapshot.holds([elsewhere])


def test_names_that_are_not_loaded_are_counted_as_they_come_and_go(shelf: Shelf) -> None:
    def all_loaded() -> bool:
        with shelf.reader.snapshot() as snapshot:
            listed = snapshot.table_list(*DATABASE) or []
            whole = all(loaded for *_, loaded in listed)
            assert snapshot.any_not_loaded() == (not whole)
            assert snapshot.all_loaded(*DATABASE) == whole
            return snapshot.all_loaded(*DATABASE)

    assert shelf.fill(days(2), cursor=10) and all_loaded()
    keys = [(*DATABASE, name) for name in (b"a", b"b", b"orders")]
    stubs = {key: TableStub(number, b"MANAGED_TABLE", "excluded") for number, key in enumerate(keys, 50)}
    lists = {targets.tables(*DATABASE)}
    steps = (
        (Changes(11, stubs=stubs), False),
        (Changes(12, stubs=stubs), False),
        (Changes(13, tables={keys[0]: flat_table(b"a", 50), keys[2]: None}), False),
        (Changes(14, tables={keys[1]: None}), True),
        (Changes(15, stubs={keys[1]: stubs[keys[1]]}), False),
        (Changes(16, databases={DATABASE: None}), True),
        (Changes(17, stubs={keys[1]: stubs[keys[1]]}, databases={DATABASE: database()}, complete=lists), False),
        (Changes(18, reset="test", databases={DATABASE: database()}, complete=lists), True),
    )
    for changes, expected in steps:
        shelf.writer.commit(changes)
        assert all_loaded() == expected, changes.cursor


def test_write_ids_are_counted_as_they_come_and_go(shelf: Shelf) -> None:
    key, other = TABLE, (*DATABASE, b"other")
    ids = lambda writers, name=key: TableWriteIds(name, b"text", writers)  # noqa: E731
    lists = {targets.databases(b"hive"), targets.tables(*DATABASE)}
    steps = (
        (Changes(11, write_ids={TABLE_ID: ids(())}), (1, 0)),
        (
            Changes(12, write_ids={TABLE_ID: ids((7,)), 5: ids((), other)}, tables={other: flat_table(b"other", 5)}),
            (2, 1),
        ),
        (Changes(13, write_ids={TABLE_ID: ids((7, 8)), 5: ids((9,), other)}), (2, 2)),
        (Changes(14, write_ids={TABLE_ID: ids(())}), (2, 1)),
        (Changes(15, tables={other: None}), (1, 0)),
        (Changes(16, reset="test", databases={DATABASE: database()}, complete=lists), (0, 0)),
    )
    shelf.fill(days(1), cursor=10)
    for changes, expected in steps:
        shelf.writer.commit(changes)
        assert tuple(shelf.writer.write_id_counts().values()) == expected, changes.cursor
        with shelf.writer._environment.env.begin() as txn:
            prefix = layout.objects_prefix(shelf.writer.meta.generation, b"w")
            rows = layout.names_under(txn, shelf.writer._environment.objects, prefix, b"")
        found = [layout.write_ids_unpack(row) for _, row in rows]
        assert (len(found), sum(bool(row.writers) for row in found)) == expected, changes.cursor
