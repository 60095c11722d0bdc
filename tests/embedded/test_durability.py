"""What survives: many writers at once, and kill -9 in the middle of them, on both kinds of database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from thrift.Thrift import TException

from tests.embedded.conftest import BACKENDS
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import create_database, table

WRITERS = 32
EACH = 4
NewMetastore = Callable[..., Metastore]


def rows(metastore: Metastore, query: str) -> list[tuple[object, ...]]:
    assert metastore.database is not None
    return metastore.database.rows(query)


def consistent(metastore: Metastore) -> int:
    """Event ids have no gap, and every table has exactly the rows and the event that belong to it; the last id."""
    ids = [row[0] for row in rows(metastore, 'SELECT "EVENT_ID" FROM "NOTIFICATION_LOG" ORDER BY "EVENT_ID"')]
    assert ids == list(range(1, len(ids) + 1))
    following = rows(metastore, 'SELECT "NEXT_EVENT_ID" FROM "NOTIFICATION_SEQUENCE"')
    assert following == [(len(ids) + 1,)]
    tables = {row[0] for row in rows(metastore, 'SELECT "TBL_NAME" FROM "TBLS"')}
    created = 'SELECT "TBL_NAME" FROM "NOTIFICATION_LOG" WHERE "EVENT_TYPE" = \'CREATE_TABLE\''
    assert tables == {row[0] for row in rows(metastore, created)}
    counts = rows(
        metastore,
        'SELECT (SELECT COUNT(*) FROM "TBLS"), (SELECT COUNT(*) FROM "SDS"), (SELECT COUNT(*) FROM "SERDES"),'
        ' (SELECT COUNT(*) FROM "CDS")',
    )
    assert len(set(counts[0])) == 1, counts
    return len(ids)


def write(metastore: Metastore, writer: int, count: int, done: set[str]) -> None:
    """Create tables until the metastore is gone; `done` gets the names of those which were acknowledged."""
    with MetastoreClient(*metastore.address) as client:
        for number in range(count):
            name = f"t_{writer}_{number}"
            client.create_table(table("d", name))
            done.add(name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_concurrent_writers_lose_nothing(new_metastore: NewMetastore, backend: str) -> None:
    metastore = new_metastore(backend)
    with MetastoreClient(*metastore.address) as client:
        create_database(client, "d")
    done: set[str] = set()
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda writer: write(metastore, writer, EACH, done), range(WRITERS)))
    assert len(done) == WRITERS * EACH
    with MetastoreClient(*metastore.address) as client:
        assert set(client.get_all_tables("d")) == done
        assert client.get_current_notificationEventId().eventId == 1 + WRITERS * EACH
    assert metastore.stop() == 0, metastore.process.log_tail()
    assert consistent(metastore) == 1 + WRITERS * EACH


@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_while_it_writes(new_metastore: NewMetastore, backend: str) -> None:
    """What was acknowledged is there, nothing is there by half, and the next start goes on."""
    metastore = new_metastore(backend)
    with MetastoreClient(*metastore.address) as client:
        create_database(client, "d")
    done: set[str] = set()

    def until_killed(writer: int) -> None:
        try:
            write(metastore, writer, 10_000, done)
        except (TException, OSError, EOFError):
            return

    writers = [threading.Thread(target=until_killed, args=(writer,)) for writer in range(4)]
    for writer in writers:
        writer.start()
    while len(done) < 20:
        time.sleep(0.01)
    metastore.kill()
    for writer in writers:
        writer.join()
    last = consistent(metastore)
    there = {str(row[0]) for row in rows(metastore, 'SELECT "TBL_NAME" FROM "TBLS"')}
    assert done <= there and len(there - done) <= len(writers)
    metastore.start()
    with MetastoreClient(*metastore.address) as client:
        assert set(client.get_all_tables("d")) == there
        client.create_table(table("d", "afterwards"))
        assert client.get_current_notificationEventId().eventId == last + 1
