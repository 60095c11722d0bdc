"""Opening a store: versions, wrong databases, privileges, lost connections; and what the report for operators says."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import pytest

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.sql.report import privileges_report
from hms_cache_proxy.store.sql.schema import READ_TABLES, hive_line
from hms_cache_proxy.store.sql.store import open_database, open_sql_store
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import Collation, LocalPostgres, MetastoreDatabase, Postgres, Schema
from tests.testbed.processes import wait_until


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("3.1.0", "3.1"),
        ("3.1.3000.7.1.8", "3.1"),
        ("2.3.0", "2.3"),
        ("4.0.0", "4.0"),
        ("4.0.1", "4.0"),
        ("4.1.0", "4.1"),
        ("4.2.0", "4.2"),
        ("4.0.0-beta-1", "4.0"),
        ("4.2.2027", "4.2"),
    ],
)
def test_versions(version: str, line: str) -> None:
    assert hive_line(version) == line


@pytest.mark.parametrize("version", ["3.0.0", "2.2.0", "1.2.0", "4.20.0", "5.0.0", "", "x"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(StoreError, match="can be read from the database are 2.3, 3.1, 4.0, 4.1, 4.2"):
        hive_line(version)


@pytest.mark.parametrize("url", ["not a url", "mysql+mysqldb://u:p@h/d", "oracle://h/d", "sqlite://"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(StoreError, match="store_url"):
        open_sql_store(url)


@pytest.fixture
def empty(postgres: Postgres, unique_name: str) -> MetastoreDatabase:
    """A metastore database without a metastore."""
    return postgres.create_metastore_database(unique_name, Schema.HIVE42)


def change(database: MetastoreDatabase, statement: str) -> None:
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(statement)


def test_an_unknown_version_in_the_database(empty: MetastoreDatabase) -> None:
    change(empty, """UPDATE "VERSION" SET "SCHEMA_VERSION" = '9.1.2'""")
    with pytest.raises(StoreError, match="9.1.2"):
        open_sql_store(empty.reader_url)


def test_a_database_that_is_no_metastore(postgres: Postgres) -> None:
    url = f"postgresql://postgres:postgres@{postgres.host}:{postgres.port}/postgres"
    with pytest.raises(StoreError, match='relation "VERSION" does not exist'):
        open_sql_store(url)


def test_two_versions(empty: MetastoreDatabase) -> None:
    change(empty, """INSERT INTO "VERSION" VALUES (2, '4.2.0', 'again')""")
    with pytest.raises(StoreError, match="2 rows"):
        open_sql_store(empty.reader_url)


def test_a_wrong_password_is_not_in_the_message(empty: MetastoreDatabase) -> None:
    url = empty.reader_url.replace("hms_reader:hms_reader", "nobody:secret-word")
    with pytest.raises(StoreError, match="nobody") as caught:
        open_sql_store(url)
    assert "secret-word" not in str(caught.value)


def test_an_empty_metastore(empty: MetastoreDatabase) -> None:
    store = open_sql_store(empty.reader_url.replace("+psycopg2", ""))
    with store.snapshot() as snapshot:
        assert (snapshot.event_id, snapshot.database_names(), snapshot.oldest_event_id()) == (0, [], None)
        assert snapshot.databases([]) == {}
    assert store.identity.database_uuid == ""
    change(empty, "INSERT INTO \"METASTORE_DB_PROPERTIES\" VALUES ('guid', 'made-later', 'd')")
    assert store.identity.database_uuid == "made-later"
    store.close()


@pytest.mark.parametrize("two", [False, True])
def test_a_server_that_ends_idle_transactions(empty: MetastoreDatabase, two: bool) -> None:
    """A step asks nothing while it makes sense of what it has read, and would fail at the same place again."""
    change(empty, f'ALTER DATABASE "{empty.name}" SET idle_in_transaction_session_timeout = 50')
    with closing(open_sql_store(empty.reader_url, two=two)) as store, store.snapshot() as snapshot:
        assert store.second is None or store.second.joined() is not None
        time.sleep(0.5)
        assert snapshot.database_names() == []


def test_missing_privileges(empty: MetastoreDatabase) -> None:
    store = open_sql_store(empty.reader_url)
    change(empty, 'REVOKE SELECT ON "TBLS" FROM hms_reader')
    with pytest.raises(StoreError, match="permission denied for table TBLS"), store.snapshot() as snapshot:
        snapshot.table_names(b"hive", b"default")
    report = privileges_report(empty.reader_url)
    assert (report.unreadable, report.missing, report.writable) == (("TBLS",), (), ())
    change(empty, report.grant_script)
    assert privileges_report(empty.reader_url).unreadable == ()
    with store.snapshot() as snapshot:
        assert snapshot.table_names(b"hive", b"default") == []
    store.close()


def test_the_grant_script_is_enough(empty: MetastoreDatabase, postgres: Postgres) -> None:
    """An account that has only what the script gives can read everything that is read."""
    postgres.execute('DROP ROLE IF EXISTS "new reader"')
    postgres.execute("CREATE ROLE \"new reader\" LOGIN PASSWORD 'x'")
    change(empty, "REVOKE ALL ON SCHEMA public FROM PUBLIC; REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC")
    url = empty.reader_url.replace("hms_reader:hms_reader", "new%20reader:x")
    report = privileges_report(url)
    assert report.server.account == "new reader" and report.failure is not None
    change(empty, report.grant_script)
    again = privileges_report(url)
    assert (again.unreadable, again.missing, again.writable, again.failure) == ((), (), (), None)
    change(empty, 'DROP OWNED BY "new reader"')
    postgres.execute('DROP ROLE "new reader"')


def test_report(hms42: Metastore) -> None:
    assert hms42.database is not None
    report = privileges_report(hms42.database.reader_url)
    assert report.isolation == "repeatable read" and not report.server.is_replica and report.failure is None
    assert report.identity is not None and report.identity.hive_line == "4.2"
    assert report.server.version and report.server.database == hms42.database.name
    assert report.retention is not None and report.retention.newest_event_id >= (report.retention.oldest_event_id or 0)
    assert "SELECT" in report.grant_script and "INSERT" not in report.grant_script
    assert set(privileges_report(hms42.database.store_url).writable) == set(READ_TABLES)


def test_a_primary_that_was_made_read_only(new_postgres: Callable[[], LocalPostgres], unique_name: str) -> None:
    """As tools that switch over leave the old one; connections to it stay open. A default of the account's own is
    none of the server's."""
    database = new_postgres().create_metastore_database(unique_name, Schema.HIVE42)
    url = database.reader_url
    with closing(open_sql_store(url)) as store:
        assert not store.log_end().is_replica
        change(database, "ALTER SYSTEM SET default_transaction_read_only = on")
        change(database, "SELECT pg_reload_conf()")
        assert wait_until(lambda: store.log_end().is_replica)
        with store.snapshot() as snapshot:
            assert snapshot.is_replica
        assert privileges_report(url).server.is_replica
        change(database, "ALTER SYSTEM RESET default_transaction_read_only")
        change(database, "SELECT pg_reload_conf()")
        assert wait_until(lambda: not store.log_end().is_replica)
    change(database, "ALTER ROLE hms_reader SET default_transaction_read_only = on")
    with closing(open_sql_store(url)) as store, store.snapshot() as snapshot:
        assert store.database.rows("SHOW default_transaction_read_only") == [(b"on",)]
        assert not snapshot.is_replica
    assert not privileges_report(url).server.is_replica


def test_report_on_another_database(postgres: Postgres) -> None:
    report = privileges_report(f"postgresql://postgres:postgres@{postgres.host}:{postgres.port}/postgres")
    assert set(report.missing) == set(READ_TABLES)
    assert report.identity is None and report.failure is not None and "VERSION" in report.failure


def test_a_lost_connection(empty: MetastoreDatabase, fault_proxy: Callable[[str, int], FaultProxy]) -> None:
    proxy = fault_proxy(empty.host, empty.port)
    store = open_sql_store(empty.behind(proxy.host, proxy.port).reader_url)
    with pytest.raises(StoreError), store.snapshot() as snapshot:
        proxy.cut()
        snapshot.database_names()
    with store.snapshot() as snapshot:  # a new connection
        assert snapshot.database_names() == []
    proxy.refuse()
    for _ in range(2):
        with pytest.raises(StoreError, match="database"), store.snapshot():
            pass
    proxy.restore()
    with store.snapshot() as snapshot:
        assert snapshot.event_id == 0
    store.close()


def test_a_server_that_says_nothing(empty: MetastoreDatabase, fault_proxy: Callable[[str, int], FaultProxy]) -> None:
    proxy = fault_proxy(empty.host, empty.port)
    proxy.stall()
    began = time.monotonic()
    with pytest.raises(StoreError, match="timeout"):
        open_sql_store(empty.behind(proxy.host, proxy.port).reader_url)
    assert time.monotonic() - began < 20  # ten seconds for a connection


def test_an_error_of_the_caller_ends_the_snapshot(empty: MetastoreDatabase) -> None:
    store = open_sql_store(empty.reader_url)
    with pytest.raises(ZeroDivisionError), store.snapshot():
        _ = 1 / 0
    change(empty, 'UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = 8')
    with store.snapshot() as snapshot:
        assert snapshot.event_id == 7
    store.close()


def test_a_restarted_server(new_postgres: Callable[[], LocalPostgres]) -> None:
    server = new_postgres()
    store = open_sql_store(server.create_metastore_database("m").reader_url)
    server.stop()
    with pytest.raises(StoreError), store.snapshot():
        pass
    server.start()
    with store.snapshot() as snapshot:
        assert snapshot.event_id == 0
    store.close()


def test_a_snapshot_never_goes_on_without_its_connection(
    empty: MetastoreDatabase, fault_proxy: Callable[[str, int], FaultProxy]
) -> None:
    """What is read after a loss would be of another state."""
    proxy = fault_proxy(empty.host, empty.port)
    store = open_sql_store(empty.behind(proxy.host, proxy.port).reader_url)
    with pytest.raises(StoreError, match="the snapshot ended"), store.snapshot() as snapshot:
        proxy.cut()
        with pytest.raises(StoreError):
            snapshot.database_names()
        snapshot.database_names()
    with store.snapshot() as snapshot:
        assert snapshot.database_names() == []
    store.close()


def test_texts_that_an_encoding_lacks(postgres: Postgres, unique_name: str) -> None:
    """Any client can send one in a write, which asks for a reload of what it names."""
    postgres.execute(f"CREATE DATABASE {unique_name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    made = MetastoreDatabase(postgres.host, postgres.port, unique_name, Schema.HIVE42, Collation.C)
    with closing(open_database(made.store_url)) as database:
        assert database.binary_collation()
        asked = database.text_list([name.encode() for name in ("ü", "日本", "ÿ\ufffd")])
        assert database.rows("SELECT unnest(%(names)s::text[])", names=asked) == [("ü".encode(),)]
        assert database.texts(name="日本".encode()) is None
