"""Tables that are loaded in chunks while they change: loads always progress, and nothing torn is ever shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.errors import CacheFull, StoreError
from hms_cache_proxy.follower import eviction
from hms_cache_proxy.follower.affected import MAX_NAMED, Affected
from hms_cache_proxy.follower.step import requested
from hms_cache_proxy.store.part_names import is_name
from hms_cache_proxy.store.thrift.store import open_thrift_store
from tests.follower.stepping import CATALOG, DATABASE, Catalog, Stepping, new
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

PARTITIONS = 200
CHUNK = 20
STEPS = PARTITIONS // CHUNK + 3
"""The list of databases, that of tables, the table itself; then a chunk a step."""


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path) as made:
        made.table(b"t")
        made.add(b"t", [b"%05d" % number for number in range(PARTITIONS)])
        yield made


@pytest.fixture
def stepping(catalog: Catalog, tmp_path: Path) -> Iterator[Stepping]:
    with Stepping(tmp_path / "data", catalog, chunk=CHUNK) as made:
        yield made


def steps_until_loaded(stepping: Stepping, most: int) -> int:
    for number in range(1, most + 1):
        stepping.step()
        if stepping.loaded(b"t"):
            return number
    raise AssertionError(f"not loaded after {most} steps: {stepping.cycle.work and stepping.cycle.work.loads}")


def test_an_event_a_step_does_not_put_a_load_off(catalog: Catalog, stepping: Stepping) -> None:
    """Before and behind the chunk that is read, added, changed and dropped; equal to the metastore at the end."""
    stepping.step()
    for number in range(STEPS):
        assert not stepping.loaded(b"t"), number
        place = number * 37 % PARTITIONS
        catalog.alter(b"t", b"%05d" % place, changed=b"%d" % number)
        if number % 3 == 0:
            catalog.add(b"t", [b"%05dx" % place])
        if number % 3 == 1:
            values = [b"%05d" % ((place + 50) % PARTITIONS)]
            catalog.call("drop_partition", db_name=DATABASE, tbl_name=b"t", part_vals=values, deleteData=False)
        stepping.step()
        if stepping.loaded(b"t"):
            break
    assert stepping.same(catalog, b"t") > PARTITIONS / 2


def test_steps_that_are_full_of_events_leave_a_share_to_the_load(catalog: Catalog, stepping: Stepping) -> None:
    """As many partitions of another table are named in each step as one may load."""
    catalog.table(b"busy")
    busy = [b"%05d" % number for number in range(CHUNK)]
    catalog.add(b"busy", busy)
    stepping.step()
    for _ in range(4 * STEPS):
        catalog.events(1, kind="ADD_PARTITION")
        stepping.step()
    assert stepping.same(catalog, b"t") == PARTITIONS


def test_a_failure_of_the_store_loses_no_chunk(catalog: Catalog, stepping: Stepping) -> None:
    stepping.step()
    done = 0
    while not done:
        stepping.step()
        done = sum(load.after is not None for load in stepping.cycle.work.loads.values()) if stepping.cycle.work else 0
    for number in range(4):
        stepping.step()
        away = catalog.file.rename(catalog.file.with_name("away"))
        with pytest.raises(StoreError):
            stepping.step()
        away.rename(catalog.file)
        stepping.another_cycle()
        catalog.alter(b"t", b"%05d" % number, changed=b"1")
    assert steps_until_loaded(stepping, STEPS - 4) <= STEPS - 4
    assert stepping.same(catalog, b"t") == PARTITIONS


def test_a_load_that_loses_its_room_in_the_step_of_an_event(catalog: Catalog, stepping: Stepping) -> None:
    """What the event had the step read goes with the table."""
    while not (stepping.cycle.work and any(load.after for load in stepping.cycle.work.loads.values())):
        stepping.step()
    stepping.settings = replace(stepping.settings, max_bytes=1)
    stepping.another_cycle()
    stepping.step()  # the garbage goes first
    catalog.alter(b"t", b"00000", changed=b"1")
    stepping.step()
    entry = stepping.table(b"t")
    assert (entry.body, entry.reason_not_loaded) == (None, "full")
    stepping.settings = replace(stepping.settings, max_bytes=1 << 30)
    stepping.used(b"t", -5)
    stepping.another_cycle()
    stepping.settle()
    assert stepping.same(catalog, b"t") == PARTITIONS


def test_a_last_chunk_for_which_the_file_has_no_room(
    catalog: Catalog, stepping: Stepping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is loaded again when it is asked for, as others without room are."""
    refused: list[int] = []
    commit = stepping.writer.commit

    def commit_but_the_last(changes: Changes) -> int:
        if any(chunk.last for chunk in changes.chunks):
            refused.append(changes.cursor)
            raise CacheFull("the cache's map is full")
        return commit(changes)

    monkeypatch.setattr(eviction, "LOOK_S", 0.0)
    monkeypatch.setattr(stepping.writer, "commit", commit_but_the_last)
    stepping.settle()
    assert len(refused) == 1 and not stepping.loaded(b"t")
    monkeypatch.undo()
    stepping.used(b"t", -5)
    stepping.settle()
    assert stepping.same(catalog, b"t") == PARTITIONS


def test_a_transactional_table_for_which_the_file_has_no_room(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its write ids go with it: later it would be taken for one whose open writes were all seen."""
    made = catalog.table(b"plain", partitioned=False)
    made.tableName, made.tableType, made.sd.location = b"acid", b"MANAGED_TABLE", None
    made.parameters = {b"transactional": b"true", b"transactional_properties": b"insert_only"}
    request = new("CreateTableRequest", table=made, processorCapabilities=[b"HIVEMANAGEDINSERTWRITE"])
    catalog.call("create_table_req", request=request)
    with Stepping(tmp_path / "another", catalog) as stepping:
        commit = stepping.writer.commit

        def commit_no_tables(changes: Changes) -> int:
            if any(changes.tables.values()):
                raise CacheFull("the cache's map is full")
            return commit(changes)

        monkeypatch.setattr(stepping.writer, "commit", commit_no_tables)
        while stepping.step().more:
            pass
        entry = stepping.table(b"acid")
        assert (entry.body, entry.reason_not_loaded) == (None, "full")
        assert stepping.writer.meta.write_ids == 0


def test_a_row_on_which_a_metastore_fails_costs_only_its_table(catalog: Catalog, stepping: Stepping) -> None:
    """A time beyond 32 bits: nothing was loaded any more, and no event was followed."""
    catalog.table(b"other")
    catalog.add(b"other", [b"1"])
    with closing(sqlite3.connect(catalog.file, timeout=60)) as connection, connection:
        connection.execute("""UPDATE "PARTITIONS" SET "CREATE_TIME" = ? WHERE "PART_NAME" = 'p=00123'""", (1 << 40,))
    stepping.settle()
    assert stepping.same(catalog, b"other") == 1
    entry = stepping.table(b"t")
    assert (entry.body is not None, entry.partitions_loaded, entry.reason_not_loaded) == (True, False, "unfit")


@pytest.mark.real
def test_over_thrift_names_that_come_behind_the_chunk_are_not_missed(
    new_metastore: Callable[..., Metastore], tmp_path: Path
) -> None:
    """Names are listed once for a load: events have to tell the store of those that come and go behind it, too."""
    metastore = new_metastore("embedded")
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, "d")
        table = objects.create_table(client, objects.table("d", "t", partition_keys=(("p", "string"),)))
        objects.add_partitions(client, table, [(f"{number:05d}",) for number in range(60)])
        with Stepping(tmp_path / "data", open_thrift_store([metastore.address]), chunk=10) as stepping:
            for number in range(20):
                stepping.step()
                if stepping.loaded(b"t"):
                    break
                objects.add_partitions(client, table, [(f"{number:05d}x",), (f"9{number:04d}",)])
                client.drop_partition("d", "t", [f"{58 - number:05d}"], False)
            stepping.settle()
            with stepping.reader.snapshot() as snapshot:
                names = snapshot.partition_names(stepping.table(b"t"))
            assert names == sorted(name.encode() for name in client.get_partition_names("d", "t", -1))


def test_a_change_of_all_partitions_begins_the_load_again(catalog: Catalog, stepping: Stepping) -> None:
    """What was read before it may be old: correctness first."""
    for _ in range(5):
        stepping.step()
    number = stepping.fences.ticket([targets.partitions(CATALOG, DATABASE, b"t")])
    stepping.step()
    assert stepping.writer.meta.done_ticket == number
    assert stepping.cycle.work is not None
    assert [load.after for load in stepping.cycle.work.loads.values()] == [b"p=%05d" % (CHUNK - 1)]
    stepping.settle()
    assert stepping.same(catalog, b"t") == PARTITIONS


def test_partitions_that_a_write_names_do_not_unload_their_table(catalog: Catalog, stepping: Stepping) -> None:
    """Statistics that Hive 3.1 does not log: a ticket with the partition's name. One that is spelt in another way than
    the metastore spells it stands for all of them."""
    stepping.settle()
    named = [targets.called(CATALOG, DATABASE, b"t", b"p=%05d" % number) for number in range(3)]
    stepping.fences.ticket([targets.table(CATALOG, DATABASE, b"t"), *named])
    before = stepping.step().partitions
    assert (before, stepping.loaded(b"t")) == (3, True)
    stepping.fences.ticket([targets.called(CATALOG, DATABASE, b"t", b"P=00001")])
    stepping.step()
    assert not stepping.loaded(b"t")
    stepping.settle()
    assert stepping.same(catalog, b"t") == PARTITIONS


def test_a_quarter_of_a_large_table_is_read_by_name(catalog: Catalog, stepping: Stepping) -> None:
    stepping.settle()
    key = (CATALOG, DATABASE, b"t")
    for named, stays in ((PARTITIONS // 4, True), (PARTITIONS // 4 + 1, False)):
        stepping.fences.ticket([targets.called(*key, b"p=%05d" % number) for number in range(named)])
        stepping.step()
        assert stepping.loaded(b"t") is stays
    assert named < MAX_NAMED


def test_tickets_with_names() -> None:
    key = (CATALOG, DATABASE, b"t")
    name = b"a=1/b=x\0y"
    asked = requested({targets.called(*key, name)})
    assert asked == Affected(
        tables=frozenset({key}),
        partitions={key: frozenset({name})},
        targets=frozenset({targets.table(*key)}),
        called=frozenset({(key, name)}),
    )
    both = requested({targets.called(*key, name), targets.partitions(*key)})
    assert both.partitions == {key: None}
    assert targets.whole(targets.called(*key, name)) == targets.partitions(*key)


@pytest.mark.parametrize(
    ("name", "keys", "spelt"),
    [
        (b"a=1/b=2", (b"a", b"b"), True),
        (b"b=2/a=1", (b"a", b"b"), False),
        (b"A=1/b=2", (b"a", b"b"), False),
        (b"a=1", (b"a", b"b"), False),
        (b"a=x%3Ay", (b"a",), True),
        (b"a=x:y", (b"a",), False),
        (b"a=x%3ay", (b"a",), False),
        (b"a=", (b"a",), False),
        (b"a=__HIVE_DEFAULT_PARTITION__", (b"a",), True),
        (b"", (b"a",), False),
    ],
)
def test_names_as_the_metastore_spells_them(name: bytes, keys: tuple[bytes, ...], spelt: bool) -> None:
    assert is_name(name, keys) is spelt
