"""The first step after a restart: which write ids it reads, though nothing in the log names their tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from hms_cache_proxy.store.protocol import LogEnd, RawStore, Snapshot, StoreIdentity, TableWrites, WritesKey
from hms_cache_proxy.store.sql.store import open_sql_store
from hms_cache_proxy.store.write_ids import ValidWriteIdList
from tests.follower.stepping import DATABASE, Catalog, Stepping, columns, new

QUIET = [b"quiet0", b"quiet1", b"quiet2"]
WRITTEN = b"written"


class Asked:
    """A snapshot, which notes the tables whose write ids were read."""

    def __init__(self, snapshot: Snapshot, asked: list[bytes]) -> None:
        self._snapshot = snapshot
        self._asked = asked

    def write_ids(self, tables: Sequence[WritesKey]) -> dict[WritesKey, TableWrites]:
        self._asked += [table for _, table in tables]
        return self._snapshot.write_ids(tables)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._snapshot, name)


class Noted(RawStore):
    """A store, and the tables whose write ids were read from it."""

    def __init__(self, store: RawStore) -> None:
        self._store = store
        self.asked: list[bytes] = []

    @property
    def identity(self) -> StoreIdentity:
        return self._store.identity

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        with self._store.snapshot() as snapshot:
            yield cast(Snapshot, Asked(snapshot, self.asked))

    def log_end(self) -> LogEnd:
        return self._store.log_end()

    def close(self) -> None:
        self._store.close()


def create(catalog: Catalog, name: bytes) -> None:
    parameters = {b"transactional": b"true", b"transactional_properties": b"insert_only"}
    storage = new("StorageDescriptor", cols=columns(1), serdeInfo=new("SerDeInfo"))
    made = new("Table", tableName=name, dbName=DATABASE, sd=storage, partitionKeys=[], parameters=parameters)
    made.tableType = b"MANAGED_TABLE"
    request = new("CreateTableRequest", table=made, processorCapabilities=[b"HIVEMANAGEDINSERTWRITE"])
    request.processorIdentifier = b"test"
    catalog.call("create_table_req", request=request)


def begin(catalog: Catalog, name: bytes) -> int:
    """A transaction that has a write id of this table."""
    request = new("OpenTxnRequest", num_txns=1, user=b"u", hostname=b"h")
    transaction = int(catalog.call("open_txns", rqst=request).txn_ids[0])
    wanted = new("AllocateTableWriteIdsRequest", dbName=DATABASE, tableName=name, txnIds=[transaction])
    catalog.call("allocate_table_write_ids", rqst=wanted)
    return transaction


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """Transactional tables, each with a committed write; one has an open write, too."""
    with Catalog(tmp_path) as made:
        for name in (*QUIET, WRITTEN):
            create(made, name)
            made.call("commit_txn", rqst=new("CommitTxnRequest", txnid=begin(made, name)))
        begin(made, WRITTEN)
        yield made


@pytest.fixture
def stepping(tmp_path: Path, catalog: Catalog) -> Iterator[Stepping]:
    with Stepping(tmp_path / "cache", Noted(open_sql_store(catalog.url))) as made:
        made.settle()
        yield made


def asked(stepping: Stepping) -> list[bytes]:
    """Whose write ids the first step of another process reads."""
    assert isinstance(stepping.store, Noted)
    stepping.another_cycle()
    stepping.store.asked.clear()
    stepping.step()
    return sorted(stepping.store.asked)


def text(stepping: Stepping, name: bytes) -> bytes:
    with stepping.reader.snapshot() as snapshot:
        row = snapshot.write_ids(stepping.table(name).table_id)
    assert row is not None
    return row.text


def test_only_tables_with_invalid_writes_are_looked_at(stepping: Stepping) -> None:
    assert asked(stepping) == [WRITTEN]


def test_what_the_log_names_is_read(stepping: Stepping, catalog: Catalog) -> None:
    catalog.call("commit_txn", rqst=new("CommitTxnRequest", txnid=begin(catalog, QUIET[1])))
    assert asked(stepping) == [QUIET[1], WRITTEN]
    assert ValidWriteIdList.parse(text(stepping, QUIET[1])).high_watermark == 2


def test_a_write_that_ended_without_a_row_in_the_log_is_seen(stepping: Stepping, catalog: Catalog) -> None:
    assert ValidWriteIdList.parse(text(stepping, WRITTEN)).open == (2,)
    with closing(sqlite3.connect(catalog.file, isolation_level=None)) as connection:
        connection.execute('UPDATE "TXNS" SET "TXN_STATE" = \'a\' WHERE "TXN_STATE" = \'o\'')
    assert asked(stepping) == [WRITTEN]
    assert ValidWriteIdList.parse(text(stepping, WRITTEN)).aborted == {2}
    with closing(sqlite3.connect(catalog.file, isolation_level=None)) as connection:
        connection.execute('DELETE FROM "TXNS" WHERE "TXN_STATE" = \'a\'')  # as after a compaction
    assert asked(stepping) == [WRITTEN]
    assert ValidWriteIdList.parse(text(stepping, WRITTEN)).invalid == ()
    assert asked(stepping) == []
