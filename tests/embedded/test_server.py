"""Connections: transports, what is not served, bytes that are no request, locks as in Hive, an orderly end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from thrift.Thrift import TException

from hms_cache_proxy.embedded.handlers import METHODS
from hms_cache_proxy.wire import facts
from hms_cache_proxy.wire.message import MessageType
from tests.embedded.differential import struct
from tests.embedded.scripts import table as described
from tests.methods.oracle import Oracle
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import create_database, database, table
from tests.testbed.raw import RawConnection, encode_call

NewMetastore = Callable[..., Metastore]


@pytest.fixture(scope="module")
def metastore(bed: Bed) -> Iterator[Metastore]:
    """One on SQLite."""
    one = bed.private_metastore("embedded")
    yield one
    bed.release(one)


def oracle(metastore: Metastore) -> Oracle:
    return Oracle("{}:{}".format(*metastore.address))


def test_framed(metastore: Metastore) -> None:
    with MetastoreClient(*metastore.address, framed=True) as client:
        assert "default" in client.get_all_databases()
        assert client.getVersion() == "4.2.0"


def test_every_method_that_is_not_served_is_unknown(metastore: Metastore) -> None:
    """As a metastore answers that has never heard of it; the connection goes on."""
    with oracle(metastore) as connection:
        for name in facts.METHODS:
            if name not in METHODS and not facts.METHODS[name].oneway:
                reply = connection.ask(name)
                assert reply.type is MessageType.EXCEPTION, name
                assert (reply.value.message, reply.value.type) == (f"Invalid method name: '{name}'".encode(), 1)
        assert connection.do("getVersion") == b"4.2.0"


def test_the_method_decides_whether_there_is_a_reply(metastore: Metastore) -> None:
    """Not the message's type, as in Hive."""
    with RawConnection(*metastore.address) as connection:
        connection.send_bytes(encode_call("shutdown"))
        assert connection.call(encode_call("getVersion", seqid=4, oneway=True)) == connection.call(
            encode_call("getVersion", seqid=4)
        )


NO_REQUESTS = [b"GET / HTTP/1.1\r\n\r\n", b"\x80\x01\x00\x01\xff\xff\xff\xff", b"\x16\x03\x01\x02\x00\x01"]


@pytest.mark.parametrize("data", NO_REQUESTS)
def test_what_is_no_request_ends_its_connection_only(metastore: Metastore, data: bytes) -> None:
    with RawConnection(*metastore.address) as connection, oracle(metastore) as other:
        connection.send_bytes(data)
        assert connection.at_end()
        assert other.do("getVersion") == b"4.2.0"


def test_a_request_in_pieces_and_two_at_once(metastore: Metastore) -> None:
    with RawConnection(*metastore.address) as connection:
        message = encode_call("get_database", name="default")
        for at in range(len(message)):
            connection.send_bytes(message[at : at + 1])
        whole = connection.receive()
        connection.send_bytes(message + message)
        assert connection.receive() == connection.receive() == whole


def lock(connection: Oracle, kind: int, name: str) -> tuple[int, int]:
    """(id, state) of an asked lock on a table."""
    component = struct("LockComponent", type=kind, level=2, dbname="d", tablename=name)
    given = connection.do("lock", rqst=struct("LockRequest", component=[component], user="u", hostname="h"))
    return given.lockid, given.state


@pytest.mark.real
def test_locks_wait_as_hives_do(metastore: Metastore, hms42: Metastore) -> None:
    """Every pair of kinds: shared read, shared write, exclusive, exclusive write."""
    found = []
    for address in (hms42.address, metastore.address):
        with Oracle("{}:{}".format(*address)) as connection:
            states = {}
            for first in (1, 2, 3, 4):
                for second in (1, 2, 3, 4):
                    asked = [lock(connection, kind, "matrix") for kind in (first, second)]
                    states[first, second] = [state for _, state in asked]
                    for id_, _ in asked:
                        connection.do("unlock", rqst=struct("UnlockRequest", lockid=id_))
            found.append(states)
    assert found[0] == found[1]


def test_a_lock_is_had_once_the_other_is_given_back(metastore: Metastore) -> None:
    with oracle(metastore) as one, oracle(metastore) as two:
        first, second = lock(one, 3, "t"), lock(two, 3, "t")
        assert (first[1], second[1]) == (1, 2)
        check = struct("CheckLockRequest", lockid=second[0])
        assert two.do("check_lock", rqst=check).state == 2
        one.do("unlock", rqst=struct("UnlockRequest", lockid=first[0]))
        assert two.do("check_lock", rqst=check).state == 1
        two.do("unlock", rqst=struct("UnlockRequest", lockid=second[0]))


def test_write_ids_of_open_committed_and_aborted_transactions(metastore: Metastore) -> None:
    with oracle(metastore) as connection:
        opened = connection.do("open_txns", rqst=struct("OpenTxnRequest", num_txns=3, user="u", hostname="h")).txn_ids
        request = struct("AllocateTableWriteIdsRequest", dbName="D", tableName="W", txnIds=opened)
        pairs = connection.do("allocate_table_write_ids", rqst=request).txnToWriteIds
        assert [(pair.txnId, pair.writeId) for pair in pairs] == [(id_, n + 1) for n, id_ in enumerate(opened)]
        connection.do("commit_txn", rqst=struct("CommitTxnRequest", txnid=opened[0]))
        connection.do("abort_txn", rqst=struct("AbortTxnRequest", txnid=opened[1]))
        wanted = struct("GetValidWriteIdsRequest", fullTableNames=["d.w"])
        (valid,) = connection.do("get_valid_write_ids", rqst=wanted).tblValidWriteIds
        assert (valid.writeIdHighWaterMark, valid.invalidWriteIds, valid.minOpenWriteId) == (3, [2, 3], 3)
        assert valid.abortedBits == b"\x01"
        again = connection.ask("commit_txn", rqst=struct("CommitTxnRequest", txnid=opened[1])).plain
        assert again[1]["o2"][1]["message"] == f"Transaction txnid:{opened[1]} already aborted".encode()
        connection.do("commit_txn", rqst=struct("CommitTxnRequest", txnid=opened[2]))


def test_a_failed_call_leaves_nothing_behind(metastore: Metastore) -> None:
    """A table whose last constraint is wrong: neither rows nor an event nor the directory that was made for it."""
    with MetastoreClient(*metastore.address) as client:
        create_database(client, "whole")
        before = client.get_current_notificationEventId().eventId
    key = struct("SQLPrimaryKey", table_db="whole", table_name="t", column_name="nope", key_seq=1, pk_name="k")
    new = described("whole", "t", parameters={"EXTERNAL": "TRUE"})
    given = struct("CreateTableRequest", table=new, primaryKeys=[key])
    with oracle(metastore) as connection:
        reply = connection.ask("create_table_req", request=given)
        assert reply.plain[1]["o2"][0] == "InvalidObjectException"
    directory = metastore.external / "whole.db"
    assert directory.is_dir() and not list(directory.iterdir())
    with MetastoreClient(*metastore.address) as client:
        assert client.get_all_tables("whole") == []
        assert client.get_current_notificationEventId().eventId == before
        client.create_table(table("whole", "t"))
    assert [path.name for path in directory.iterdir()] == ["t"]


def test_an_orderly_end(new_metastore: NewMetastore) -> None:
    """Connections between calls are closed, calls that run are answered, and the exit code is 0."""
    metastore = new_metastore("embedded")
    idle = socket.create_connection(metastore.address)
    answered: list[int] = []

    def work() -> None:
        with pytest.raises((TException, OSError, EOFError)), MetastoreClient(*metastore.address) as client:
            for number in range(10_000):
                client.create_database(database(f"d{number}"))
                answered.append(number)

    worker = threading.Thread(target=work)
    worker.start()
    while len(answered) < 5:
        time.sleep(0.01)
    assert metastore.stop() == 0, metastore.process.log_tail()
    worker.join()
    assert idle.recv(1) == b""
    idle.close()
    count = len(answered)
    metastore.start()
    with MetastoreClient(*metastore.address) as client:
        assert len(client.get_all_databases()) - 1 in (count, count + 1)
