"""hmsclient and pymetastore, two clients from PyPI, through the proxy: what they say is what they say without it.

Both call get_table, which Hive 4.2 no longer has: there they work through the proxy only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import NoSuchObjectException
from hmsclient.hmsclient import HMSClient
from pymetastore.metastore import HMS
from thrift.Thrift import TApplicationException, TException

from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import wait_until

pytestmark = pytest.mark.real
TABLE = "sales"
VALUES = ("2024-01-01", "2024-01-02", "x y=/z")
ROUNDS = 4
Call = Callable[[Any], Any]


@pytest.fixture(params=["hive42", "hive31"])
def metastore(request: pytest.FixtureRequest, bed: Bed) -> Metastore:
    return bed.shared(request.param)


@pytest.fixture
def database(metastore: Metastore, unique_name: str) -> Iterator[str]:
    """One database with a partitioned table, a plain one and a view."""
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, unique_name, {"k": "v"})
        made = objects.create_table(client, objects.table(unique_name, TABLE, partition_keys=(("dt", "string"),)))
        objects.add_partitions(client, made, [(value,) for value in VALUES])
        objects.create_table(client, objects.table(unique_name, "plain"))
        yield unique_name
        client.drop_database(unique_name, True, True)


@pytest.fixture
def proxy(metastore: Metastore, database: str, new_proxy: Callable[..., Proxy]) -> Proxy:
    return new_proxy(metastore, settings={"LIST_ORDER": "name"})


def outcome(call: Call, client: Any) -> Any:
    """What a call gives, exceptions as text: their classes are each client's own."""
    try:
        return call(client)
    except TException as error:
        return type(error).__name__, getattr(error, "message", "")


def comparable(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else value


def compare(calls: dict[str, Call], direct: Any, proxied: Any) -> None:
    """Cold and from the cache. What the metastore does not know may be known to the proxy."""
    for _ in range(ROUNDS):
        time.sleep(0.3)  # after a relayed read a connection's reads wait for the follower's next step
        for name, call in calls.items():
            own, got = outcome(call, direct), outcome(call, proxied)
            if isinstance(own, tuple) and own[0] == TApplicationException.__name__ and "Invalid method" in own[1]:
                assert not isinstance(got, tuple), (name, got)
            else:
                assert comparable(got) == comparable(own), name


def answered_from_the_cache(wanted: set[str], proxy: Proxy, again: Callable[[], None]) -> None:
    """The calls of these methods, at last: `again` makes all once more, where steps of the follower take long."""

    def answered() -> bool:
        if wanted <= {method for (method, how, _), count in proxy.requests().items() if how == "hit" and count}:
            return True
        again()
        return False

    assert wait_until(answered), proxy.requests()


@pytest.mark.covers("hmsclient's usual calls", "hive42", "hive31", cache="SQL")
def test_hmsclient(metastore: Metastore, database: str, proxy: Proxy) -> None:
    calls: dict[str, Call] = {
        "databases": lambda c: c.get_all_databases(),
        "matching": lambda c: c.get_databases(database[:-1] + "*"),
        "database": lambda c: c.get_database(database),
        "absent database": lambda c: c.get_database("no_such_db"),
        "tables": lambda c: c.get_all_tables(database),
        "matching tables": lambda c: c.get_tables(database, "pl*"),
        "table": lambda c: c.get_table(database, TABLE),
        "absent table": lambda c: c.get_partitions_by_names(database, "absent", ["dt=1"]),
        "fields": lambda c: c.get_fields(database, TABLE),
        "schema": lambda c: c.get_schema(database, TABLE),
        "partition names": lambda c: c.get_partition_names(database, TABLE, -1),
        "partitions": lambda c: c.get_partitions(database, TABLE, 2),
        "by names": lambda c: c.get_partitions_by_names(database, TABLE, [f"dt={value}" for value in VALUES[:2]]),
        "is there": lambda c: c.check_for_named_partition(database, TABLE, f"dt={VALUES[0]}"),
        "is not there": lambda c: c.check_for_named_partition(database, TABLE, "dt=none"),
        "filter": lambda c: c.get_partitions_by_filter(database, TABLE, 'dt >= "2024-01-02"', -1),
        "functions": lambda c: c.get_functions(database, "*"),
        "event id": lambda c: c.get_current_notification_id(),
    }
    with HMSClient(*(None, None), *metastore.address) as direct, HMSClient(*(None, None), *proxy.address) as proxied:
        compare(calls, direct, proxied)
        table = proxied.get_table(database, TABLE)
        proxied.add_partition(table, ["new"])  # and what it has written it reads
        assert proxied.check_for_named_partition(database, TABLE, "dt=new")
        proxied.drop_partitions(database, TABLE, ["dt=new"])
        with pytest.raises(NoSuchObjectException):
            proxied.get_partition_by_name(database, TABLE, "dt=new")
        wanted = {"get_table", "get_database", "get_partitions", "get_partition_names", "get_partitions_by_names"}
        if metastore.flavour.version.startswith("4."):
            wanted.remove("get_database")  # default rewrites its location
        answered_from_the_cache(wanted, proxy, lambda: compare(calls, direct, proxied))


@pytest.mark.covers("pymetastore's usual calls", "hive42", "hive31", cache="SQL")
def test_pymetastore(metastore: Metastore, database: str, proxy: Proxy) -> None:
    calls: dict[str, Call] = {
        "databases": lambda c: c.list_databases(),
        "database": lambda c: c.get_database(database),
        "tables": lambda c: c.list_tables(database),
        "columns": lambda c: c.list_columns(database, TABLE),
        "table": lambda c: c.get_table(database, TABLE),
        "partition names": lambda c: c.list_partitions(database, TABLE),
        "partitions": lambda c: c.get_partitions(database, TABLE),
        "partition": lambda c: c.get_partition(database, TABLE, f"dt={VALUES[0]}"),
        "absent partition": lambda c: c.get_partition(database, TABLE, "dt=none"),
    }
    with HMS.create(*metastore.address) as direct, HMS.create(*proxy.address) as proxied:
        compare(calls, direct, proxied)
        table = proxied.get_table(database, TABLE)
        for _ in range(2):
            assert outcome(lambda c: c.get_table_stats(table), proxied) == outcome(
                lambda c: c.get_table_stats(table), direct
            )
        wanted = {"get_table", "get_partitions", "get_partition_names", "get_partition_by_name", "get_all_tables"}
        answered_from_the_cache(wanted, proxy, lambda: compare(calls, direct, proxied))
