"""The follower over the database of Hive 2.3.10, whose event ids come late and out of order."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from hms_cache_proxy.follower.trailing import SLACK, WINDOW_S
from tests.differential import contents
from tests.differential.changes import Changes
from tests.follower.harness import CATALOG, Comparison, Followed
from tests.store.oracle import Oracle
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import connected

pytestmark = pytest.mark.real


def test_random_changes(hms23_sql: Metastore, follow: Callable[..., Followed], unique_name: str) -> None:
    """Databases too, which it alters without an event: their rows are looked at in every step."""
    with MetastoreClient(*hms23_sql.address) as client, Oracle(*hms23_sql.address, "2.3.10") as oracle:
        seed = random.randrange(10**6)
        world = contents.fill(client, unique_name, seed, kinds=contents.KINDS_23, databases=1, tables=6, partitions=3)
        changes = Changes(world, client, statistics_are_logged=False)
        followed = follow(hms23_sql, include=f"{unique_name}*.*")
        comparison = Comparison(followed, oracle, unique_name)
        for _ in range(2):
            followed.loaded()
            comparison.all()
            for _ in range(8):
                _changed(followed, changes)
        database = client.get_database(world.databases[0])
        database.parameters = {"altered": "without an event"}
        client.alter_database(database.name, database)
        followed.loaded()
        comparison.all()
        assert comparison.tables > 8, (seed, changes.done)


def test_a_change_that_takes_longer_than_the_window(
    hms23_sql: Metastore, follow: Callable[..., Followed], unique_name: str
) -> None:
    """It has taken its event id and waits for a lock, while others go on for longer than the window that is read again;
    then its row appears far below the newest ones, and is found."""
    database = hms23_sql.database
    assert database is not None
    with MetastoreClient(*hms23_sql.address) as client:
        objects.create_database(client, unique_name)
        followed = follow(hms23_sql, include=f"{unique_name}.*")
        followed.loaded()
        with connected(database.host, database.port, database.name) as other:
            other.autocommit = False
            with other.cursor() as cursor:
                late = threading.Thread(target=_create, args=(hms23_sql, unique_name, "late"))
                taken = _next_row(cursor, database.rows)
                late.start()
                _waits_for_it(database.rows)
                began_s = time.monotonic()
                _create(hms23_sql, unique_name, *(f"t{number}" for number in range(SLACK + 10)))
                while time.monotonic() < began_s + WINDOW_S + 2:
                    followed.confirmed()
                    time.sleep(0.2)
                assert late.is_alive()
                other.rollback()
                late.join()
        ((event_id,),) = database.rows('SELECT "EVENT_ID" FROM "NOTIFICATION_LOG" WHERE "NL_ID" = %s', (taken,))
        newest = client.get_current_notificationEventId().eventId
        assert newest - event_id > SLACK or newest == event_id  # it put the counter back, or is far behind
        followed.confirmed()
        with followed.reader.snapshot() as cache:
            tables = cache.table_list(CATALOG, unique_name.encode())
            assert tables is not None and b"late" in [name for name, *_ in tables]


def _changed(followed: Followed, changes: Changes) -> None:
    """One change; those that leave no event are followed by the tickets that a proxy takes for them."""
    if "statistics" in (name := changes.one()) or "truncate" in name:
        tables = [b"%b\0%b\0%b" % (CATALOG, t.database.encode(), t.name.encode()) for t in changes.world.tables]
        followed.fences.ticket([kind + table for table in tables for kind in (b"t", b"p")])


def _create(metastore: Metastore, database: str, *names: str) -> None:
    with MetastoreClient(*metastore.address) as client:
        for name in names:
            objects.create_table(client, objects.table(database, name))


def _next_row(cursor: Any, rows: Callable[..., list[Any]]) -> int:
    """Insert, without a commit, a log row with the primary key that the metastore gives out next: it waits for that."""
    ((newest,),) = rows('SELECT max("NL_ID") FROM "NOTIFICATION_LOG"')
    cursor.execute(
        'INSERT INTO "NOTIFICATION_LOG" ("NL_ID", "EVENT_ID", "EVENT_TIME", "EVENT_TYPE", "MESSAGE")'
        " VALUES (%s, 1, 1, 'NONE', '{}')",
        (newest + 1,),
    )
    return int(newest) + 1


def _waits_for_it(rows: Callable[..., list[Any]]) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    deadline_s = time.monotonic() + 30
    while not rows(waiting)[0][0]:
        assert time.monotonic() < deadline_s, "nobody waits for the row"
        time.sleep(0.05)
