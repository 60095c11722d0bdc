"""Each flavour of metastore starts, keeps objects, and writes its notification log where it should."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Callable

import pytest
from hive_metastore.ttypes import (  # type: ignore[import-untyped]  # generated
    InvalidObjectException,
    NoSuchObjectException,
    NotificationEventRequest,
    Table,
)
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TTransportException

from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.embedded import EMBEDDED
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import Collation, LocalPostgres, Postgres

pytestmark = pytest.mark.real


def events_since(client: MetastoreClient, event_id: int) -> list[tuple[str, str]]:
    """(type, database) of the events after one."""
    reply = client.get_next_notification(NotificationEventRequest(lastEvent=event_id, maxEvents=1000))
    return [(event.eventType, event.dbName) for event in reply.events]


def current_event(client: MetastoreClient) -> int:
    """The newest event id."""
    return int(client.get_current_notificationEventId().eventId)


def make_partitioned_table(client: MetastoreClient, db_name: str) -> Table:
    """A database with a table of nested columns and three partitions."""
    objects.create_database(client, db_name)
    new = objects.table(db_name, "t", objects.NESTED_COLUMNS, [("dt", "string"), ("hr", "int")])
    table = objects.create_table(client, new)
    assert objects.add_partitions(client, table, [("2024-01-01", str(hour)) for hour in range(3)]) == 3
    return table


@pytest.mark.parametrize("flavour", ["hive42", "hive42-mariadb", "hive40", "hive31", "hive23", *EMBEDDED])
def test_keeps_objects(bed: Bed, unique_name: str, flavour: str) -> None:
    with MetastoreClient(*bed.shared(flavour).address) as client:
        table = make_partitioned_table(client, unique_name)
        assert [(c.name, c.type) for c in table.sd.cols] == list(objects.NESTED_COLUMNS)
        assert client.get_partition_names(unique_name, "t", -1) == [f"dt=2024-01-01/hr={h}" for h in range(3)]
        assert table.sd.location.startswith("file:/")


@pytest.mark.parametrize("flavour", ["hive42", "hive42-mariadb", "hive31", "hive23", *EMBEDDED])
def test_listener_logs(bed: Bed, unique_name: str, flavour: str) -> None:
    with MetastoreClient(*bed.shared(flavour).address) as client:
        before = current_event(client)
        make_partitioned_table(client, unique_name)
        client.drop_database(unique_name, False, True)
        kinds = [kind for kind, name in events_since(client, before) if name == unique_name]
    # 2.3 says nothing of the tables that go with their database
    assert kinds[:3] == ["CREATE_DATABASE", "CREATE_TABLE", "ADD_PARTITION"]
    assert kinds[-1] == "DROP_DATABASE"


@pytest.mark.parametrize("flavour", ["hive42", "embedded-postgresql"])
def test_rows_reach_the_database_and_its_reader(bed: Bed, unique_name: str, flavour: str) -> None:
    metastore = bed.shared(flavour)
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, unique_name)
    assert metastore.database is not None
    with metastore.database.connect("hms_reader") as connection, connection.cursor() as cursor:
        cursor.execute(
            'SELECT "EVENT_TYPE", "MESSAGE_FORMAT", "MESSAGE" FROM "NOTIFICATION_LOG" WHERE "DB_NAME" = %s',
            (unique_name,),
        )
        [(kind, message_format, message)] = cursor.fetchall()
        assert (kind, message_format) == ("CREATE_DATABASE", "gzip(json-2.0)")
        assert json.loads(gzip.decompress(base64.b64decode(message)))["db"] == unique_name
        with pytest.raises(Exception, match="permission denied"):
            cursor.execute('DELETE FROM "NOTIFICATION_LOG"')


def test_get_table_is_gone_from_42_but_not_from_its_oracles(
    hms42: Metastore, hms40: Metastore, hms31: Metastore, hms23: Metastore, unique_name: str
) -> None:
    for metastore, has_it in ((hms42, False), (hms40, True), (hms31, True), (hms23, True)):
        with MetastoreClient(*metastore.address) as client:
            make_partitioned_table(client, unique_name)
            if has_it:
                assert client.get_table(unique_name, "t").tableName == "t"
            else:
                with pytest.raises(TApplicationException, match="Invalid method name: 'get_table'"):
                    client.get_table(unique_name, "t")


@pytest.mark.parametrize("flavour", ["hive42", "hive42-mariadb", "hive40", "hive31", *EMBEDDED])
def test_transactional_tables(bed: Bed, unique_name: str, flavour: str) -> None:
    with MetastoreClient(*bed.shared(flavour).address) as client:
        objects.create_database(client, unique_name)
        acid = objects.create_transactional_table(client, unique_name, "acid")
        assert acid.tableType == "MANAGED_TABLE" and acid.parameters["transactional"] == "true"
        only = objects.create_transactional_table(client, unique_name, "appendable", insert_only=True)
        assert only.parameters["transactional_properties"] == "insert_only"
        seen: list[int] = []
        assert objects.in_transaction(client, acid, lambda txn, write: seen.append(write)) == 1
        assert objects.in_transaction(client, acid, lambda txn, write: seen.append(write)) == 2
        assert seen == [1, 2]


def test_silent_flavours_log_nothing(new_metastore: Callable[..., Metastore], unique_name: str) -> None:
    for flavour in ("hive42-silent", "hive23-silent"):
        with MetastoreClient(*new_metastore(flavour).address) as client:
            objects.create_database(client, unique_name)
            if flavour == "hive23-silent":
                assert current_event(client) == 0
            else:
                with pytest.raises(TApplicationException, match="get_current_notificationEventId"):
                    current_event(client)


def test_notification_api_needs_authorization(new_metastore: Callable[..., Metastore], unique_name: str) -> None:
    metastore = new_metastore(settings={"metastore.event.db.notification.api.auth": "true"})
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, unique_name)
        with pytest.raises(TApplicationException, match="Internal error processing"):
            current_event(client)
    assert metastore.database is not None
    rows = metastore.database.rows('SELECT "EVENT_TYPE" FROM "NOTIFICATION_LOG" ORDER BY "EVENT_ID"')
    assert ("CREATE_DATABASE",) in rows


def test_cached_store(new_metastore: Callable[..., Metastore], unique_name: str) -> None:
    metastore = new_metastore("hive42-cached")
    with MetastoreClient(*metastore.address) as client:
        make_partitioned_table(client, unique_name)
        assert client.get_config_value("metastore.rawstore.impl", "").endswith("CachedStore")


def test_collation_changes_the_order_of_names(new_metastore: Callable[..., Metastore], unique_name: str) -> None:
    names = ["p=B", "p=_x", "p=a", "p=b"]
    orders = {}
    for collation in (Collation.C, Collation.EN_US):
        with MetastoreClient(*new_metastore(collation=collation).address) as client:
            objects.create_database(client, unique_name)
            new = objects.table(unique_name, "t", partition_keys=[("p", "string")])
            table = objects.create_table(client, new)
            objects.add_partitions(client, table, [(name[2:],) for name in names])
            orders[collation] = client.get_partition_names(unique_name, "t", -1)
    assert orders[Collation.C] == sorted(names)
    assert sorted(orders[Collation.EN_US]) == sorted(names)
    assert orders[Collation.EN_US] != sorted(names)


@pytest.mark.parametrize("flavour", ["hive42", *EMBEDDED])
def test_restart_keeps_port_and_objects(
    new_metastore: Callable[..., Metastore], unique_name: str, flavour: str
) -> None:
    metastore = new_metastore(flavour)
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, unique_name)
    metastore.kill()
    assert not metastore.process.alive()
    metastore.start()
    with MetastoreClient(*metastore.address) as client:
        assert client.get_database(unique_name).name == unique_name


def test_refusals_arrive_as_declared_exceptions(client42: MetastoreClient, unique_name: str) -> None:
    objects.create_database(client42, unique_name)
    with pytest.raises(InvalidObjectException, match="Invalid column type: no such type"):
        client42.create_table(objects.table(unique_name, "t", [("c", "no such type")]))


def test_two_metastores_on_one_database(new_metastore: Callable[..., Metastore], unique_name: str) -> None:
    first = new_metastore()
    second = new_metastore(database=first.database)
    with MetastoreClient(*first.address) as one, MetastoreClient(*second.address) as other:
        objects.create_database(one, unique_name)
        assert other.get_database(unique_name).name == unique_name
        assert one.get_metastore_db_uuid() == other.get_metastore_db_uuid()


POOL_TRUSTS_S = 0.6
"""HikariCP takes a connection that was used within the last half second from the pool without a look at it."""


def test_outlives_its_database(
    new_metastore: Callable[..., Metastore],
    new_postgres: Callable[[], LocalPostgres],
    fault_proxy: Callable[[str, int], FaultProxy],
    unique_name: str,
) -> None:
    server = new_postgres()
    proxy = fault_proxy(server.host, server.port)
    metastore = new_metastore(postgres=server, via=proxy.address)
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, unique_name)
        server.kill()
        server.start()
        time.sleep(POOL_TRUSTS_S)
        assert client.get_database(unique_name).name == unique_name  # the pool makes new connections
        proxy.stall()
    with MetastoreClient(*metastore.address, timeout_s=3) as client:
        with pytest.raises(TTransportException, match="read timeout"):
            client.get_database(unique_name)
    proxy.restore()
    with MetastoreClient(*metastore.address) as client:
        assert client.get_database(unique_name).name == unique_name


def test_a_database_outage_can_look_like_not_found(
    new_metastore: Callable[..., Metastore],
    postgres: Postgres,
    fault_proxy: Callable[[str, int], FaultProxy],
    unique_name: str,
) -> None:
    proxy = fault_proxy(postgres.host, postgres.port)
    metastore = new_metastore(via=proxy.address, settings={"hikaricp.connectionTimeout": "1000"})
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, unique_name)
        proxy.refuse()
        time.sleep(POOL_TRUSTS_S)
        with pytest.raises(NoSuchObjectException, match="Connection is not available"):
            client.get_database(unique_name)
        proxy.restore()
        assert client.get_database(unique_name).name == unique_name
        with pytest.raises(NoSuchObjectException, match=f"database hive.{unique_name}x'"):
            client.get_database(unique_name + "x")
