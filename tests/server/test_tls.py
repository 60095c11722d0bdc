"""Clients with TLS: what is served, what is refused and how, and what slow or broken handshakes may cost others."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.chance import chance
from tests.lengths import by_tier
from tests.server.conftest import Worker, started
from tests.server.scripted import STOP, Call, ScriptedMetastore, string_field
from tests.server.secured import hello, over_tls, version
from tests.testbed.certificates import Authority
from tests.testbed.processes import SOON_S, wait_until
from tests.testbed.raw import RawConnection, encode_call

VERSION = encode_call("getVersion", seqid=4)
HANDSHAKES = int(os.environ.get("FUZZ_HANDSHAKES", by_tier(test=300, all=2000, every=10_000)))
FEW = {"handshake_timeout_s": 10, "max_handshakes": 8}


class Place(NamedTuple):
    """A worker for both plain and TLS, its authority and its metastore."""

    worker: Worker
    authority: Authority
    metastore: ScriptedMetastore

    def connected(self, *, framed: bool = False) -> RawConnection:
        """A connection with TLS."""
        return over_tls(self.authority.client(), self.worker.port, framed=framed, source=self.worker.source)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for several tests."""
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority(directory)
    settings: dict[str, Any] = {
        "security": {"transports": ["plain", "tls"], **FEW},
        "tls": authority.signed("server").settings(),
    }
    with ScriptedMetastore() as metastore, started(directory, metastore.address, **settings) as worker:
        yield Place(worker, authority, metastore)


@pytest.fixture
def place(shared: Place) -> Place:
    """The shared one."""
    shared.metastore.calls.clear()
    return shared._replace(worker=shared.worker.lent())


@pytest.fixture(scope="module")
def shared_hurried(shared: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One that waits for no handshake for long: on a busy machine not every client can end one there."""
    settings: dict[str, Any] = {
        "security": {"transports": ["plain", "tls"], "handshake_timeout_s": 1},
        "tls": shared.authority.signed("hurried").settings(),
    }
    with started(tmp_path_factory.mktemp("hurried"), shared.metastore.address, **settings) as worker:
        yield shared._replace(worker=worker)


@pytest.fixture
def hurried(shared_hurried: Place) -> Place:
    """For one more test."""
    return shared_hurried._replace(worker=shared_hurried.worker.lent())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """For a worker of the test's own."""
    return Authority(tmp_path / "tls")


def closed(connection: RawConnection) -> bool:
    """Does the worker end it, without a word of Thrift?"""
    connection.socket.settimeout(SOON_S)
    try:
        return connection.at_end() and not connection._buffer
    except ssl.SSLError:  # an alert
        return True


def failed(worker: Worker) -> float:
    """Handshakes so far."""
    return worker.metric("hms_proxy_handshakes_total", transport="tls", result="failed")


@pytest.mark.parametrize("number", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_calls(place: Place, framed: bool, number: ssl.TLSVersion) -> None:
    context = version(place.authority.client(), number)
    with over_tls(context, place.worker.port, framed=framed) as secured, place.worker.raw(framed=framed) as plain:
        expected = plain.call(VERSION)
        for _ in range(3):
            assert secured.call(VERSION) == expected
        secured.send_bytes(b"".join((VERSION if not framed else len(VERSION).to_bytes(4, "big") + VERSION,) * 5))
        assert [secured.receive() for _ in range(5)] == [expected] * 5
    assert place.worker.metric("hms_proxy_internal_errors_total") == 0


def test_both_directions_have_any_size(place: Place) -> None:
    big = os.urandom(1 << 20) * 20
    place.metastore.answers["get_config_value"] = lambda message, call: iter([call.reply(string_field(0, big) + STOP)])
    place.metastore.answers["set_ugi"] = lambda message, call: iter([call.reply(STOP)])
    with place.connected() as connection:
        connection.socket.settimeout(60)
        question = encode_call("get_config_value", "x" * 3_000_000, "y", seqid=7)
        for _ in range(2):
            reply = connection.call(question)
            assert big in reply and len(reply) < len(big) + 100
    (first, _) = place.metastore.named("get_config_value")
    assert len(first.arguments) > 3_000_000


def test_a_client_that_does_not_read_costs_little_memory(place: Place) -> None:
    before = place.worker.memory_bytes()
    piece = os.urandom(1 << 20)

    def long(message: bytes, call: Call) -> Iterator[bytes]:
        size = 200 << 20
        yield call.header() + string_field(0, b"")[:3] + size.to_bytes(4, "big")
        for _ in range(200):
            yield piece
        yield STOP

    place.metastore.answers["get_config_value"] = long
    with place.connected() as slow, place.worker.raw() as neighbour:
        slow.send(encode_call("get_config_value", "x", "y"))
        for _ in range(20):
            neighbour.call(VERSION)
            time.sleep(0.05)
        assert place.worker.memory_bytes() - before < 40 << 20
        slow.socket.settimeout(120)
        assert len(slow.receive()) > 200 << 20
    assert place.worker.memory_bytes() - before < 60 << 20


def test_the_end_of_tls_is_the_end_of_the_connection(place: Place) -> None:
    with place.connected() as connection:
        connection.call(VERSION)
        assert isinstance(connection.socket, ssl.SSLSocket)
        connection.socket.unwrap().close()
    with place.connected() as other:
        other.call(VERSION)
        other.socket.shutdown(socket.SHUT_WR)  # without the words of TLS
        assert closed(other)
    assert wait_until(lambda: place.worker.metric("hms_proxy_connections") == 0)
    assert "no effect" not in place.worker.log() and "Traceback" not in place.worker.log()


def test_one_that_allows_tls_alone_never_answers_plain(
    authority: Authority, scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    tls = authority.signed("server").settings()
    worker = new_worker(scripted.address, security={"transports": ["tls"]}, tls=tls)
    for framed, name in ((False, "binary"), (True, "framed")):
        with worker.raw(framed=framed) as plain:
            plain.send(VERSION)
            assert closed(plain)
        assert worker.counted(1, "hms_proxy_refused_transports_total", transport=name)
    assert worker.logged("the first bytes are binary; security.transports does not allow it")
    with worker.raw() as sasl:
        sasl.send_bytes(b"\1\0\0\0\6GSSAPI")
        assert closed(sasl)
    assert worker.counted(1, "hms_proxy_refused_transports_total", transport="sasl")
    with over_tls(authority.client(), worker.port) as secured:
        secured.call(VERSION)
        secured.send_bytes(b"\x16\3\1\2\0\1\0\1\xfc\3\3")  # TLS within TLS
        assert closed(secured)
    assert scripted.named("getVersion") and len(scripted.calls) == 1


@pytest.mark.parametrize("number", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1], ids=["1.0", "1.1"])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_older_versions_are_refused(place: Place, number: ssl.TLSVersion) -> None:
    before = failed(place.worker)
    with pytest.raises(ssl.SSLError):
        over_tls(version(place.authority.client(), number), place.worker.port, source=place.worker.source)
    assert place.worker.counted(before + 1, "hms_proxy_handshakes_total", transport="tls", result="failed")
    assert place.worker.logged("TLS: unsupported protocol")


def test_the_minimum_version(
    authority: Authority, scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    tls = {**authority.signed("server").settings(), "minimum_version": "1.3"}
    worker = new_worker(scripted.address, security={"transports": ["tls"]}, tls=tls)
    with pytest.raises(ssl.SSLError):
        over_tls(version(authority.client(), ssl.TLSVersion.TLSv1_2), worker.port)
    assert worker.logged("TLS: unsupported protocol")
    with over_tls(authority.client(), worker.port) as connection:
        connection.call(VERSION)


@pytest.mark.parametrize("wanted", ["optional", "required"])
def test_certificates_of_clients(
    authority: Authority, scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path, wanted: str
) -> None:
    tls = authority.signed("server").settings()
    tls |= {"client_certificates": wanted, "client_ca": str(authority.file)}
    worker = new_worker(scripted.address, security={"transports": ["tls"]}, tls=tls)
    with over_tls(authority.client(authority.signed("client")), worker.port) as known:
        known.call(VERSION)
    foreign = Authority(tmp_path / "foreign", "foreign").signed("client")
    with pytest.raises(OSError):  # also that the worker closes
        with over_tls(authority.client(foreign), worker.port) as unknown:
            unknown.call(VERSION)
    assert worker.logged("TLS: unable to get local issuer certificate")
    expired = authority.signed("client", expires=datetime.now(UTC) - timedelta(days=1))
    with pytest.raises(OSError):
        with over_tls(authority.client(expired), worker.port) as late:
            late.call(VERSION)
    assert worker.logged("TLS: certificate has expired")
    if wanted == "optional":
        with over_tls(authority.client(), worker.port) as without:
            without.call(VERSION)
    else:
        with pytest.raises(OSError):
            with over_tls(authority.client(), worker.port) as without:
                without.call(VERSION)
        assert worker.logged("TLS: peer did not return a certificate")
    assert len(scripted.calls) == (2 if wanted == "optional" else 1)


@pytest.mark.parametrize("said", ["", "first", "half"], ids=["silent", "one byte", "half a hello"])
def test_a_handshake_has_its_time(hurried: Place, said: str) -> None:
    worker = hurried.worker
    whole = hello(hurried.authority.client())
    before = worker.metric("hms_proxy_limits_broken_total", limit="handshake_timeout_s")
    with worker.raw() as neighbour:
        neighbour.call(VERSION)
        with worker.raw() as slow:
            slow.send_bytes({"": b"", "first": whole[:1], "half": whole[: len(whole) // 2]}[said])
            assert closed(slow)
        neighbour.call(VERSION)
    assert worker.counted(before + 1, "hms_proxy_limits_broken_total", limit="handshake_timeout_s")
    assert worker.logged("it took too long")


def test_a_flood_of_handshakes_keeps_nobody_out(
    authority: Authority, scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    security = {"transports": ["plain", "tls"], "handshake_timeout_s": 60, "max_handshakes": 8}
    worker = new_worker(scripted.address, security=security, tls=authority.signed("server").settings())
    half = hello(authority.client())[:100]
    with ExitStack() as stack:
        flood = [stack.enter_context(worker.raw()) for _ in range(30)]
        for number, one in enumerate(flood):
            one.send_bytes(half if number % 2 else b"")
        with over_tls(authority.client(), worker.port) as secured, worker.raw() as plain:
            assert secured.call(VERSION) == plain.call(VERSION)
        assert worker.counted(22, "hms_proxy_limits_broken_total", limit="max_handshakes")
        assert all(closed(one) for one in flood[:22])
        descriptors = f"/proc/{worker.process.id.pid}/fd"
        assert len(os.listdir(descriptors)) < 60
    assert worker.logged("a newer one needs its place")


def test_broken_handshakes_harm_nobody(place: Place) -> None:
    worker, rng, context = place.worker, chance("handshakes"), place.authority.client()
    whole = hello(context)
    descriptors = f"/proc/{worker.process.id.pid}/fd"
    with place.connected() as secured, worker.raw() as plain:
        expected = plain.call(VERSION)
        assert secured.call(VERSION) == expected
        before = len(os.listdir(descriptors))  # with the connections to the metastore
        for number in range(HANDSHAKES):
            with worker.raw() as connection:
                try:
                    connection.send_bytes(broken(whole, rng))
                except ConnectionError:
                    pass  # closed before all of it was sent
            if number % 20 == 0:
                assert secured.call(VERSION) == plain.call(VERSION) == expected
        with place.connected() as late:
            assert late.call(VERSION) == expected
        assert wait_until(lambda: len(os.listdir(descriptors)) <= before)
        assert wait_until(lambda: worker.metric("hms_proxy_connections") == 2)
    assert worker.metric("hms_proxy_internal_errors_total") == 0, worker.log()[-3000:]
    assert "Traceback" not in worker.log()


def broken(whole: bytes, rng: Random) -> bytes:
    """A client's first bytes, which mean nothing."""
    kind = rng.randrange(5)
    if kind == 0:
        return b"\x16\3" + rng.randbytes(rng.randrange(300))
    if kind == 1:
        return whole[: rng.randrange(len(whole))]
    damaged = bytearray(whole)
    for _ in range(rng.randrange(1, 6)):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    if kind == 2:
        return bytes(damaged)
    return bytes(damaged if kind == 3 else whole) + rng.randbytes(rng.randrange(1, 600))


def test_a_new_certificate_is_used_by_new_connections(
    authority: Authority, scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    first = authority.signed("server")
    worker = new_worker(scripted.address, security={"transports": ["tls"]}, tls=first.settings())
    name = "hms_proxy_tls_expiry_timestamp_seconds"
    assert wait_until(lambda: worker.metric(name) == first.expires.timestamp())
    with over_tls(authority.client(), worker.port) as old:
        expected = old.call(VERSION)
        second = authority.signed("server", expires=first.expires.replace(year=first.expires.year + 1))
        assert wait_until(lambda: worker.metric(name) == second.expires.timestamp())
        assert worker.metric("hms_proxy_reloads_total", what="certificate", result="failed") <= 1  # between two files
        assert expires(authority, worker) == second.expires.timestamp()
        failures = worker.metric("hms_proxy_reloads_total", what="certificate", result="failed")
        second.certificate.write_text("not a certificate")
        assert worker.counted(failures + 1, "hms_proxy_reloads_total", what="certificate", result="failed")
        assert worker.logged("cannot reload: the old files stay in use")
        assert expires(authority, worker) == second.expires.timestamp()
        third = authority.signed("server")
        assert wait_until(lambda: expires(authority, worker) == third.expires.timestamp())
        assert old.call(VERSION) == expected


def expires(authority: Authority, worker: Worker) -> float:
    """What a new connection is shown."""
    with over_tls(authority.client(), worker.port) as connection:
        assert isinstance(connection.socket, ssl.SSLSocket)
        shown = connection.socket.getpeercert()
        assert shown is not None
        return ssl.cert_time_to_seconds(str(shown["notAfter"]))


def test_an_expired_certificate_is_told(
    authority: Authority, scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    files = authority.signed("server", expires=datetime.now(UTC) - timedelta(days=2))
    worker = new_worker(scripted.address, security={"transports": ["tls"]}, tls=files.settings())
    assert worker.logged("the certificate has expired: clients will refuse it")
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        over_tls(authority.client(), worker.port)


def test_drain(authority: Authority, scripted: ScriptedMetastore, new_worker: Callable[..., Worker]) -> None:
    security = {"transports": ["tls"], "handshake_timeout_s": 60}
    worker = new_worker(scripted.address, security=security, tls=authority.signed("server").settings())
    with over_tls(authority.client(), worker.port) as idle, worker.raw() as beginning:
        idle.call(VERSION)
        beginning.send_bytes(hello(authority.client())[:50])
        worker.process.id.send(signal.SIGTERM)
        assert closed(idle) and closed(beginning)
        assert worker.process.id.wait_gone(SOON_S)
    assert worker.logged("worker ends")
