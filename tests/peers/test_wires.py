"""Connections between proxies over real sockets: what becomes of a peer that does not read."""

from __future__ import annotations

import asyncio
import socket
import time

from hms_cache_proxy.peers.frames import NONCE_BYTES, Handshake, PeerRole
from hms_cache_proxy.peers.messages import FenceOwed, PeerMessage
from hms_cache_proxy.peers.requests import PeerRequest
from hms_cache_proxy.peers.wires import CLOSE_S, UNREAD_BYTES, PeerWire, WorkerWire
from tests.testbed.processes import SOON_S


class Events:
    """What a driver is told."""

    secret, incarnation = b"s", b"i" * 16

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.wire: asyncio.Future[PeerWire] = loop.create_future()
        self.problem: asyncio.Future[str] = loop.create_future()

    def opened(self, wire: PeerWire, incarnation: bytes) -> None:
        self.wire.set_result(wire)

    def arrived(self, wire: PeerWire, message: PeerMessage) -> None:
        raise AssertionError("nothing is sent here")

    def ended(self, wire: PeerWire, problem: str) -> None:
        self.problem.set_result(problem)

    def asked(self, worker: WorkerWire, token: int, request: PeerRequest) -> None:
        raise AssertionError("there is no worker")


def greeted(port: int) -> socket.socket:
    """A peer that has greeted, on a blocking socket."""
    dialled = socket.create_connection(("127.0.0.1", port))
    handshake = Handshake(PeerRole.DIALLER, Events.secret, b"o" * 16, b"n" * NONCE_BYTES)
    dialled.sendall(handshake.out)
    while handshake.received(dialled.recv(4096)) is None:
        pass
    dialled.sendall(handshake.out)
    return dialled


async def closed_after() -> float:
    loop, events = asyncio.get_running_loop(), Events()
    server = await loop.create_server(lambda: PeerWire(events, 1, None), "127.0.0.1", 0)
    with await asyncio.to_thread(greeted, server.sockets[0].getsockname()[1]):
        wire = await asyncio.wait_for(events.wire, SOON_S)
        message, began_s = FenceOwed((b"t" * (1 << 20),)), time.monotonic()
        for _ in range((UNREAD_BYTES >> 20) + 16):  # what fits into the kernel's buffers comes on top
            wire.send(message)
        assert await asyncio.wait_for(events.problem, CLOSE_S + SOON_S) == "it does not read"
    server.close()
    return time.monotonic() - began_s


def test_a_peer_that_does_not_read_is_closed() -> None:
    """Also if what was sent to it never leaves."""
    assert asyncio.run(closed_after()) >= CLOSE_S / 2
