"""A database that was restored to an older state: what was told of ids that it does not have any more is forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.consistency.notes import Note, NoteKind
from hms_cache_proxy.follower.cycle import LogPeek
from hms_cache_proxy.follower.step import ResetReason
from hms_cache_proxy.methods.decision import ClientCall, Forward
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.wire.message import Header, parse_header
from tests.follower.stepped import Stepped
from tests.methods.local import Asked, Local
from tests.methods.oracle import request
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore


@pytest.fixture
def metastore(own_embedded: Metastore) -> Metastore:
    return own_embedded


@pytest.fixture
def client(metastore: Metastore) -> Iterator[MetastoreClient]:
    with MetastoreClient(*metastore.address) as connection:
        yield connection


@pytest.fixture
def stepped(metastore: Metastore, client: MetastoreClient, tmp_path: Path, unique_name: str) -> Iterator[Stepped]:
    """Not followed yet; the database `unique_name` has a table `t`."""
    objects.create_database(client, unique_name)
    objects.create_table(client, objects.table(unique_name, "t"))
    with Stepped(tmp_path / "data", metastore) as made:
        yield made


@pytest.fixture
def local(stepped: Stepped, metastore: Metastore) -> Iterator[Local]:
    host, port = metastore.address
    connection = Local.connect(stepped, f"{host}:{port}", WorkerMetrics())
    yield connection
    connection.close()


def log_some(client: MetastoreClient, database: str, number: int = 5) -> None:
    for _ in range(number):
        objects.create_table(client, objects.table(database, "later"))
        client.drop_table(database, "later", True)


def newest(metastore: Metastore) -> int:
    assert metastore.database is not None
    ((event_id,),) = metastore.database.rows('SELECT "NEXT_EVENT_ID" - 1 FROM "NOTIFICATION_SEQUENCE"')
    return int(event_id)


def restore(metastore: Metastore, event_id: int) -> None:
    """The log is as it was at this event."""
    assert metastore.database is not None
    with metastore.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute('DELETE FROM "NOTIFICATION_LOG" WHERE "EVENT_ID" > %s', (event_id,))
        cursor.execute('UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = %s', (event_id + 1,))
        cursor.execute("COMMIT")


def read(local: Local, database: str) -> Asked:
    return local.ask("get_table", dbname=database.encode(), tbl_name=b"t")


def test_an_older_database_is_served_at_once(
    stepped: Stepped, local: Local, metastore: Metastore, client: MetastoreClient, unique_name: str
) -> None:
    """Before any id of the time after the start of the proxy is reached again."""
    older = newest(metastore)
    log_some(client, unique_name)
    stepped.caught_up()
    assert read(local, unique_name).by == "hit"
    restore(metastore, older)
    assert stepped.caught_up().reset is ResetReason.WENT_BACK
    assert stepped.page[Slot.CURSOR] == older
    stepped.step()
    assert read(local, unique_name).by == "hit"


def test_ids_that_clients_were_told_of_are_forgotten_with_them(
    stepped: Stepped, local: Local, metastore: Metastore, client: MetastoreClient, unique_name: str
) -> None:
    stepped.caught_up()
    older = newest(metastore)
    log_some(client, unique_name)
    told = local.ask("get_current_notificationEventId").reply.value.success.eventId
    assert told == newest(metastore) > older
    assert read(local, unique_name).by == "miss", "the cache has not reached what was told"
    restore(metastore, older)
    stepped.caught_up()
    assert read(local.another(), unique_name).by in ("hit", "hot")


def test_an_id_of_the_older_database_counts_while_the_cache_does_not_know_of_it(
    stepped: Stepped, local: Local, metastore: Metastore, client: MetastoreClient, unique_name: str
) -> None:
    """It is told between the step's look at the database and its commit, when the cursor is still beyond it."""
    older = newest(metastore)
    log_some(client, unique_name)
    stepped.caught_up()
    restore(metastore, older)

    def meanwhile() -> None:
        table = client.get_table(unique_name, "t")
        table.parameters["state"] = "new"
        client.alter_table(unique_name, "t", table)
        told = local.ask("get_current_notificationEventId").reply.value.success.eventId
        assert older < told < stepped.page[Slot.CURSOR]

    stepped.store.meanwhile = meanwhile
    known = stepped.fences.note(Note(NoteKind.EVENT, event=stepped.page[Slot.CURSOR]))
    assert stepped.step().reset is ResetReason.WENT_BACK
    assert stepped.fences.note(Note(NoteKind.EVENT, event=older + 1)) > known, "other proxies are told of it, too"
    reader = local.another()
    asked = read(reader, unique_name)
    assert asked.by == "miss" and asked.reply.value.success.parameters[b"state"] == b"new"
    stepped.caught_up()
    asked = read(local.another(), unique_name)
    assert asked.by == "hit" and asked.reply.value.success.parameters[b"state"] == b"new"


def test_a_write_that_began_before_does_not_expect_an_id_of_the_time_before(
    stepped: Stepped, local: Local, metastore: Metastore, client: MetastoreClient, unique_name: str
) -> None:
    """Else the log would be taken for one that is not written any more, and be left alone until it is as long again."""
    older = newest(metastore)
    log_some(client, unique_name)
    stepped.caught_up()
    table = local.ask("get_table", dbname=unique_name.encode(), tbl_name=b"t").reply.value.success
    restore(metastore, older)
    message = request("alter_table", {"dbname": unique_name.encode(), "tbl_name": b"t", "new_tbl": table})
    header = parse_header(message)
    assert isinstance(header, Header)
    forward = local.dispatcher.decide(ClientCall.of(local.session, header, message, time.monotonic_ns()))
    assert isinstance(forward, Forward)
    forward.pending.sending()
    assert stepped.caught_up().reset is ResetReason.WENT_BACK
    reply = local.oracle.call(message)
    forward.pending.reply_began(local.session, time.monotonic_ns())
    forward.pending.reply_done(local.session, reply, time.monotonic_ns())
    assert not stepped.step().unlogged


def test_lost_writes_are_not_taken_for_a_log_that_is_not_written(
    stepped: Stepped, metastore: Metastore, client: MetastoreClient, unique_name: str
) -> None:
    """A failover to a replica that was behind: it answers before it is promoted, and lacks the last write through this
    proxy. Nothing was followed then until a further write came through the proxy, if one ever did."""
    older = newest(metastore)
    log_some(client, unique_name)
    stepped.caught_up()
    stepped.page[Slot.EXPECTED_EVENT] = newest(metastore)
    stepped.step()
    restore(metastore, older)
    stepped.another_cycle()
    stepped.store.is_replica = True
    assert stepped.step().replica
    stepped.store.is_replica = False
    assert stepped.cycle.peek() == LogPeek(older, unlogged=None)
    assert stepped.caught_up().unlogged is None
    stepped.page[Slot.EXPECTED_EVENT] = older + 1
    assert stepped.cycle.peek().unlogged, "a later write that is missing counts"
