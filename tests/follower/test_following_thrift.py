"""The follower with no database to read: everything comes from the metastore itself, while others change it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from hive_metastore.ttypes import (  # type: ignore[import-untyped]  # generated
    AllocateTableWriteIdsRequest,
    CommitTxnKeyValue,
    CommitTxnRequest,
    GetTableRequest,
    OpenTxnRequest,
)

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.state import Slot
from tests.follower.harness import CATALOG, Comparison, Followed
from tests.lengths import by_tier, lasting
from tests.store.oracle import Oracle
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real
TORN_S = by_tier(test=5, all=40, every=40)
Follow = Callable[..., Followed]


@pytest.fixture
def thrift(follow: Follow) -> Follow:
    return partial(follow, store="thrift")


def test_concurrent_changes_are_never_shown_torn(
    hms42: Metastore, client42: MetastoreClient, oracle: Oracle, thrift: Follow, name: str
) -> None:
    """Writers drop, create, rename and change tables all the time. A table and its partitions carry a number that grows
    with every change; in no commit of the cache is there a table, not held back, that mixes two of them."""
    objects.create_database(client42, name)
    stop = threading.Event()

    def write(number: int) -> None:
        with MetastoreClient(*hms42.address) as client:
            version = 0
            while not stop.is_set():
                version += 1
                names = [f"t{number}", f"t{number}_renamed"]
                definition = objects.table(name, names[0], partition_keys=(("p", "string"),))
                definition.parameters["version"] = str(version)
                table = objects.create_table(client, definition)
                objects.add_partitions(client, table, [(f"{version}_{n}",) for n in range(30)])
                time.sleep(random.random() * 0.3)  # else nothing is there for long enough to be loaded
                table.tableName = names[1]
                client.alter_table(name, names[0], table)
                client.drop_table(name, names[1], False)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        followed = thrift(hms42, include=f"{name}.*")
        followed.until(lambda: followed.page[Slot.BEGAN_NS] > 0)
        seen = {"tables": 0, "partitions": 0, "held": 0, "commits": 0}
        going_on = lasting(TORN_S, lambda: enough(seen))
        while going_on():
            before = followed.page[Slot.CACHE_SEQ]
            followed.until(lambda before=before: followed.page[Slot.CACHE_SEQ] > before)  # type: ignore[misc]
            _check(followed, name, seen)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert enough(seen), seen
    followed.loaded()
    Comparison(followed, oracle, name).all()


@pytest.mark.parametrize("begun", ["before the cache", "before a restart"])
def test_a_transaction_that_ends_after_a_restart_of_the_follower(
    hms42: Metastore, client42: MetastoreClient, oracle: Oracle, thrift: Follow, name: str, begun: str
) -> None:
    """Nothing but the log told which table it writes, and that was read by the process before, or by none."""
    objects.create_database(client42, name)
    objects.create_table(client42, objects.table(name, "t", parameters={"_meta_k": "0"}))
    table = client42.get_table_req(GetTableRequest(dbName=name, tblName="t")).table
    if begun == "before a restart":
        followed = thrift(hms42, include=f"{name}.*", follower__revalidate_interval_s=3600)
        followed.loaded()
    transaction = client42.open_txns(OpenTxnRequest(1, "tests", "tests")).txn_ids[0]
    client42.allocate_table_write_ids(AllocateTableWriteIdsRequest(name, "t", txnIds=[transaction]))
    if begun == "before the cache":
        followed = thrift(hms42, include=f"{name}.*", follower__revalidate_interval_s=3600)
        followed.loaded()
    followed.confirmed()
    followed.kill()
    followed.start()
    followed.confirmed()
    client42.commit_txn(CommitTxnRequest(transaction, keyValue=CommitTxnKeyValue(table.id, "_meta_k", "42")))
    followed.confirmed()
    Comparison(followed, oracle, name).all()
    with followed.reader.snapshot() as cache:
        entry = cache.table(CATALOG, name.encode(), b"t")
        assert isinstance(entry, TableEntry) and entry.body is not None
        assert b"_meta_k\x00\x00\x00\x0242" in entry.body


def enough(seen: dict[str, int]) -> bool:
    """Was there something to be torn?"""
    return seen["partitions"] > 100 and seen["held"] > 5


def _check(followed: Followed, database: str, seen: dict[str, int]) -> None:
    """One commit: what is not held back fits together."""
    with followed.reader.snapshot() as cache:
        seen["commits"] += 1
        seen["held"] += bool(cache.meta.held)
        listed = cache.table_list(CATALOG, database.encode())
        if listed is None or cache.holds((targets.tables(CATALOG, database.encode()),)):
            return
        for number in range(3):
            mine = [name for name, *_ in listed if name.startswith(b"t%d" % number)]
            assert len(mine) <= 1, "a table under both of its names"
        for name, *_ in listed:
            if cache.holds((targets.table(CATALOG, database.encode(), name),)):
                continue
            entry = cache.table(CATALOG, database.encode(), name)
            if not isinstance(entry, TableEntry) or entry.body is None:
                continue
            seen["tables"] += 1
            version = entry.body.partition(b"version\x00\x00\x00")[2]
            found = version[1 : 1 + version[0]]
            if entry.partitions_loaded:
                names = cache.partition_names(entry)
                seen["partitions"] += len(names)
                assert len(names) in (0, 30), names
                assert all(one.startswith(b"p=%b_" % found) for one in names), (found, names)
