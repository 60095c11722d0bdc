"""What each commit keeps up to date by itself: versions of a database's members, and counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hms_cache_proxy.cache import layout, targets
from hms_cache_proxy.cache.changes import Changes, PartitionChange, PartitionChunk, TableStub, TableWriteIds
from hms_cache_proxy.cache.inventory import Inventory
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.sets import SetRow
from tests.cache.conftest import Shelf
from tests.cache.records import DATABASE, TABLE, TABLE_ID, database, days, flat_table, table

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


def test_a_listing_says_something_else_only_if_a_row_differs(shelf: Shelf) -> None:
    """A row without a summary does not show every change, so it counts as another one each time."""
    key, view = (*DATABASE, b"flat"), b"VIRTUAL_VIEW"

    def flat(summary: bytes | None = b"said\0", table_id: int = 5, **more: Any) -> Changes:
        return Changes(11, tables={key: replace(flat_table(b"flat", table_id), summary=summary, **more)})

    def changed(changes: Changes) -> bool:
        seq = shelf.writer.commit(changes)
        with shelf.reader.snapshot() as snapshot:
            assert snapshot.version(targets.said(b"hive", b"sale")) < seq
            return snapshot.version(targets.said(*DATABASE)) == seq

    shelf.fill(days(2), cursor=10)
    stubs = {key: TableStub(5, b"MANAGED_TABLE", "excluded")}
    for step, (changes, expected) in enumerate(
        (
            (flat(), True),
            (flat(), False),
            (flat(body=b"other", location=None), False),
            (Changes(11, touched={targets.table(*key)}), False),
            (Changes(11, partitions=[PartitionChange(TABLE_ID, deletes=[days(1)[0].name])]), False),
            (flat(b"something else\0"), True),
            (flat(b"something else\0", 6), True),
            (flat(b"something else\0", 6, table_type=view), True),
            (flat(None), True),
            (flat(None), True),
            (Changes(11, stubs=stubs), True),
            (Changes(11, tables={key: None}), True),
            (Changes(11, tables={key: None}), False),
            (Changes(11, reset="test", databases={DATABASE: database()}), True),
        )
    ):
        if changes.reset is None:
            assert changed(changes) == expected, step
        else:
            seq = shelf.writer.commit(changes)
            with shelf.reader.snapshot() as snapshot:
                assert snapshot.version(targets.said(*DATABASE)) == seq


def test_names_that_are_not_loaded_are_counted_as_they_come_and_go(shelf: Shelf) -> None:
    def all_loaded() -> bool:
        with shelf.reader.snapshot() as snapshot:
            listed = snapshot.table_list(*DATABASE) or []
            whole = all(loaded for *_, loaded in listed)
            assert bool(snapshot.databases_not_loaded()) == (not whole)
            assert snapshot.all_loaded(*DATABASE) == whole
            return snapshot.all_loaded(*DATABASE)

    assert shelf.fill(days(2), cursor=10) and all_loaded()
    keys = [(*DATABASE, name) for name in (b"a", b"b", b"orders")]
    stubs = {key: TableStub(number, b"MANAGED_TABLE", "excluded") for number, key in enumerate(keys, 50)}
    lists = {targets.tables(*DATABASE)}
    steps = (
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
    settled, aborted = b"hive.d.t:9:9223372036854775807::", b"hive.d.t:9:9223372036854775807::8"
    ids = lambda writers, name=key, text=settled: TableWriteIds(name, text, writers)  # noqa: E731
    lists = {targets.databases(b"hive"), targets.tables(*DATABASE)}
    steps = (
        (Changes(11, write_ids={TABLE_ID: ids(())}), (1, 0)),
        (
            Changes(12, write_ids={TABLE_ID: ids((7,)), 5: ids((), other)}, tables={other: flat_table(b"other", 5)}),
            (2, 1),
        ),
        (Changes(13, write_ids={TABLE_ID: ids((7, 8)), 5: ids((9,), other)}), (2, 2)),
        (Changes(14, write_ids={TABLE_ID: ids(())}), (2, 1)),
        (Changes(15, write_ids={5: ids((), other, aborted)}), (2, 0)),
        (Changes(15, write_ids={TABLE_ID: ids((), key, aborted)}), (2, 0)),
        (Changes(16, tables={other: None}), (1, 0)),
        (Changes(17, write_ids={TABLE_ID: ids((), key)}), (1, 0)),
        (Changes(18, write_ids={TABLE_ID: ids((9,), key)}), (1, 1)),
        (Changes(19, reset="test", databases={DATABASE: database()}, complete=lists), (0, 0)),
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
        with shelf.reader.snapshot() as snapshot:
            unsettled = [row for row in found if row.writers or not row.text.endswith(b"::")]
            assert [row for _, row in Inventory(snapshot).unsettled()] == unsettled, changes.cursor


def test_sets_that_are_not_complete_are_found_without_a_look_at_the_others(shelf: Shelf) -> None:
    def unfinished() -> set[int]:
        with shelf.writer._environment.env.begin() as txn:
            prefix = layout.objects_prefix(shelf.writer.meta.generation, b"s")
            packed = layout.names_under(txn, shelf.writer._environment.objects, prefix, b"")
        rows = {layout.TABLE_ID.unpack(key)[0]: SetRow.unpack(row) for key, row in packed}
        with shelf.reader.snapshot() as snapshot:
            cached = Inventory(snapshot)
            assert [reason for _, reason in cached.lacking()] == [row.reason for row in rows.values() if not row.loaded]
            filling = {id_: row.loading for id_, row in rows.items() if row.loading and not row.loaded}
            assert {id_: number for _, id_, number in cached.filling()} == filling
            found = {id_ for id_, _ in cached._unfinished()}
        assert found == {id_ for id_, row in rows.items() if row.loading or not row.loaded}
        return found

    first, *_, last = chunks = [
        PartitionChunk(TABLE_ID, [part.record()], first=number == 0, last=number == 2)
        for number, part in enumerate(days(3))
    ]
    other = (*DATABASE, b"other")
    steps: tuple[tuple[Changes, set[int]], ...] = (
        (Changes(1, databases={DATABASE: database()}, tables={TABLE: table()}), {TABLE_ID}),
        (Changes(2, chunks=chunks[:1]), {TABLE_ID}),
        (Changes(3, tables={other: table(name=b"other", table_id=5)}), {TABLE_ID, 5}),
        (Changes(4, chunks=chunks[1:2]), {TABLE_ID, 5}),
        (Changes(5, chunks=[last]), {5}),
        (Changes(6, partitions=[PartitionChange(5, replace_all=True)]), set()),
        (Changes(7, chunks=[first]), {TABLE_ID}),
        (Changes(8, not_loaded={5: "unfit"}), {TABLE_ID, 5}),
        (Changes(9, tables={TABLE: None}), {5}),
        (Changes(10, tables={TABLE: table()}, partitions=[PartitionChange(TABLE_ID, replace_all=True)]), {5}),
        (Changes(11, chunks=[first], partitions=[PartitionChange(5, replace_all=True)]), {TABLE_ID}),
    )
    for changes, expected in steps:
        shelf.writer.commit(changes)
        assert unfinished() == expected, changes.cursor
    shelf.reopen()
    shelf.reader = CacheReader(shelf.path, shelf.page)
    assert unfinished() == set(), "what was not finished is forgotten; the old set is complete"
    for changes, expected in (
        (Changes(12, not_loaded={5: "unfit"}), {5}),
        (Changes(13, reset="test", databases={DATABASE: database()}), set()),
    ):
        shelf.writer.commit(changes)
        assert unfinished() == expected
