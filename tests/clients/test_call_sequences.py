"""The calls that Trino and Impala make, in their order, through the proxy.

Neither runs here: these are their calls as their sources have them, ThriftHiveMetastoreClient of Trino and
MetastoreEventsProcessor of Impala. Trino 476 was seen to make the same (by hand: docs/compatibility.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hive_metastore.ttypes import (
    ClientCapabilities,
    ClientCapability,
    GetTableRequest,
    NotificationEventRequest,
    PartitionsStatsRequest,
    TableStatsRequest,
)
from thrift.Thrift import TApplicationException

from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real
TABLE = "events"
VALUES = ("2024-01-01", "2024-01-02", "2024-01-03")
NAMES = [f"dt={value}" for value in VALUES]
CAPABLE = ClientCapabilities([ClientCapability.INSERT_ONLY_TABLES])
POLLS = 10


@pytest.fixture(params=["hive42", "hive31"])
def metastore(request: pytest.FixtureRequest, bed: Bed) -> Metastore:
    return bed.shared(request.param)


def make(client: MetastoreClient, database: str) -> None:
    objects.create_database(client, database)
    table = objects.create_table(client, objects.table(database, TABLE, partition_keys=(("dt", "string"),)))
    objects.add_partitions(client, table, [(value,) for value in VALUES])


def trino(client: MetastoreClient, database: str) -> list[Any]:
    """SHOW TABLES, DESCRIBE, then a SELECT with a condition on the partition key, and its statistics."""
    found: list[Any] = [sorted(client.get_all_databases()), client.get_database(database)]
    found.append(sorted(table.tableName for table in client.get_table_meta(database, "*", [])))
    for _ in range(2):
        request = GetTableRequest(dbName=database, tblName=TABLE, capabilities=CAPABLE)
        found.append(client.get_table_req(request).table)
    found.append(client.get_partition_names_ps(database, TABLE, [VALUES[0]], -1))
    found.append(sorted(client.get_partition_names_ps(database, TABLE, [""], -1)))
    found.append(client.get_partitions_by_names(database, TABLE, NAMES))
    found.append(client.get_partition(database, TABLE, [VALUES[1]]))
    columns = [column.name for column in found[3].sd.cols]
    tables = TableStatsRequest(dbName=database, tblName=TABLE, colNames=columns, engine="hive")
    found.append(client.get_table_statistics_req(tables).tableStats)
    parts = PartitionsStatsRequest(dbName=database, tblName=TABLE, colNames=columns, partNames=NAMES, engine="hive")
    found.append(client.get_partitions_statistics_req(parts).partStats)
    return found


@pytest.mark.covers("Trino's sequence of calls", "hive42", "hive31", cache="SQL")
def test_trino(metastore: Metastore, new_proxy: Callable[..., Proxy], unique_name: str) -> None:
    """It tries one form of a call, and the next where the metastore does not know that."""
    with MetastoreClient(*metastore.address) as direct:
        make(direct, unique_name)
        proxy = new_proxy(metastore, settings={"LIST_ORDER": "name"})
        with MetastoreClient(*proxy.address) as client:
            own = trino(direct, unique_name)
            wanted = {"get_table_req", "get_partition_names_ps", "get_partitions_by_names", "get_partition"}
            if metastore.flavour.version.startswith("4."):
                wanted |= {"get_table_statistics_req", "get_partitions_statistics_req", "get_table_meta"}

            def answered_from_the_cache() -> bool:  # a connection's reads wait for the follower after a relayed one
                time.sleep(0.5)
                assert trino(client, unique_name) == own
                return wanted <= {method for (method, how, _) in proxy.told_requests() if how == "hit"}

            proxy.wait(answered_from_the_cache, "answering from its cache")
            if metastore.flavour.version.startswith("3."):
                with pytest.raises(TApplicationException) as unknown:
                    client.get_database_req(None)
                assert unknown.value.type == TApplicationException.UNKNOWN_METHOD
            assert client.get_table(unique_name, TABLE) is not None  # 4.2 does not have it, the proxy does
        direct.drop_database(unique_name, True, True)


@pytest.mark.covers("Impala's polling of events", "hive42", "hive31", cache="SQL")
def test_impala(metastore: Metastore, new_proxy: Callable[..., Proxy], unique_name: str) -> None:
    """It polls the log, and reads at once what the events name: that must not be older than they are."""
    with MetastoreClient(*metastore.address) as direct:
        make(direct, unique_name)
        proxy = new_proxy(metastore)
        with MetastoreClient(*proxy.address) as client:
            last = client.get_current_notificationEventId().eventId
            table = objects.read_table(direct, unique_name, TABLE)
            for number in range(POLLS):
                table.parameters["round"] = str(number)
                direct.alter_table(unique_name, TABLE, table)  # elsewhere
                assert client.get_current_notificationEventId().eventId > last
                events = client.get_next_notification(NotificationEventRequest(lastEvent=last, maxEvents=1000)).events
                assert any((event.dbName, event.tableName) == (unique_name, TABLE) for event in events)
                last = events[-1].eventId
                request = GetTableRequest(dbName=unique_name, tblName=TABLE)
                assert client.get_table_req(request).table.parameters["round"] == str(number)
                assert sorted(client.get_partition_names(unique_name, TABLE, -1)) == NAMES
        direct.drop_database(unique_name, True, True)
