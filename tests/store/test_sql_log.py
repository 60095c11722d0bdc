"""The notification log: ids, fingerprints, what a poll costs, and snapshots while several clients write."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hms_cache_proxy.store.protocol import PAGE_BYTES
from hms_cache_proxy.store.sql.store import SqlStore, open_sql_store
from tests.store.content import column, descriptor
from tests.store.oracle import Oracle, hms
from tests.store.statements import StatementProxy
from tests.testbed.metastore import Metastore

CLIENTS, TABLES_EACH = 4, 12


@pytest.fixture
def store(hms42: Metastore) -> Iterator[SqlStore]:
    assert hms42.database is not None
    opened = open_sql_store(hms42.database.reader_url)
    yield opened
    opened.close()


@pytest.fixture
def oracle(hms42: Metastore) -> Iterator[Oracle]:
    with Oracle(*hms42.address) as connection:
        yield connection


def test_events(store: SqlStore, oracle: Oracle, hms42: Metastore, unique_name: str) -> None:
    with store.snapshot() as snapshot:
        before = snapshot.event_id
    oracle.create_database(hms.Database(name=unique_name))
    oracle.create_table(table(unique_name, "t"))
    oracle.drop_table(unique_name, "t", True)
    with store.snapshot() as snapshot:
        events = snapshot.events(before, 100)
        assert snapshot.event_id == events[-1].event_id == oracle.get_current_notificationEventId()[1][1]
        assert snapshot.events(before, 2) == events[:2]
        assert snapshot.events(snapshot.event_id, 5) == []
        assert snapshot.oldest_event_id() == 1
    mine = [event for event in events if event.database == unique_name.encode()]
    assert [event.type for event in mine] == ["CREATE_DATABASE", "CREATE_TABLE", "DROP_TABLE"]
    assert [event.table for event in mine] == [None, b"t", b"t"]
    answered = oracle.get_next_notification(hms.NotificationEventRequest(lastEvent=before, maxEvents=100))[1][1]
    for event, theirs in zip(events, answered, strict=True):
        fields = {number: value for number, (_, value) in theirs.items()}
        assert (event.event_id, event.time_s, event.type.encode()) == (fields[1], fields[2], fields[3])
        assert (event.database, event.table, event.catalog) == (fields.get(4), fields.get(5), fields.get(8))
        assert (event.message or "").encode() == fields[6]
        assert (event.message_format or "").encode() == fields[7]


@pytest.mark.parametrize("of", ["hms42", "hms42_mariadb"])
def test_a_page_ends_where_its_messages_are_large(of: str, request: pytest.FixtureRequest, unique_name: str) -> None:
    metastore: Metastore = request.getfixturevalue(of)
    database = metastore.database
    assert database is not None
    store = open_sql_store(database.reader_url)
    with Oracle(*metastore.address) as oracle:
        oracle.create_database(hms.Database(name=unique_name))
        with store.snapshot() as snapshot:
            before, mark = snapshot.event_id, snapshot.fingerprint(snapshot.event_id)
        for number in range(3):
            oracle.create_table(table(unique_name, f"t{number}"))
    with store.snapshot() as snapshot:
        rows = snapshot.events(before, 3)
    with database.connect() as connection, connection.cursor() as cursor:
        change = 'UPDATE "NOTIFICATION_LOG" SET "MESSAGE" = %s WHERE "EVENT_ID" = %s'
        try:
            for row in rows:
                cursor.execute(change, ("x" * (PAGE_BYTES // 2), row.event_id))
            with store.snapshot() as snapshot:
                assert snapshot.fingerprint(before) == mark
                first, second = snapshot.events(before, 3), snapshot.events(before + 2, 3)
            assert [row.event_id for row in first] == [before + 1, before + 2]
            assert second[0].event_id == before + 3 and len(second[0].message or "") == PAGE_BYTES // 2
        finally:
            for row in rows:
                cursor.execute(change, (row.message, row.event_id))
    store.close()


def test_events_without_objects(store: SqlStore, oracle: Oracle) -> None:
    opened = oracle.open_txns(hms.OpenTxnRequest(num_txns=1, user="u", hostname="h"))
    transaction = opened[1][1][0]
    oracle.abort_txn(hms.AbortTxnRequest(txnid=transaction))
    with store.snapshot() as snapshot:
        found = [event for event in snapshot.events(0, 100_000) if event.type in ("OPEN_TXN", "ABORT_TXN")]
    assert len(found) >= 2
    assert {(event.catalog, event.database, event.table) for event in found} == {(None, None, None)}


def test_transaction_tables(store: SqlStore, oracle: Oracle, unique_name: str) -> None:
    first, second = oracle.open_txns(hms.OpenTxnRequest(num_txns=2, user="u", hostname="h"))[1][1]
    for transaction, name in ((first, "a"), (first, "b"), (second, "a")):
        request = hms.AllocateTableWriteIdsRequest(dbName=unique_name, tableName=name, txnIds=[transaction])
        oracle.allocate_table_write_ids(request)
    database = unique_name.encode()
    with store.snapshot() as snapshot:
        both = sorted(snapshot.transaction_tables([second, first, second + 1000]))
        assert both == [(first, database, b"a"), (first, database, b"b"), (second, database, b"a")]
        assert snapshot.transaction_tables([second]) == [(second, database, b"a")]
        assert snapshot.transaction_tables([]) == []
    oracle.abort_txn(hms.AbortTxnRequest(txnid=first))
    oracle.abort_txn(hms.AbortTxnRequest(txnid=second))


def test_fingerprints(store: SqlStore, oracle: Oracle, hms42: Metastore, unique_name: str) -> None:
    oracle.create_database(hms.Database(name=unique_name))
    oracle.create_table(table(unique_name, "t"))
    with store.snapshot() as snapshot:
        last = snapshot.event_id
        prints = [snapshot.fingerprint(event_id) for event_id in range(last - 1, last + 2)]
    assert prints[0] != prints[1] and None not in prints[:2] and prints[2] is None
    oracle.drop_table(unique_name, "t", True)
    with store.snapshot() as snapshot:  # no longer the newest, still the same
        assert snapshot.fingerprint(last) == prints[1]
    assert hms42.database is not None
    with hms42.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute('UPDATE "NOTIFICATION_LOG" SET "EVENT_TIME" = "EVENT_TIME" + 1 WHERE "EVENT_ID" = %s', (last,))
    with store.snapshot() as snapshot:
        assert snapshot.fingerprint(last) not in (None, prints[1])


def test_the_rows_after_a_row_are_read_with_its_fingerprint(hms42: Metastore, oracle: Oracle, unique_name: str) -> None:
    assert hms42.database is not None
    with StatementProxy(hms42.database.host, hms42.database.port) as proxy:
        store = open_sql_store(hms42.database.behind("127.0.0.1", proxy.port).reader_url)
        with store.snapshot() as snapshot:
            last, expected = snapshot.event_id, snapshot.fingerprint(snapshot.event_id)
        oracle.create_database(hms.Database(name=unique_name))
        for name in ("a", "b"):
            oracle.create_table(table(unique_name, name))
        with store.snapshot() as snapshot:
            separately = snapshot.events(last, 100)
        with store.snapshot() as snapshot:
            proxy.statements.clear()
            assert snapshot.fingerprint(last) == expected
            assert snapshot.events(last, 100) == separately and len(separately) >= 3
            assert sum("NOTIFICATION_LOG" in statement for statement in proxy.statements) == 1
            assert snapshot.events(last, 100) == separately  # they are kept for one call
            assert snapshot.fingerprint(last) == expected and snapshot.events(last, 2) == separately[:2]
        store.close()


def test_an_empty_log(hms40: Metastore) -> None:
    """No listener: nothing was ever logged."""
    assert hms40.database is not None
    store = open_sql_store(hms40.database.reader_url)
    with store.snapshot() as snapshot:
        assert (snapshot.event_id, snapshot.oldest_event_id(), snapshot.events(0, 10)) == (0, None, [])
        assert snapshot.fingerprint(0) is None and snapshot.fingerprint(1) is None
    store.close()


def test_an_idle_look_is_one_statement(hms42: Metastore) -> None:
    assert hms42.database is not None
    with StatementProxy(hms42.database.host, hms42.database.port) as proxy:
        store = open_sql_store(hms42.database.behind("127.0.0.1", proxy.port).reader_url)
        proxy.statements.clear()
        for _ in range(2):
            with store.snapshot() as snapshot:
                snapshot.fingerprint(snapshot.event_id)
                assert snapshot.marks() is not None
        store.close()
        looks = proxy.statements
    assert [look.split(";")[0] for look in looks] == [
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "COMMIT",
    ] * 2
    assert sum("SELECT" in look for look in looks) == 2


def test_snapshots_under_load(hms42: Metastore, store: SqlStore, unique_name: str) -> None:
    """Every snapshot has the log without a gap up to its event id, and exactly the tables that the log tells of."""
    databases = [f"{unique_name}_{number}" for number in range(CLIENTS)]
    workers = [threading.Thread(target=_create_and_drop, args=(hms42, name)) for name in databases]
    with store.snapshot() as snapshot:
        start = snapshot.event_id
    for worker in workers:
        worker.start()
    looks, ids = 0, set()
    while any(worker.is_alive() for worker in workers) or looks == 0:
        ids.add(_check(store, databases, start))
        looks += 1
    for worker in workers:
        worker.join()
    _check(store, databases, start)
    assert len(ids) > 5, f"{looks} looks saw too little"


def _check(store: SqlStore, databases: list[str], start: int) -> int:
    with store.snapshot() as snapshot:
        events = snapshot.events(start, 100_000)
        assert [event.event_id for event in events] == list(range(start + 1, snapshot.event_id + 1))
        told: dict[bytes, set[bytes]] = {}
        for event in events:
            if event.table is None or event.database is None:
                continue
            if event.type == "CREATE_TABLE":
                told.setdefault(event.database, set()).add(event.table)
            elif event.type == "DROP_TABLE":
                told[event.database].discard(event.table)
        for database in databases:
            seen = {name for name, _, _ in snapshot.table_names(b"hive", database.encode())}
            assert seen == told.get(database.encode(), set())
        return snapshot.event_id


def _create_and_drop(metastore: Metastore, database: str) -> None:
    with Oracle(*metastore.address) as oracle:
        oracle.create_database(hms.Database(name=database))
        for number in range(TABLES_EACH):
            oracle.create_table(table(database, f"t{number}"))
            if number % 2:
                oracle.drop_table(database, f"t{number - 1}", True)


def table(database: str, name: str) -> object:
    return hms.Table(
        tableName=name,
        dbName=database,
        sd=descriptor(),
        partitionKeys=[column("p")],
        parameters={"EXTERNAL": "TRUE"},
        tableType="EXTERNAL_TABLE",
    )
