"""The two examples of Hive's design "Synchronized Metastore Cache", step by step, on a real metastore, two proxies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from hms_cache_proxy.upstream.service import Declared
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore
from tests.write_ids.transactions import Transactions, struct

DB, TABLE = "synchronized", "t"
Followed = tuple[Transactions, Proxy, Proxy, int]
READ_ONLY = 2  # TxnType
PATIENT = {"MAX_UNCONFIRMED_MS": "60000", "TRANSACTIONAL_READS": "passthrough"}


@contextmanager
def paused(proxy: Proxy) -> Iterator[None]:
    """The proxy's follower stands still: its cache is as it was."""
    (follower,) = proxy.children()["follower"]
    os.kill(follower, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(follower, signal.SIGCONT)


class Reader:
    """get_table_req at a proxy, and how the proxy counted it."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.proxy.requests()  # what others have asked is counted; a read waits until it is
        self.client = Transactions(*proxy.address)

    def read(self, valid: bytes | None, table_id: int | None) -> tuple[str, str, dict[bytes, bytes]]:
        """(outcome, reason, the table's parameters)."""
        before = of_get_table(self.proxy.told_requests())
        table = self.client.table(DB, TABLE, valid, table_id)
        how: dict[tuple[str, str], float] = {}
        while not how:
            time.sleep(0.05)
            now = of_get_table(self.proxy.told_requests())
            how = {key: count - before.get(key, 0) for key, count in now.items() if count > before.get(key, 0)}
        ((outcome, reason),) = how
        return outcome, reason, table.parameters


def of_get_table(counts: dict[tuple[str, str, str], float]) -> dict[tuple[str, str], float]:
    return {(outcome, why): count for (method, outcome, why), count in counts.items() if method == "get_table_req"}


@pytest.fixture
def reader() -> Iterator[Callable[[Proxy], Reader]]:
    """reader(proxy): one connection to it."""
    with ExitStack() as stack:

        def make(proxy: Proxy) -> Reader:
            made = Reader(proxy)
            stack.callback(made.client.close)
            return made

        yield make


@pytest.fixture(scope="module")
def pair(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Metastore, list[Proxy]]]:
    """A Hive 4.2 and two proxies for all of these tests, one after the other."""
    metastore = bed.private_metastore("hive42")
    assert metastore.database is not None
    with ExitStack() as stack:
        stack.callback(bed.release, metastore)
        proxies = []
        for _ in range(2):
            directory = tmp_path_factory.mktemp("proxy")
            proxies.append(Proxy(directory, metastore.uri, metastore.database.reader_url, PATIENT))
            stack.callback(proxies[-1].close)
            proxies[-1].start(prewarmed=True)
        yield metastore, proxies


@pytest.fixture
def followed(pair: tuple[Metastore, list[Proxy]]) -> Iterator[Followed]:
    """A new table that both proxies have, and no other one."""
    metastore, (first, second) = pair
    with Transactions(*metastore.address) as direct:
        direct.create_database(DB)
        table_id = direct.create(DB, TABLE)
        caught_up(direct, first, second)
        yield direct, first, second, table_id
        direct.call("drop_database", name=DB, deleteData=True, cascade=True)


def caught_up(direct: Transactions, *proxies: Proxy) -> None:
    for proxy in proxies:
        proxy.wait_event(direct.event_id())


def shows(proxy: Proxy, *, being_written: int) -> None:
    """/status counts transactional tables once a second."""

    def counted() -> bool:
        objects = proxy.status()["objects"]
        return (objects["transactional_tables"], objects["tables_being_written"]) == (1, being_written)

    proxy.wait(counted, f"showing {being_written} tables being written", 5)


@pytest.mark.real
def test_lists_of_several_transactions(followed: Followed, reader: Callable[[Proxy], Reader]) -> None:
    direct, proxy, _, table_id = followed
    reads = reader(proxy).read
    transactions = {}
    for write_id in range(1, 12):
        transactions[write_id] = direct.open()
        assert direct.allocate(transactions[write_id], DB, TABLE) == write_id
        if write_id not in (7, 8):
            direct.commit(transactions[write_id])
    caught_up(direct, proxy)
    name = f"{DB}.{TABLE}"
    cached = direct.valid(DB, TABLE)
    assert cached == f"{name}:11:7:7,8:".encode()
    assert reads(cached, table_id)[:2] == ("hit", "write_id")
    with paused(proxy):
        transactions[12] = direct.open()
        assert direct.allocate(transactions[12], DB, TABLE) == 12
        wanted = direct.valid(DB, TABLE)
        assert wanted == f"{name}:12:7:7,8,12:".encode()
        assert reads(wanted, table_id)[:2] == ("hit", "write_id")  # nobody committed between the two
        direct.alter(DB, TABLE, {"told": "by 8"}, write_id=8, valid=wanted)
        direct.commit(transactions[8])
        newer = direct.valid(DB, TABLE)
        assert newer == f"{name}:12:7:7,12:".encode()
        outcome, reason, parameters = reads(newer, table_id)
        assert (outcome, reason, parameters[b"told"]) == ("miss", "write_id", b"by 8")
    caught_up(direct, proxy)
    outcome, reason, parameters = reads(newer, table_id)
    assert (outcome, reason, parameters[b"told"]) == ("hit", "write_id", b"by 8")
    assert reads(wanted, table_id)[:2] == ("miss", "write_id")  # an older reader is not shown what is newer
    direct.abort(transactions[7])
    caught_up(direct, proxy)
    assert reads(newer, table_id)[:2] == ("hit", "write_id")  # aborted or open: nobody sees either


@pytest.mark.real
def test_altered_through_one_read_through_the_other(followed: Followed, reader: Callable[[Proxy], Reader]) -> None:
    direct, first, second, table_id = followed
    reads = reader(second).read
    old = direct.valid(DB, TABLE)
    assert reads(old, table_id)[:2] == ("hit", "write_id")
    with paused(second), Transactions(*first.address) as writer:
        transaction = writer.open()
        write_id = writer.allocate(transaction, DB, TABLE)
        mine = writer.valid(DB, TABLE, transaction)
        writer.alter(DB, TABLE, {"told": "yes"}, write_id=write_id, valid=mine)
        others = direct.valid(DB, TABLE)
        outcome, reason, parameters = reads(others, table_id)
        assert (outcome, reason) == ("hit", "write_id") and b"told" not in parameters  # not committed, not followed yet
        assert reader(first).read(mine, table_id)[0] == "miss"  # its own writes
    caught_up(direct, first, second)
    assert reads(others, table_id)[:2] == ("miss", "write_id")  # an open transaction has changed the table
    shows(second, being_written=1)
    with paused(second):
        direct.commit(transaction)
        committed = direct.valid(DB, TABLE)
        outcome, reason, parameters = reads(committed, table_id)
        assert (outcome, reason, parameters[b"told"]) == ("miss", "write_id", b"yes")
    caught_up(direct, first, second)
    for proxy in (first, second):
        outcome, reason, parameters = reader(proxy).read(committed, table_id)
        assert (outcome, reason, parameters[b"told"]) == ("hit", "write_id", b"yes")
    shows(second, being_written=0)


@pytest.mark.real
def test_what_proves_nothing(followed: Followed, reader: Callable[[Proxy], Reader]) -> None:
    direct, proxy, _, table_id = followed
    reads = reader(proxy).read
    valid = direct.valid(DB, TABLE)
    assert reads(None, None)[:2] == ("miss", "no_write_id")
    assert reads(valid, None)[:2] == ("miss", "table_id")
    assert reads(valid, table_id + 1)[:2] == ("miss", "table_id")
    assert reads(b"no list", table_id)[:2] == ("miss", "write_id")
    direct.drop(DB, TABLE)
    again = direct.create(DB, TABLE)
    caught_up(direct, proxy)
    assert direct.valid(DB, TABLE) == valid  # which is why a list alone is no proof
    assert reads(valid, table_id)[:2] == ("miss", "table_id")
    assert reads(valid, again)[:2] == ("hit", "write_id")


@pytest.mark.real
def test_an_id_that_the_cache_does_not_have(followed: Followed, reader: Callable[[Proxy], Reader]) -> None:
    """A reader that has the table's id, or a list, knows of a rename, or of a creation, that is not followed yet."""
    direct, proxy, _, table_id = followed
    caught_up(direct, proxy)
    counted = ("get_fields_req", "miss", "table_id")
    before = proxy.requests().get(counted, 0)
    probe = reader(proxy)
    with paused(proxy):
        direct.rename(DB, TABLE, "renamed")
        with pytest.raises(Declared, match="NoSuchObjectException"):  # nobody must see it yet
            probe.client.table(DB, "renamed")
        table = probe.client.table(DB, "renamed", direct.valid(DB, "renamed"), table_id)
        assert table.tableName == b"renamed"
        assert probe.client.table(DB, "renamed", direct.valid(DB, "renamed"), -1).tableName == b"renamed"
        other = reader(proxy)  # it was shown nothing newer by the metastore
        assert other.client.fields(DB, "renamed", direct.valid(DB, "renamed"), table_id) == [b"id", b"name"]
    proxy.wait(lambda: proxy.told_requests().get(counted, 0) == before + 1, "counting it as a miss")


@pytest.mark.real
def test_a_reader_in_a_transaction_that_has_written_another_table(
    followed: Followed, reader: Callable[[Proxy], Reader]
) -> None:
    """Its list of this table is that of all others, so it is answered from the cache; of what it has written, only the
    metastore knows what it may see."""
    direct, proxy, _, table_id = followed
    other_id = direct.create(DB, "other")
    transaction = direct.open()
    write_id = direct.allocate(transaction, DB, "other")
    direct.alter(DB, "other", {"told": "yes"}, write_id=write_id, valid=direct.valid(DB, "other", transaction))
    caught_up(direct, proxy)
    reads = reader(proxy)
    assert reads.read(direct.valid(DB, TABLE, transaction), table_id)[:2] == ("hit", "write_id")
    assert reads.read(direct.valid(DB, TABLE, transaction), table_id)[:2] == ("hit", "write_id")
    table = reads.client.table(DB, "other", direct.valid(DB, "other", transaction), other_id)
    assert table.parameters[b"told"] == b"yes"
    counts = of_get_table(proxy.requests())
    assert counts["miss", "write_id"] >= 1
    direct.abort(transaction)


@pytest.mark.real
def test_what_a_snapshot_does_not_say_of_transactions(followed: Followed) -> None:
    """Why get_open_txns and get_valid_write_ids are relayed (docs/consistency.md)."""
    direct, _, _, _ = followed
    for left_open in direct.call("get_open_txns").open_txns:  # by other tests; those that are aborted may be named
        direct.abort(left_open)
    reading = direct.open(txn_type=READ_ONLY)
    opened, event = direct.call("get_open_txns").min_open_txn, direct.event_id()
    assert opened == reading
    direct.commit(reading)
    assert (direct.call("get_open_txns").min_open_txn, direct.event_id()) == (None, event)  # nothing was logged

    own = direct.open()
    snapshot = direct.snapshot(own)
    assert valid_for(direct, snapshot) == (0, [])
    assert direct.allocate(own, DB, TABLE) == 1
    assert valid_for(direct, snapshot) == (1, [])  # the same request: its own write is now to be seen
    other = direct.open()
    assert direct.allocate(other, DB, TABLE) == 2
    direct.commit(other)
    assert valid_for(direct, snapshot) == (1, [])  # what began after a snapshot does not change the answer for it
    direct.commit(own)
    assert valid_for(direct, direct.snapshot()) == (2, [])


def valid_for(direct: Transactions, snapshot: str) -> tuple[int, list[int]]:
    """The table's write ids for a ValidTxnList: the high watermark, and the invalid ones."""
    wanted = struct("GetValidWriteIdsRequest", fullTableNames=[f"{DB}.{TABLE}"], validTxnList=snapshot)
    (found,) = direct.call("get_valid_write_ids", rqst=wanted).tblValidWriteIds
    return found.writeIdHighWaterMark, found.invalidWriteIds
