"""Metastores over HTTP: another proxy, with an embedded metastore, is one. Users are named by a header or by tokens."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hive_metastore.ttypes import Database
from thrift.Thrift import TApplicationException

from tests.proxy import Proxy
from tests.server.web import Issuer, Web
from tests.testbed.certificates import Authority
from tests.testbed.client import MetastoreClient
from tests.testbed.objects import create_table, table
from tests.testbed.processes import wait_until
from tests.testbed.raw import RawConnection, decode_reply, encode_call

LONG = "y" * 3_000_000
BY_NAME = {"HTTP_TRANSPORT_UPSTREAM": "true", "HTTP_TRANSPORT_UPSTREAM_USER": "proxy"}
BY_HEADER = {
    "SECURITY_TRANSPORTS": "http",
    "HTTP_TRANSPORT_AUTHENTICATION": "header",
    "HTTP_TRANSPORT_TRUSTED_ADDRESSES": "127.0.0.1",
}

Start = Callable[..., Proxy]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start(metastore or None for an embedded one, settings): a proxy, until the test ends."""
    numbers = itertools.count()
    with ExitStack() as stack:

        def started(metastore: Proxy | None, settings: dict[str, str], *, host: str = "127.0.0.1") -> Proxy:
            uri = "" if metastore is None else f"thrift://{host}:{metastore.port}"
            given = {"EMBEDDED": "true", **settings} if metastore is None else settings
            directory = tmp_path / ("metastore" if metastore is None else f"p{next(numbers)}")
            proxy = Proxy(directory, uri)
            proxy.settings = given
            stack.callback(proxy.close)
            return proxy.start()

        yield started


def owner_of(call: Callable[[bytes], bytes], name: str) -> str:
    """Who owns a new database of this name, which is left to the metastore."""
    made = decode_reply(call(encode_call("create_database", Database(name=name, parameters={}))))[2]
    assert not isinstance(made, TApplicationException) and made.o1 is None, made
    return str(decode_reply(call(encode_call("get_database", name)))[2].success.ownerName)


def test_everything_goes_over_http(start: Start) -> None:
    """The follower over Thrift, the probe of /status and clients' calls; each user's calls are that user's."""
    metastore = start(None, BY_HEADER)
    proxy = start(metastore, {**BY_NAME, "STORE": "thrift"})
    proxy.wait_prewarmed()
    assert proxy.status()["mode"] == "cache", proxy.log_tail()
    with MetastoreClient(*proxy.address) as client:
        with pytest.raises(TApplicationException, match="nobody to act for: the client has not said who it is"):
            client.get_catalogs()
        assert client.set_ugi("alice", ["g"]) == ["g", "alice"]
        client.create_database(Database(name="owned", parameters={}))
        assert client.get_database("owned").ownerName == "alice"
        create_table(client, table("owned", "t", parameters={"long": LONG}))
        proxy.wait_event(client.get_current_notificationEventId().eventId)
        assert client.get_table("owned", "t").parameters["long"] == LONG

        def is_hit() -> bool:
            client.get_table("owned", "t")
            return proxy.told_requests().get(("get_table", "hit", ""), 0) > 0

        assert wait_until(is_hit)
        client.set_ugi("bob", [])
        client.create_database(Database(name="of_bob", parameters={}))
        assert client.get_database("of_bob").ownerName == "bob"
    with RawConnection(*proxy.address) as raw:  # all at once
        for user, name in (("carol", "c1"), ("dave", "d1"), ("carol", "c2")):
            raw.send_bytes(encode_call("set_ugi", user, []) + encode_call("create_database", Database(name=name)))
            raw.receive(), raw.receive()
        for name, owner in (("c1", "carol"), ("d1", "dave"), ("c2", "carol")):
            assert decode_reply(raw.call(encode_call("get_database", name)))[2].success.ownerName == owner
    log = metastore.log.read_text()
    for user in ("proxy", "alice", "bob", "carol", "dave"):
        assert f"user={user}" in log
    assert proxy.metric("hms_proxy_internal_errors_total") == 0
    assert proxy.metric("hms_proxy_upstream_failures_total") == proxy.metric(
        "hms_proxy_upstream_failures_total", kind="connect"
    )


def test_names_that_a_header_could_change(start: Start) -> None:
    metastore = start(None, BY_HEADER)
    proxy = start(metastore, {**BY_NAME, "STORE": "none"})
    with MetastoreClient(*proxy.address) as client:
        for user in ("j\u00fcrgen", " alice", "alice\r\nx-actor-username: root", ""):
            client.set_ugi(user, [])
            with pytest.raises(TApplicationException, match="no header can name the user"):
                client.get_all_databases()
        client.set_ugi("alice", [])
        assert "default" in client.get_all_databases()
    log = metastore.log.read_text()
    assert "user=alice" in log and "user=root" not in log


def test_tokens_are_passed_through(start: Start, tmp_path: Path) -> None:
    """Within TLS. The metastore knows fewer keys than the proxy; the proxy's own token is read again from its file."""
    authority, issuer, other = Authority(tmp_path / "tls"), Issuer(), Issuer("two")
    files = authority.signed("server")
    keys, both = issuer.written(tmp_path / "keys.json"), tmp_path / "both.json"
    both.write_text(json.dumps({"keys": [*issuer.keys["keys"], *other.keys["keys"]]}))
    own = tmp_path / "own"
    own.write_text(issuer.token("proxy") + "\n")
    transport = {"TLS_CERTIFICATE": str(files.certificate), "TLS_KEY": str(files.key)}
    metastore = start(None, {"SECURITY_TRANSPORTS": "tls+http", "HTTP_TRANSPORT_JWKS": str(keys), **transport})
    proxy = start(
        metastore,
        {
            "SECURITY_TRANSPORTS": "http",
            "SECURITY_UPSTREAM_IDENTITY": "pass_through",
            "HTTP_TRANSPORT_JWKS": str(both),
            "HTTP_TRANSPORT_UPSTREAM": "true",
            "HTTP_TRANSPORT_UPSTREAM_TOKEN_FILE": str(own),
            "TLS_UPSTREAM": "true",
            "TLS_UPSTREAM_CA": str(authority.file),
            "STORE": "thrift",
        },
        host="localhost",
    )
    proxy.wait_prewarmed()
    tokens = {user: issuer.token(user) for user in ("alice", "bob")}
    with Web(proxy.port) as web:

        def call(user: str, token: str = "") -> Callable[[bytes], bytes]:
            web.headers["Authorization"] = f"Bearer {token or tokens[user]}"
            return web.call

        for user in ("alice", "bob", "alice"):
            assert owner_of(call(user), f"db_{time.monotonic_ns()}") == user
        assert owner_of(call("bob", issuer.token("bob", jti="another")), "another") == "bob"
        foreign = call("eve", other.token("eve"))
        refusal = decode_reply(foreign(encode_call("create_database", Database(name="of_eve", parameters={}))))[2]
        assert isinstance(refusal, TApplicationException), refusal
        assert "refuses the call, which was not done: HTTP status 401 Unauthorized: Authentication error" in str(
            refusal
        )
        databases = decode_reply(call("alice")(encode_call("get_all_databases")))[2].success
        assert "another" in databases and "of_eve" not in databases
    assert proxy.metric("hms_proxy_upstream_failures_total", kind="refused") == 1
    log = metastore.log.read_text()
    assert "user=eve" not in log and {f"user={user}" in log for user in ("alice", "bob", "proxy")} == {True}
    for text in (*tokens.values(), own.read_text().strip()):
        assert text not in log and text not in proxy.log.read_text()


def test_all_calls_as_the_proxys(start: Start) -> None:
    metastore = start(None, BY_HEADER)
    proxy = start(metastore, {**BY_NAME, "STORE": "none", "SECURITY_UPSTREAM_IDENTITY": "service"})
    with MetastoreClient(*proxy.address) as client:
        client.set_ugi("alice", ["g"])
        client.create_database(Database(name="owned", parameters={}))
        assert client.get_database("owned").ownerName == "proxy"
        with pytest.raises(TApplicationException, match="refuses get_master_keys"):
            client.get_master_keys()
    assert "takes all calls to come from the proxy" in proxy.log.read_text()
