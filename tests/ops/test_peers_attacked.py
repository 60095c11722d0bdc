"""What connects to `peer_listen` and is no peer, or speaks nonsense: the fleet goes on, and the log says what came."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hms_cache_proxy.peers.driver import MOST_GREETING
from hms_cache_proxy.peers.frames import MAGIC, NONCE_BYTES, Greeted, Handshake, PeerRole
from hms_cache_proxy.peers.messages import (
    Acknowledged,
    FenceRaised,
    Hello,
    LeaseGiven,
    PeerMessage,
    RefusedPeer,
    TokensCancelled,
    decode,
    encode,
)
from tests.ops.test_peers import leased, listening, peers_process, shown
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.processes import SOON_S, free_port

SECRET = b"s"
CONNECTIONS = 300


@dataclass
class Pair:
    """Two proxies that are peers, with a table that both show."""

    proxies: list[Proxy]
    ports: list[int]
    database: str
    version: int = 0

    def goes_on(self) -> None:
        """Both have leases, and what is written through one is seen through the other one."""
        leased(self.proxies, 1)
        self.version += 1
        with MetastoreClient(*self.proxies[self.version % 2].address) as client:
            table = client.get_table(self.database, "t")
            table.parameters["n"] = str(self.version)
            client.alter_table(self.database, "t", table)
        assert [shown(proxy, self.database, "t") for proxy in self.proxies] == [str(self.version)] * 2

    def log(self) -> str:
        return self.proxies[0].log.read_text()


@pytest.fixture(scope="module")
def pair(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    metastore, ports = bed.shared("embedded"), [free_port(), free_port()]
    assert metastore.database is not None
    with contextlib.ExitStack() as stack:
        proxies = []
        for own in range(2):
            directory: Path = tmp_path_factory.mktemp("attacked") / str(own)
            proxy = Proxy(directory, metastore.uri, metastore.database.reader_url, listening(ports, own))
            stack.callback(proxy.close)
            proxies.append(proxy.start(prewarmed=True))
        made = Pair(proxies, ports, f"attacked{ports[0]}")
        with MetastoreClient(*proxies[0].address) as client:
            objects.create_database(client, made.database)
            objects.create_table(client, objects.table(made.database, "t", parameters={"n": "0"}))
        made.goes_on()
        before = [peers_process(proxy) for proxy in proxies]
        yield made
        assert [peers_process(proxy) for proxy in proxies] == before, "none of them has ended"


def dial(pair: Pair) -> socket.socket:
    dialled = socket.create_connection(("127.0.0.1", pair.ports[0]), SOON_S)
    dialled.settimeout(SOON_S)
    return dialled


def closed(connection: socket.socket) -> bytes:
    """What came until the other side had closed it."""
    found = b""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while data := connection.recv(1 << 16):
            found += data
    return found


def greet(connection: socket.socket, secret: bytes = SECRET) -> Greeted:
    """Until the other side has shown that it knows the secret; then it is told the same."""
    handshake = Handshake(PeerRole.DIALLER, secret, os.urandom(16), os.urandom(NONCE_BYTES))
    connection.sendall(handshake.out)
    while (greeted := handshake.received(connection.recv(4096))) is None:
        pass
    connection.sendall(handshake.out)
    return greeted


FIRST = Handshake(PeerRole.DIALLER, SECRET, b"i" * 16, b"n" * NONCE_BYTES).out
GARBAGE = {
    "nothing": (b"", "without a word"),
    "a request": (b"GET /metrics HTTP/1.1\r\nHost: peer\r\n\r\n", "it is no peer"),
    "random bytes": (os.urandom(200), "it is no peer"),
    "half of a greeting": (MAGIC + b"\0\1", "without a word"),
    "an unknown version": (MAGIC + b"\0\7\0\7" + b"x" * 48, "versions 7 to 7"),
    "no proof": (FIRST + b"p" * 32, "another peer_secret"),
    "no end": (FIRST + b"p", "during the handshake"),
}


@pytest.mark.real
@pytest.mark.parametrize("what", GARBAGE)
def test_what_does_not_greet(pair: Pair, what: str) -> None:
    data, reason = GARBAGE[what]

    def told() -> bool:
        """Of one address, a line a second is logged at most."""
        with dial(pair) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            closed(connection)
        return reason in pair.log()

    pair.proxies[0].wait(told, f"telling of it ({reason})")
    pair.goes_on()


MESSAGES: list[list[PeerMessage]] = [
    [Acknowledged(1)],
    [Hello(b"another", b"127.0.0.1:1", b"", 0)],
    [FenceRaised(b"i" * 16, 1, (b"*",))],
    [LeaseGiven(1, 2**62, 1)],
    [TokensCancelled((b"short",))],
]


@pytest.mark.real
@pytest.mark.parametrize("messages", MESSAGES, ids=lambda said: type(said[0]).__name__)
def test_a_peer_that_says_what_it_may_not_say(pair: Pair, messages: list[PeerMessage]) -> None:
    with dial(pair) as connection:
        greeted = greet(connection)
        for message in messages:
            connection.sendall(greeted.frames.seal(encode(message)))
        answers = list(map(decode, greeted.frames.received(closed(connection))))
    assert [type(one) for one in answers] == ([RefusedPeer] if isinstance(messages[0], Hello) else [])
    pair.goes_on()


@pytest.mark.real
@pytest.mark.parametrize("frame", [b"\xff" * 4, b"\0\0\0\x20" + b"m" * 32, b"\0\0\0\1x"], ids=["long", "mac", "short"])
def test_a_frame_that_the_peer_cannot_have_sent(pair: Pair, frame: bytes) -> None:
    with dial(pair) as connection:
        greet(connection)
        connection.sendall(frame)
        assert closed(connection) == b""
    pair.goes_on()


@pytest.mark.real
def test_hundreds_of_silent_connections(pair: Pair) -> None:
    """Only the last few are kept open for the time of a handshake; peers connect meanwhile."""
    with contextlib.ExitStack() as stack:
        open_ = [stack.enter_context(dial(pair)) for _ in range(CONNECTIONS)]
        for connection in open_[: -2 * MOST_GREETING]:
            assert closed(connection) == b""
        pair.goes_on()
        with dial(pair) as late:
            greet(late)


@pytest.mark.real
def test_a_flood_of_garbage_does_not_fill_the_log(pair: Pair) -> None:
    before = pair.log().count("a peer was turned away")
    errors: list[BaseException] = []

    def flood() -> None:
        try:
            for _ in range(CONNECTIONS):
                with dial(pair) as connection:
                    connection.sendall(b"garbage")
                    closed(connection)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=flood) for _ in range(2)]
    for thread in threads:
        thread.start()
    pair.goes_on()
    for thread in threads:
        thread.join()
    assert not errors
    assert pair.log().count("a peer was turned away") - before < CONNECTIONS / 3


@pytest.mark.real
def test_another_secret(bed: Bed, new_proxy: Callable[..., Proxy]) -> None:
    """Both say so, once; each serves on, and /status has the reason."""
    ports = [free_port(), free_port()]
    proxies = [
        new_proxy(bed.shared("embedded"), settings={**listening(ports, own), "PEER_SECRET": f"secret {own}"})
        for own in range(2)
    ]
    for proxy in proxies:
        proxy.wait(lambda proxy=proxy: "another peer_secret" in proxy.status()["peers"][0]["problem"], "telling of it")
        lines = [line for line in proxy.log.read_text().splitlines() if "another peer_secret" in line]
        assert any("a peer does not greet" in line for line in lines), lines
        assert len(lines) <= 4, "it is dialled again and again"
    with MetastoreClient(*proxies[0].address) as client:
        assert "default" in client.get_all_databases()
