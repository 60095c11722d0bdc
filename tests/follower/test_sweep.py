"""The slow sweep: what it looks at and when, and that it finds what a real metastore changed without an event."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hms_cache_proxy.follower.sweep import TABLES_PER_STEP, Sweep
from tests.follower.conftest import Follow
from tests.follower.harness import Comparison
from tests.store.oracle import Oracle
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.write_ids.transactions import Transactions, struct


def test_passes_do_not_overlap() -> None:
    tables = [(b"hive", b"d", b"t%04d" % number) for number in range(2 * TABLES_PER_STEP + 1)]
    sweep = Sweep(10, now_s=100)
    assert not sweep.due(109) and sweep.next() == []
    assert sweep.due(110)
    sweep.begin(tables, 110)
    assert not sweep.due(200)  # some are left
    assert sweep.next() + sweep.next() + sweep.next() == tables
    assert not sweep.due(119) and sweep.due(120)
    assert not Sweep(0, now_s=0).due(10**9)


@pytest.mark.real
def test_finds_a_change_without_an_event(new_metastore: Callable[..., Metastore], follow: Follow) -> None:
    """A commit that sets a parameter of a table which its transaction has no write id for."""
    metastore = new_metastore("hive42")
    with Transactions(*metastore.address) as direct, Oracle(*metastore.address) as oracle:
        direct.create_database("d")
        with MetastoreClient(*metastore.address) as client:
            for name in ("changed", "same"):
                client.create_table(objects.table("d", name, parameters={"_meta_k": "0"}))
        followed = follow(metastore, follower__revalidate_interval_s=1)
        followed.confirmed()
        table_id = direct.table("d", "changed").id
        transaction = direct.open()
        direct.commit(transaction, keyValue=struct("CommitTxnKeyValue", tableId=table_id, key="_meta_k", value="42"))
        assert direct.table("d", "changed").parameters[b"_meta_k"] == b"42"
        followed.until(lambda: "changed without an event" in followed.log.read_text())
        followed.confirmed()
        Comparison(followed, oracle, "d").all()
        time.sleep(2.5)  # two more passes
        assert followed.log.read_text().count("changed without an event") == 1


@pytest.mark.real
def test_finds_a_database_altered_without_an_event(
    hms42: Metastore, client42: MetastoreClient, name: str, follow: Follow, oracle: Oracle
) -> None:
    """Over Thrift, where no mark of its row tells."""
    client42.create_database(objects.Database(name=name, description="before"))
    followed = follow(hms42, store="thrift", include=[f"{name}*.*"], follower__revalidate_interval_s=1)
    followed.loaded()
    altered = client42.get_database(name)
    altered.description = "after"
    client42.alter_database(name, altered)
    followed.until(lambda: "changed without an event" in followed.log.read_text())
    followed.confirmed()
    Comparison(followed, oracle, name).all()
