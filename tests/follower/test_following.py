"""A follower over a real Hive 4.2: after changes of every kind, each cached object equals the metastore's answer."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from statistics import median

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.entries import ABSENT, TableEntry
from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.consistency.mirror import FenceMirror
from hms_cache_proxy.follower import messages
from tests.chance import chance
from tests.differential import contents
from tests.differential.changes import Changes
from tests.follower.harness import CATALOG, Comparison, Followed
from tests.lengths import by_tier
from tests.store.oracle import Oracle
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real
Follow = Callable[..., Followed]
ROUNDS = int(by_tier(test=3, all=12, every=12))
KILLS = int(by_tier(test=3, all=8, every=8))
LARGE = int(by_tier(test=900, all=3000, every=3000))
STEADY = int(by_tier(test=50, all=200, every=200))


def entry(followed: Followed, database: str, table: str) -> TableEntry:
    with followed.reader.snapshot() as cache:
        found = cache.table(CATALOG, database.encode(), table.encode())
    assert isinstance(found, TableEntry)
    return found


def changed(followed: Followed, changes: Changes) -> None:
    """One random change. A truncate_table with a list of no partitions resets statistics and leaves no event: it is
    followed by the tickets that a proxy takes for it."""
    if changes.one() == "change_truncate":
        tables = [b"%b\0%b\0%b" % (CATALOG, t.database.encode(), t.name.encode()) for t in changes.world.tables]
        followed.fences.ticket([kind + table for table in tables for kind in (b"t", b"p")])


@pytest.mark.parametrize("chunk", [10_000, 20])
def test_random_changes(
    hms42: Metastore, client42: MetastoreClient, oracle: Oracle, follow: Follow, name: str, chunk: int
) -> None:
    """`chunk` 20: most tables are loaded in chunks."""
    world = contents.fill(client42, name, random.randrange(10**6), databases=2, partitions=6)
    changes = Changes(world, client42)
    followed = follow(hms42, follower__prewarm_chunk=chunk)
    comparison = Comparison(followed, oracle, name)
    for _ in range(ROUNDS):
        followed.loaded()
        comparison.all()
        for _ in range(10):
            changed(followed, changes)
    followed.loaded()
    comparison.all()
    assert min(comparison.tables, comparison.partitions) > 100 * ROUNDS / 12, changes.done


def test_changes_during_prewarm(
    hms42: Metastore, client42: MetastoreClient, oracle: Oracle, follow: Follow, name: str
) -> None:
    world = contents.fill(client42, name, random.randrange(10**6), databases=2, partitions=8)
    changes = Changes(world, client42)
    followed = follow(hms42, follower__prewarm_chunk=10)
    while not followed.page[Slot.PREWARM_DONE]:
        changed(followed, changes)
    followed.loaded()
    Comparison(followed, oracle, name).all()


def test_partitions_are_named_as_the_metastore_names_them(
    hms42: Metastore, client42: MetastoreClient, oracle: Oracle, follow: Follow, name: str
) -> None:
    objects.create_database(client42, name)
    keys = (("P", "string"), ("n", "int"))
    table = objects.create_table(client42, objects.table(name, "t", partition_keys=keys))
    followed = follow(hms42)
    followed.loaded()
    values = [(text[:255], "1") for text in contents.STRING_VALUES] + [("x", n) for n in ("0", "-1", "10", "007", "")]
    awkward = "\x01\x1f\x7f\"#%'*/:=?\\{[]^", "}~!$&()+,-.;<>@_`|", "a\nb", "", "é"
    for number, one in enumerate([*values, *((text, "2") for text in awkward)]):
        partition = objects.partition(table, one)
        partition.sd.location = f"{table.sd.location}/at{number}"
        client42.add_partition(partition)
        made = messages.partition_name([b"P", b"n"], [value.encode() for value in one])
        assert made in {found.encode() for found in client42.get_partition_names(name, "t", -1)}, one
    followed.loaded()
    Comparison(followed, oracle, name).all()


def test_large_table_is_loaded_in_chunks_while_it_changes(
    hms42: Metastore, client42: MetastoreClient, oracle: Oracle, follow: Follow, name: str
) -> None:
    """Partitions are added, changed and dropped before and behind the chunk that is being loaded."""
    objects.create_database(client42, name)
    table = objects.create_table(client42, objects.table(name, "t", partition_keys=(("p", "string"),)))
    objects.add_partitions(client42, table, [(f"{n:05d}",) for n in range(LARGE)])
    followed = follow(hms42, follower__prewarm_chunk=LARGE // 20)
    followed.until(lambda: followed.page[Slot.BEGAN_NS] > 0)
    rng, steps = chance("a load"), 0
    while not followed.page[Slot.PREWARM_DONE] or steps < 20:
        steps += 1
        changed = client42.get_partition(name, "t", [f"{rng.randrange(LARGE // 3):05d}"])
        changed.parameters["changed"] = str(steps)
        client42.alter_partition(name, "t", changed)
        client42.drop_partition(name, "t", [f"{LARGE // 3 + steps * (LARGE // 428):05d}"], False)
        objects.add_partitions(client42, table, [(f"{rng.randrange(LARGE):05d}x{steps}",)])
        if steps == 10:  # wholesale: the load begins again
            altered = client42.get_table_req(objects_request(name, "t")).table
            altered.sd.cols.append(contents.FieldSchema("late", "int", None))
            context = contents_context({"CASCADE": "true"})
            client42.alter_table_with_environment_context(name, "t", altered, context)
    followed.loaded()
    comparison = Comparison(followed, oracle, name)
    comparison.all()
    assert comparison.partitions == LARGE
    altered = client42.get_table_req(objects_request(name, "t")).table
    altered.tableName = "renamed"
    client42.alter_table(name, "t", altered)
    followed.confirmed()
    assert not entry(followed, name, "renamed").partitions_loaded  # not the old ones for a moment
    followed.loaded()
    comparison.all()


def objects_request(database: str, table: str) -> object:
    from hive_metastore.ttypes import GetTableRequest

    return GetTableRequest(dbName=database, tblName=table)


def contents_context(properties: dict[str, str]) -> object:
    from hive_metastore.ttypes import EnvironmentContext

    return EnvironmentContext(properties)


def test_killed_at_any_time(
    hms42: Metastore, client42: MetastoreClient, oracle: Oracle, follow: Follow, name: str
) -> None:
    """kill -9 in prewarm, in the middle of steps, at rest: the cursor never goes back, the contents are right."""
    world = contents.fill(client42, name, random.randrange(10**6), databases=2, partitions=8)
    followed = follow(hms42, follower__prewarm_chunk=200)
    stop = threading.Event()

    def write() -> None:
        with MetastoreClient(*hms42.address) as client:
            changes = Changes(world, client)
            while not stop.is_set():
                changed(followed, changes)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        rng, reached, generation = chance("kills"), 0, 0
        for _ in range(KILLS):
            followed.until(lambda: followed.page[Slot.BEGAN_NS] > 0)
            time.sleep(rng.random())
            followed.kill()
            assert followed.page[Slot.CURSOR] >= reached
            reached, generation = followed.page[Slot.CURSOR], followed.page[Slot.GENERATION]
            followed.start()
            followed.until(lambda: followed.page[Slot.BEGAN_NS] > 0)
            assert followed.page[Slot.CURSOR] >= reached
            assert followed.page[Slot.GENERATION] == generation, "a warm restart reloads nothing"
    finally:
        stop.set()
        writer.join()
    followed.loaded()
    Comparison(followed, oracle, name).all()


def test_ends_in_order_and_continues(
    hms42: Metastore, client42: MetastoreClient, oracle: Oracle, follow: Follow, name: str
) -> None:
    objects.create_database(client42, name)
    objects.create_table(client42, objects.table(name, "before"))
    followed = follow(hms42)
    followed.loaded()
    generation = followed.page[Slot.GENERATION]
    assert followed.kill(signal.SIGTERM) == 0
    objects.create_table(client42, objects.table(name, "while_away"))
    client42.drop_table(name, "before", False)
    followed.start()
    followed.loaded()
    Comparison(followed, oracle, name).all()
    assert followed.page[Slot.GENERATION] == generation


def test_tickets(hms42: Metastore, client42: MetastoreClient, follow: Follow, name: str) -> None:
    """A reload is done for what leaves no event, and versions rise."""
    objects.create_database(client42, name)
    table = objects.create_table(client42, objects.table(name, "t", partition_keys=(("p", "string"),)))
    objects.add_partitions(client42, table, [("1",), ("2",)])
    followed = follow(hms42)
    followed.loaded()
    assert hms42.database is not None
    with hms42.database.connect() as connection, connection.cursor() as cursor:
        one = """from "TBLS" t join "DBS" d using ("DB_ID") where t."TBL_NAME" = 't' and d."NAME" = %s"""
        cursor.execute(
            f'delete from "PARTITION_PARAMS" where "PART_ID" in (select "PART_ID" from "PARTITIONS" p '
            f'where p."TBL_ID" in (select t."TBL_ID" {one}))',
            (name,),
        )
        cursor.execute(f"insert into \"TABLE_PARAMS\" select t.\"TBL_ID\", 'unlogged', '1' {one}", (name,))
    followed.confirmed()
    assert b"unlogged" not in (entry(followed, name, "t").body or b"")
    target = targets.table(CATALOG, name.encode(), b"t")
    with followed.reader.snapshot() as cache:
        before = cache.version(target)
        partitions = cache.partitions(entry(followed, name, "t"), [b"p=1"])
    followed.ticket(target)
    with followed.reader.snapshot() as cache:
        assert cache.version(target) > before
        assert b"unlogged" in (entry(followed, name, "t").body or b"")
        assert cache.partitions(entry(followed, name, "t"), [b"p=1"]) == partitions
    followed.ticket(b"p" + target[1:])
    with followed.reader.snapshot() as cache:
        assert cache.partitions(entry(followed, name, "t"), [b"p=1"]) != partitions


def test_a_lock_is_lifted_by_a_step_that_finds_nothing_to_do(
    hms42: Metastore, client42: MetastoreClient, follow: Follow, name: str
) -> None:
    """Its ticket asks for no refetch: the number alone is published, and the next number lifts the next lock."""
    objects.create_database(client42, name)
    objects.create_table(client42, objects.table(name, "t"))
    followed = follow(hms42, include=f"{name}.*")
    followed.loaded()
    target = targets.table(CATALOG, name.encode(), b"t")
    mirror = FenceMirror(followed.fences)
    with followed.reader.snapshot() as cache:
        before, loaded = cache.meta, cache.version(target)
    for _ in range(3):
        number = followed.fences.fence_now([target])
        assert mirror.active([target], number - 1)
        followed.until(lambda number=number: followed.page[Slot.DONE_TICKET] >= number)  # type: ignore[misc]
        with followed.reader.snapshot() as cache:
            after = cache.meta
            assert not mirror.active([target], after.done_ticket)
            assert cache.version(target) == loaded, "nothing was read again"
    assert after.done_ticket == before.done_ticket + 3 and after.cursor == before.cursor
    followed.until(lambda: followed.fences.read()[1] == {})  # what has lifted them is published before they are deleted


def test_include_and_exclude(hms42: Metastore, client42: MetastoreClient, follow: Follow, name: str) -> None:
    objects.create_database(client42, name)
    for table in ("kept", "tmp_1"):
        objects.create_table(client42, objects.table(name, table))
    followed = follow(hms42, include=f"{name}.*", exclude="re:.*[.]tmp_.*")
    followed.loaded()
    objects.create_table(client42, objects.table(name, "tmp_2"))
    followed.confirmed()
    assert entry(followed, name, "kept").body is not None
    for table in ("tmp_1", "tmp_2"):
        assert entry(followed, name, table).body is None
        assert entry(followed, name, table).reason_not_loaded == "excluded"
    with followed.reader.snapshot() as cache:
        assert cache.table(CATALOG, name.encode(), b"tmp_3") is ABSENT
        listed = cache.table_list(CATALOG, name.encode())
    assert listed is not None and [table for table, *_ in listed] == [b"kept", b"tmp_1", b"tmp_2"]


def test_latency_under_steady_changes(
    hms42: Metastore, client42: MetastoreClient, oracle: Oracle, follow: Follow, name: str
) -> None:
    """From the commit at the metastore to the commit in the cache, while tables change all the time."""
    objects.create_database(client42, name)
    tables = [
        objects.create_table(client42, objects.table(name, f"t{n}", partition_keys=(("p", "string"),)))
        for n in range(10)
    ]
    followed = follow(hms42)
    followed.loaded()
    waits: list[float] = []
    for number in range(STEADY):
        objects.add_partitions(client42, tables[number % 10], [(str(number),)])
        event_id = client42.get_current_notificationEventId().eventId
        began_s = time.monotonic()
        followed.until(lambda wanted=event_id: followed.page[Slot.CURSOR] >= wanted)  # type: ignore[misc]
        waits.append(time.monotonic() - began_s)
    Comparison(followed, oracle, name).all()
    assert median(waits) < 2, f"median {median(waits):.3f} s"  # 0.03 s on an idle machine
