"""Connections of one worker whose reads wait for looks: one look answers all reads that arrived before it, and no other
read is woken by it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.methods import patience
from hms_cache_proxy.server.client_states import WaitingForLook
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.hub import LOOKED_AT_ONCE, Hub
from tests.methods.warm import Bench, opened, request
from tests.server.scripted import ScriptedMetastore
from tests.server.test_bugs import hub_of

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    for name in ("SHORT_NS", "LONG_NS"):
        monkeypatch.setattr(patience, name, 10**12)


class Clients:
    """Of a hub, over sockets; the test plays the follower."""

    def __init__(self, bench: Bench, hub: Hub) -> None:
        self.bench = bench
        self.hub = hub
        self.reply_bytes = 0

    async def ask(self, lines: list[Line]) -> None:
        """A request on each. Returns when all wait."""
        waiting = len(self.hub._waiting) + len(lines)
        for _, writer in lines:
            writer.write(request(9))
        while len(self.hub._waiting) < waiting:
            await asyncio.sleep(0.001)

    async def answers(self, lines: list[Line]) -> None:
        """All have their replies."""
        for reader, _ in lines:
            if not self.reply_bytes:
                self.reply_bytes = len(await reader.read(1 << 16))
            else:
                await asyncio.wait_for(reader.readexactly(self.reply_bytes), 30)


def played(
    tmp_path: Path, scripted: ScriptedMetastore, count: int, play: Callable[[Clients, list[Line]], Awaitable[None]]
) -> None:
    """`play` with so many connections, each of which the hot path knows."""

    async def main(bench: Bench) -> None:
        clients = Clients(bench, hub_of(bench, scripted))
        clients.hub.allowed = replace(clients.hub.allowed, connections=count)
        server = await asyncio.get_running_loop().create_server(lambda: Client(clients.hub), "127.0.0.1", 0)
        async with server:
            address = server.sockets[0].getsockname()[:2]
            lines = [await asyncio.open_connection(*address) for _ in range(count)]
            await clients.ask(lines)
            bench.step()
            clients.hub.look()
            await clients.answers(lines)
            await play(clients, lines)
            for _, writer in lines:
                writer.close()
            await clients.hub.drain(30)

    with opened(tmp_path, consistency="strict") as bench:
        asyncio.run(main(bench))


def test_a_look_answers_the_reads_before_it_and_wakes_no_other(tmp_path: Path, scripted: ScriptedMetastore) -> None:
    async def play(clients: Clients, lines: list[Line]) -> None:
        bench, hub = clients.bench, clients.hub
        await clients.ask(lines[:2])
        bench.page[Slot.LOOKING_NS] = began_ns = time.monotonic_ns()
        await clients.ask(lines[2:])
        bench.page[Slot.BEGAN_NS] = began_ns
        hub.look()
        await clients.answers(lines[:2])
        (left,) = hub._waiting
        assert isinstance(left._core._state, WaitingForLook), "it was not looked at"
        bench.step()
        hub.look()
        await clients.answers(lines[2:])
        assert not hub._waiting and not scripted.calls

    played(tmp_path, scripted, 3, play)


def test_more_reads_than_are_answered_in_one_turn(tmp_path: Path, scripted: ScriptedMetastore) -> None:
    async def play(clients: Clients, lines: list[Line]) -> None:
        for _ in range(3):
            await clients.ask(lines)
            assert len(clients.bench.woken) < 10
            clients.bench.step()
            clients.hub.look()
            await clients.answers(lines)
        assert not scripted.calls

    played(tmp_path, scripted, LOOKED_AT_ONCE + 10, play)
