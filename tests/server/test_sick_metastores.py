"""Metastores that accept and hang, accept and close, or are gone with their machine, beside one that is well."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.server.conftest import Worker
from tests.server.scripted import Call, Hangup, ScriptedMetastore
from tests.server.test_faults import READ, WRITE, error_of, hang_up
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.processes import free_port, wait_until
from tests.testbed.raw import decode_reply, encode_call

LONG_S = 40  # a call that is answered before it did not wait for its metastore
LONG = {"upstream_options": {"request_timeout_s": LONG_S}}


def circuit(worker: Worker, address: tuple[str, int]) -> float:
    """1 while the worker holds this metastore for sick."""
    return worker.metric("hms_proxy_upstream_circuit", uri=f"thrift://{address[0]}:{address[1]}")


def becomes(worker: Worker, address: tuple[str, int], value: float) -> bool:
    return wait_until(lambda: circuit(worker, address) == value)


@pytest.fixture
def other() -> Iterator[ScriptedMetastore]:
    """A second metastore that answers as it is told."""
    with ScriptedMetastore() as metastore:
        yield metastore


@pytest.mark.real
def test_reads_leave_a_metastore_that_hangs_and_return_to_it(
    hms42: Metastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    first, second = fault_proxy(*hms42.address), fault_proxy(*hms42.address)
    worker = new_worker(first.address, second.address, **LONG)
    with worker.raw() as connection, worker.raw() as idle, worker.raw(framed=True) as user:
        expected = connection.call(READ)
        idle.call(READ)
        user.call(encode_call("set_ugi", "carol", ["g"], seqid=9))
        first.stall()
        began = time.monotonic()
        assert connection.call(READ) == expected
        assert time.monotonic() - began < LONG_S
        assert becomes(worker, first.address, 1)
        assert (b"absent" in idle.call(WRITE), user.call(READ)) == (True, expected)  # nothing waits for the sick one
        with worker.raw() as new:
            assert new.call(READ) == expected
        assert circuit(worker, second.address) == 0
        first.restore()
        assert becomes(worker, first.address, 0)
        before = first.accepted
        with worker.raw() as new:
            assert new.call(READ) == expected
        assert first.accepted > before
    assert worker.counted(1, "hms_proxy_upstream_failures_total", kind="timeout")


def test_reads_go_on_where_a_metastore_accepts_and_closes(
    scripted: ScriptedMetastore, other: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, other.address, **LONG)
    scripted.answers["*"] = hang_up
    for _ in range(5):
        with worker.raw() as connection:
            assert b"ok" in connection.call(READ)
    assert becomes(worker, scripted.address, 1)
    with worker.raw() as connection:
        assert b"ok" in connection.call(WRITE)
    assert not scripted.named("drop_database")


def test_a_write_that_left_is_not_repeated_elsewhere(
    scripted: ScriptedMetastore, other: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, other.address, upstream_options={"request_timeout_s": 8})
    released = threading.Event()

    def hang(message: bytes, call: Call) -> Iterator[bytes]:
        released.wait()
        raise Hangup
        yield b""

    scripted.answers["*"] = hang
    with worker.raw() as connection:
        connection.send(WRITE)
        assert becomes(worker, scripted.address, 1)
        assert "did not answer" in error_of(connection.receive()).message
        assert b"ok" in connection.call(WRITE)
    released.set()
    assert (len(scripted.named("drop_database")), len(other.named("drop_database"))) == (1, 1)


def test_a_metastore_whose_calls_take_long_is_not_sick(
    scripted: ScriptedMetastore, other: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, other.address)
    good = scripted.answers["*"]

    def slowly(message: bytes, call: Call) -> Iterator[bytes]:
        assert wait_until(lambda: len(scripted.named("getVersion")) >= 2)  # it was probed meanwhile, and again
        yield from good(message, call)

    scripted.answers["get_all_databases"] = slowly
    with worker.raw() as connection:
        assert b"ok" in connection.call(READ)
    assert (len(scripted.named("get_all_databases")), other.calls) == (1, [])


def test_set_ugi_is_answered_in_an_outage_and_made_after_it(new_worker: Callable[..., Worker]) -> None:
    port = free_port()
    worker = new_worker(("127.0.0.1", port), **LONG)
    with worker.raw() as alice, worker.raw() as bob:
        for connection, user in ((alice, "alice"), (bob, "bob")):
            _, _, result = decode_reply(connection.call(encode_call("set_ugi", user, ["g1", "g2"], seqid=9)))
            assert (result.success, result.o1) == (["g1", "g2"], None)
        assert b"no metastore can be reached" in alice.call(READ)
        with ScriptedMetastore(port=port) as metastore:
            assert b"ok" in bob.call(WRITE) and b"ok" in alice.call(READ)
            made = [call for _, call in metastore.calls if call.name != "getVersion"]
    assert [call.name for call in made] == ["set_ugi", "drop_database", "set_ugi", "get_all_databases"]
    assert b"bob" in made[0].arguments and b"alice" in made[2].arguments
    assert worker.counted(2, "hms_proxy_requests_total", method="set_ugi", outcome="relay", reason="outage")


def test_set_ugi_does_not_wait_for_the_only_metastore_when_it_hangs(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], fault_proxy: Callable[..., FaultProxy]
) -> None:
    fault = fault_proxy(*scripted.address)
    worker = new_worker(fault.address, **LONG)
    fault.stall()
    for _ in range(2):  # found out by the first, known to the second
        began = time.monotonic()
        with worker.raw() as connection:
            _, _, result = decode_reply(connection.call(encode_call("set_ugi", "alice", ["g"], seqid=9)))
            assert result.success == ["g"]
        assert time.monotonic() - began < LONG_S


@contextmanager
def gone(port: int) -> Iterator[None]:
    """A listener whose queue is full: its system answers no connect, as if the machine were away."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0.2)
            with suppress(TimeoutError):
                waiting.connect(("127.0.0.1", port))
        yield


def test_a_machine_that_is_gone_costs_the_connect_time_once(
    new_worker: Callable[..., Worker],
) -> None:
    port = free_port()
    worker = new_worker(("127.0.0.1", port), upstream_options={"connect_timeout_s": 2})
    with gone(port), worker.raw() as connection:
        began = time.monotonic()
        for request in [READ, WRITE] * 10:
            assert b"no connection within" in connection.call(request)
        assert time.monotonic() - began < 20  # of 40
    assert worker.metric("hms_proxy_upstream_failures_total", kind="connect") == 1
    with ScriptedMetastore(port=port), worker.raw() as connection:
        assert wait_until(lambda: b"ok" in connection.call(READ))
