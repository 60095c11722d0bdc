"""Connections between proxies over real sockets: what becomes of a peer that does not read."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from hms_cache_proxy.peers import frames
from hms_cache_proxy.peers.connections import CLOSE_S, UNREAD_BYTES, PeerWire, WorkerWire
from hms_cache_proxy.peers.frames import NONCE_BYTES, Handshake, PeerRole, SealedFrames
from hms_cache_proxy.peers.messages import AnswersNothing, FenceOwed, PeerMessage, TokensCancelled, decode
from hms_cache_proxy.peers.requests import PeerRequest
from tests.testbed.processes import SOON_S


class Events:
    """What a driver is told."""

    secret, incarnation = b"s", b"i" * 16

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.wire: asyncio.Future[PeerWire] = loop.create_future()
        self.problem: asyncio.Future[str] = loop.create_future()

    def connected(self, wire: PeerWire) -> None:
        pass

    def opened(self, wire: PeerWire, incarnation: bytes) -> None:
        self.wire.set_result(wire)

    def arrived(self, wire: PeerWire, message: PeerMessage) -> None:
        raise AssertionError("nothing is sent here")

    def ended(self, wire: PeerWire, problem: str) -> None:
        self.problem.set_result(problem)

    def asked(self, worker: WorkerWire, token: int, request: PeerRequest) -> None:
        raise AssertionError("there is no worker")


def greeted(port: int) -> tuple[socket.socket, SealedFrames]:
    """A peer that has greeted, on a blocking socket."""
    dialled = socket.create_connection(("127.0.0.1", port))
    handshake = Handshake(PeerRole.DIALLER, Events.secret, b"o" * 16, b"n" * NONCE_BYTES)
    dialled.sendall(handshake.out)
    while (found := handshake.received(dialled.recv(4096))) is None:
        pass
    dialled.sendall(handshake.out)
    return dialled, found.frames


async def closed_after() -> float:
    loop, events = asyncio.get_running_loop(), Events()
    server = await loop.create_server(lambda: PeerWire(events, 1, None), "127.0.0.1", 0)
    dialled, _ = await asyncio.to_thread(greeted, server.sockets[0].getsockname()[1])
    with dialled:
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


async def received_of_two(dialler_version: int) -> list[PeerMessage]:
    """What a peer of this version receives of a newer message and one that all versions have."""
    loop, events = asyncio.get_running_loop(), Events()
    server = await loop.create_server(lambda: PeerWire(events, 1, None), "127.0.0.1", 0)
    real, frames.VERSION = frames.VERSION, dialler_version  # type: ignore[misc]  # of both sides: the lower one counts
    try:
        dialled, sealed = await asyncio.to_thread(greeted, server.sockets[0].getsockname()[1])
        wire = await asyncio.wait_for(events.wire, SOON_S)
    finally:
        frames.VERSION = real  # type: ignore[misc]
    with dialled:
        wire.send(TokensCancelled((b"r" * 24,)))
        wire.send(AnswersNothing())
        found: list[PeerMessage] = []
        while AnswersNothing() not in found:
            found += map(decode, sealed.received(await asyncio.to_thread(dialled.recv, 4096)))
        wire.close("enough")
    server.close()
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_peer_is_not_sent_what_it_does_not_know(version: int) -> None:
    newer: list[PeerMessage] = [TokensCancelled((b"r" * 24,))] if version >= 2 else []
    assert asyncio.run(received_of_two(version)) == [*newer, AnswersNothing()]
