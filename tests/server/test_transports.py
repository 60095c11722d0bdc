"""The transports of one port: each that `security.transports` names is served, no other is answered, in all
combinations."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.config import Config, load
from hms_cache_proxy.config.security import TRANSPORT_NAMES
from hms_cache_proxy.security import tls
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.server.acceptor import Acceptor
from hms_cache_proxy.server.connection import ClientConnection
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.handshakes import Handshakes
from hms_cache_proxy.server.http_service import HttpService
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.login import Logins
from hms_cache_proxy.server.mechanisms import offered
from hms_cache_proxy.server.reloading import FollowedSettings, Reloading
from hms_cache_proxy.server.set_ugi_check import SetUgiCheck
from tests.methods.warm import Bench, opened
from tests.server.conftest import Worker
from tests.server.logged_in import AUTH_CONF, Realm, SaslConnection, realm_in
from tests.server.scripted import Call, ScriptedMetastore
from tests.server.secured import over_tls
from tests.server.test_bugs import hub_of
from tests.server.web import Web
from tests.testbed.certificates import Authority
from tests.testbed.processes import SOON_S, wait_until
from tests.testbed.raw import EndOfStream, RawConnection, encode_call

VERSION = encode_call("getVersion", seqid=4)
USERS = {"sasl": "alice", "http": "bob"}
COMBINATIONS = [
    combination
    for size in range(1, len(TRANSPORT_NAMES) + 1)
    for combination in itertools.combinations(TRANSPORT_NAMES, size)
]


class Place(NamedTuple):
    """What clients and ports of all kinds need."""

    realm: Realm
    authority: Authority
    metastore: ScriptedMetastore

    def settings(self, *transports: str) -> dict[str, object]:
        """Of a port for these."""
        used = uses(transports)
        settings: dict[str, object] = {"security": {"transports": list(transports), "handshake_timeout_s": SOON_S}}
        if "tls" in used:
            settings["tls"] = self.authority.signed("server").settings()
        if "sasl" in used:
            settings["kerberos"] = {"keytab": str(self.realm.proxy)}
        if "http" in used:
            settings["http_transport"] = {"authentication": "header", "trusted_addresses": ["127.0.0.1"]}
        return settings

    def answer(self, transport: str, port: int) -> bytes | None:
        """What a client of this kind gets; None: the end of its connection."""
        try:
            if transport.endswith("http"):
                context = self.authority.client() if transport.startswith("tls") else None
                with Web(port, tls=context, x_actor_username=USERS["http"]) as web:
                    answer = web.ask(VERSION)
                    return answer.body if answer.status == HTTPStatus.OK else None
            return self._thrift(transport, port)
        except (OSError, EndOfStream):
            return None

    def _thrift(self, transport: str, port: int) -> bytes:
        opened = partial(over_tls, self.authority.client(), port) if transport.startswith("tls") else partial(raw, port)
        with opened() as connection:
            if not transport.endswith("sasl"):
                return connection.call(VERSION)
            with SaslConnection.opened(connection.socket) as login:
                login.log_in(self.realm.client(USERS["sasl"]), AUTH_CONF)
                return login.call(VERSION)


def uses(transports: Iterable[str]) -> set[str]:
    """What they are made of."""
    return {part for transport in transports for part in transport.split("+")}


def raw(port: int) -> RawConnection:
    return RawConnection("127.0.0.1", port, framed=False, timeout_s=SOON_S)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("transports")
    with realm_in(directory) as realm, ScriptedMetastore() as metastore:
        yield Place(realm, Authority(directory / "tls"), metastore)


def test_one_port_serves_all(place: Place, new_worker: Callable[..., Worker]) -> None:
    """Each client is answered, and each call is that of its user."""
    worker = new_worker(place.metastore.address, **place.settings(*TRANSPORT_NAMES))
    with Web(worker.port, x_actor_username="bob") as web:
        assert wait_until(lambda: web.ask(VERSION).status == 200), worker.log()
    expected = place.answer("plain", worker.port)
    assert expected is not None
    users = {name: Call(encode_call("set_ugi", name, [])).arguments for name in USERS.values()}
    for transport in TRANSPORT_NAMES:
        place.metastore.calls.clear()
        assert place.answer(transport, worker.port) == expected, transport
        named = [call.arguments for _, call in place.metastore.calls if call.name == "set_ugi"]
        user = USERS.get(transport.rpartition("+")[2])
        assert named == ([] if user is None else [users[user]]), transport


class Doors:
    """Makes a door with everything that the worker gives it, for each combination of transports."""

    def __init__(self, config: Config, hub: Hub) -> None:
        self._config, self._hub = config, hub
        self._secured = tls.for_clients(config.tls)
        self._logins = Logins(offered(config), self._logged_in, hub, 1 << 20)
        self._heeding = SetUgiCheck(config, hub)
        self._http = HttpService(config, hub, self._heeding)

    def _logged_in(self, login: Admitted) -> Client:
        return Client(self._hub, partial(ClientConnection, login=login))

    def start(self, page: StatePage) -> None:
        """Ask the metastore whether it heeds users."""
        settings = FollowedSettings(self._config, lambda changed: None)
        self._http.start(Reloading(page, self._hub.metrics, None, None, settings))
        self._heeding.start()

    async def answers(self, place: Place, transports: tuple[Any, ...]) -> dict[str, bytes | None]:
        """What each kind of client gets at a port for these."""
        security = replace(self._config.security, transports=transports)
        used = uses(transports)
        door = Handshakes(
            security,
            self._secured if "tls" in used else None,
            self._logins if "sasl" in used else None,
            lambda: Client(self._hub),
            self._hub,
            self._http.client if "http" in used else None,
        )
        with socket.create_server(("127.0.0.1", 0)) as listener:
            acceptor = Acceptor(listener, self._hub.member, door.admit, self._hub.spawn)
            acceptor.start()
            port = listener.getsockname()[1]
            found = {name: await asyncio.to_thread(place.answer, name, port) for name in TRANSPORT_NAMES}
            acceptor.close()
            door.close()
        return found


def test_what_is_not_named_is_not_answered(place: Place, tmp_path: Path) -> None:
    """All combinations."""
    config = load(
        cli={**place.settings(*TRANSPORT_NAMES), "data_dir": str(tmp_path), "upstream": "thrift://127.0.0.1:1"}
    )

    async def compared(bench: Bench) -> None:
        doors = Doors(config, hub_of(bench, place.metastore))
        doors.start(bench.page)
        while (expected := (await doors.answers(place, TRANSPORT_NAMES))["http"]) is None:
            await asyncio.sleep(0.1)
        for transports in COMBINATIONS:
            found = await doors.answers(place, transports)
            assert found == {name: expected if name in transports else None for name in TRANSPORT_NAMES}, transports

    with opened(tmp_path) as bench:
        uvloop.run(compared(bench))


@pytest.mark.parametrize("said", [b"", b"P", b"\0\0"])
def test_a_client_that_leaves_after_its_first_bytes_keeps_no_place(tmp_path: Path, said: bytes) -> None:
    """Else it would keep one of `security.max_handshakes` until its time is over."""
    security = replace(load().security, transports=("plain", "http"), handshake_timeout_s=3600)

    async def admitted(bench: Bench, taken: socket.socket) -> None:
        hub = hub_of(bench, place_of_nothing)
        door = Handshakes(security, None, None, lambda: Client(hub), hub)
        await asyncio.wait_for(door.admit(taken), SOON_S)
        assert taken.fileno() == -1

    with opened(tmp_path) as bench, ScriptedMetastore() as place_of_nothing, socket.create_server(("", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(said)
        taken, _ = listener.accept()
        taken.setblocking(False)
        uvloop.run(admitted(bench, taken))
