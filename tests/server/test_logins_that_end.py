"""Logins that end otherwise than they should: nothing is left of their connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from hms_cache_proxy.config import load
from hms_cache_proxy.config.security import TlsSection
from hms_cache_proxy.security import tls
from hms_cache_proxy.security.digest_md5 import ServerLogin
from hms_cache_proxy.security.mechanism import UNPROTECTED, Admitted, Step
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.security.tokens import Identifier, Token
from hms_cache_proxy.server.connection import ClientConnection
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.handshakes import Handshakes
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.login import Logins
from hms_cache_proxy.server.mechanisms import Entered
from hms_cache_proxy.server.passed_logins import PassedLogins
from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.wire.message import NEED_MORE
from hms_cache_proxy.wire.sasl import Layers, Negotiation
from tests.methods.warm import Bench, opened
from tests.server.digest import Digest
from tests.server.logged_in import AUTH, COMPLETE, OK, START, SaslConnection, message
from tests.server.scripted import ScriptedMetastore
from tests.server.test_bugs import hub_of
from tests.testbed.certificates import Authority
from tests.testbed.processes import SOON_S

SETTLE_S = 0.3  # in which the loop has noticed that a client has closed
TOKEN = Token(Identifier("alice", "", "", 0, 1 << 40, 1, 1).encoded(), b"password")
LOGIN = message(START, b"SLOW") + message(OK, b"alice")


class OneStep:
    """A login of one step."""

    principal = "alice"
    protection = UNPROTECTED

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def step(self, response: bytes) -> Step:
        self._act()
        return Step(b"", True)


class Slow:
    """A mechanism whose only step does this, in a thread."""

    name = "SLOW"
    only_within_tls = False
    files: Mapping[str, Renewable[Any]] = {}

    def __init__(self, act: Callable[[], object]) -> None:
        self.threads = ThreadPoolExecutor(1)
        self._act = act

    def begin(self) -> OneStep:
        return OneStep(self._act)

    def entered(self, principal: str) -> Entered:
        return Entered(principal, {})


def door_of(hub: Hub, mechanism: Slow, transport: Any, section: TlsSection) -> Handshakes:
    """A door for clients that log in so."""

    def client(login: Admitted) -> Client:
        return Client(hub, partial(ClientConnection, login=login))

    security = replace(load().security, transports=(transport,), handshake_timeout_s=3600)
    secured = tls.for_clients(section) if transport == "tls+sasl" else None
    logins = Logins([mechanism], client, hub, 1 << 20)
    return Handshakes(security, secured, logins, lambda: Client(hub), hub)


class OtherMetastore:
    """Lets a client in by its token. `last`: what is awaited before its last word."""

    def __init__(self, last: Callable[[], Awaitable[object]]) -> None:
        self._last = last

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        negotiation, login = Negotiation(), ServerLogin(lambda name: b64encode(TOKEN.password), Layers.AUTH)
        while not negotiation.done:
            response = negotiation.next()
            if response is NEED_MORE:
                data = await reader.read(1 << 16)
                assert data, "the proxy goes on"
                negotiation.add(data)
                continue
            step = login.step(response)
            if step.done:
                await self._last()
            writer.write(negotiation.complete(step.payload) if step.done else negotiation.challenge(step.payload))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()


def leave_by_token(address: tuple[str, int]) -> None:
    """A client that closes behind its last response."""
    with SaslConnection.opened(socket.create_connection(address, SOON_S)) as client:
        digest = Digest(TOKEN.text(), AUTH)
        client.send_bytes(message(START, b"DIGEST-MD5") + message(OK))
        client.send_bytes(message(COMPLETE, digest.response(client.answer(OK))))


def leave(address: tuple[str, int], authority: Authority | None) -> None:
    """A client that closes as soon as it has said all it has to say."""
    connection = socket.create_connection(address, SOON_S)
    if authority is not None:
        connection = authority.client().wrap_socket(connection, server_hostname="localhost")
    with connection:
        connection.sendall(LOGIN)


@pytest.mark.parametrize("transport", ["sasl", "tls+sasl"])
def test_a_client_that_leaves_during_the_last_step_leaves_nothing_behind(tmp_path: Path, transport: str) -> None:
    """A directory may take seconds to check a password."""
    authority, left = Authority(tmp_path / "tls"), threading.Event()
    section = TlsSection(**authority.signed("server").settings())  # type: ignore[arg-type]

    async def admitted(bench: Bench, listener: socket.socket) -> None:
        hub = hub_of(bench, nothing)
        door = door_of(hub, Slow(partial(left.wait, SOON_S)), transport, section)
        within = authority if transport == "tls+sasl" else None
        leaving = asyncio.create_task(asyncio.to_thread(leave, listener.getsockname(), within))
        taken, _ = await asyncio.to_thread(listener.accept)
        taken.setblocking(False)
        admitting = asyncio.create_task(door.admit(taken))
        await leaving
        await asyncio.sleep(SETTLE_S)
        left.set()
        await asyncio.wait_for(admitting, SOON_S)
        await asyncio.sleep(0)
        assert not hub.clients and hub.member.total() == 0 and not hub.by_address
        ended = {"transport": "sasl", "result": "failed"}
        assert bench.metrics.registry.get_sample_value("hms_proxy_handshakes_total", ended) == 1

    with opened(tmp_path) as bench, ScriptedMetastore() as nothing, socket.create_server(("127.0.0.1", 0)) as listener:
        uvloop.run(admitted(bench, listener))


def test_a_client_that_leaves_while_a_metastore_looks_at_its_login_leaves_nothing_behind(tmp_path: Path) -> None:
    """With logins that are passed through."""

    async def admitted(bench: Bench, listener: socket.socket) -> None:
        left = asyncio.Event()
        metastore = await asyncio.start_server(OtherMetastore(left.wait).serve, "127.0.0.1", 0)
        hub = hub_of(bench, nothing)
        hub.endpoints = Endpoints([metastore.sockets[0].getsockname()])
        security = replace(load().security, transports=("sasl",), handshake_timeout_s=3600)
        door = Handshakes(security, None, PassedLogins(hub), lambda: Client(hub), hub)
        leaving = asyncio.create_task(asyncio.to_thread(leave_by_token, listener.getsockname()))
        taken, _ = await asyncio.to_thread(listener.accept)
        taken.setblocking(False)
        admitting = asyncio.create_task(door.admit(taken))
        await leaving
        await asyncio.sleep(SETTLE_S)
        left.set()
        await asyncio.wait_for(admitting, SOON_S)
        assert not hub.clients and not hub.places.holders(hub.endpoints.all[0])
        assert not bench.metrics.registry.get_sample_value("hms_proxy_upstream_connections")
        metastore.close()

    with opened(tmp_path) as bench, ScriptedMetastore() as nothing, socket.create_server(("127.0.0.1", 0)) as listener:
        uvloop.run(admitted(bench, listener))


def test_a_bug_in_a_login_ends_its_connection(tmp_path: Path) -> None:
    """Such as an error that nobody expects of a library. No time limit would end it later."""

    def bug() -> None:
        raise ZeroDivisionError("a planted bug")

    async def admitted(bench: Bench, listener: socket.socket) -> None:
        door = door_of(hub_of(bench, nothing), Slow(bug), "sasl", TlsSection())
        with SaslConnection.opened(socket.create_connection(listener.getsockname(), SOON_S)) as client:
            client.send_bytes(LOGIN)
            taken, _ = listener.accept()
            taken.setblocking(False)
            with pytest.raises(ZeroDivisionError):
                await door.admit(taken)
            assert await asyncio.to_thread(client.at_end)

    with opened(tmp_path) as bench, ScriptedMetastore() as nothing, socket.create_server(("127.0.0.1", 0)) as listener:
        uvloop.run(admitted(bench, listener))
