"""A second connection in the same snapshot: what both read is what one would have read, whatever happens meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hms_cache_proxy.cache.environment import Environment
from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.protocol import PartitionRecord, SomePartitions
from hms_cache_proxy.store.sql.postgres import Postgres as PostgresDialect
from hms_cache_proxy.store.sql.second_connection import SecondConnection
from hms_cache_proxy.store.sql.store import SqlStore, open_sql_store
from tests.follower.stepping import Stepping
from tests.store import bulk
from tests.store.test_sql_large import chunks, table
from tests.testbed.postgres import MetastoreDatabase, Postgres, Schema
from tests.testbed.processes import wait_until

COUNT = 4_300  # some more than four chunks for two connections


@pytest.fixture
def database(postgres: Postgres, unique_name: str) -> MetastoreDatabase:
    made = postgres.create_metastore_database(unique_name, Schema.HIVE42)
    bulk.fill(made, COUNT)
    return made


@pytest.fixture
def store(database: MetastoreDatabase) -> Iterator[SqlStore]:
    with closing(open_sql_store(database.reader_url, two=True)) as opened:
        yield opened


def alone(database: MetastoreDatabase) -> list[PartitionRecord]:
    """As one connection reads them."""
    with closing(open_sql_store(database.reader_url)) as opened, opened.snapshot() as snapshot:
        found = list(snapshot.partitions(table(snapshot)))
        assert len(found) == COUNT
        return found


def backends(database: MetastoreDatabase) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND usename = 'hms_reader'"
    return int(database.rows(query, (database.name,))[0][0])


def one_is_left(database: MetastoreDatabase) -> None:
    """A server process ends some time after its client."""
    assert wait_until(lambda: backends(database) == 1)


def test_both_read_what_one_reads(store: SqlStore, database: MetastoreDatabase) -> None:
    expected = alone(database)
    with store.snapshot() as snapshot:
        of = table(snapshot)
        one_is_left(database)
        assert len(list(snapshot.partitions(of, limit=2, after=None))) == 2
        assert backends(database) == 1, "the second is opened where there is much to read"
        assert snapshot.partitions(of) == expected and backends(database) == 2
        assert chunks(snapshot, of, 2_500) == expected
        names = [record.name for record in expected[7::2]]
        assert snapshot.partitions_of([SomePartitions(of, names), SomePartitions(of)]) == [expected[7::2], expected]
    with store.snapshot() as snapshot:
        assert snapshot.partitions(table(snapshot), after=None, limit=10) == expected[:10]
    one_is_left(database)


def test_both_see_the_same_state(store: SqlStore, database: MetastoreDatabase) -> None:
    expected = alone(database)
    with store.snapshot() as snapshot:
        of = table(snapshot)
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute('DELETE FROM "PARTITION_PARAMS"; DELETE FROM "PARTITION_KEY_VALS"; DELETE FROM "PARTITIONS"')
        assert snapshot.partitions(of) == expected
    with store.snapshot() as snapshot:
        assert snapshot.partitions(table(snapshot)) == []


def test_a_second_connection_that_is_lost_ends_the_snapshot(store: SqlStore, database: MetastoreDatabase) -> None:
    with pytest.raises(StoreError), store.snapshot() as snapshot:
        snapshot.partitions(table(snapshot))
        (mine,) = store.database.rows("SELECT pg_backend_pid()")[0]
        query = (
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
            " WHERE datname = %s AND usename = 'hms_reader' AND pid <> %s"
        )
        assert database.rows(query, (database.name, mine)) == [(True,)]
        snapshot.partitions(table(snapshot))
    with store.snapshot() as snapshot:
        assert len(list(snapshot.partitions(table(snapshot)))) == COUNT


def test_without_a_second_connection_one_reads_everything(store: SqlStore, database: MetastoreDatabase) -> None:
    expected = alone(database)
    with store.snapshot() as snapshot:
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f'ALTER DATABASE "{database.name}" CONNECTION LIMIT 0')
        assert snapshot.partitions(table(snapshot)) == expected
        one_is_left(database)
    with store.snapshot() as snapshot:
        assert snapshot.partitions(table(snapshot)) == expected, "and is not asked for again at once"


def test_a_cache_is_filled_alike(database: MetastoreDatabase, tmp_path: Path) -> None:
    found = []
    for two in (False, True):
        directory = tmp_path / str(two)
        with Stepping(directory, open_sql_store(database.reader_url, two=two), chunk=3_000) as stepping:
            stepping.settle()
            assert stepping.writer.counts()["partitions"] == COUNT
            found.append(contents(stepping.writer._environment))
    assert found[0] == found[1]


def contents(environment: Environment) -> list[list[tuple[bytes, bytes]]]:
    """Every row but those with numbers of commits."""
    with environment.env.begin() as txn:
        databases = (environment.objects, environment.partitions, environment.shared, environment.statistics)
        return [list(txn.cursor(one)) for one in databases]


@pytest.fixture
def second(database: MetastoreDatabase) -> Iterator[SecondConnection]:
    with closing(open_sql_store(database.reader_url)) as opened:

        def another(answered: Callable[[], None]) -> PostgresDialect:
            assert isinstance(opened.database, PostgresDialect)
            return opened.database

        with closing(SecondConnection(opened.database, another, lambda: None)) as made:
            yield made


def test_in_order_and_all_over_when_one_fails(second: SecondConnection) -> None:
    own, other = (lambda item: [item, "own"]), (lambda item: [item, "other"])
    for items in ([], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4]):
        found = second.of_both(own, other, items)
        assert found[::2] == items and found[1::2] == [("own", "other")[at % 2] for at in range(len(items))]
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def slow(item: int) -> list[int]:
        begun.set()
        assert go_on.wait(600)
        ended.append(item)
        return [item]

    def fails(item: int) -> list[int]:
        assert begun.wait(600)
        go_on.set()
        raise StoreError("lost")

    with pytest.raises(StoreError, match="lost"):
        second.of_both(fails, slow, [1, 2, 3, 4])
    assert ended in ([2], [2, 4]), "what was begun has ended"
    with pytest.raises(StoreError, match="lost"):
        second.of_both(own, lambda item: fails(item), [1, 2])  # type: ignore[arg-type]
