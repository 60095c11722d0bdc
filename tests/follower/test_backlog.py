"""A follower that was away for long: it decides before it reads, and holds what rows name, not the rows."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.follower.affected import MAX_NAMED, Affected, Gathering
from hms_cache_proxy.follower.log import Followed, OrderedLog
from hms_cache_proxy.follower.step import (
    FEW_ROWS,
    EventBatch,
    Position,
    Reset,
    ResetReason,
    backlog,
    gather,
)
from hms_cache_proxy.store.protocol import PAGE_BYTES, EventRow, TableKey
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.follower import rows
from tests.follower.stepping import Catalog, Stepping

T: TableKey = (b"hive", b"d", b"t")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path) as made:
        yield made


def added(number: int, count: int) -> Iterator[EventRow]:
    """Rows about one partition of one table, each its own object as the store gives it."""
    one = rows.row("ADD_PARTITION", {"partitions": [{"p": "1"}], "tableObjJson": rows.table()}, id=1)
    for id in range(number + 1, number + count + 1):
        yield replace(one, event_id=id, message=(one.message or "")[:])


def most_memory(count: int) -> int:
    """Bytes at most while so many rows are followed."""
    tracemalloc.start()
    try:
        answer = gather(0, count, added(0, count))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(answer, EventBatch)
    assert (answer.rows, answer.affected.partitions) == (count, {T: frozenset({b"p=1"})})
    return peak


def test_rows_are_not_kept() -> None:
    """1.3 kB a row, before."""
    most_memory(10)  # what is made once
    assert most_memory(1000) - most_memory(1) < 50_000


@pytest.mark.parametrize(
    ("behind", "cost", "reset"),
    [(FEW_ROWS, 0, False), (FEW_ROWS + 1, 0, True), (FEW_ROWS + 1, FEW_ROWS + 1, False), (10**7, 10**7 - 1, True)],
)
def test_a_log_that_costs_more_than_everything_is_not_read(behind: int, cost: int, reset: bool) -> None:
    assert backlog(behind, cost) == (Reset(ResetReason.BACKLOG) if reset else None)


def test_too_many_rows_are_not_read(catalog: Catalog, tmp_path: Path) -> None:
    """A restart begins with the same log: it must not be read again either."""
    catalog.table(b"t")
    catalog.add(b"t", [b"1", b"2"])
    with Stepping(tmp_path / "data", catalog) as stepping:
        stepping.settle()
        catalog.events(FEW_ROWS + 1, "{}")
        stepping.another_cycle()
        outcome = stepping.step()
        assert (outcome.reset, outcome.rows) == (ResetReason.BACKLOG, 0)
        stepping.settle()
        assert stepping.same(catalog, b"t") == 2
        assert stepping.writer.meta.cursor == stepping.step().event_id


def test_large_messages_are_read_a_few_at_a_time(catalog: Catalog) -> None:
    """A page of 250 of those of Hive 3.1, which name thousands of partitions, would take gigabytes."""
    catalog.table(b"t")
    catalog.events(20, "y" * (PAGE_BYTES // 8))
    with closing(open_sql_store(catalog.url)) as store, store.snapshot() as source:
        cursor = source.event_id - 20
        assert [len(source.events(after, 250)) for after in (cursor, cursor + 8, cursor + 16)] == [8, 8, 4]
        position = Position(cursor, source.fingerprint(cursor))
        tracemalloc.start()
        try:
            followed = OrderedLog(lambda: None).follow(source, position, verified=False)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert isinstance(followed, Followed) and followed.batch.rows == 20
    assert peak < 4 * PAGE_BYTES


def test_each_row_is_a_sign_of_life(catalog: Catalog) -> None:
    """A page of rows that name many partitions takes long. Without a sign until the next page, a follower on a busy
    machine was killed as one that hangs, and its successor began with the same page."""
    signs: list[int] = []
    catalog.table(b"t")
    catalog.events(300, "{}")
    with closing(open_sql_store(catalog.url)) as store, store.snapshot() as source:
        log = OrderedLog(lambda: signs.append(source.event_id))
        followed = log.follow(source, Position(0, None), verified=False)
        assert isinstance(followed, Followed) and len(signs) == followed.batch.rows >= 300


def test_a_commit_is_a_sign_of_life(catalog: Catalog, tmp_path: Path) -> None:
    """Here no row is read, and of no statement is told that the database has answered."""
    catalog.table(b"t")
    with Stepping(tmp_path / "data", catalog) as stepping:
        stepping.settle()
        stepping.page[Slot.HEARTBEAT_NS] = 0
        assert not stepping.step().changed and not stepping.page[Slot.HEARTBEAT_NS]
        stepping.fences.ticket([targets.table(*T)])
        assert not stepping.step().rows and stepping.page[Slot.HEARTBEAT_NS]


def test_what_is_named_is_bounded() -> None:
    """A step reads partitions one by one up to a number: then the tables of which most are named are read whole."""
    gathered = Gathering()
    many, few = (b"hive", b"d", b"many"), (b"hive", b"d", b"few")
    gathered.add(Affected(tables=frozenset({few}), partitions={few: frozenset({b"p=1"})}))
    for start in range(0, MAX_NAMED, 10_000):
        names = frozenset(b"p=%d" % number for number in range(start, start + 10_000))
        gathered.add(Affected(tables=frozenset({many}), partitions={many: names}))
    assert gathered.affected().partitions == {few: frozenset({b"p=1"}), many: None}
    gathered.add(Affected(partitions={many: frozenset({b"p=1"})}))
    assert gathered.affected().partitions[many] is None, "whole absorbs one"


def test_names_in_many_tables_cost_no_more_for_each() -> None:
    """All tables were looked at for each that was taken whole: more than a minute for 16,000."""

    def cost_s(tables: int) -> float:
        keys = [(b"hive", b"d", b"%d" % number) for number in range(tables)]
        each = 4 * MAX_NAMED // tables
        named = [Affected(partitions={key: frozenset(b"p=%d" % number for number in range(each))}) for key in keys]
        gathered = Gathering()
        began_s = time.process_time()
        for one in named:
            gathered.add(one)
        took_s = time.process_time() - began_s
        left = gathered.affected().partitions
        assert left.keys() == set(keys) and sum(len(names or ()) for names in left.values()) <= MAX_NAMED
        return took_s

    few, many = (min(cost_s(tables) for _ in range(3)) for tables in (500, 8_000))
    assert many < 16 * few, "for as many names"


def test_tables_and_transactions_are_bounded() -> None:
    """The rows behind the one that is too much are not read."""
    one = rows.row("CREATE_TABLE", "")
    created = (replace(one, event_id=number, table=b"t%d" % number) for number in range(1, 100))
    assert gather(0, 99, created, most_tables=50) == Reset(ResetReason.BACKLOG)
    assert next(created).event_id == 52
    gathered = Gathering()
    gathered.add(Affected(ended=frozenset(range(1000)), write_ids=frozenset({(7, T)})))
    assert gathered.transactions == 1001


def test_a_step_holds_so_many_bytes_of_objects(catalog: Catalog, tmp_path: Path) -> None:
    """Tables beyond them wait for a later step; one that is loaded with its partitions stays."""
    names = [b"t%02d" % number for number in range(6)]
    for name in names:
        catalog.table(name, partitioned=False, wide=50)
    catalog.table(b"z")
    catalog.add(b"z", [b"1"])
    with Stepping(tmp_path / "data", catalog) as stepping:
        stepping.settle()
        body = stepping.table(names[0]).body
        assert body is not None
        stepping.settings = replace(stepping.settings, object_bytes=3 * len(body) + 400)
        stepping.another_cycle().step(0)
        for name in (*names, b"z"):
            changed = catalog.call("get_table", dbname=b"d", tbl_name=name)
            changed.parameters[b"changed"] = b"1"
            catalog.call("alter_table", dbname=b"d", tbl_name=name, new_tbl=changed)
        stepping.step(0)
        assert [stepping.loaded(name) for name in names] == [True] * 3 + [False] * 3
        assert stepping.loaded(b"z")
        assert stepping.settle() >= 3
        for name in names:
            body = stepping.table(name).body
            assert body is not None and b"changed" in body


def test_targets_are_gathered() -> None:
    """Tickets go the same way as rows."""
    gathered = Gathering()
    gathered.add(Affected(targets=frozenset({targets.table(*T)})))
    gathered.add(Affected(everything=True, all_lists=True, renamed=((T, T),)))
    answer = gathered.affected()
    assert (answer.targets, answer.everything, answer.all_lists) == ({targets.table(*T)}, True, True)
    assert answer.renamed == ((T, T),)
