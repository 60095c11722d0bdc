"""Lists of write ids from each store: what the metastore itself makes for a reader who begins now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from hms_cache_proxy.follower.messages import decode
from hms_cache_proxy.store.protocol import UNKNOWN_ID, RawStore, TableWrites, WritesKey
from hms_cache_proxy.store.sql.store import open_sql_store
from hms_cache_proxy.store.thrift.write_ids import OWNERS_ASKED, TABLES_AT_ONCE
from hms_cache_proxy.store.txn_list import NONE_OPEN
from hms_cache_proxy.store.write_ids import ValidWriteIdList
from tests.chance import chance
from tests.store.oracle import Oracle, Refused, hms
from tests.store.statements import StatementProxy
from tests.store.stores import FACTORIES
from tests.store.writing import Answer, Writing
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore

STEPS = 120
TIMEOUT_S = 60
HOUSEKEEPING = {
    "metastore.housekeeping.threads.on": "true",
    "metastore.task.threads.remote": "org.apache.hadoop.hive.metastore.txn.service.AcidHouseKeeperService,"
    "org.apache.hadoop.hive.metastore.txn.service.AcidTxnCleanerService",
    "metastore.acid.housekeeper.interval": "1s",
    "metastore.acid.txn.cleaner.interval": "1s",
}


class Both:
    """Every store over one metastore, and the metastore itself."""

    def __init__(self, metastore: Metastore, database: str) -> None:
        self.metastore = metastore
        self.stores: dict[str, RawStore] = {name: make(metastore) for name, make in FACTORIES.items()}
        self.oracle = Oracle(*metastore.address, metastore.flavour.version)
        self.hive4 = not metastore.flavour.version.startswith("3.")
        self.writing = Writing(self.oracle, database, hive4=self.hive4)

    def close(self) -> None:
        """End what is open: the server may be shared."""
        self.writing.abort(*self.writing.opened)
        for store in self.stores.values():
            store.close()
        self.oracle.close()

    def writes(self, *tables: str) -> dict[str, TableWrites]:
        """What all stores say, after it was compared with the metastore's answer and with each other."""
        keys = [self.writing.key(table) for table in tables]
        found = {name: _writes(store, keys) for name, store in self.stores.items()}
        answers = self.writing.answers(*tables)
        for name, writes in found.items():
            assert {key: _answer(one.valid) for key, one in writes.items()} == answers, name
        assert found["thrift"] == found["sql"]
        return {key[1].decode(): one for key, one in found["sql"].items()}

    def texts(self, *tables: str) -> list[bytes]:
        """The lists without the names of their tables."""
        return [one.valid.text().partition(b":")[2] for one in self.writes(*tables).values()]


def _writes(store: RawStore, keys: list[WritesKey]) -> dict[WritesKey, TableWrites]:
    with store.snapshot() as snapshot:
        return snapshot.write_ids(keys)


def _answer(one: ValidWriteIdList) -> Answer:
    return Answer(one.high_watermark, one.invalid, one.aborted, None if one.min_open == NONE_OPEN else one.min_open)


def _shown(one: ValidWriteIdList) -> set[int]:
    """The writes that a reader with this list sees."""
    return {write_id for write_id in range(1, one.high_watermark + 1) if one.is_valid(write_id)}


@pytest.fixture(params=["embedded", "embedded-postgresql", "hive42", "hive40", "hive31", "hive42-mariadb"])
def both(request: pytest.FixtureRequest, bed: Bed, unique_name: str) -> Iterator[Both]:
    made = Both(bed.shared(request.param), unique_name)
    yield made
    made.close()


def test_never_written(both: Both) -> None:
    both.writing.create("empty")
    assert both.texts("empty", "no_such") == [b"0:9223372036854775807::"] * 2
    for store in both.stores.values():
        assert _writes(store, []) == {}


def test_open_committed_aborted(both: Both) -> None:
    writing = both.writing
    writing.create("t", "u")
    first, second, third = writing.begin(3)
    assert writing.write("t", first, second) == [1, 2]
    assert writing.write("u", second, third) == [1, 2]
    found = both.writes("t", "u")
    assert found["t"].open == {1: first, 2: second} and found["u"].open == {1: second, 2: third}
    assert both.texts("t", "u") == [b"1:1:1:" if both.hive4 else b"2:1:1,2:"] * 2
    writing.commit(second)
    assert both.texts("t", "u") == [b"2:1:1:", b"2:2:2:"]
    writing.abort(first)
    assert both.texts("t", "u") == [b"2:9223372036854775807::1", b"2:2:2:"]
    writing.commit(third)
    found = both.writes("t", "u")
    assert [one.open for one in found.values()] == [{}, {}]
    assert both.texts("t", "u") == [b"2:9223372036854775807::1", b"2:9223372036854775807::"]


def test_nothing_seen_hides_what_follows(both: Both) -> None:
    """The list of Hive 4 ends at the first invalid id; what is open beyond is known all the same."""
    writing = both.writing
    writing.create("t")
    transactions = writing.begin(5)
    writing.write("t", *transactions)
    writing.abort(transactions[0], transactions[2])
    found = both.writes("t")["t"]
    assert found.valid.text().endswith(b":1:2::1" if both.hive4 else b":5:2:2,4,5:1,3")
    assert found.open == {2: transactions[1], 4: transactions[3], 5: transactions[4]}
    writing.abort(transactions[1], transactions[3], transactions[4])
    assert both.writes("t")["t"].open == {}
    assert both.texts("t") == [b"1:9223372036854775807::1" if both.hive4 else b"5:9223372036854775807::1,2,3,4,5"]


def test_a_transaction_that_writes_nothing(both: Both) -> None:
    both.writing.create("t")
    both.writing.written("t")
    both.writing.begin(2)
    both.writing.begin(1, txn_type=hms.TxnType.READ_ONLY)  # 3.1 knows no types
    assert both.texts("t") == [b"1:9223372036854775807::"]


def test_transactions_that_only_read(both: Both) -> None:
    """Lists leave them out, the smallest open transaction does not; they write nothing."""
    if not both.hive4:
        pytest.skip("Hive 3.1 knows no types of transactions")
    (reader,) = both.writing.begin(1, txn_type=hms.TxnType.READ_ONLY)
    (writer,) = both.writing.begin()
    fields = both.oracle.get_open_txns()
    assert reader not in fields[2][1] and writer in fields[2][1] and fields[3][1] <= reader
    by_type = [
        both.oracle.get_open_txns_req(hms.GetOpenTxnsRequest(excludeTxnTypes=[kind]))
        for kind in (hms.TxnType.DEFAULT, hms.TxnType.READ_ONLY)
    ]
    assert [reader in fields[2][1] for fields in by_type] == [True, False]
    assert [writer in fields[2][1] for fields in by_type] == [False, True]
    assert all(fields[3][1] <= reader for fields in by_type)
    with pytest.raises(Refused, match="Internal error processing get_open_txns_req"):
        both.oracle.get_open_txns_req(hms.GetOpenTxnsRequest())
    both.writing.create("t")
    with pytest.raises(Refused, match="Internal error processing allocate_table_write_ids"):
        both.writing.write("t", reader)
    listed = [fields[1][1] for fields in both.oracle.get_open_txns_info()[2][1]]
    assert {reader, writer} <= set(listed)


def test_dropped_with_its_database(both: Both) -> None:
    """No write ids are left, not even where files stay."""
    both.writing.create("t", "u")
    both.writing.written("t", "t", "u")
    both.oracle.drop_database(both.writing.database, False, True)
    assert both.texts("t", "u") == [b"0:9223372036854775807::"] * 2


def test_renamed(both: Both) -> None:
    writing = both.writing
    writing.create("old")
    writing.written("old", "old")
    (transaction,) = writing.begin()
    writing.write("old", transaction)
    writing.rename("old", "new")
    assert both.texts("old", "new") == [b"0:9223372036854775807::", b"3:3:3:"]
    writing.commit(transaction)
    assert both.texts("old", "new") == [b"0:9223372036854775807::", b"3:9223372036854775807::"]


@pytest.mark.parametrize("delete_data", [True, False])
def test_dropped_and_made_again(both: Both, delete_data: bool) -> None:
    """With its data a table loses its write ids; without, in Hive 4, the next of its name goes on counting."""
    writing = both.writing
    writing.create("t")
    writing.written("t", "t")
    both.oracle.drop_table(writing.database, "t", delete_data)
    kept = b"0" if delete_data or not both.hive4 else b"2"
    assert both.texts("t") == [kept + b":9223372036854775807::"]
    writing.create("t")
    assert both.texts("t") == [kept + b":9223372036854775807::"]
    writing.written("t")
    assert both.texts("t") == [b"%d:9223372036854775807::" % (int(kept) + 1)]


def test_a_history(both: Both) -> None:
    """Any order of things: the stores say what the metastore says, and what is visible only grows."""
    drawn = chance("history")
    writing, tables = both.writing, ["a", "b", "c"]
    writing.create(*tables)
    written: dict[tuple[str, int], int] = {}  # (table, transaction): write id
    before = both.writes(*tables)
    for _ in range(STEPS):
        transaction = drawn.choice(writing.opened) if writing.opened else 0
        table = drawn.choice(tables)
        match drawn.randrange(8):
            case 0 | 1 if len(writing.opened) < 6:
                writing.begin(drawn.randint(1, 2))
            case 2 | 3 | 4 if transaction:
                (written[table, transaction],) = writing.write(table, transaction)
            case 5 | 6 if transaction:
                writing.commit(transaction)
            case 7 if transaction:
                writing.abort(transaction)
        now = both.writes(*tables)
        for name in tables:
            opened = {id_: by for (of, by), id_ in written.items() if of == name and by in writing.opened}
            assert now[name].open == opened
            assert _shown(now[name].valid) >= _shown(before[name].valid)
            seen = {id_ for (of, _), id_ in written.items() if of == name and before[name].valid.is_valid(id_)}
            assert all(now[name].valid.is_valid(id_) for id_ in seen)
        before = now


def test_one_state(both: Both) -> None:
    """What commits after a snapshot read its first table is open in it."""
    writing = both.writing
    writing.create("t", "u")
    writing.written("t")
    (transaction,) = writing.begin()
    writing.write("t", transaction)
    for store in both.stores.values():
        (later,) = writing.begin()
        with store.snapshot() as snapshot:
            before = snapshot.write_ids([writing.key("t")])
            snapshot.tables(b"hive", writing.database.encode(), [b"t"])
        with store.snapshot() as snapshot:
            snapshot.tables(b"hive", writing.database.encode(), [b"t"])
            writing.write("u", later)
            writing.commit(later)
            found = snapshot.write_ids([writing.key("t"), writing.key("u")])
            assert found[writing.key("t")] == before[writing.key("t")]
            assert not found[writing.key("u")].valid.is_valid(writing.answers("u")[writing.key("u")].high)


def test_names_of_which_no_list_can_speak(both: Both) -> None:
    """The metastore cuts `db.t.more` at its points and answers for `db.t`."""
    writing = both.writing
    if both.hive4:  # 3.1 refuses such names
        writing.create("t.more", "t:1:2", "t$t")
    writing.create("t")
    writing.written("t", "t.more")
    assert writing.answers("t.more")[writing.key("t.more")].high == 1
    keys = [writing.key(name) for name in ("t.more", "t:1:2", "t$t", "t", "ümläut")]
    for store in both.stores.values():
        assert list(_writes(store, [*keys, (b"\xff", b"t"), (b"a", b"b\0")])) == [writing.key("t")]


def test_more_open_transactions_than_are_asked_for(both: Both) -> None:
    writing = both.writing
    writing.create("seen", "hidden")
    writing.written("seen")
    transactions = writing.begin(OWNERS_ASKED + 1)
    writing.write("seen", *transactions)
    writing.write("hidden", *transactions)
    keys = [writing.key("seen"), writing.key("hidden")]
    found = {name: _writes(store, keys) for name, store in both.stores.items()}
    for key in keys:
        assert found["sql"][key].valid == found["thrift"][key].valid
        assert list(found["sql"][key].open.values()) == transactions
        assert found["thrift"][key].open == dict.fromkeys(found["sql"][key].open, UNKNOWN_ID)
    writing.abort(*transactions[3:])
    both.writes("seen", "hidden")


def test_many_tables(both: Both) -> None:
    """More than one call takes over Thrift; two statements of SQL."""
    names = [f"t{number}" for number in range(TABLES_AT_ONCE + 20)]
    both.writing.create("t7")
    both.writing.written("t7")
    assert [text[:2] for text in both.texts(*names)] == [b"1:" if name == "t7" else b"0:" for name in names]


def test_statements(hms42: Metastore, unique_name: str) -> None:
    assert hms42.database is not None
    with StatementProxy(hms42.database.host, hms42.database.port) as proxy:
        store = open_sql_store(hms42.database.behind("127.0.0.1", proxy.port).reader_url)
        with store.snapshot() as snapshot:
            proxy.statements.clear()
            snapshot.write_ids([(unique_name.encode(), b"t%d" % number) for number in range(1000)])
            assert len(proxy.statements) == 2
            snapshot.write_ids([(b"a", b"b.c")])
            assert len(proxy.statements) == 2
        store.close()


def test_rows_that_are_seldom(both: Both) -> None:
    """Rows put there by hand, as old versions, replication and cleaning leave them."""
    writing, database = both.writing, both.metastore.database
    assert database is not None
    tables = ["read_only", "no_type", "future", "future_only", "cleaned", "counted", "zero"]
    writing.create(*tables)
    transactions = writing.begin(4)
    for table in ("read_only", "no_type", "future", "cleaned"):
        writing.write(table, *transactions)
    writing.commit(transactions[0])
    writing.abort(transactions[1])
    change, insert, count, clean = (
        statement if both.hive4 else statement.replace('"', "")
        for statement in (
            'UPDATE "TXNS" SET "TXN_TYPE" = %s WHERE "TXN_ID" = %s',
            'INSERT INTO "TXN_TO_WRITE_ID" VALUES (%s, %s, %s, %s)',
            'INSERT INTO "NEXT_WRITE_ID" VALUES (%s, %s, %s)',
            'DELETE FROM "TXN_TO_WRITE_ID" WHERE "T2W_TABLE" = %s AND "T2W_DATABASE" = %s AND "T2W_WRITEID" < %s',
        )
    )
    name = writing.database
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(change, (2, transactions[1]))
        cursor.execute(change, (None, transactions[2]))
        cursor.execute(insert, (10**9, name, "future", 9))
        cursor.execute(insert, (10**9, name, "future_only", 9))
        cursor.execute(insert, (10**9 + 1, name, "zero", 3))
        cursor.execute(count, (name, "counted", 8))
        cursor.execute(count, (name, "future_only", 12))
        cursor.execute(count, (name, "zero", 1))
        cursor.execute(clean, ("cleaned", name, 3))
    keys = [writing.key(table) for table in tables]
    sql = _writes(both.stores["sql"], keys)
    assert {key: _answer(one.valid) for key, one in sql.items()} == writing.answers(*tables)
    assert sql[writing.key("future")].open == {3: transactions[2], 4: transactions[3], 9: 10**9}
    assert {key: one.valid for key, one in _writes(both.stores["thrift"], keys).items()} == {
        key: one.valid for key, one in sql.items()
    }
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(change, (0, transactions[1]))
        delete = 'DELETE FROM "TXN_TO_WRITE_ID" WHERE "T2W_TXNID" >= %s'
        cursor.execute(delete if both.hive4 else delete.replace('"', ""), (10**9,))


def test_timed_out(new_metastore: Callable[..., Metastore], unique_name: str) -> None:
    """A metastore that keeps house aborts what sends no heartbeat, and logs it."""
    both = Both(new_metastore(settings={**HOUSEKEEPING, "metastore.txn.timeout": "2s"}), unique_name)
    both.writing.create("t")
    both.writing.written("t")
    (transaction,) = both.writing.begin()
    both.writing.write("t", transaction)
    _until(lambda: both.writing.answers("t")[both.writing.key("t")].low is None)
    assert both.texts("t") == [b"2:9223372036854775807::2"]
    with both.stores["sql"].snapshot() as snapshot:
        (event,) = [row for row in snapshot.events(0, 1000) if row.type == "ABORT_TXN"]
    assert decode(event.message, event.message_format)["txnid"] == transaction
    with pytest.raises(Refused):
        both.writing.commit(transaction)
    both.writing.opened.clear()
    both.close()


def test_compacted_and_cleaned(new_metastore: Callable[..., Metastore], unique_name: str) -> None:
    """Rows go once nothing needs them any more; aborted ids leave the list, and no event says so."""
    both = Both(new_metastore(settings=HOUSEKEEPING), unique_name)
    writing, oracle = both.writing, both.oracle
    writing.create("t", "u")
    writing.written("t")
    (aborted, committed) = writing.begin(2)
    writing.write("t", aborted, committed)
    _written(both, aborted, 2)
    writing.abort(aborted)
    writing.commit(committed)
    before = both.writes("t")["t"].valid
    assert before.text().endswith(b":3:9223372036854775807::2")
    compaction = hms.CompactionRequest(dbname=writing.database, tablename="t", type=hms.CompactionType.MAJOR)
    oracle.compact2(compaction)
    found = oracle.find_next_compact2(hms.FindNextCompactRequest(workerId="w", workerVersion="4.2.0"))[1][1]
    info = hms.CompactionInfoStruct(
        id=found[1][1],
        dbname=writing.database,
        tablename="t",
        type=hms.CompactionType.MAJOR,
        runas="u",
        highestWriteId=3,
        state="i",
        workerId="w",
        start=found[10][1] if 10 in found else 0,
    )
    oracle.update_compactor_state(info, 0)
    oracle.mark_compacted(info)
    still = both.writes("t")["t"].valid
    assert still == before or still.invalid == (), "Hive's own cleaner, which runs each second, may have been quicker"
    assert oracle.find_next_compact2(hms.FindNextCompactRequest(workerId="w", workerVersion="4.2.0")) is not None
    oracle.mark_cleaned(info)
    newest = oracle.get_current_notificationEventId()
    _until(lambda: writing.answers("t")[writing.key("t")].invalid == ())
    assert both.texts("t") == [b"3:9223372036854775807::"]
    assert oracle.get_current_notificationEventId() == newest
    assert _shown(both.writes("t")["t"].valid) > _shown(before)
    both.close()


def _written(both: Both, transaction: int, write_id: int) -> None:
    """Note in TXN_COMPONENTS that the transaction wrote to `t`, as a lock or dynamic partitions do."""
    request = hms.AddDynamicPartitions(
        txnid=transaction,
        writeid=write_id,
        dbname=both.writing.database,
        tablename="t",
        partitionnames=[],
        operationType=hms.DataOperationType.INSERT,
    )
    both.oracle.add_dynamic_partitions(request)


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)
