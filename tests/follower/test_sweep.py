"""The slow sweep: what it looks at and when, and that it finds what a real metastore changed without an event."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hive_metastore.ttypes import NotificationEventRequest  # type: ignore[import-untyped]  # generated

from hms_cache_proxy.cache.entries import ABSENT
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.config import load, paths
from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.follower.runner import Runner, WakeListener
from hms_cache_proxy.follower.sweep import TABLES_PER_STEP, Sweep
from tests.follower.conftest import Follow
from tests.follower.harness import CATALOG, Comparison
from tests.follower.stepping import Catalog, Stepping, new
from tests.store.oracle import Oracle, hms
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


def test_a_lost_connection_does_not_put_off_a_pass(tmp_path: Path) -> None:
    """Its interval began again with each failure of the store, so with one in each interval no pass ever came."""
    with Catalog(tmp_path) as catalog:
        directory = tmp_path / "data"
        directory.mkdir(mode=0o700)
        given = {"data_dir": str(directory), "store_url": catalog.url, "upstream": "thrift://127.0.0.1:1"}
        config = load(cli=given)
        with StatePage(paths.state(config), create=True) as page, WakeListener(config) as wakes:
            runner = Runner(config, page, wakes)
            before = runner._opened()
            before._sweep.begin([(b"hive", b"d", b"t")], time.monotonic())
            runner._failed(StoreError("the connection was lost"))
            after = runner._opened()
            assert after is not before and after._sweep.under_way
            runner._close()


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


@pytest.mark.parametrize("store", ["sql", "thrift"])
@pytest.mark.real
def test_a_remote_database_whose_drop_hive_does_not_log(
    hms42: Metastore, client42: MetastoreClient, name: str, follow: Follow, oracle: Oracle, store: str
) -> None:
    """Over SQL its mark tells, over Thrift the sweep."""
    remote, connector = f"{name}_remote", f"{name}_connector"
    of = hms.DataConnector(name=connector, type="mysql", url="jdbc:mysql://127.0.0.1:1/db")
    oracle.create_dataconnector_req(hms.CreateDataConnectorRequest(of))
    client42.create_database(objects.Database(name=name))
    kind = hms.DatabaseType.REMOTE
    oracle.create_database(hms.Database(name=remote, type=kind, connector_name=connector, remote_dbname="theirs"))
    settings: dict[str, Any] = {"store": "thrift", "follower__revalidate_interval_s": 1} if store == "thrift" else {}
    followed = follow(hms42, include=[f"{name}*.*"], **settings)
    followed.loaded()
    with followed.reader.snapshot() as cache:
        assert remote.encode() in (cache.database_list(CATALOG) or ())
    logged = client42.get_current_notificationEventId().eventId
    client42.drop_database(remote, False, False)
    oracle.drop_dataconnector_req(hms.DropDataConnectorRequest(connectorName=connector))
    if store == "thrift":
        followed.until(lambda: "changed without an event" in followed.log.read_text())
    followed.confirmed()
    Comparison(followed, oracle, name).all()
    rows = client42.get_next_notification(NotificationEventRequest(lastEvent=logged, maxEvents=100)).events
    assert not [row for row in rows if row.dbName == remote]


def test_a_database_that_goes_without_an_event_takes_what_is_evicted_in_the_same_step(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog, Stepping(tmp_path / "data", catalog) as stepping:
        catalog.call("create_database", database=new("Database", name=b"gone"))
        made = catalog.table(b"t", partitioned=False)
        made.dbName = b"gone"
        catalog.call("create_table", tbl=made)
        stepping.settle()
        stepping.settings = replace(stepping.settings, max_bytes=1)
        stepping.another_cycle()
        while stepping.cycle.collect():
            pass
        with closing(sqlite3.connect(catalog.file, timeout=60)) as connection, connection:
            for table in ("TBLS", "DBS"):
                ids = """(SELECT "DB_ID" FROM "DBS" WHERE "NAME" = 'gone')"""
                connection.execute(f'DELETE FROM "{table}" WHERE "DB_ID" IN {ids}')
        outcome = stepping.step()
        assert (outcome.rows, outcome.evicted, outcome.unlogged_tables) == (0, 2, ("hive.gone",))
        with stepping.reader.snapshot() as cache:
            assert cache.database_list(CATALOG) == [b"d", b"default"]
            assert cache.table(CATALOG, b"gone", b"t") is ABSENT
