"""The fault proxy's faults, seen from both sides; a real metastore behind it at the end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from thrift.transport.TTransport import TTransportException

from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.processes import SOON_S, wait_until

DEAF_S = 0.3


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """Address of a server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                return  # reset by the fault under test

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # closed: the test is over
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.fixture
def proxy(echo: tuple[str, int]) -> Iterator[FaultProxy]:
    """A fault proxy before the echo server."""
    with FaultProxy(*echo) as one:
        yield one


def connect(proxy: FaultProxy) -> socket.socket:
    """A client connection with a time-out."""
    return socket.create_connection(proxy.address, timeout=SOON_S)


def exchange(connection: socket.socket, data: bytes) -> bytes:
    """Send and receive as many bytes."""
    connection.sendall(data)
    received = b""
    while len(received) < len(data):
        part = connection.recv(len(data) - len(received))
        if not part:
            raise ConnectionError("closed")
        received += part
    return received


def test_passes_bytes_and_the_end_of_the_stream(proxy: FaultProxy) -> None:
    data = bytes(range(256)) * 4000
    with connect(proxy) as connection:
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        received = b""
        while len(received) < len(data):
            received += connection.recv(65536)
        sender.join()
        assert received == data
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert proxy.bytes_passed == {Direction.UP: len(data), Direction.DOWN: len(data)}


def test_small_pieces_do_not_wait_for_the_receiver(proxy: FaultProxy) -> None:
    """Without TCP_NODELAY, the end of a reply in several pieces waits up to 40 ms for the receiver to confirm."""
    with connect(proxy) as connection:
        exchange(connection, b"open")
        (link,) = proxy._links
        both = [writer.get_extra_info("socket") for writer in link._writers]
        assert [one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in both] == [1, 1]


def test_cut_resets_open_connections_only(proxy: FaultProxy) -> None:
    with connect(proxy) as first, connect(proxy) as second:
        assert exchange(first, b"1") == b"1" and exchange(second, b"2") == b"2"
        assert proxy.open_connections == 2
        proxy.cut()
        for connection in (first, second):
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
    with connect(proxy) as third:
        assert exchange(third, b"3") == b"3"
    assert proxy.accepted == 3


def test_cut_after_some_bytes_of_a_reply(proxy: FaultProxy) -> None:
    proxy.cut_after(Direction.DOWN, 5)
    with connect(proxy) as connection:
        connection.sendall(b"0123456789")
        received = b""
        with pytest.raises(ConnectionResetError):
            while len(received) <= 5:
                received += connection.recv(10)
        assert len(received) <= 5  # a reset may overtake what was on its way
    with connect(proxy) as connection:
        assert exchange(connection, b"0123456789") == b"0123456789"


def test_stall_is_silence_until_restored(proxy: FaultProxy) -> None:
    with connect(proxy) as old:
        assert exchange(old, b"a") == b"a"
        proxy.stall()
        with connect(proxy) as new:
            for connection in (old, new):
                connection.sendall(b"b")
                connection.settimeout(DEAF_S)
                with pytest.raises(TimeoutError):
                    connection.recv(1)
            proxy.restore()
            for connection in (old, new):
                connection.settimeout(SOON_S)
                assert connection.recv(1) == b"b"


def test_one_way_can_be_silent(proxy: FaultProxy) -> None:
    with connect(proxy) as connection:
        assert exchange(connection, b"a") == b"a"
        proxy.stall(Direction.DOWN)
        passed = proxy.bytes_passed[Direction.UP]
        connection.sendall(b"b")
        assert wait_until(lambda: proxy.bytes_passed[Direction.UP] > passed)
        connection.settimeout(DEAF_S)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        proxy.restore()
        connection.settimeout(SOON_S)
        assert connection.recv(1) == b"b"


def test_stalled_connections_can_be_cut(proxy: FaultProxy) -> None:
    proxy.stall()
    with connect(proxy) as connection:
        connection.sendall(b"a")
        while proxy.accepted < 1:
            time.sleep(0.001)
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_delay_holds_each_way(proxy: FaultProxy) -> None:
    with connect(proxy) as connection:
        exchange(connection, b"a")
        proxy.delay(0.1)
        began = time.monotonic()
        exchange(connection, b"a")
        assert time.monotonic() - began >= 0.2
        proxy.delay(0, Direction.UP)
        began = time.monotonic()
        exchange(connection, b"a")
        assert time.monotonic() - began >= 0.1
        proxy.restore()
        assert exchange(connection, b"b") == b"b"


def test_half_open_connections_hear_nothing_until_they_are_reset(proxy: FaultProxy) -> None:
    with connect(proxy) as old:
        assert exchange(old, b"a") == b"a"
        proxy.half_open()
        old.sendall(b"b")
        old.settimeout(DEAF_S)
        with pytest.raises(TimeoutError):
            old.recv(1)
        with connect(proxy) as new:
            assert exchange(new, b"c") == b"c"
            proxy.restore()
            assert exchange(new, b"d") == b"d"
        old.settimeout(SOON_S)
        with pytest.raises(ConnectionResetError):
            old.recv(1)


def test_garble_passes_as_many_bytes(proxy: FaultProxy) -> None:
    data = bytes(1000)
    with connect(proxy) as connection:
        assert exchange(connection, data) == data
        proxy.garble(Direction.DOWN)
        assert exchange(connection, data) != data
        proxy.restore()
        assert exchange(connection, data) == data


def test_slam_accepts_and_closes(proxy: FaultProxy) -> None:
    with connect(proxy) as old:
        assert exchange(old, b"a") == b"a"
        proxy.slam()
        with pytest.raises(ConnectionResetError):
            old.recv(1)
    with connect(proxy) as new:
        assert new.recv(1) == b""
    proxy.restore()
    with connect(proxy) as new:
        assert exchange(new, b"b") == b"b"


def test_refuse_keeps_the_port_and_restore_reopens_it(proxy: FaultProxy) -> None:
    with connect(proxy) as connection:
        exchange(connection, b"a")
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(proxy.address)
    proxy.refuse()  # once more changes nothing
    proxy.restore()
    with connect(proxy) as connection:
        assert exchange(connection, b"b") == b"b"


def test_a_dead_target_ends_the_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = unused.getsockname()
    with FaultProxy(*address) as orphan, pytest.raises(ConnectionResetError):
        with connect(orphan) as connection:
            connection.recv(1)


@pytest.mark.real
def test_before_a_metastore(hms42: Metastore, fault_proxy: Callable[[str, int], FaultProxy]) -> None:
    proxy = fault_proxy(*hms42.address)
    with MetastoreClient(*proxy.address) as client:
        assert "default" in client.get_all_databases()
        proxy.cut()
        with pytest.raises((TTransportException, ConnectionError)):
            client.get_all_databases()
    with MetastoreClient(*proxy.address) as client:
        assert "default" in client.get_all_databases()
