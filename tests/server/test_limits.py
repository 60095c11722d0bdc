"""Clients that break the protocol or a limit are closed, said so and counted; their neighbours notice nothing."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.chance import chance
from tests.lengths import by_tier
from tests.server.conftest import Worker, started
from tests.server.scripted import STOP, Call, ScriptedMetastore, string_field
from tests.testbed.processes import SOON_S, wait_until
from tests.testbed.raw import EndOfStream, RawConnection, encode_call

KILOBYTE, MEGABYTE = 1 << 10, 1 << 20
GARBAGE = int(by_tier(test=500, all=1500, every=1500))
VERSION = encode_call("getVersion", seqid=4)


LIMITS = {"max_message_bytes": 2 * MEGABYTE, "max_string_bytes": MEGABYTE, "max_connections": 20}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Worker, ScriptedMetastore]]:
    """A worker with small limits, and its metastore."""
    with (
        ScriptedMetastore() as metastore,
        started(tmp_path_factory.mktemp("limits"), metastore.address, limits=LIMITS) as worker,
    ):
        yield worker, metastore


@pytest.fixture
def worker(shared: tuple[Worker, ScriptedMetastore]) -> Worker:
    """The shared one; what is counted there is compared with what it was before."""
    return shared[0].lent()


@pytest.fixture
def called(shared: tuple[Worker, ScriptedMetastore]) -> list[tuple[int, Call]]:
    """The calls that reach the shared worker's metastore."""
    shared[1].calls.clear()
    return shared[1].calls


def call(body: bytes, name: str = "get_all_databases") -> bytes:
    """A call with this struct."""
    return struct.pack(">HBBi", 0x8001, 0, 1, len(name)) + name.encode() + struct.pack(">i", 0) + body


def is_closed(connection: RawConnection) -> bool:
    """Does the worker close it, without a word?"""
    connection.socket.settimeout(SOON_S)
    found = connection.at_end()
    assert found and not connection._buffer, (found, bytes(connection._buffer[:300]))
    return True


NESTED = struct.pack(">Bh", 12, 1) * 200 + STOP * 201
OVER = {
    "string": (call(struct.pack(">Bhi", 11, 1, MEGABYTE + 1) + b"x" * 1000), "max_string_bytes"),
    "message": (
        call(b"".join(string_field(n, b"x" * (600 * KILOBYTE)) for n in range(1, 5)) + STOP),
        "max_message_bytes",
    ),
    "depth": (call(NESTED), "nesting_depth"),
}


@pytest.mark.parametrize("what", list(OVER))
@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_limits(worker: Worker, what: str, framed: bool) -> None:
    message, limit = OVER[what]
    before = worker.metric("hms_proxy_limits_broken_total", limit=limit)
    with worker.raw(framed=framed) as neighbour, worker.raw(framed=framed) as connection:
        expected = neighbour.call(VERSION)
        connection.call(VERSION)
        try:
            connection.send(message)
        except ConnectionError:
            pass  # closed before it was all sent
        assert is_closed(connection)
        assert neighbour.call(VERSION) == expected
    assert worker.counted(before + 1, "hms_proxy_limits_broken_total", limit=limit)
    assert worker.logged(limit)


BROKEN = {
    "unknown type": call(b"\x05\0\1"),
    "negative string": call(struct.pack(">Bhi", 11, 1, -1)),
    "negative list": call(struct.pack(">BhBi", 15, 1, 11, -1)),
    "old header": VERSION + struct.pack(">i", 3) + b"abc\1" + struct.pack(">i", 0) + STOP,
    "a reply": struct.pack(">HBBi", 0x8001, 0, 2, 1) + b"x" + struct.pack(">i", 0) + STOP,
    "a name without end": struct.pack(">HBBi", 0x8001, 0, 1, 2**31 - 1),
}


@pytest.mark.parametrize("what", list(BROKEN))
def test_broken_messages(worker: Worker, what: str) -> None:
    with worker.raw() as neighbour, worker.raw() as connection:
        expected = neighbour.call(VERSION)
        connection.send_bytes(VERSION)
        assert connection.receive() == expected
        connection.send_bytes(BROKEN[what])
        if what == "old header":
            assert connection.receive() == expected
        assert is_closed(connection)
        assert neighbour.call(VERSION) == expected
    assert worker.logged("client closed")
    assert worker.metric("hms_proxy_internal_errors_total") == 0


@pytest.mark.parametrize("inner", [VERSION + VERSION, VERSION + b"\0", VERSION[:-1], b""])
def test_a_frame_holds_exactly_one_message(worker: Worker, called: list[tuple[int, Call]], inner: bytes) -> None:
    with worker.raw(framed=True) as connection:
        connection.call(encode_call("get_all_databases"))
        connection.send(inner)
        assert is_closed(connection)
    assert [call.name for _, call in called] == ["get_all_databases"]


TRANSPORTS = {
    "sasl": b"\1\0\0\0\5PLAIN",
    "tls": b"\x16\3\1\2\0\1\0\1\xfc\3\3",
    "http": b"POST /metastore HTTP/1.1\r\n",
    "compact": b"\x82\x21\1\nget_table",
    "framed_compact": struct.pack(">I", 20) + b"\x82\x21\1\nget_table",
    "unknown": b"\xff\xff\xff\xff\xff\xff",
}


@pytest.mark.parametrize("transport", list(TRANSPORTS))
def test_other_transports_are_refused(worker: Worker, transport: str) -> None:
    before = worker.metric("hms_proxy_refused_transports_total", transport=transport)
    with worker.raw() as neighbour, worker.raw() as connection:
        connection.send_bytes(TRANSPORTS[transport])
        assert is_closed(connection)
        neighbour.call(VERSION)
    assert worker.counted(before + 1, "hms_proxy_refused_transports_total", transport=transport)
    assert worker.logged(
        "security.transports does not allow it"
        if transport in ("sasl", "tls", "http")
        else "only the Thrift binary protocol, framed or unframed, is supported"
    )


def test_too_many_connections(scripted: ScriptedMetastore, new_worker: Callable[..., Worker]) -> None:
    worker = new_worker(scripted.address, limits=LIMITS)
    connections = [worker.raw() for _ in range(20)]
    for connection in connections:
        connection.call(VERSION)
    with worker.raw() as one_more:
        assert is_closed(one_more)
    assert worker.counted(1, "hms_proxy_limits_broken_total", limit="max_connections")
    connections.pop().close()
    assert wait_until(lambda: can_call(worker))
    for connection in connections:
        connection.call(VERSION)
        connection.close()


def can_call(worker: Worker) -> bool:
    """Is a new connection served?"""
    with worker.raw() as connection:
        try:
            connection.call(VERSION)
        except ConnectionError:
            return False
    return True


def test_an_idle_client_is_closed(scripted: ScriptedMetastore, new_worker: Callable[..., Worker]) -> None:
    idle_s = 3.0
    worker = new_worker(scripted.address, limits={"idle_timeout_s": idle_s})
    with worker.raw() as silent, worker.raw() as halfway, worker.raw() as busy:
        silent.call(VERSION)
        halfway.send_bytes(VERSION[:10])
        began = asked = time.monotonic()
        while time.monotonic() - began < 1.5 * idle_s:
            last, asked = asked, time.monotonic()
            try:
                busy.call(VERSION)
            except ConnectionError:
                assert time.monotonic() - last > idle_s, "only this machine may have kept it from asking for so long"
                busy.reconnect()
            time.sleep(0.1)
        assert is_closed(silent)
        assert is_closed(halfway)
    assert worker.counted(2, "hms_proxy_limits_broken_total", limit="idle_timeout_s")


def test_waiting_for_a_slow_metastore_is_not_idle(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, limits={"idle_timeout_s": 1})

    def slowly(message: bytes, call: Call) -> Iterator[bytes]:
        time.sleep(2.5)
        yield call.reply(STOP)

    scripted.answers["getVersion"] = slowly
    with worker.raw() as connection:
        connection.call(VERSION)


def test_a_client_that_takes_nothing_is_closed_and_its_upstream_freed(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, limits={"idle_timeout_s": 1})

    def long(message: bytes, call: Call) -> Iterator[bytes]:
        yield call.header() + struct.pack(">Bhi", 11, 0, 64 * MEGABYTE)
        for _ in range(64):
            yield b"x" * MEGABYTE
        yield STOP

    scripted.answers["getVersion"] = long
    with worker.raw() as connection:
        connection.send(VERSION)
        assert worker.counted(1, "hms_proxy_limits_broken_total", limit="idle_timeout_s")
        assert wait_until(lambda: worker.metric("hms_proxy_upstream_connections") == 0)
        with pytest.raises((ConnectionResetError, EndOfStream)):
            connection.receive()


def test_pipelined_requests_without_end_do_not_grow_the_worker(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address)
    gate = threading.Event()

    def wait(message: bytes, call: Call) -> Iterator[bytes]:
        gate.wait(3 * SOON_S)
        yield call.reply(STOP)

    scripted.answers["getVersion"] = wait
    with worker.raw() as connection:
        connection.send_bytes(VERSION)
        assert wait_until(lambda: bool(scripted.calls))
        before = worker.memory_bytes()
        connection.socket.settimeout(0.5)
        sent = 0
        flood = encode_call("get_database", "x" * 1000) * 1000
        with pytest.raises(TimeoutError):
            while sent < 64 * MEGABYTE:
                sent += connection.socket.send(flood)
        assert sent < 16 * MEGABYTE  # what the kernel's buffers hold
        assert worker.memory_bytes() - before < 4 * MEGABYTE
        gate.set()
        connection.socket.settimeout(SOON_S)
        assert connection.receive() == Call(VERSION).reply(STOP)


def garbage(seed: int) -> bytes:
    """Random bytes, or a valid call with some of its bytes changed."""
    rng = chance("garbage", seed)
    if rng.random() < 0.3:
        return rng.randbytes(rng.randint(1, 200))
    request = encode_call("get_partitions_by_names", "db", "table", ["a=1", "b=2"], seqid=seed)
    data = bytearray(struct.pack(">I", len(request)) + request if rng.random() < 0.4 else request)
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.choice([0, 1, 11, 12, 15, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(data[: rng.randint(1, len(data))] if rng.random() < 0.3 else data)


def test_garbage_never_reaches_a_neighbour(scripted: ScriptedMetastore, new_worker: Callable[..., Worker]) -> None:
    worker = new_worker(scripted.address, limits=LIMITS)
    with worker.raw() as neighbour, worker.raw(framed=True) as framed:
        expected = neighbour.call(VERSION)
        for seed in range(GARBAGE):
            with socket.create_connection((worker.host, worker.port)) as sock:
                sock.sendall(garbage(seed))
                sock.shutdown(socket.SHUT_WR)
                sock.settimeout(SOON_S)
                try:
                    while sock.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
            if seed % 50 == 0:
                assert neighbour.call(VERSION) == expected
                assert framed.call(VERSION) == expected
    assert worker.process.alive()
    assert wait_until(lambda: worker.metric("hms_proxy_connections") == 0)
    assert worker.metric("hms_proxy_internal_errors_total") == 0, worker.log()[-3000:]
