"""Truncations that Hive logs before it makes them: a step in between, and the steps after it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.follower.affected import Announcement
from hms_cache_proxy.follower.announced import LONGEST_S, OFTEN_S, RARELY_S, Announced
from hms_cache_proxy.follower.events import affects
from hms_cache_proxy.store.protocol import TableKey, TableRecord
from hms_cache_proxy.wire import spec
from tests.follower import rows
from tests.follower.harness import CATALOG
from tests.follower.stepped import Stepped
from tests.store.oracle import Oracle, hms
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.untyped import decode_struct

T: TableKey = (b"hive", b"d", b"t")
EMPTY: Announcement = (T, frozenset({(b"numRows", b"0")}))
SOON_S = 60.0


def record(**parameters: bytes) -> TableRecord:
    table = spec.struct("Table")(parameters={name.encode(): value for name, value in parameters.items()})
    return TableRecord(*T, 7, b"", spec.encode(table), False, False, (), None)


def test_the_row_says_what_will_be() -> None:
    after = rows.table(keys=(), parameters={"numRows": "0"})
    message = {"tableObjBeforeJson": after, "tableObjAfterJson": after, "isTruncateOp": "true"}
    assert affects(rows.row("ALTER_TABLE", message))[0].announced == {EMPTY}
    message["isTruncateOp"] = "false"
    assert not affects(rows.row("ALTER_TABLE", message))[0].announced


@pytest.mark.parametrize("read", [{T: record(numRows=b"0")}, {T: None}])
def test_what_was_read_as_told_is_not_looked_for(read: dict[TableKey, TableRecord | None]) -> None:
    announced = Announced()
    announced.stepped([EMPTY], read, 100.0)
    assert not announced.due(101.0)


def test_it_is_looked_for_until_it_was_read() -> None:
    announced = Announced()
    announced.stepped([EMPTY], {T: record(numRows=b"5")}, 100.0)
    assert announced.due(100.0) == announced.due(99.9 + OFTEN_S) == [T]
    rarely_s = 100.0 + 2 * OFTEN_S
    announced.stepped([], {}, rarely_s)
    assert not announced.due(rarely_s) and announced.due(rarely_s + RARELY_S) == [T]
    announced.stepped([], {T: record(numRows=b"0")}, rarely_s + RARELY_S)
    assert not announced.due(rarely_s + 2 * RARELY_S)


@pytest.mark.parametrize("found", [record(numRows=b"0"), None])
def test_what_is_so_already_is_not_looked_for(found: TableRecord | None) -> None:
    """Or is gone: a new process only knows what was announced."""
    announced = Announced()
    announced.stepped([EMPTY], {}, 100.0)
    announced.seen({T: found})
    assert not announced.due(100.0)


def test_not_for_ever() -> None:
    announced = Announced()
    announced.stepped([EMPTY], {}, 100.0)
    announced.stepped([], {}, 100.0 + LONGEST_S)
    assert not announced.due(200.0 + LONGEST_S)


@pytest.mark.parametrize("another", [False, True])
@pytest.mark.real
def test_a_step_between_the_row_and_the_truncation(
    hms42: Metastore, client42: MetastoreClient, oracle: Oracle, tmp_path: Path, name: str, another: bool
) -> None:
    """The truncation waits for a lock on the table's parameters, when its row is in the log already. `another`: the
    next step is the first one of another process."""
    metastore, database = hms42, hms42.database
    assert database is not None
    objects.create_database(client42, name)
    objects.create_table(client42, objects.table(name, "t", parameters={"numRows": "5", "rawDataSize": "5"}))

    request = hms.GetTableRequest(dbName=name, tblName="t")

    def truncate() -> None:
        with MetastoreClient(*metastore.address) as client:
            client.truncate_table(name, "t", None)

    def cached() -> object:
        with stepped.reader.snapshot() as cache:
            entry = cache.table(CATALOG, name.encode(), b"t")
        assert isinstance(entry, TableEntry) and entry.body is not None
        return decode_struct(entry.body)

    def answer() -> object:
        return oracle.get_table_req(req=request)[1][1]

    with Stepped(tmp_path / "data", metastore) as stepped, database.connect() as holder, holder.cursor() as cursor:
        stepped.caught_up()
        before = cached()
        cursor.execute("BEGIN")
        cursor.execute(
            'SELECT p."TBL_ID" FROM "TABLE_PARAMS" p JOIN "TBLS" t ON t."TBL_ID" = p."TBL_ID"'
            ' JOIN "DBS" d ON d."DB_ID" = t."DB_ID" WHERE d."NAME" = %s FOR UPDATE OF p',
            (name,),
        )
        thread = threading.Thread(target=truncate)
        thread.start()
        deadline_s = time.monotonic() + SOON_S
        while ("ALTER_TABLE", "applied") not in (stepped.step().results or {}):
            assert thread.is_alive() and time.monotonic() < deadline_s
        assert cached() == before == answer()
        cursor.execute("ROLLBACK")
        thread.join()
        assert cached() == before != answer()
        if another:
            stepped.another_cycle()
        assert f"hive.{name}.t" in stepped.step().unlogged_tables
        assert cached() == answer()
