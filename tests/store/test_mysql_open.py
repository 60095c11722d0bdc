"""Connections to MariaDB that end, hang or are refused, and whose server it is."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.protocol import TableRecord
from hms_cache_proxy.store.sql.report import privileges_report
from hms_cache_proxy.store.sql.schema import READ_TABLES
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.mariadb import LocalMariaDB, MariaDatabase


@pytest.fixture
def empty(mariadb: LocalMariaDB, unique_name: str) -> MariaDatabase:
    """A metastore database without a metastore."""
    return mariadb.create_metastore_database(unique_name)


def test_a_lost_connection(empty: MariaDatabase, fault_proxy: Callable[[str, int], FaultProxy]) -> None:
    """What is read after a loss would be of another state: the snapshot is over."""
    proxy = fault_proxy(empty.host, empty.port)
    store = open_sql_store(empty.behind(proxy.host, proxy.port).reader_url)
    with pytest.raises(StoreError, match="the snapshot ended"), store.snapshot() as snapshot:
        proxy.cut()
        with pytest.raises(StoreError, match="gone away|Lost connection"):
            snapshot.database_names()
        snapshot.database_names()
    with store.snapshot() as snapshot:  # a new connection
        assert snapshot.database_names() == []
    proxy.refuse()
    for _ in range(2):
        with pytest.raises(StoreError, match="the metastore's database"), store.snapshot():
            pass
    proxy.restore()
    with store.snapshot() as snapshot:
        assert snapshot.event_id == 0
    store.close()


def test_a_server_that_says_nothing(empty: MariaDatabase, fault_proxy: Callable[[str, int], FaultProxy]) -> None:
    proxy = fault_proxy(empty.host, empty.port)
    proxy.stall()
    began = time.monotonic()
    with pytest.raises(StoreError, match="timed out"):
        open_sql_store(empty.behind(proxy.host, proxy.port).reader_url, statement_timeout_s=3)
    assert time.monotonic() - began < 10


def test_a_snapshot_does_not_change(empty: MariaDatabase) -> None:
    store = open_sql_store(empty.reader_url)
    with empty.connect() as connection, connection.cursor() as cursor:
        with store.snapshot() as snapshot:
            cursor.execute('UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = 8')
            columns = '"DB_ID", "NAME", "DB_LOCATION_URI", "CTLG_NAME"'
            cursor.execute(f"""INSERT INTO "DBS" ({columns}) VALUES (10, 'd', 'file:/d', 'hive')""")
            assert (snapshot.event_id, snapshot.database_names()) == (0, [])
        with store.snapshot() as snapshot:
            assert (snapshot.event_id, snapshot.database_names()) == (7, [(b"hive", b"d")])
    store.close()


def test_another_database(mariadb: LocalMariaDB, unique_name: str) -> None:
    mariadb.execute(f'CREATE DATABASE "{unique_name}"')
    url = f"mysql+pymysql://root:root@{mariadb.host}:{mariadb.port}/{unique_name}"
    with pytest.raises(StoreError, match="VERSION' doesn't exist"):
        open_sql_store(url)
    report = privileges_report(url)
    assert set(report.missing) == set(READ_TABLES) and report.identity is None
    mariadb.drop_database(unique_name)


def test_a_wrong_password_is_not_in_the_message(empty: MariaDatabase) -> None:
    with pytest.raises(StoreError, match="Access denied") as caught:
        open_sql_store(empty.reader_url.replace(":hms_reader@", ":geheim@"))
    assert "geheim" not in str(caught.value)


def test_an_unknown_version(empty: MariaDatabase) -> None:
    with empty.connect() as connection, connection.cursor() as cursor:
        cursor.execute("""UPDATE "VERSION" SET "SCHEMA_VERSION" = '9.1.2'""")
    with pytest.raises(StoreError, match="9.1.2"):
        open_sql_store(empty.reader_url)


def test_the_rows_after_a_row_of_the_log(empty: MariaDatabase) -> None:
    """They are read together with its fingerprint, which is the same when it is the newest row."""
    store = open_sql_store(empty.reader_url)
    prints: list[bytes | None] = [None]
    with empty.connect() as connection, connection.cursor() as cursor:
        for number in range(1, 4):
            cursor.execute(
                'INSERT INTO "NOTIFICATION_LOG"'
                ' ("NL_ID", "EVENT_ID", "EVENT_TIME", "EVENT_TYPE", "MESSAGE", "MESSAGE_FORMAT")'
                f" VALUES ({number}, {number}, 7, 'CREATE_DATABASE', 'ü{number}', 'json-2.0')"
            )
            cursor.execute(f'UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = {number + 1}')
            connection.commit()
            with store.snapshot() as snapshot:
                prints.append(snapshot.fingerprint(number))
    with store.snapshot() as snapshot:
        separately = snapshot.events(1, 10)
        assert [(row.event_id, row.message) for row in separately] == [(2, "ü2"), (3, "ü3")]
        assert [snapshot.fingerprint(number) for number in range(4)] == prints and len(set(prints)) == 4
        assert snapshot.fingerprint(1) == prints[1] and snapshot.events(1, 10) == separately
    store.close()


def test_more_names_than_one_packet_holds(empty: MariaDatabase) -> None:
    """The server takes 16 MB, and its statement has each name twice. What events name is read again until it can be."""
    table = TableRecord(b"hive", b"d", b"t", 1, b"EXTERNAL_TABLE", b"", False, False, ((b"p", b"string"),), None)
    store = open_sql_store(empty.reader_url)
    with store.snapshot() as snapshot:
        assert snapshot.partitions(table, names=[b"p=%0250d" % number for number in range(40_000)]) == []
    store.close()
