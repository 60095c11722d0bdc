"""PostgreSQL clusters: metastore databases of each schema and collation, roles, restart and kill."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.testbed.postgres import Collation, LocalPostgres, Postgres, Schema
from tests.testbed.processes import signalled

pytestmark = pytest.mark.real
ORDER_QUERY = "SELECT v FROM (VALUES ('b'), ('A'), ('a'), ('_x')) AS t (v) ORDER BY v"


@pytest.mark.parametrize("schema", list(Schema))
@pytest.mark.parametrize("collation", list(Collation))
def test_database_of_each_kind(postgres: Postgres, unique_name: str, schema: Schema, collation: Collation) -> None:
    database = postgres.create_metastore_database(unique_name, schema, collation)
    assert database.rows('SELECT "SCHEMA_VERSION" FROM "VERSION"') == [(schema.value,)]
    order = [value for (value,) in database.rows(ORDER_QUERY)]
    assert (order == ["A", "_x", "a", "b"]) == (collation is Collation.C)
    postgres.drop_database(unique_name)


def test_a_second_database_is_a_copy(postgres: Postgres, unique_name: str) -> None:
    """No script of the schema runs again: its tables have the numbers that they have in the template."""
    databases = [postgres.create_metastore_database(f"{unique_name}_{which}") for which in "ab"]
    first, second = (database.rows("SELECT oid FROM pg_class WHERE relname = 'TBLS'") for database in databases)
    assert len(first) == 1 and first == second


def test_the_reader_may_only_read(postgres: Postgres, unique_name: str) -> None:
    database = postgres.create_metastore_database(unique_name)
    with database.connect("hms_reader") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        tables = [name for (name,) in cursor.fetchall()]
        assert len(tables) > 60
        for name in tables:
            cursor.execute(f'SELECT * FROM "{name}" LIMIT 1')
        for forbidden in ('UPDATE "VERSION" SET "VER_ID" = 2', 'DROP TABLE "VERSION"', 'DELETE FROM "DBS"'):
            with pytest.raises(Exception, match="permission denied|must be owner"):
                cursor.execute(forbidden)


def test_data_survives_stop_and_kill(new_postgres: Callable[[], LocalPostgres]) -> None:
    server = new_postgres()
    database = server.create_metastore_database("kept")
    for number, end in enumerate((server.stop, server.kill), 1):
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f'CREATE TABLE "kept_{number}" ()')
            end()  # right after the commit
        assert not server.is_ready()
        server.start()
        assert database.rows(f'SELECT count(*) FROM "kept_{number}"') == [(0,)]


def test_backends_that_are_stopped_do_not_outlive_a_kill(new_postgres: Callable[[], LocalPostgres]) -> None:
    server = new_postgres()
    with server.create_metastore_database("stopped").connect():
        assert signalled(server.pids(), signal.SIGSTOP)
        server.kill()
    assert not server.pids()
    server.start()
