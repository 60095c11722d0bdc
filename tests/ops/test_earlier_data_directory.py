"""The present version starts on data directories that an earlier one left behind.

The cache is rebuilt if its format has changed. Writes that were under way stay fenced, and a time in which the log was
not followed is not forgotten. Where a cache of the present format goes on to be used, that takes more. To see it, a
stored directory is made one of the test's own metastore, in which every table is newer than in the cache, and its cache
is converted to the present format: what is read from it is old.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import lmdb
import pytest

from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.environment import DATABASES, boot_id
from hms_cache_proxy.cache.identity import identity_row
from hms_cache_proxy.cache.layout import Meta
from hms_cache_proxy.consistency.fence_rows import open_environment
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.ops.earlier_data_directory import (
    DATABASE,
    EARLIER,
    FORMAT,
    IN_FLIGHT,
    LATER,
    QUIET,
    REPLIED,
    TABLES,
    VERSION,
    converted,
    converted_object,
    unpack,
)
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

ANOTHER_BOOT = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def metastore(new_metastore: Callable[..., Metastore]) -> Metastore:
    """One with the tables of the stored directories, each of them newer than there."""
    made = new_metastore("hive42")
    with MetastoreClient(*made.address) as client:
        client.get_metastore_db_uuid()  # makes it
        objects.create_database(client, DATABASE)
        for name in TABLES:
            keys, parameters = (("day", "string"),), {VERSION: LATER}
            objects.create_table(client, objects.table(DATABASE, name, partition_keys=keys, parameters=parameters))
    return made


@pytest.fixture
def proxy(tmp_path: Path, metastore: Metastore) -> Iterator[Proxy]:
    """A proxy that is not started. It reads again only what it must, and is confirmed on a busy machine, too."""
    assert metastore.database is not None
    settings = {"FOLLOWER_REVALIDATE_INTERVAL_S": "3600", "MAX_UNCONFIRMED_MS": "60000"}
    made = Proxy(tmp_path / "proxy", metastore.uri, metastore.database.reader_url, settings=settings)
    yield made
    made.close()


def adopt(data: Path, metastore: Metastore) -> None:
    """Make a data directory one of this metastore, of this run of the machine, up to the last event of the log. Its
    cache has the present format then."""
    assert metastore.database is not None
    store = open_sql_store(metastore.database.reader_url)
    with store.snapshot() as snapshot:
        cursor, fingerprint = snapshot.event_id, snapshot.fingerprint(snapshot.event_id)
    with lmdb.open(str(data / "cache"), max_dbs=len(DATABASES)) as cache:
        meta = cache.open_db(b"meta", create=False)
        with cache.begin(write=True, db=meta) as txn:
            identity, row = txn.get(layout.IDENTITY_KEY), txn.get(layout.META_KEY)
            assert identity is not None and row is not None
            scope, known = json.loads(identity)["scope"], Meta.unpack(converted(row))
            txn.put(layout.IDENTITY_KEY, identity_row(store.identity, scope))
            txn.put(layout.META_KEY, replace(known, cursor=cursor, fingerprint=fingerprint).pack())
        stored = cache.open_db(b"objects", create=False)
        with cache.begin(write=True, db=stored) as txn:
            for key, row in list(txn.cursor()):
                txn.put(key, converted_object(key, row))
    store.close()
    boot(data, boot_id())


def boot(data: Path, run: str) -> None:
    """Have the cache and the fences written in this run of a machine."""
    with lmdb.open(str(data / "cache"), max_dbs=len(DATABASES)) as cache:
        meta = cache.open_db(b"meta", create=False)
        with cache.begin(write=True, db=meta) as txn:
            txn.put(layout.BOOT_KEY, run.encode())
    fences = open_environment(data / "fences")
    with fences.begin(write=True) as txn:
        txn.put(b"b", run.encode())
    fences.close()


def versions(proxy: Proxy) -> dict[str, str]:
    """What readers of each table see."""
    with MetastoreClient(*proxy.address) as client:
        return {name: objects.read_table(client, DATABASE, name).parameters[VERSION] for name in TABLES}


def outcomes(proxy: Proxy) -> dict[tuple[str, str], float]:
    """Of reads of tables: how many had this outcome and reason."""
    return {key[1:]: count for key, count in proxy.requests().items() if key[0] == "get_table_req"}


def serving(proxy: Proxy) -> Proxy:
    """Start it; it answers from its cache as far as it may."""
    proxy.start(prewarmed=True)
    proxy.wait(lambda: proxy.status()["mode"] == "cache", "serving")
    return proxy


def test_pending_fences_are_honoured(proxy: Proxy, metastore: Metastore) -> None:
    """The cache goes on to be used. What had its reply is reloaded; what was in flight may still be carried out."""
    adopt(unpack("fences", proxy.directory), metastore)
    serving(proxy)
    assert versions(proxy) == {QUIET: EARLIER, REPLIED: LATER, IN_FLIGHT: LATER}
    assert outcomes(proxy) == {("hit", ""): 2, ("miss", "fence"): 1}


def test_a_time_that_was_not_followed_is_not_forgotten(proxy: Proxy, metastore: Metastore) -> None:
    data = unpack("not_followed", proxy.directory)
    adopt(data, metastore)
    serving(proxy)
    assert versions(proxy) == dict.fromkeys(TABLES, LATER)
    assert outcomes(proxy) == {("hit", ""): 3}
    assert proxy.metric("hms_proxy_resets_total", reason="not_followed") == 1
    assert not (data / "not_followed").exists()


def test_a_directory_of_another_run_of_the_machine(proxy: Proxy) -> None:
    """What lies there is not known to be whole: the cache is rebuilt, and any write may be in flight."""
    boot(unpack("fences", proxy.directory), ANOTHER_BOOT)
    serving(proxy)
    assert versions(proxy) == dict.fromkeys(TABLES, LATER)
    assert outcomes(proxy) == {("miss", "fence"): 3}
    assert "the cache that was there is not used" in proxy.log.read_text()


@pytest.mark.parametrize("name", ["fences", "not_followed"])
def test_a_directory_of_an_earlier_format(proxy: Proxy, name: str) -> None:
    """The cache is rebuilt; the fences are kept."""
    data = unpack(name, proxy.directory)
    boot(data, boot_id())
    serving(proxy)
    assert versions(proxy) == dict.fromkeys(TABLES, LATER)
    fenced = name == "fences"
    assert outcomes(proxy) == ({("hit", ""): 2, ("miss", "fence"): 1} if fenced else {("hit", ""): 3})
    assert not (data / "not_followed").exists()
    log = proxy.log.read_text()
    assert "the cache that was there is not used" in log
    assert f"of another format version (format {FORMAT}, now {layout.FORMAT})" in log
