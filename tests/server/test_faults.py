"""Metastores that die, go deaf, refuse and come back, behind a worker."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from hive_metastore.ttypes import Database
from thrift.Thrift import TApplicationException

from tests.server.conftest import Worker
from tests.server.scripted import STOP, Call, Hangup, ScriptedMetastore, string_field
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.processes import free_port, wait_until
from tests.testbed.raw import EndOfStream, RawConnection, decode_reply, encode_call

READ = encode_call("get_all_databases", seqid=1)
WRITE = encode_call("drop_database", "absent", False, False, seqid=2)
REQUEST_S = 8  # a real metastore on a busy machine needs some of it
FAST = {"upstream_options": {"connect_timeout_s": 1, "request_timeout_s": REQUEST_S}}
QUICK_TO_CONNECT = {"upstream_options": {"connect_timeout_s": 1}}


def error_of(reply: bytes) -> TApplicationException:
    """The TApplicationException in a reply."""
    _, _, error = decode_reply(reply)
    assert isinstance(error, TApplicationException), error
    return error


def hang_up(message: bytes, call: Call) -> Iterator[bytes]:
    """Read the request and close."""
    raise Hangup
    yield b""


@pytest.mark.real
def test_cut_connections_are_replaced_before_the_next_call(
    hms42: Metastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    fault = fault_proxy(*hms42.address)
    worker = new_worker(fault.address)
    with worker.raw() as connection:
        expected = connection.call(READ)
        for _ in range(3):
            fault.cut()
            assert connection.call(READ) == expected


def test_a_write_does_not_leave_on_a_connection_that_has_ended(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    fault = fault_proxy(*scripted.address)
    worker = new_worker(fault.address)
    with worker.raw() as connection, worker.raw(framed=True) as framed:
        for _ in range(10):
            for one in (connection, framed):
                assert b"ok" in one.call(WRITE)
            fault.cut()
    assert len(scripted.named("drop_database")) == 20


@pytest.mark.real
def test_a_dead_upstream_is_said_so_and_the_next_call_works_when_it_is_back(
    hms42: Metastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    fault = fault_proxy(*hms42.address)
    worker = new_worker(fault.address)
    with worker.raw() as connection, worker.raw(framed=True) as framed:
        expected = connection.call(READ)
        fault.refuse()
        for one in (connection, framed):
            for request in (READ, WRITE, READ):
                error = error_of(one.call(request))
                assert error.type == TApplicationException.INTERNAL_ERROR
                assert f"thrift://{fault.host}:{fault.port}" in error.message
        fault.restore()
        assert connection.call(READ) == expected
        assert framed.call(READ) == expected
    assert worker.counted(6, "hms_proxy_requests_total", outcome="error", reason="no_upstream")
    assert worker.metric("hms_proxy_upstream_failures_total", kind="connect") >= 1


@pytest.mark.real
def test_a_deaf_upstream_times_out(
    hms42: Metastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    fault = fault_proxy(*hms42.address)
    worker = new_worker(fault.address, **FAST)
    with worker.raw() as connection:
        expected = connection.call(READ)
        fault.stall()
        began = time.monotonic()
        assert "did not answer" in error_of(connection.call(READ)).message
        assert REQUEST_S - 0.1 < time.monotonic() - began < REQUEST_S + 30
        fault.restore()
        assert connection.call(READ) == expected
    assert worker.counted(1, "hms_proxy_upstream_failures_total", kind="timeout")


@pytest.mark.real
def test_a_reply_cut_in_the_middle_ends_the_clients_connection(
    hms42: Metastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    fault = fault_proxy(*hms42.address)
    worker = new_worker(fault.address)
    request = encode_call("get_config_value", "no.such", "x" * 300_000)
    with worker.raw() as connection, worker.raw(framed=True) as framed, worker.raw() as neighbour:
        whole = neighbour.call(request)
        connection.call(READ)
        framed.call(READ)
        fault.cut_after(Direction.DOWN, len(whole) // 2)
        connection.send(request)
        with pytest.raises((EndOfStream, ConnectionResetError)):
            connection.receive()
        fault.cut_after(Direction.DOWN, len(whole) // 2)
        assert "closed the connection" in error_of(framed.call(request)).message  # nothing of it was passed on
        assert framed.call(request) == whole
        assert neighbour.call(request) == whole


@pytest.mark.real
def test_fails_over_in_order_and_comes_back(
    hms42: Metastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    first, second = fault_proxy(*hms42.address), fault_proxy(*hms42.address)
    worker = new_worker(first.address, second.address, **QUICK_TO_CONNECT)
    with worker.raw() as connection:
        expected = connection.call(READ)
        assert first.accepted >= 1 and second.accepted == 0
        first.refuse()
        assert connection.call(READ) == expected
        assert second.accepted >= 1  # with a probe where the call took long
        with worker.raw() as other:
            assert other.call(READ) == expected
        assert worker.metric("hms_proxy_upstream_failures_total", kind="connect") == 1  # the dead one is remembered
        first.restore()
        before = first.accepted
        second.refuse()
        assert connection.call(READ) == expected
        assert first.accepted > before


def test_a_deaf_first_upstream_costs_the_connect_time_once(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(("192.0.2.1", 9083), scripted.address, **QUICK_TO_CONNECT)  # TEST-NET-1: nobody answers
    with worker.raw() as connection:
        connection.call(encode_call("getVersion"))
        for _ in range(20):
            with worker.raw() as other:
                other.call(encode_call("getVersion"))
    assert worker.counted(21, "hms_proxy_requests_total", method="getVersion")
    # It is remembered for two seconds: a busy machine may take longer for some of the connections, not for each.
    assert 1 <= worker.metric("hms_proxy_upstream_failures_total", kind="connect") <= 10


def test_a_read_without_a_byte_of_reply_is_sent_again_once(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address)
    answers = iter([hang_up])
    good = scripted.answers["*"]
    scripted.answers["get_all_databases"] = lambda message, call: next(answers, good)(message, call)
    with worker.raw() as connection:
        assert b"ok" in connection.call(READ)
        assert len(scripted.named("get_all_databases")) == 2
        scripted.answers["get_all_databases"] = hang_up
        connection.send(READ)
        assert connection.at_end()  # the metastore's own answer
        assert len(scripted.named("get_all_databases")) == 4


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_a_write_is_never_sent_again(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], framed: bool
) -> None:
    worker = new_worker(scripted.address)
    scripted.answers["drop_database"] = hang_up
    with worker.raw(framed=framed) as connection:
        connection.send(WRITE)
        assert connection.at_end()  # the metastore's own answer
        assert len(scripted.named("drop_database")) == 1
    assert worker.logged("it is not known whether the call was done")
    with worker.raw(framed=framed) as connection:
        assert b"ok" in connection.call(READ)


def test_a_write_is_finished_though_its_client_is_gone(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address)
    good = scripted.answers["*"]

    def slowly(message: bytes, call: Call) -> Iterator[bytes]:
        time.sleep(0.5)
        yield from good(message, call)

    scripted.answers["drop_database"] = slowly
    with worker.raw() as connection:
        connection.send(WRITE)
        assert wait_until(lambda: bool(scripted.named("drop_database")))
    assert worker.counted(1, "hms_proxy_requests_total", method="drop_database", outcome="relay")
    assert wait_until(lambda: worker.metric("hms_proxy_upstream_connections") == 0)


@pytest.mark.parametrize("fault", ["seqid", "name", "type", "garbage"])
def test_a_reply_to_something_else_is_not_passed_on(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], fault: str
) -> None:
    worker = new_worker(scripted.address)

    def wrong(message: bytes, call: Call) -> Iterator[bytes]:
        body = string_field(0, b"SECRET") + STOP
        if fault == "seqid":
            yield call.reply(body, seqid=call.seqid + 1)
        elif fault == "name":
            yield call.reply(body).replace(b"get_all_databases", b"get_all_databasez")
        elif fault == "type":
            yield call.reply(body, kind=1)
        else:
            yield b"HTTP/1.1 400 Bad Request SECRET\r\n\r\n"

    scripted.answers["get_all_databases"] = wrong
    with worker.raw() as connection:
        reply = connection.call(READ)
        assert b"SECRET" not in reply
        assert "broke the protocol" in error_of(reply).message
        assert b"ok" in connection.call(WRITE)
    assert worker.counted(1, "hms_proxy_upstream_failures_total", kind="protocol")


def test_bytes_that_nobody_asked_for_end_the_upstream_connection(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address)
    good = scripted.answers["*"]

    def twice(message: bytes, call: Call) -> Iterator[bytes]:
        (reply,) = good(message, call)
        yield reply + reply

    scripted.answers["getVersion"] = twice
    with worker.raw() as connection:
        for seqid in range(3):
            reply = connection.call(encode_call("getVersion", seqid=seqid))
            assert reply == next(good(b"", Call(encode_call("getVersion", seqid=seqid))))
            connection.call(READ)
    assert len({number for number, call in scripted.calls if call.name == "get_all_databases"}) == 3
    assert worker.logged("bytes after the end of a reply")


def session_of(connection: RawConnection, user: str) -> bytes:
    """Log in as somebody."""
    return connection.call(encode_call("set_ugi", user, ["group"], seqid=9))


def test_session_calls_are_repeated_on_a_new_connection_before_anything_else(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    fault = fault_proxy(*scripted.address)
    worker = new_worker(fault.address)
    with worker.raw() as alice, worker.raw() as bob:
        session_of(alice, "alice")
        alice.call(encode_call("setMetaConf", "metastore.try.direct.sql", "false", seqid=10))
        session_of(bob, "bob")
        alice.call(READ)
        fault.cut()
        assert b"ok" in alice.call(WRITE)
        assert b"ok" in bob.call(READ)
        assert b"ok" in alice.call(READ)
    by_connection: dict[int, list[Call]] = {}
    for number, call in scripted.calls:
        if call.name == "getVersion":  # of a probe, on a connection of its own
            continue
        by_connection.setdefault(number, []).append(call)
    _, _, third, fourth = by_connection.values()
    assert [call.name for call in third] == ["set_ugi", "setMetaConf", "drop_database", "get_all_databases"]
    assert [call.name for call in fourth] == ["set_ugi", "get_all_databases"]
    assert b"alice" in third[0].arguments
    assert b"bob" in fourth[0].arguments


def test_a_client_is_closed_when_its_session_calls_are_refused(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    fault = fault_proxy(*scripted.address)
    worker = new_worker(fault.address)
    with worker.raw() as connection:
        session_of(connection, "alice")
        fault.cut()
        declared = struct.pack(">Bh", 12, 1) + string_field(1, b"no more of you") + STOP + STOP
        scripted.answers["set_ugi"] = lambda message, call: iter([call.reply(declared)])
        connection.send(WRITE)
        assert connection.at_end()
    assert not scripted.named("drop_database")
    assert worker.logged("refuses a session call")


def test_a_session_call_that_failed_is_not_repeated(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    fault = fault_proxy(*scripted.address)
    worker = new_worker(fault.address)
    declared = struct.pack(">Bh", 12, 1) + string_field(1, b"no") + STOP + STOP
    scripted.answers["setMetaConf"] = lambda message, call: iter([call.reply(declared)])
    with worker.raw() as connection:
        connection.call(encode_call("setMetaConf", "a", "b"))
        fault.cut()
        assert b"ok" in connection.call(READ)
    assert len(scripted.named("setMetaConf")) == 1


def test_failures_of_a_metastore_do_not_fill_the_log(new_worker: Callable[..., Worker]) -> None:
    worker = new_worker(("127.0.0.1", free_port()))
    began = time.monotonic()
    with worker.raw() as connection:
        for _ in range(300):
            error_of(connection.call(WRITE))
    assert worker.counted(300, "hms_proxy_upstream_failures_total", kind="connect")
    lines = worker.log().count("upstream trouble")
    assert lines <= time.monotonic() - began + 2


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this system has no IPv6")
def test_every_interface_of_ipv6_is_every_interface_of_ipv4(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, interface="[::]")
    for host in ("127.0.0.1", "::1"):
        with RawConnection(host, worker.port) as connection:
            assert b"ok" in connection.call(READ)


@pytest.mark.real
def test_the_replayed_user_is_who_the_metastore_sees(
    hms42: Metastore,
    new_worker: Callable[..., Worker],
    fault_proxy: Callable[..., FaultProxy],
    unique_name: str,
) -> None:
    fault = fault_proxy(*hms42.address)
    worker = new_worker(fault.address)
    with worker.client() as client:
        client.set_ugi("carol", ["g"])
        fault.cut()
        client.create_database(Database(name=unique_name))  # owned by who asks
        assert client.get_database(unique_name).ownerName == "carol"
