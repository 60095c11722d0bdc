"""The doctor's look at other proxies: an address that answers, one with another secret, and one where nobody is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.doctor.finding import Severity
from hms_cache_proxy.doctor.peers import look_at_peers
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.peers.frames import NONCE_BYTES, Handshake, PeerRole
from tests.testbed.processes import free_port

Answering = Callable[[str], int]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """answering(secret): the port of a proxy that greets one peer."""
    threads: list[threading.Thread] = []

    def start(secret: str) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        handshake = Handshake(PeerRole.ACCEPTOR, secret.encode(), b"i" * 16, b"n" * NONCE_BYTES)

        def greet() -> None:
            with listener, listener.accept()[0] as accepted:
                while data := accepted.recv(4096):
                    try:
                        greeted = handshake.received(data)
                    except WireError:
                        return
                    accepted.sendall(handshake.out)
                    if greeted is not None:
                        assert accepted.recv(1) == b"", "it says nothing more"
                        return

        threads.append(threading.Thread(target=greet))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield start
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_what_it_says_of_each(answering: Answering) -> None:
    ports = [answering("same"), answering("another"), free_port()]
    peers = ",".join(f"127.0.0.1:{port}" for port in ports)
    config = load(cli={"upstream": "thrift://127.0.0.1:1", "store": "thrift", "peers": peers, "peer_secret": "same"})
    found = look_at_peers(config)
    assert [one.level for one in found] == [Severity.OK, Severity.ERROR, Severity.WARNING]
    assert [one.subject for one in found] == [f"peer 127.0.0.1:{port}" for port in ports]
    assert "another peer_secret" in found[1].text


def test_a_name_that_is_unknown() -> None:
    config = load(
        cli={
            "upstream": "thrift://127.0.0.1:1",
            "store": "thrift",
            "peers": "dns+no.such.name.invalid:9086",
            "peer_secret": "s",
        }
    )
    assert [one.level for one in look_at_peers(config)] == [Severity.ERROR]


def test_without_peers_there_is_nothing_to_say() -> None:
    assert look_at_peers(load(cli={"upstream": "thrift://127.0.0.1:1", "store": "thrift"})) == []
