"""Messages of up to 100 MB, both ways, and workers that end while they pass."""

from __future__ import annotations

import hashlib
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.lengths import by_tier
from tests.server.conftest import Worker
from tests.server.scripted import STOP, Call, ScriptedMetastore, string_field
from tests.testbed.processes import wait_until
from tests.testbed.raw import EndOfStream, encode_call

MEGABYTE = 1 << 20
LARGE = int(by_tier(test=40, all=95, every=95))
VERSION = encode_call("getVersion", seqid=4)


def large_call(megabytes: int) -> bytes:
    """A call with strings of a megabyte each."""
    strings = b"".join(struct.pack(">i", MEGABYTE) + bytes([number % 256]) * MEGABYTE for number in range(megabytes))
    return encode_call("add_partitions", seqid=8)[:-1] + struct.pack(">Bhbi", 15, 1, 11, megabytes) + strings + STOP


def digest(message: bytes, call: Call) -> Iterator[bytes]:
    """Answer with the hash of the request."""
    yield call.reply(string_field(0, hashlib.sha256(message).hexdigest().encode()) + STOP)


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_a_large_request_stays_out_of_memory(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], framed: bool
) -> None:
    worker = new_worker(scripted.address)
    scripted.answers["add_partitions"] = digest
    request = large_call(LARGE)
    with worker.raw(framed=framed) as connection:
        connection.call(VERSION)
        before = worker.memory_bytes()
        reply = connection.call(request)
        assert hashlib.sha256(request).hexdigest().encode() in reply
        assert worker.memory_bytes("VmHWM") - before < 16 * MEGABYTE
        connection.call(VERSION)


def test_a_large_request_to_a_slow_metastore_stays_out_of_memory(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    worker = new_worker(listener.getsockname()[:2])
    request = large_call(40)
    received = bytearray()

    def take() -> None:
        sock, _ = listener.accept()
        time.sleep(1)
        while len(received) < len(request):
            received.extend(sock.recv(1 << 20))
        sock.sendall(Call(bytes(received[:200])).reply(STOP))
        sock.close()

    metastore = threading.Thread(target=take)
    metastore.start()
    with worker.raw() as connection:
        before = worker.memory_bytes()
        connection.send(request)
        assert connection.receive() == Call(request[:200]).reply(STOP)
        assert worker.memory_bytes("VmHWM") - before < 16 * MEGABYTE
    metastore.join()
    listener.close()
    assert received == request


def test_many_slow_clients_of_large_replies(scripted: ScriptedMetastore, new_worker: Callable[..., Worker]) -> None:
    worker = new_worker(scripted.address)

    def long(message: bytes, call: Call) -> Iterator[bytes]:
        yield call.header() + struct.pack(">Bhi", 11, 0, 30 * MEGABYTE)
        for number in range(30):
            yield bytes([number]) * MEGABYTE
        yield STOP

    scripted.answers["get_config_value"] = long
    request = encode_call("get_config_value", "a", "b")
    expected = b"".join(long(request, Call(request)))
    connections = [worker.raw(framed=number % 2 == 1) for number in range(10)]
    for connection in connections:
        connection.call(VERSION)
    before = worker.memory_bytes()
    for connection in connections:
        connection.send(request)
    time.sleep(2)
    assert worker.memory_bytes() - before < 40 * MEGABYTE  # of 300
    with worker.raw() as neighbour:
        neighbour.call(VERSION)  # while nobody takes the large replies
    for connection in connections:
        assert connection.receive() == expected
        connection.close()


def slowly(seconds: float) -> Callable[[bytes, Call], Iterator[bytes]]:
    """Answer after a while."""

    def answer(message: bytes, call: Call) -> Iterator[bytes]:
        time.sleep(seconds)
        yield call.reply(STOP)

    return answer


def test_sigterm_lets_running_calls_end(scripted: ScriptedMetastore, new_worker: Callable[..., Worker]) -> None:
    worker = new_worker(scripted.address)
    scripted.answers["getVersion"] = slowly(1)
    with worker.raw() as busy, worker.raw() as idle, worker.raw() as halfway:
        idle.call(encode_call("get_all_databases"))
        halfway.send_bytes(VERSION[:8])
        busy.send(VERSION)
        assert wait_until(lambda: bool(scripted.named("getVersion")))
        worker.process.id.send(signal.SIGTERM)
        assert idle.at_end()
        with pytest.raises(ConnectionError):
            worker.raw().call(VERSION)
        assert busy.receive() == Call(VERSION).reply(STOP)
        assert busy.at_end()
        halfway.send_bytes(VERSION[8:])
        assert halfway.receive() == Call(VERSION).reply(STOP)
        assert halfway.at_end()
    assert wait_until(lambda: not worker.process.alive())
    assert "worker ends" in worker.log()
    assert worker.metric("hms_proxy_requests_total", method="getVersion") == 2


def test_the_drain_has_an_end(scripted: ScriptedMetastore, new_worker: Callable[..., Worker]) -> None:
    worker = new_worker(scripted.address, drain_timeout_s=0.5)
    scripted.answers["getVersion"] = slowly(20)
    with worker.raw() as connection:
        connection.send(VERSION)
        assert wait_until(lambda: bool(scripted.named("getVersion")))
        worker.process.id.send(signal.SIGTERM)
        with pytest.raises((EndOfStream, ConnectionResetError)):
            connection.receive()
    assert wait_until(lambda: not worker.process.alive())
    assert "closed at the end of the drain time" in worker.log()
