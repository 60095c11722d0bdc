"""asyncio protocols of the peers' process: connections to other proxies, and those of this proxy's workers.

`look_up` and `greet` block until they have a result; the doctor uses them.

Job: do handshakes, frames and bytes, and pass what arrives to the driver. A connection is closed if its handshake takes
longer than HANDSHAKE_S, or if its peer does not read. Must not know: what messages mean. Owner: the process's loop.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Protocol, cast

from hms_cache_proxy.config.peers import DNS_PREFIX
from hms_cache_proxy.consistency.peer_fences import INCARNATION_BYTES
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.peers.frames import HANDSHAKE_BYTES, NONCE_BYTES, Greeted, Handshake, PeerRole
from hms_cache_proxy.peers.messages import PeerMessage, decode, encode, since
from hms_cache_proxy.peers.requests import ANSWER, PeerRequest, take_requests

HANDSHAKE_S = 5.0
CLOSE_S = 2.0
"""For what was sent before a connection is closed. Without a limit, a peer that does not read would keep it open."""
UNREAD_BYTES = 16 << 20
"""Of messages that a peer has not read. With more, the connection is closed, and the peer connects again."""


class PeerEvents(Protocol):
    """What the driver is told."""

    secret: bytes
    incarnation: bytes

    def connected(self, wire: PeerWire) -> None:
        """A connection is open, and its handshake begins."""
        ...

    def opened(self, wire: PeerWire, incarnation: bytes) -> None:
        """A handshake is over."""
        ...

    def arrived(self, wire: PeerWire, message: PeerMessage) -> None:
        """A message."""
        ...

    def ended(self, wire: PeerWire, problem: str) -> None:
        """A connection has ended, or its handshake has failed."""
        ...

    def asked(self, worker: WorkerWire, token: int, request: PeerRequest) -> None:
        """A request of a worker."""
        ...


class PeerWire(asyncio.Protocol):
    """A connection to another proxy. `address`: where it was dialled; None: it was accepted."""

    def __init__(self, events: PeerEvents, link: int, address: str | None) -> None:
        self.link, self.address = link, address
        self._events = events
        role = PeerRole.DIALLER if address is not None else PeerRole.ACCEPTOR
        self._handshake = Handshake(role, events.secret, events.incarnation, os.urandom(NONCE_BYTES))
        self._greeted: Greeted | None = None
        self.greeted = False
        self._problem = ""
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_S, self.close, "no handshake in time")
        self._transport.write(self._handshake.out)
        self._events.connected(self)

    def data_received(self, data: bytes) -> None:
        try:
            if self._greeted is None:
                greeted = self._shake(data)
                if greeted is None:
                    return
                self._greeted, self.greeted, data = greeted, True, greeted.rest
                self._timer.cancel()
                self._events.opened(self, greeted.incarnation)
            for payload in self._greeted.frames.received(data):
                if self._closed:
                    return
                self._events.arrived(self, decode(payload))
        except WireError as error:
            self.close(str(error))

    def _shake(self, data: bytes) -> Greeted | None:
        try:
            return self._handshake.received(data)
        finally:
            if self._handshake.out:
                self._transport.write(self._handshake.out)

    def send(self, message: PeerMessage) -> None:
        """Send a message, unless it is newer than the version that both sides speak."""
        if self._greeted is None or since(message) > self._greeted.version:
            return
        if not self._closed and not self._transport.is_closing():
            self._transport.write(self._greeted.frames.seal(encode(message)))
            if self._transport.get_write_buffer_size() > UNREAD_BYTES:
                self.close("it does not read")

    @property
    def own_host(self) -> str:
        """The address of this machine on this connection."""
        return str(self._transport.get_extra_info("sockname")[0])

    @property
    def remote_host(self) -> str:
        """The address of the other machine."""
        return str((self._transport.get_extra_info("peername") or ("unknown",))[0])

    def close(self, problem: str) -> None:
        """Close after what was sent has left, or has had time to."""
        self._problem = self._problem or problem
        if not self._closed:
            self._closed = True
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(CLOSE_S, self._transport.abort)
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        self._timer.cancel()
        self._events.ended(self, self._problem or (str(error) if error is not None else self._closed_by_peer()))

    def _closed_by_peer(self) -> str:
        if self.greeted:
            return "it closed the connection"
        if self._handshake.begun:
            return "it closed the connection during the handshake: it may have another peer_secret"
        return "it closed the connection without a word"


class WorkerWire(asyncio.Protocol):
    """A worker's connection."""

    def __init__(self, events: PeerEvents) -> None:
        self._events = events
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        for token, request in take_requests(self._buffer):
            self._events.asked(self, token, request)

    def answer(self, token: int) -> None:
        """What was asked under this token need not wait any more."""
        if not self._transport.is_closing():
            self._transport.write(ANSWER.pack(token))


def look_up(peer: str) -> list[tuple[str, int]]:
    """The addresses that one entry of `peers` stands for. OSError: it cannot be looked up."""
    host, _, port = peer.removeprefix(DNS_PREFIX).rpartition(":")
    rows = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    found = list(dict.fromkeys((str(row[4][0]), int(port)) for row in rows))
    return found if peer.startswith(DNS_PREFIX) else found[:1]


def greet(address: tuple[str, int], secret: bytes, timeout_s: float) -> None:
    """The handshake with a proxy, and nothing after it: without a hello, it requires nothing of this process. OSError:
    it does not answer. WireError: it is no peer, or has another secret."""
    handshake = Handshake(PeerRole.DIALLER, secret, os.urandom(INCARNATION_BYTES), os.urandom(NONCE_BYTES))
    with socket.create_connection(address, timeout_s) as dialled:
        dialled.sendall(handshake.out)
        while data := dialled.recv(HANDSHAKE_BYTES):
            if handshake.received(data) is not None:
                dialled.sendall(handshake.out)
                return
    raise WireError("it closes the connection: its log may say why")
