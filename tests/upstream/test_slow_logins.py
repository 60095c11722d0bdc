"""Metastores that accept connections, and whose TLS handshakes, logins or tokens of users take long or never come: they
are there, a probe decides whether they are sick, and only the call that waits for them ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import cast

import pytest

from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.security.metastore_security import MetastoreSecurity
from hms_cache_proxy.security.service_login import ServiceLogins
from hms_cache_proxy.upstream.delegation import Delegation
from hms_cache_proxy.upstream.endpoints import CallUser, Endpoint
from hms_cache_proxy.upstream.link import LateLogin, LinkOwner, NoAnswer, connect
from hms_cache_proxy.upstream.prober import Found, probe
from hms_cache_proxy.upstream.sasl_client import LOGINS, open_streams
from hms_cache_proxy.wire.sasl import EVERY_LAYER
from tests.server.conftest import Worker, new_worker
from tests.server.logged_in import Realm, SaslConnection
from tests.server.test_faults import READ
from tests.server.test_sick_metastores import becomes, circuit, gone
from tests.testbed.certificates import Authority
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.kdc import REALM
from tests.testbed.processes import SOON_S, free_port, wait_until
from tests.testbed.raw import EndOfStream
from tests.upstream.delegating import Place, owner_of
from tests.upstream.test_tls import metastore, towards

__all__ = ["new_worker"]  # a fixture
ALICE = CallUser("alice")
NOBODY = cast(LinkOwner, None)  # is told of nothing


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Of a listener that accepts, and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def logins(realm: Realm) -> ServiceLogins:
    names = {"principal": f"proxy/localhost@{REALM}", "service": f"hive/_HOST@{REALM}"}
    return ServiceLogins(keytab=str(realm.proxy), layers=EVERY_LAYER, **names)


def acting(realm: Realm, port: int, timeout_s: float) -> Endpoint:
    """A metastore at which the proxy acts for users."""
    secured = MetastoreSecurity(None, logins(realm))
    endpoint = Endpoint("localhost", port, *secured)
    endpoint.users = Delegation(secured, timeout_s)
    return endpoint


def refusal(endpoint: Endpoint, caller: CallUser = ALICE) -> UpstreamError:
    """Of a connection, after half a second."""
    with pytest.raises(UpstreamError) as caught:
        asyncio.run(connect(endpoint, NOBODY, 0.5, caller))
    return caught.value


def test_a_handshake_without_end(authority: Authority, silent_port: int) -> None:
    endpoint = Endpoint("127.0.0.1", silent_port, *towards(authority))
    found = asyncio.run(probe(endpoint))
    assert (found.hangs, found.silent) == (True, False)
    error = refusal(endpoint, CallUser(None))
    assert isinstance(error, LateLogin) and "no login within 0.5 s" in str(error)


def test_a_machine_that_is_gone(authority: Authority, realm: Realm) -> None:
    """Whatever would have come after the connection."""
    port = free_port()
    with gone(port):
        for endpoint in (Endpoint("127.0.0.1", port, *towards(authority)), acting(realm, port, 20)):
            assert isinstance(refusal(endpoint), NoAnswer)
        found = asyncio.run(probe(Endpoint("127.0.0.1", port, *towards(authority))))
    assert found == Found("no connection within 2 s", silent=True, hangs=True)


def test_a_port_without_a_listener(authority: Authority) -> None:
    """All addresses of a host are tried."""
    error = refusal(Endpoint("localhost", free_port(), *towards(authority)), CallUser(None))
    assert not isinstance(error, NoAnswer | LateLogin) and str(error) == "Connection refused"


@pytest.mark.parametrize("token_s", [0.1, 20], ids=["its time is over", "the call's time is over"])
def test_a_token_that_does_not_come(realm: Realm, silent_port: int, token_s: float) -> None:
    error = refusal(acting(realm, silent_port, token_s))
    assert isinstance(error, LateLogin) and "no login within" in str(error)


def test_tokens_that_do_not_come_take_nothing_from_logins_elsewhere(place: Place, silent_port: int) -> None:
    """More of them than threads for logins."""
    well = place.metastore()

    async def waits() -> None:
        hanging = acting(place.realm, silent_port, 3 * SOON_S)
        waiting = [
            asyncio.create_task(connect(hanging, NOBODY, 3 * SOON_S, CallUser(f"user{number}")))
            for number in range(2 * LOGINS)
        ]
        await asyncio.sleep(1)
        async with asyncio.timeout(SOON_S):
            _, writer = await open_streams(acting(place.realm, well.port, SOON_S), ALICE)
        writer.transport.abort()
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()

    asyncio.run(waits())


def test_reads_go_on_where_handshakes_hang(authority: Authority, new_worker: Callable[..., Worker]) -> None:
    """The first metastore is found sick by a probe, and used again after another."""
    with ExitStack() as stack:
        first, second = stack.enter_context(metastore(authority)), stack.enter_context(metastore(authority))
        way = stack.enter_context(FaultProxy(*first.address))
        worker = new_worker(way.address, second.address, **secured(authority, connect_timeout_s=2))
        way.stall()
        with worker.raw() as connection:
            assert b"ok" in connection.call(READ)
        assert becomes(worker, way.address, 1)
        assert (first.calls, circuit(worker, second.address)) == ([], 0)
        way.restore()
        assert becomes(worker, way.address, 0)
        with worker.raw() as connection:
            assert b"ok" in connection.call(READ)
        assert first.named("get_all_databases")


def test_a_slow_handshake_ends_only_the_call_that_waits_for_it(
    authority: Authority, new_worker: Callable[..., Worker]
) -> None:
    """Probes have more time; they find the metastore well."""
    with ExitStack() as stack:
        first, second = stack.enter_context(metastore(authority)), stack.enter_context(metastore(authority))
        way = stack.enter_context(FaultProxy(*first.address))
        worker = new_worker(way.address, second.address, **secured(authority, connect_timeout_s=0.1))
        way.delay(0.3, Direction.DOWN)
        for number in range(1, 4):
            with worker.raw() as connection:
                assert b"ok" in connection.call(READ)
            assert len(second.named("get_all_databases")) == number, "each call has waited, and gone on"
            assert way.accepted >= number, "each call has tried the first"
        assert wait_until(lambda: bool(first.named("getVersion")))
        assert "metastore is sick" not in worker.log()


def test_clients_whose_logins_are_passed_on_go_on_where_logins_hang(place: Place) -> None:
    """The next client does, as a login that has begun cannot go on elsewhere."""
    well = place.metastore()
    with FaultProxy("localhost", well.port) as way:
        settings = {"STORE": "none", "WORKERS": "1", "SECURITY_HANDSHAKE_TIMEOUT_S": "5"}
        service = place.realm.service(SECURITY_UPSTREAM_IDENTITY="pass_through", **settings)
        uris = f"thrift://localhost:{way.port},thrift://localhost:{well.port}"
        proxy = place.started("proxy", uris, {"SECURITY_TRANSPORTS": "sasl", **service})
        way.stall()
        with SaslConnection.to(proxy.port) as first, pytest.raises((EndOfStream, ConnectionError)):
            first.log_in(place.realm.client())
        assert wait_until(lambda: proxy.metric("hms_proxy_upstream_circuit") == 1)
        with place.client(proxy.port) as alice:
            assert owner_of(alice, "elsewhere") == "alice"


def secured(authority: Authority, **options: object) -> dict[str, object]:
    """Settings of a worker."""
    tls = {"upstream": True, "upstream_ca": str(authority.file), "upstream_server_name": "localhost"}
    return {"tls": tls, "upstream_options": options}
