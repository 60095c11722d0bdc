"""Metastores with TLS: what connects to them, and what is said of a certificate that does not fit."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hms_cache_proxy.config.security import TlsSection
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.security.metastore_security import MetastoreSecurity
from hms_cache_proxy.security.tls import ClientSide
from hms_cache_proxy.upstream.endpoints import Endpoint
from hms_cache_proxy.upstream.prober import probe
from hms_cache_proxy.upstream.service import ServiceConnection
from tests.server.conftest import Worker, new_worker
from tests.server.scripted import ScriptedMetastore
from tests.testbed.certificates import Authority
from tests.testbed.processes import wait_until
from tests.testbed.raw import encode_call

__all__ = ["new_worker"]  # a fixture
VERSION = encode_call("getVersion", seqid=4)
WRONG = {
    "a foreign authority": "unable to get local issuer certificate",
    "another name": "Hostname mismatch, certificate is not valid for 'localhost'.",
    "expired": "certificate has expired",
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


@contextmanager
def metastore(authority: Authority, what: str = "") -> Iterator[ScriptedMetastore]:
    """One with TLS, and something wrong with it."""
    if what == "a foreign authority":
        context = Authority(authority.file.parent / "foreign", "foreign").signed("server").server()
    elif what == "another name":
        context = authority.signed("server", hosts=("elsewhere.test",)).server()
    elif what == "expired":
        context = authority.signed("server", expires=datetime.now(UTC) - timedelta(days=1)).server()
    else:
        context = authority.signed("server").server()
    with ScriptedMetastore(tls=context) as scripted:
        yield scripted


def towards(authority: Authority, name: str = "") -> MetastoreSecurity:
    section = TlsSection(upstream=True, upstream_ca=str(authority.file), upstream_server_name=name)
    return MetastoreSecurity(ClientSide(section))


def test_calls_of_the_proxy_itself(authority: Authority) -> None:
    with metastore(authority) as scripted:
        port = scripted.address[1]
        for host, name in (("localhost", ""), ("127.0.0.1", ""), ("127.0.0.1", "localhost")):
            with ServiceConnection(host, port, timeout_s=60, secured=towards(authority, name)) as connection:
                assert connection.call("getVersion") == connection.call("getVersion") == b"ok"
            found = asyncio.run(probe(Endpoint(host, port, *towards(authority, name))))
            assert not found.problem
            gc.collect()  # a connection that was left open is a warning here, and so a failure


@pytest.mark.parametrize("what", WRONG)
def test_a_certificate_that_does_not_fit(authority: Authority, what: str) -> None:
    with metastore(authority, what) as scripted:
        port = scripted.address[1]
        with ServiceConnection("localhost", port, timeout_s=60, secured=towards(authority)) as connection:
            with pytest.raises(UpstreamError) as raised:
                connection.call("getVersion")
        assert f"TLS: {WRONG[what]}" in str(raised.value)
        endpoint = Endpoint("localhost", port, *towards(authority))
        assert wait_until(lambda: asyncio.run(probe(endpoint)).problem == f"TLS: {WRONG[what]}")
        assert not scripted.calls


def test_one_that_answers_in_plain(authority: Authority) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(VERSION)
        writer.close()

    async def ask() -> str:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return (await probe(Endpoint("127.0.0.1", port, *towards(authority)))).problem

    assert asyncio.run(ask()) == "TLS: the other side does not speak TLS"


def test_a_new_authority_is_used_by_the_next_connection(authority: Authority) -> None:
    with metastore(authority) as scripted:
        old = Authority(authority.file.parent / "old", "old")
        good, file = authority.file.read_bytes(), old.file
        side = ClientSide(TlsSection(upstream=True, upstream_ca=str(file)))
        connection = ServiceConnection("localhost", scripted.address[1], timeout_s=60, secured=MetastoreSecurity(side))
        with pytest.raises(UpstreamError, match="unable to get local issuer certificate"):
            connection.call("getVersion")
        file.write_bytes(good)
        assert connection.call("getVersion") == b"ok"
        file.write_bytes(b"")
        connection.close()
        assert connection.call("getVersion") == b"ok", "what cannot be used changes nothing"
        connection.close()


def test_calls_of_clients(authority: Authority, new_worker: Callable[..., Worker]) -> None:
    with metastore(authority) as scripted:
        tls = {"upstream": True, "upstream_ca": str(authority.file), "upstream_server_name": "localhost"}
        worker = new_worker(scripted.address, tls=tls, upstream_options={"idle_timeout_s": 0.2})
        with worker.raw() as connection:
            first = connection.call(VERSION)
            assert worker.counted(0, "hms_proxy_upstream_connections")
            connection.send(VERSION * 20)
            assert [connection.receive() for _ in range(20)] == [first] * 20
        assert len(scripted.calls) == 21
        assert "Traceback" not in worker.log()


def test_a_client_is_told_why(authority: Authority, new_worker: Callable[..., Worker]) -> None:
    with metastore(authority, "another name") as scripted:
        tls = {"upstream": True, "upstream_ca": str(authority.file), "upstream_server_name": "localhost"}
        worker = new_worker(scripted.address, tls=tls)
        with worker.raw() as connection:
            assert f"TLS: {WRONG['another name']}".encode() in connection.call(VERSION)
        assert not scripted.calls


def test_old_versions_are_refused(authority: Authority) -> None:
    context = authority.signed("server").server()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with ScriptedMetastore(tls=context) as scripted:
        side = ClientSide(TlsSection(upstream=True, upstream_ca=str(authority.file), minimum_version="1.3"))
        connection = ServiceConnection("localhost", scripted.address[1], timeout_s=60, secured=MetastoreSecurity(side))
        with pytest.raises(UpstreamError, match="TLS: .*version"):
            connection.call("getVersion")
