"""Names that MySQL compares otherwise than by their bytes: what its metastore answers, what the store makes of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hms_cache_proxy.errors import StoreError, Unfit
from hms_cache_proxy.store.protocol import PartitionRecord, TableRecord
from hms_cache_proxy.store.sql.store import SqlStore, open_sql_store
from tests.store import bulk
from tests.store.content import Content, descriptor
from tests.store.oracle import Oracle, Refused, hms
from tests.testbed.mariadb import LocalMariaDB, MariaDatabase
from tests.testbed.metastore import Metastore

NAMES = ["p=a", "p=B", "p=_", "p=é", "p=z", "p=Z", "p=-", "p=a b", "p=ab", "p=A-B", "p=ÿ", "p=10", "p=9", "p=~"]


@pytest.fixture
def store(hms42_mariadb: Metastore) -> Iterator[SqlStore]:
    assert hms42_mariadb.database is not None
    opened = open_sql_store(hms42_mariadb.database.reader_url)
    yield opened
    opened.close()


@pytest.fixture
def content(hms42_mariadb: Metastore, unique_name: str) -> Iterator[Content]:
    """A database of one table with the string key p."""
    with Oracle(*hms42_mariadb.address) as oracle:
        made = Content(oracle, unique_name, hms42_mariadb.warehouse.as_uri())
        oracle.create_database(hms.Database(name=made.database))
        made.table("t", partitionKeys=[hms.FieldSchema(name="p", type="string")])
        yield made


def partitions(store: SqlStore, content: Content, names: list[bytes] | None = None) -> list[PartitionRecord]:
    with store.snapshot() as snapshot:
        table: TableRecord = snapshot.tables(b"hive", content.database.encode(), [b"t"])[b"t"]
        return snapshot.partitions(table, names=names)


def test_blanks_at_the_end(content: Content, store: SqlStore) -> None:
    """The metastore comes upon p=a for `p=a `, and takes no second one: readers must not answer from a cache."""
    content.partition("t", ["a"])
    ask = content.oracle.get_partition_by_name
    with pytest.raises(Refused, match="but metastore is returning a partition with name p=a."):
        ask(content.database, "t", "p=a ")
    (found,) = content.oracle.get_partitions_by_names(content.database, "t", ["p=a "])
    assert found[1][1] == [b"a"]
    with pytest.raises(Refused):
        content.partition("t", ["a "])
    with pytest.raises(Refused):
        ask(content.database, "t", "p=A")
    assert store.identity.binary_collation and not store.identity.exact_text
    assert [record.name for record in partitions(store, content)] == [b"p=a"]
    assert partitions(store, content, [b"p=a ", b"p=A", "p=日".encode(), b"p=a\xff"]) == []


@pytest.mark.parametrize("value", ["a ", "€", "a\x01", "x" * 257])
def test_what_it_orders_otherwise_is_unfit(content: Content, store: SqlStore, value: str) -> None:
    sd = descriptor(location=f"file:/nowhere/{content.database}")
    content.partition("t", [value], sd)
    with pytest.raises(Unfit, match="by its bytes"):
        partitions(store, content)
    if len(value) > 256:  # cut, which this call does not show and others do
        single = content.oracle.get_partition(content.database, "t", [value])
        (listed,) = content.oracle.get_partitions(content.database, "t", -1)
        assert (single[1][1], listed[1][1]) == ([value.encode()], [value[:256].encode()])


def test_text_beyond_a_column(content: Content, store: SqlStore) -> None:
    """The statement would fail; the metastore's does, after it was tried for 20 s. The store knows: there is none."""
    with store.snapshot() as snapshot:
        assert snapshot.tables(b"hive", content.database.encode(), ["日本".encode(), b"t"]).keys() == {b"t"}
        assert snapshot.databases([(b"hive", "日本".encode())]) == {}
        assert snapshot.table_names(b"hive", "日本".encode()) == []


@pytest.fixture
def filled(mariadb: LocalMariaDB, unique_name: str) -> MariaDatabase:
    """A database without a metastore, with names of every kind."""
    database = mariadb.create_metastore_database(unique_name)
    bulk.fill(database, 30)
    bulk.add_names(database, NAMES)
    return database


def test_order_is_bytewise(filled: MariaDatabase) -> None:
    store = open_sql_store(filled.reader_url)
    with store.snapshot() as snapshot:
        table = snapshot.tables(b"hive", bulk.DATABASE, [bulk.TABLE])[bulk.TABLE]
        found = snapshot.partitions(table)
        names = [record.name for record in found]
        assert names == sorted(names) and set(map(str.encode, NAMES)) < set(names)
        for record in found[::5]:
            assert snapshot.partitions(table, after=record.name) == [one for one in found if one.name > record.name]
        assert snapshot.partitions(table, names=[*reversed(names)]) == found
    store.close()


@pytest.mark.parametrize("column", ["PART_NAME", "PART_KEY_VAL"])
def test_a_collation_that_ignores_case(filled: MariaDatabase, column: str) -> None:
    table = {"PART_NAME": "PARTITIONS", "PART_KEY_VAL": "PARTITION_KEY_VALS"}[column]
    with filled.connect() as connection, connection.cursor() as cursor:
        cursor.execute('DELETE FROM "PARTITIONS" WHERE "PART_ID" >= 10000000')  # p=z and p=Z would be one
        how = "varchar(256) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci"
        cursor.execute(f'ALTER TABLE "{table}" MODIFY COLUMN "{column}" {how}')
    store = open_sql_store(filled.reader_url)
    assert not store.identity.binary_collation
    with store.snapshot() as snapshot:
        record = snapshot.tables(b"hive", bulk.DATABASE, [bulk.TABLE])[bulk.TABLE]
        assert snapshot.table_names(b"hive", b"BIG") == []
        with pytest.raises(Unfit, match="utf8mb3_general_ci"):
            snapshot.partitions(record)
    store.close()


def test_an_object_beyond_a_packet_is_refused(filled: MariaDatabase) -> None:
    """An aggregate that the server cuts at max_allowed_packet is never taken for the whole."""
    with filled.connect() as connection, connection.cursor() as cursor:
        for number in range(3):
            cursor.execute(
                """INSERT INTO "PARTITION_PARAMS" SELECT "PART_ID", %s, repeat('x', 7000000) FROM "PARTITIONS"
                WHERE "PART_NAME" = 'ds=2000-01-01/hour=3'""",
                (f"long{number}",),
            )
    store = open_sql_store(filled.reader_url)
    with store.snapshot() as snapshot:
        table = snapshot.tables(b"hive", bulk.DATABASE, [bulk.TABLE])[bulk.TABLE]
        with pytest.raises(Unfit, match="max_allowed_packet"):
            snapshot.partitions(table)
        assert snapshot.tables(b"hive", bulk.DATABASE, [bulk.TABLE])[bulk.TABLE] == table  # the snapshot goes on
    store.close()


def test_an_unknown_option(filled: MariaDatabase) -> None:
    with pytest.raises(StoreError, match="'local_infile'"):
        open_sql_store(filled.reader_url + "?local_infile=1")


def test_statements_end_in_time(filled: MariaDatabase) -> None:
    store = open_sql_store(filled.reader_url, statement_timeout_s=1)
    with pytest.raises(StoreError, match="max_statement_time exceeded"), store.snapshot():
        store.database.rows("SELECT SLEEP(5)")
    with store.snapshot() as snapshot:
        assert snapshot.event_id == 0
    store.close()
