"""Tables that an open transaction has changed: readers with a list do not get them from the cache until it ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.follower.log import LOOK_BACK_EVENTS
from tests.follower.stepping import DATABASE, Catalog, Stepping, columns, new
from tests.testbed.objects import PROCESSOR_CAPABILITIES, PROCESSOR_IDENTIFIER


class Written(Catalog):
    """A transactional table `t`."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        storage = new("StorageDescriptor", cols=columns(2), serdeInfo=new("SerDeInfo"))
        made = new("Table", tableName=b"t", dbName=DATABASE, sd=storage, partitionKeys=[], tableType=b"MANAGED_TABLE")
        made.parameters = {b"transactional": b"true", b"transactional_properties": b"insert_only"}
        able = {"processorCapabilities": PROCESSOR_CAPABILITIES, "processorIdentifier": PROCESSOR_IDENTIFIER}
        self.call("create_table_req", request=new("CreateTableRequest", table=made, **able))

    def begin(self) -> int:
        """A transaction that is to write the table; its id."""
        request = new("OpenTxnRequest", num_txns=1, user=b"u", hostname=b"h")
        (number,) = self.call("open_txns", rqst=request).txn_ids
        asked = new("AllocateTableWriteIdsRequest", dbName=DATABASE, tableName=b"t", txnIds=[number])
        self.call("allocate_table_write_ids", rqst=asked)
        return int(number)

    def change(self, name: bytes, write_id: int, **fields: Any) -> None:
        """alter_table_req under a write id."""
        capable = new("ClientCapabilities", values=[2])
        request = new("GetTableRequest", dbName=DATABASE, tblName=name, capabilities=capable)
        table = self.call("get_table_req", req=request).table
        table.writeId = write_id
        for field, value in fields.items():
            setattr(table, field, value)
        asked = new("AlterTableRequest", dbName=DATABASE, tableName=name, table=table, writeId=write_id)
        self.call("alter_table_req", req=asked)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Written]:
    with Written(tmp_path) as made:
        yield made


@pytest.fixture
def stepping(catalog: Written, tmp_path: Path) -> Iterator[Stepping]:
    with Stepping(tmp_path / "data", catalog) as made:
        made.settle()
        yield made


def writers(stepping: Stepping, name: bytes) -> tuple[int, ...]:
    with stepping.reader.snapshot() as snapshot:
        row = snapshot.write_ids(stepping.table(name).table_id)
    assert row is not None
    return row.writers


def test_a_change_and_the_end_of_its_transaction(catalog: Written, stepping: Stepping) -> None:
    number = catalog.begin()
    stepping.step()
    assert writers(stepping, b"t") == ()
    catalog.change(b"t", 1, owner=b"another")
    stepping.step()
    assert writers(stepping, b"t") == (1,)
    catalog.call("commit_txn", rqst=new("CommitTxnRequest", txnid=number))
    stepping.step()
    assert writers(stepping, b"t") == ()


def test_a_change_of_a_table_that_is_renamed_before_the_follower_looks(catalog: Written, stepping: Stepping) -> None:
    """The event of the change has the table's old name."""
    catalog.begin()
    stepping.step()
    catalog.change(b"t", 1, owner=b"another")
    catalog.change(b"t", -1, tableName=b"u")
    catalog.change(b"u", -1, tableName=b"v")
    stepping.step()
    assert stepping.loaded(b"v") and writers(stepping, b"v") == (1,)


def noted(stepping: Stepping) -> set[int]:
    """The transactions that are known to be open."""
    return {int(number) for number in (stepping.writer.transactions or b"").split(b"\0")[::4] if number}


def test_a_transaction_that_ends_without_a_row_in_the_log(catalog: Written, stepping: Stepping) -> None:
    """As in Hive 3.1 when one times out: it is forgotten when its table is looked at, and not kept for ever."""
    late, open_ = catalog.begin(), catalog.begin()
    stepping.step()
    assert noted(stepping) == {late, open_}
    with closing(sqlite3.connect(catalog.file, timeout=60)) as connection, connection:
        connection.execute("""UPDATE "TXNS" SET "TXN_STATE" = 'a' WHERE "TXN_ID" = ?""", (late,))
    another = catalog.begin()
    stepping.step()
    assert noted(stepping) == {open_, another}
    catalog.call("commit_txn", rqst=new("CommitTxnRequest", txnid=open_))
    stepping.step()
    assert noted(stepping) == {another}


def test_a_table_that_a_transaction_wrote_long_before_another_one(catalog: Written, tmp_path: Path) -> None:
    """Of the log's last rows only the later one names the transaction; the commit changes the earlier table."""
    plain = catalog.table(b"plain", partitioned=False)
    plain.tableName, plain.parameters = b"keyed", {b"EXTERNAL": b"TRUE", b"_meta_k": b"1"}
    catalog.call("create_table", tbl=plain)
    (number,) = catalog.call("open_txns", rqst=new("OpenTxnRequest", num_txns=1, user=b"u", hostname=b"h")).txn_ids
    for name in (b"keyed", b"plain"):
        asked = new("AllocateTableWriteIdsRequest", dbName=DATABASE, tableName=name, txnIds=[number])
        catalog.call("allocate_table_write_ids", rqst=asked)
        if name == b"keyed":
            catalog.events(LOOK_BACK_EVENTS, "{}", kind="CREATE_TABLE")
    with Stepping(tmp_path / "data", catalog) as stepping:
        stepping.settle()
        pair = new("CommitTxnKeyValue", tableId=stepping.table(b"keyed").table_id, key=b"_meta_k", value=b"22")
        catalog.call("commit_txn", rqst=new("CommitTxnRequest", txnid=number, keyValue=pair))
        stepping.step()
        assert b"_meta_k\0\0\0\x0222" in (stepping.table(b"keyed").body or b"")
