"""What is deleted in the background: old events, and ended transactions; nothing that an answer needs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from hms_cache_proxy.embedded import housekeeping
from hms_cache_proxy.embedded.database import Database
from hms_cache_proxy.embedded.housekeeping import EVENTS_S, tidy
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.service import Service
from hms_cache_proxy.embedded.warehouse import Warehouse
from tests.embedded.conftest import new_database
from tests.embedded.differential import struct
from tests.embedded.within import Within
from tests.testbed.bed import Bed
from tests.testbed.postgres import OWNER


class House(Within):
    """A client of a metastore, and the metastore's database."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        warehouse = Warehouse((directory / "managed").as_uri(), (directory / "external").as_uri())
        database.prepare(warehouse=warehouse.managed, external=warehouse.external)
        self.service = Service(database, warehouse, {})
        super().__init__(self.service)

    def column(self, column: Any) -> list[Any]:
        with self.database.read() as connection:
            return sorted(connection.execute(select(column)).scalars())

    def events(self) -> list[int]:
        request = struct("NotificationEventRequest", lastEvent=0)
        return [event.eventId for event in self.do("get_next_notification", rqst=request).events]

    def begun(self) -> int:
        request = struct("OpenTxnRequest", num_txns=1, user="u", hostname="h")
        txn: int = self.do("open_txns", rqst=request).txn_ids[0]
        return txn

    def wrote(self) -> int:
        """A new transaction that has a write id."""
        txn = self.begun()
        request = struct("AllocateTableWriteIdsRequest", dbName="d", tableName="t", txnIds=[txn])
        self.do("allocate_table_write_ids", rqst=request)
        return txn

    def locked(self) -> int:
        """The same, with a lock that says what it writes."""
        txn = self.wrote()
        place = {"level": 2, "dbname": "d", "tablename": "t", "operationType": 2, "isTransactional": True}
        wanted = struct("LockComponent", type=1, **place)
        self.do("lock", rqst=struct("LockRequest", component=[wanted], txnid=txn, user="u", hostname="h"))
        return txn

    def commit(self, txn: int) -> None:
        self.do("commit_txn", rqst=struct("CommitTxnRequest", txnid=txn))

    def abort(self, txn: int) -> None:
        self.do("abort_txn", rqst=struct("AbortTxnRequest", txnid=txn))

    def valid(self) -> Any:
        request = struct("GetValidWriteIdsRequest", fullTableNames=["d.t"])
        return self.do("get_valid_write_ids", rqst=request)


@contextmanager
def house_at(url: str, directory: Path) -> Iterator[House]:
    database = Database(url)
    try:
        yield House(database, directory)
    finally:
        database.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_at(f"sqlite:///{tmp_path}/metastore.db", tmp_path) as made:
        yield made


def test_old_events_are_deleted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "EVENTS_AT_ONCE", 3)
    for number in range(9):
        house.do("create_database", database=struct("Database", name=f"d{number}"))
    every, now_s = house.events(), time.time()
    tidy(house.database, now_s)
    assert house.events() == every
    with house.database.write() as connection:
        columns = T.NOTIFICATION_LOG.c
        older = update(T.NOTIFICATION_LOG).where(columns.EVENT_ID <= every[-3])
        connection.execute(older.values(EVENT_TIME=columns.EVENT_TIME - EVENTS_S - 1))
    tidy(house.database, now_s)
    assert house.events() == every[-2:]
    tidy(house.database, now_s + 2 * EVENTS_S)
    assert house.events() == every[-1:], "the last one stays"
    assert house.do("get_current_notificationEventId").eventId == every[-1]


def ended_transactions(house: House) -> None:
    house.do("create_database", database=struct("Database", name="d"))
    soon_s = time.time() + 10
    tidy(house.database, soon_s)
    committed, empty = house.wrote(), house.begun()
    house.commit(committed)
    house.abort(empty)
    aborted, later, opened, last = (house.locked() for _ in range(4))
    house.abort(aborted)
    house.commit(later)
    house.commit(last)
    before, there = house.valid(), house.column(T.TXNS.c.TXN_ID)
    tidy(house.database, soon_s - 60)
    assert house.column(T.TXNS.c.TXN_ID) == there, "they may have begun a moment ago"
    tidy(house.database, soon_s)
    assert house.column(T.TXNS.c.TXN_ID) == [aborted, opened, last]
    assert house.column(T.TXN_TO_WRITE_ID.c.T2W_TXNID) == [aborted, later, opened, last]
    assert house.valid() == before
    house.commit(opened)
    tidy(house.database, soon_s)
    assert house.column(T.TXNS.c.TXN_ID) == [aborted, last] and house.begun() == last + 1


def test_ended_transactions_are_deleted(house: House) -> None:
    ended_transactions(house)


@pytest.mark.real
def test_ended_transactions_are_deleted_in_postgresql(bed: Bed, tmp_path: Path) -> None:
    with house_at(new_database(bed).url(OWNER), tmp_path) as made:
        ended_transactions(made)
