"""Metastores that want a login with Kerberos: another proxy, with an embedded metastore, is one."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from hive_metastore.ttypes import Database
from thrift.Thrift import TApplicationException

from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.security.metastore_security import MetastoreSecurity
from hms_cache_proxy.security.service_login import ServiceLogins
from hms_cache_proxy.upstream.endpoints import CallUser, Endpoint
from hms_cache_proxy.upstream.link import LinkOwner, NoAnswer, connect
from hms_cache_proxy.upstream.prober import PROBE_S, probe
from hms_cache_proxy.upstream.service import ServiceConnection
from hms_cache_proxy.wire.sasl import EVERY_LAYER, Layers
from tests.proxy import Proxy
from tests.server.logged_in import AUTH, AUTH_CONF, AUTH_INT, OK, START, Realm, SaslConnection, message, realm_in
from tests.server.web import Web
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.kdc import REALM
from tests.testbed.objects import create_table, table
from tests.testbed.processes import wait_until
from tests.testbed.raw import decode_reply, encode_call

LONG = b"y" * 200_000


class Place(NamedTuple):
    """The realm, and a metastore in it."""

    realm: Realm
    metastore: Proxy

    @property
    def uri(self) -> str:
        return f"thrift://localhost:{self.metastore.port}"

    def logins(self, layers: Layers = EVERY_LAYER, **other: str) -> ServiceLogins:
        """As the settings make them."""
        named = {"principal": f"proxy/localhost@{REALM}", "service": f"hive/_HOST@{REALM}", **other}
        return ServiceLogins(keytab=str(self.realm.proxy), layers=layers, **named)

    def client(self, port: int, user: str = "alice", layer: int = AUTH) -> SaslConnection:
        """After a login at this port."""
        connection = SaslConnection.to(port)
        connection.log_in(self.realm.client(user), layer)
        return connection


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for all tests."""
    directory = tmp_path_factory.mktemp("kerberos")
    with ExitStack() as stack:
        realm = stack.enter_context(realm_in(directory))
        metastore = Proxy(directory / "metastore", "", settings={"EMBEDDED": "true", **realm.environment("sasl")})
        stack.callback(metastore.close)
        metastore.start()
        yield Place(realm, metastore)


@pytest.fixture
def proxies(tmp_path: Path) -> Iterator[list[Proxy]]:
    """Closed after the test."""
    started: list[Proxy] = []
    yield started
    for proxy in started:
        proxy.close()


def test_everything_goes_on_as_the_proxy(place: Place, proxies: list[Proxy], tmp_path: Path) -> None:
    """The follower over Thrift, the probe of /status and clients' calls log in; users do not reach the metastore."""
    realm = place.realm
    settings = {**realm.environment("plain", "sasl"), **realm.service(STORE="thrift")}
    proxy = Proxy(tmp_path / "proxy", place.uri, settings=settings)
    proxies.append(proxy)
    proxy.start()
    proxy.wait_prewarmed()
    assert proxy.status()["mode"] == "cache", proxy.log_tail()
    with place.client(proxy.port) as alice, place.client(place.metastore.port, "bob") as direct:
        for method, given, why in (
            ("get_delegation_token", ["bob", "bob"], "alice is not allowed to impersonate bob"),
            ("cancel_delegation_token", ["token"], "delegation token"),
        ):
            assert why in decode_reply(alice.call(encode_call(method, *given)))[2].o1.message
        refusal = decode_reply(alice.call(encode_call("get_master_keys")))[2]
        assert isinstance(refusal, TApplicationException) and "refuses get_master_keys" in refusal.message
        assert decode_reply(alice.call(encode_call("set_ugi", "root", ["g"])))[2].success == ["g", "root"]
        alice.call(encode_call("create_database", Database(name="owned", parameters={})))
        owner = decode_reply(direct.call(encode_call("get_database", "owned")))[2].success.ownerName
        assert owner == "proxy"
    with MetastoreClient(*proxy.address) as plain:
        assert plain.set_ugi("eve", ["g"]) == ["g", "eve"]
        create_table(plain, table("owned", "t"))
        proxy.wait_event(plain.get_current_notificationEventId().eventId)

        def is_hit() -> bool:
            assert plain.get_table("owned", "t").tableName == "t"
            return proxy.told_requests().get(("get_table", "hit", ""), 0) > 0

        assert wait_until(is_hit)
    requests = proxy.requests()
    assert {("set_ugi", "relay", "login"), ("get_master_keys", "error", "blocked")} <= set(requests)
    log = place.metastore.log.read_text()
    assert log.count(f"principal=proxy/localhost@{REALM}") >= 3 and "alice" not in log
    assert "takes all calls to come from the proxy" in proxy.log.read_text()


def test_http_users_go_on_as_the_proxy(place: Place, proxies: list[Proxy], tmp_path: Path) -> None:
    """As clients with Kerberos do: the metastore is not told users, and nobody gets a token of the proxy's."""
    header = {"HTTP_TRANSPORT_AUTHENTICATION": "header", "HTTP_TRANSPORT_TRUSTED_ADDRESSES": "127.0.0.1"}
    settings = {**place.realm.environment("http"), **place.realm.service(STORE="none"), **header}
    proxy = Proxy(tmp_path / "proxy", place.uri, settings=settings)
    proxies.append(proxy)
    proxy.start()
    with Web(proxy.port, x_actor_username="carol") as carol:
        for method, given in (("get_delegation_token", ["bob", "bob"]), ("cancel_delegation_token", ["token"])):
            refusal = decode_reply(carol.call(encode_call(method, *given)))[2].o1
            assert f"hms-cache-proxy refuses {method}" in refusal.message
        refusal = decode_reply(carol.call(encode_call("get_master_keys")))[2]
        assert isinstance(refusal, TApplicationException) and "refuses get_master_keys" in refusal.message
        assert decode_reply(carol.call(encode_call("set_ugi", "root", ["g"])))[2].success == ["g", "root"]
        carol.call(encode_call("create_database", Database(name="over_http", parameters={})))
        found = decode_reply(carol.ask(encode_call("get_database", "over_http"), x_actor_username="dave").body)
        assert found[2].success.ownerName == "proxy"
    assert {("set_ugi", "relay", "login"), ("get_master_keys", "error", "blocked")} <= set(proxy.requests())
    log = place.metastore.log.read_text()
    assert f"principal=proxy/localhost@{REALM}" in log and "carol" not in log and "dave" not in log
    assert "mechanism=header" in proxy.log.read_text()


@pytest.mark.parametrize(("name", "layer"), [("auth", AUTH), ("auth-int", AUTH_INT), ("auth-conf", AUTH_CONF)])
def test_protections(place: Place, proxies: list[Proxy], tmp_path: Path, name: str, layer: int) -> None:
    """Large calls and replies on both sides."""
    settings = {**place.realm.environment("sasl"), **place.realm.service(STORE="none", KERBEROS_PROTECTION=name)}
    proxy = Proxy(tmp_path / "proxy", place.uri, settings=settings)
    proxies.append(proxy)
    proxy.start()
    word = "x" * 3_000_000
    made = table("default", f"t_{layer}", parameters={"word": word, "EXTERNAL": "TRUE"})
    with place.client(proxy.port, layer=layer) as alice:
        alice.socket.settimeout(60)
        assert decode_reply(alice.call(encode_call("create_table", made)))[2].o1 is None
        for _ in range(2):
            found = decode_reply(alice.call(encode_call("get_table", "default", f"t_{layer}")))[2].success
            assert found.parameters["word"] == word
    assert f"user=proxy protection={name}" in place.metastore.log.read_text()


@pytest.mark.parametrize("layer", [Layers.AUTH, Layers.AUTH_INT, Layers.AUTH_CONF])
def test_service_connection(place: Place, layer: Layers) -> None:
    logins = place.logins(layer)
    port = place.metastore.port
    with ServiceConnection("localhost", port, timeout_s=30, secured=MetastoreSecurity(None, logins)) as connection:
        for _ in range(3):
            assert b"4" in connection.call("getVersion")
        assert connection.call("get_config_value", name=b"metastore.x", defaultValue=LONG) == LONG
    assert asyncio.run(probe(Endpoint("localhost", port, None, logins))).problem == ""


def test_refusals(place: Place, proxies: list[Proxy], tmp_path: Path) -> None:
    port = place.metastore.port
    for logins, why in (
        (place.logins(service=f"other/localhost@{REALM}"), "GSS initiate failed"),
        (place.logins(service=f"nobody/localhost@{REALM}"), "nobody/localhost@LAB.TEST not found in Kerberos database"),
        (place.logins(principal=f"nobody@{REALM}"), "nobody@LAB.TEST"),
    ):
        connection = ServiceConnection("localhost", port, timeout_s=30, secured=MetastoreSecurity(None, logins))
        with connection, pytest.raises(UpstreamError, match=why):
            connection.call("getVersion")
        assert why in asyncio.run(probe(Endpoint("localhost", port, None, logins))).problem
    settings = place.realm.service(STORE="none", KERBEROS_UPSTREAM_PRINCIPAL=f"other/localhost@{REALM}")
    proxy = Proxy(tmp_path / "proxy", place.uri, settings=settings)
    proxies.append(proxy)
    proxy.start()
    with MetastoreClient(*proxy.address) as client, pytest.raises(TApplicationException, match="refuses the login"):
        client.get_all_databases()
    assert proxy.status()["upstream"]["reachable"] is False


def test_a_metastore_that_does_not_answer_logins_is_not_taken_for_gone(place: Place) -> None:
    """By a probe, and by a client's connection: it can be waited for."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        listener.listen()
        endpoint = Endpoint("localhost", listener.getsockname()[1], None, place.logins())
        found = asyncio.run(probe(endpoint))
        with pytest.raises(UpstreamError, match=r"no login within 0\.5 s") as caught:
            asyncio.run(connect(endpoint, cast(LinkOwner, None), 0.5, CallUser(None)))  # who is told of nothing
    assert (found.hangs, found.silent) == (True, False)
    assert not isinstance(caught.value, NoAnswer)


def test_calls_wait_for_the_only_metastore_whose_logins_take_longer_than_a_probe(
    place: Place, proxies: list[Proxy], tmp_path: Path
) -> None:
    """As long as `connect_timeout_s` says."""
    settings = place.realm.service(STORE="none", UPSTREAM_OPTIONS_CONNECT_TIMEOUT_S="60")
    with FaultProxy("localhost", place.metastore.port) as way:
        proxy = Proxy(tmp_path / "proxy", f"thrift://localhost:{way.port}", settings=settings)
        proxies.append(proxy)
        proxy.start()

        def is_sick() -> bool:
            return proxy.metric("hms_proxy_upstream_circuit") == 1

        with MetastoreClient(*proxy.address) as client:
            assert client.get_all_databases()
            way.delay(PROBE_S, Direction.DOWN)  # three times during a login
            assert wait_until(lambda: client.get_all_databases() and is_sick())
        with MetastoreClient(*proxy.address) as client:
            assert client.get_all_databases()
        assert is_sick()
        way.restore()
        assert wait_until(lambda: not is_sick())


def test_without_the_kdc(place: Place, tmp_path: Path) -> None:
    """Logins go on while tickets last; a proxy that has none says so, and waits for nobody."""
    with ExitStack() as stack:

        def started(name: str, upstream: str, settings: dict[str, str]) -> Proxy:
            proxy = Proxy(tmp_path / name, upstream, settings=settings)
            stack.callback(proxy.close)
            return proxy.start()

        realm = stack.enter_context(realm_in(tmp_path))
        metastore = started("metastore", "", {"EMBEDDED": "true", **realm.environment("sasl")})
        own = Place(realm, metastore)
        settings = {**realm.environment("plain"), **realm.service(STORE="none")}
        proxy = started("proxy", own.uri, settings)
        with MetastoreClient(*proxy.address) as client:
            client.get_all_databases()
        context = realm.client()
        ticket = context.step()
        realm.kdc.stop()
        with MetastoreClient(*proxy.address) as client:
            client.get_all_databases()
        with SaslConnection.to(metastore.port) as alice:
            alice.send_bytes(message(START, b"GSSAPI") + message(OK, ticket))
            assert alice.answer(OK)
        late = started("late", own.uri, settings)
        with MetastoreClient(*late.address) as client:
            with pytest.raises(TApplicationException, match="no ticket for proxy/localhost@LAB.TEST: "):
                client.get_all_databases()
            began_s = time.monotonic()
            assert client.set_ugi("eve", []) == ["eve"]
            assert time.monotonic() - began_s < 30
