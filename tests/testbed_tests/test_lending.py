"""A metastore that was released is lent again as if it were new; one that cannot be made so is ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hive_metastore.ttypes import Role  # type: ignore[import-untyped]  # generated

from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.emptying import GOING_ON, LEADERS, Kept
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import Postgres

pytestmark = pytest.mark.real


CHANGES = (
    'CREATE TABLE "more" ()',
    'REVOKE SELECT ON "TBLS" FROM hms_reader',
    'ALTER TABLE "DBS" ADD COLUMN "more" int',
    'DROP INDEX "DATABASE_PARAMS_N49"',
    "CREATE SCHEMA other",
)


def contents(metastore: Metastore) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every table, but for ids that go on and the lock of a metastore's own tasks."""
    database = metastore.database
    assert database is not None
    tables = database.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {
        name: sorted((row for row in database.rows(f'SELECT * FROM "{name}"') if LEADERS not in row), key=repr)
        for (name,) in tables
        if name not in GOING_ON
    }


def use(metastore: Metastore) -> list[int]:
    """Objects, files, an aborted transaction and a role; ids of the table and of the newest event."""
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, "d")
        table = objects.create_table(client, objects.table("d", "t", partition_keys=[("p", "string")]))
        objects.add_partitions(client, table, [["1"], ["2"]])
        acid = objects.create_transactional_table(client, "d", "acid")
        objects.in_transaction(client, acid, lambda _txn, _write: None)
        client.create_role(Role("clerk", 0, "hive"))
        event = client.get_current_notificationEventId().eventId
        return [objects.read_table(client, "d", "t").id, event]


@pytest.fixture
def nothing_waits(bed: Bed) -> Iterator[None]:
    """Of those that wait, one with settings of its own is the first to be ended, also where others left the rest."""
    others, bed._idle = bed._idle, []
    yield
    for metastore in bed._idle:
        bed._end(metastore)
    bed._idle = others


@pytest.mark.usefixtures("nothing_waits")
def test_lent_again_as_if_new(bed: Bed) -> None:
    settings = {"hive.of.this.test": "1"}
    first = bed.private_metastore("hive42", settings=settings)
    empty, process, database = contents(first), first.process.id, first.database
    table_id, event = use(first)
    assert contents(first) != empty and any(first.warehouse.iterdir())
    bed.release(first)
    other = bed.private_metastore("hive42", settings={"hive.of.this.test": "2"})
    assert other.process.id != process, "its settings are others"
    again = bed.private_metastore("hive42", settings=settings)
    assert (again.process.id, again.database) == (process, database)
    assert contents(again) == empty and not any(again.warehouse.iterdir())
    next_table_id, next_event = use(again)
    assert next_event == event, "the log starts over"
    assert next_table_id > table_id, "an id that a block was reserved for is not given twice"
    for metastore in (other, again):
        bed.release(metastore)


def test_rows_are_put_back_but_no_schema(postgres: Postgres, unique_name: str) -> None:
    database = postgres.create_metastore_database(unique_name)
    kept = Kept(database)
    postgres.execute("""INSERT INTO "ROLES" VALUES (7, 1, 'o', 'r'); DELETE FROM "VERSION" """, unique_name)
    assert kept.put_back() and database.rows('SELECT COUNT(*) FROM "VERSION"') == [(1,)]
    assert database.rows('SELECT COUNT(*) FROM "ROLES"') == [(0,)]
    with database.connect() as connection, connection.cursor() as cursor:
        for change in CHANGES:
            cursor.execute(change)
            assert not kept.put_back(), change
            kept = Kept(database)
            assert kept.put_back()
    postgres.drop_database(unique_name)


def test_not_lent_again_when_stopped(bed: Bed) -> None:
    metastore = bed.private_metastore("hive42")
    metastore.kill()
    bed.release(metastore)
    another = bed.private_metastore("hive42")
    assert another is not metastore
    bed.release(another)
