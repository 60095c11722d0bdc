"""All long work of a worker has one budget; clients take turns."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from hms_cache_proxy.methods.decision import ClientCall
from hms_cache_proxy.methods.dispatch import CacheDispatcher
from hms_cache_proxy.security.mechanism import UNPROTECTED
from hms_cache_proxy.server.driver import LARGE_BYTES, Client
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.turns import Turns
from hms_cache_proxy.upstream.sasl_stream import SaslStream
from hms_cache_proxy.wire.framing import frame_header
from tests.methods.warm import opened
from tests.server.hubs import hub_of
from tests.server.scripted import ScriptedMetastore
from tests.testbed.processes import SOON_S
from tests.testbed.raw import encode_call


def ran(work: dict[str, list[tuple[str, int]]], looks: int, budget_ns: int = 0) -> list[str]:
    """What runs in so many turns of the loop: for each address the name and the number of slices of its clients; a dot
    for each turn, in which the sockets are looked at."""
    order: list[str] = []

    async def run() -> None:
        shared = Turns(budget_ns)

        def slice_of(address: str, name: str, left: int) -> None:
            order.append(name)
            if left > 1:
                shared.add(address, partial(slice_of, address, name, left - 1))

        for address, clients in work.items():
            for name, number in clients:
                shared.add(address, partial(slice_of, address, name, number))
        for _ in range(looks):
            await asyncio.sleep(0)
            order.append(".")

    asyncio.run(run())
    return order


def test_one_slice_between_two_looks_at_the_sockets() -> None:
    order = "".join(ran({"": [(name, 3) for name in "abcde"]}, 20))
    assert order.startswith("a.b.c.d.e.a.b.c.d.e.a.b.c.d.e.")


def test_short_slices_share_a_turn() -> None:
    assert "".join(ran({"": [("a", 2), ("b", 2)]}, 3, 10**10)) == "ab.ab.."


def test_addresses_take_turns_whatever_their_connections() -> None:
    order = "".join(ran({"batch": [(name, 9) for name in "abc"], "one": [("z", 9)]}, 12)).replace(".", "")
    assert order.startswith("azbzczaz")


NAMES = [f"ds={number}" for number in range(LARGE_BYTES // 8)]
LARGE = encode_call("get_partitions_by_names", "sales", "orders", NAMES)
SHORT = encode_call("getVersion")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the requests that were decided on."""
    found: list[int] = []
    decide = CacheDispatcher.decide

    def noted(self: CacheDispatcher, call: ClientCall) -> object:
        found.append(len(call.message))
        return decide(self, call)

    monkeypatch.setattr(CacheDispatcher, "decide", noted)
    return found


def test_a_short_request_does_not_wait_for_large_ones(
    scripted: ScriptedMetastore, tmp_path: Path, seen: list[int]
) -> None:
    """Of other clients. All of them have arrived when the worker looks at its sockets."""

    async def all_at_once(hub: Hub) -> None:
        hub.turns.budget_ns = 0
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Client(hub), "127.0.0.1", 0)
        async with server:
            with ExitStack() as stack:
                clients = [
                    stack.enter_context(socket.create_connection(server.sockets[0].getsockname())) for _ in range(5)
                ]
                while len(hub.clients) < len(clients):
                    await asyncio.sleep(0.01)
                for client, message in zip(clients, [LARGE] * 4 + [SHORT], strict=True):
                    client.sendall(message)
                async with asyncio.timeout(SOON_S):
                    while len(seen) < len(clients):
                        await asyncio.sleep(0)
            await hub.drain(SOON_S)

    with opened(tmp_path) as bench:
        asyncio.run(all_at_once(hub_of(bench, scripted)))
    assert seen.count(len(LARGE)) == 4
    assert seen.index(len(SHORT)) <= 1, "after one of them at most"


def test_what_waits_for_its_turn_is_not_overtaken(scripted: ScriptedMetastore, tmp_path: Path, seen: list[int]) -> None:
    """A client with SASL sends two requests and what is no frame: the connection is lost, and all that came before is
    passed on at once."""
    framed = b"".join(frame_header(len(message)) + message for message in (LARGE, SHORT))

    async def lost(hub: Hub, threads: ThreadPoolExecutor) -> None:
        streams: list[SaslStream] = []

        def accepted() -> SaslStream:
            streams.append(SaslStream("client", 1 << 20, threads))
            return streams[0]

        server = await asyncio.get_running_loop().create_server(accepted, "127.0.0.1", 0)
        async with server, asyncio.timeout(SOON_S):
            with socket.create_connection(server.sockets[0].getsockname()) as client:
                client.sendall(b"login")
                while not streams:
                    await asyncio.sleep(0.01)
                assert await streams[0].more() == b"login"
                served = Client(hub)
                streams[0].open(served, UNPROTECTED, b"")
                streams[0].data_received(framed + frame_header(-1))
                while not served.lost:
                    await asyncio.sleep(0)
            await hub.drain(SOON_S)

    with opened(tmp_path) as bench, ThreadPoolExecutor(1) as threads:
        asyncio.run(lost(hub_of(bench, scripted), threads))
    assert seen in ([], [len(LARGE)], [len(LARGE), len(SHORT)])
