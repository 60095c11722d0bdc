"""HTTP clients: users, statuses, long and slow requests, and that no user's call runs as another."""

from __future__ import annotations

import base64
import hmac
import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import pytest

from tests.server.conftest import Worker, started
from tests.server.scripted import STOP, Call, Hangup, ScriptedMetastore, string_field
from tests.server.web import PATH, Issuer, Web
from tests.testbed.certificates import Authority
from tests.testbed.processes import SOON_S, wait_until
from tests.testbed.raw import encode_call

VERSION = encode_call("getVersion", seqid=4)
CONFIG = encode_call("get_config_value", "x", "y", seqid=7)


class Place(NamedTuple):
    """A worker for HTTP alone, with and without TLS; its metastore, its keys."""

    worker: Worker
    metastore: ScriptedMetastore
    issuer: Issuer
    authority: Authority
    keys: Path

    def web(self, user: str = "alice", *, secured: bool = False, **headers: str) -> Web:
        """A connection with this user's token."""
        tls = self.authority.client() if secured else None
        given = {"Authorization": f"Bearer {self.issuer.token(user)}"} | headers
        return Web(self.worker.port, source="" if secured else self.worker.source, tls=tls, **given)

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.worker.port), SOON_S, (self.worker.source, 0))

    def post(self, message: bytes, *lines: bytes, user: str = "alice") -> bytes:
        """A request as bytes."""
        token = self.issuer.token(user).encode()
        head = [b"POST /metastore HTTP/1.1", b"Host: x", b"Authorization: Bearer " + token, *lines]
        if not any(line.startswith((b"Content-Length", b"Transfer-Encoding")) for line in lines):
            head.append(b"Content-Length: %d" % len(message))
        return b"\r\n".join(head) + b"\r\n\r\n" + message


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("http")
    authority, issuer = Authority(directory), Issuer()
    keys = issuer.written(directory / "keys.json")
    settings: dict[str, Any] = {
        "security": {"transports": ["http", "tls+http"], "handshake_timeout_s": 20},
        "tls": authority.signed("server").settings(),
        "http_transport": {"jwks": str(keys)},
    }
    with ScriptedMetastore() as metastore, started(directory, metastore.address, **settings) as worker:
        place = Place(worker, metastore, issuer, authority, keys)
        ready = place.web()
        assert wait_until(lambda: ready.ask(VERSION).status == 200), worker.log()
        ready.close()
        yield place


@pytest.fixture
def place(shared: Place) -> Place:
    shared.metastore.calls.clear()
    shared.metastore.answers.pop("get_config_value", None)
    return shared._replace(worker=shared.worker.lent())


def users(metastore: ScriptedMetastore) -> dict[int, list[str]]:
    """For each connection, the users of its calls in order; '' before a user was named."""
    named: dict[int, str] = {}
    found: dict[int, list[str]] = {}
    for number, call in list(metastore.calls):
        if call.name == "set_ugi":
            size = int.from_bytes(call.arguments[3:7], "big")
            named[number] = call.arguments[7 : 7 + size].decode()
        elif call.name != "get_config_value" or b"setugi" not in call.arguments:
            found.setdefault(number, []).append(named.get(number, ""))
    return found


def received(connection: socket.socket, until: Callable[[bytes], bool]) -> bytes:
    data = b""
    while not until(data) and (piece := connection.recv(1 << 16)):
        data += piece
    return data


@pytest.mark.parametrize("secured", [False, True], ids=["http", "tls"])
def test_calls_on_a_kept_connection(place: Place, secured: bool) -> None:
    with place.web(secured=secured) as web:
        expected = web.call(VERSION)
        assert expected[:4] == b"\x80\x01\x00\x02" and expected.endswith(b"ok\0")
        for path in ("/metastore", "/metastore/", "/metastore/x?y=z"):
            assert web.ask(VERSION, path=path) == (200, expected, web.ask(VERSION, path=path).headers)
        assert web.kept
        web._connection.request("POST", PATH, iter([VERSION[:5], VERSION[5:]]), web.headers, encode_chunked=True)
        assert web._connection.getresponse().read() == expected
    assert {name for found in users(place.metastore).values() for name in found} == {"alice"}
    assert place.worker.logged("user=alice")
    assert place.worker.metric("hms_proxy_internal_errors_total") == 0


def test_other_transports_are_closed(place: Place) -> None:
    with place.worker.raw() as plain:
        plain.send_bytes(VERSION)
        assert plain.at_end() and not plain._buffer
    context = place.authority.client()
    with context.wrap_socket(place.raw(), server_hostname="localhost") as secured:
        secured.sendall(VERSION)
        assert secured.recv(1) == b""
    assert place.worker.logged("the first bytes are binary")


def test_each_request_is_its_users(place: Place) -> None:
    with place.web() as web:
        for user in ("alice", "bob", "bob", "alice"):
            web.headers["Authorization"] = f"Bearer {place.issuer.token(user)}"
            web.call(VERSION)
    assert sorted(users(place.metastore).values()) == [["alice"], ["alice"], ["bob", "bob"]]


def test_set_ugi_is_answered_here(place: Place) -> None:
    with place.web("carol") as web:
        web.call(VERSION)
        said = web.call(encode_call("set_ugi", "root", ["wheel"], seqid=3))
        assert b"wheel" in said and b"root" in said and b"carol" not in said
        web.call(VERSION)
    assert list(users(place.metastore).values()) == [["carol", "carol"]]


def test_a_call_without_a_reply(place: Place) -> None:
    with place.web() as web:
        for _ in range(2):
            assert web.ask(encode_call("shutdown", oneway=True)).body == b""
            assert web.call(VERSION)


def test_long_replies_are_streamed_and_long_requests_kept(place: Place) -> None:
    big = os.urandom(1 << 20) * 20
    place.metastore.answers["get_config_value"] = lambda message, call: iter([call.reply(string_field(0, big) + STOP)])
    with place.web(secured=True) as web:
        web._connection.timeout = 60
        answer = web.ask(encode_call("get_config_value", "x" * 9_000_000, "y", seqid=7))
        assert answer.headers["transfer-encoding"] == "chunked" and big in answer.body
        assert web.call(VERSION)
    assert len(place.metastore.named("get_config_value")[0].arguments) > 9_000_000


def test_old_clients_get_the_length(place: Place) -> None:
    big = os.urandom(1 << 20) * 3
    place.metastore.answers["get_config_value"] = lambda message, call: iter([call.reply(string_field(0, big) + STOP)])
    with place.raw() as connection:
        connection.sendall(place.post(CONFIG).replace(b"HTTP/1.1", b"HTTP/1.0"))
        data = received(connection, lambda data: False)
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"Content-Length: %d" % len(body) in head and b"Connection: close" in head and big in body


def test_pipelining_and_a_client_that_waits_to_be_told(place: Place) -> None:
    with place.raw() as connection:
        connection.sendall(place.post(VERSION) * 3 + place.post(VERSION, b"Connection: close"))
        data = received(connection, lambda data: False)
        assert data.count(b"HTTP/1.1 200 OK") == 4 and data.endswith(b"ok\0")
    with place.raw() as connection:
        connection.sendall(place.post(VERSION, b"Expect: 100-continue")[: -len(VERSION)])
        assert received(connection, lambda data: bool(data)) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(VERSION)
        assert received(connection, lambda data: data.endswith(b"ok\0")).startswith(b"HTTP/1.1 200 OK")
        connection.sendall(place.post(VERSION, b"Expect: 100-continue").replace(b"Bearer", b"Basic")[: -len(VERSION)])
        assert received(connection, lambda data: False).startswith(b"HTTP/1.1 401 "), "and the connection ends"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"path": "/"}, 404),
        ({"path": "/metastores"}, 404),
        ({"method": "PUT"}, 405),
        ({"message": b""}, 400),
        ({"message": VERSION[:-1]}, 400),
        ({"message": VERSION + VERSION}, 400),
        ({"message": b"\x82\x21\x01\x02xx"}, 400),
        ({"message": VERSION[:3] + b"\2" + VERSION[4:]}, 400),
    ],
    ids=str,
)
def test_statuses(place: Place, asked: dict[str, object], status: int) -> None:
    with place.web() as web:
        answer = web.ask(**({"message": VERSION} | asked))  # type: ignore[arg-type]
        assert (answer.status, web.kept) == (status, status != 400), answer
        assert web.call(VERSION), "the connection is as it was, or there is another one"
        web._connection.request("POST", PATH, iter([VERSION, VERSION]), web.headers, encode_chunked=True)
        assert web._connection.getresponse().status == 400
    assert len(users(place.metastore)) == 1


def test_a_metastore_that_closes_instead_of_answering(place: Place) -> None:
    def hangs_up(message: bytes, call: Call) -> Iterator[bytes]:
        raise Hangup

    place.metastore.answers["get_config_value"] = hangs_up
    try:
        with place.web() as web:
            said = web.call(CONFIG)
            assert said[3] == 3 and b"closed" in said
            assert web.call(VERSION)[3] == 2
    finally:
        place.metastore.answers.pop("get_config_value")


def test_half_and_slow_requests_end(tmp_path: Path) -> None:
    settings = {"authentication": "header", "trusted_addresses": ["127.0.0.1"]}
    security = {"transports": ["http"], "handshake_timeout_s": 2}
    whole = b"POST /metastore HTTP/1.1\r\nHost: x\r\nx-actor-username: alice\r\nContent-Length: %d\r\n\r\n%b"
    whole %= len(VERSION), VERSION
    with (
        ScriptedMetastore() as metastore,
        started(tmp_path, metastore.address, security=security, http_transport=settings) as worker,
    ):
        with Web(worker.port, x_actor_username="alice") as web:
            assert wait_until(lambda: web.ask(VERSION).status == 200), worker.log()
        asked = len(metastore.named("getVersion"))
        for size in (4, 60, len(whole) - 3):
            with socket.create_connection(("127.0.0.1", worker.port), SOON_S) as connection:
                connection.sendall(whole[:size])
                data = received(connection, lambda data: False)
                assert size == 4 or data.startswith(b"HTTP/1.1 408 "), data
        with socket.create_connection(("127.0.0.1", worker.port), SOON_S) as connection:
            connection.sendall(whole[:60])
            while not select.select([connection], [], [], 0.2)[0]:  # byte by byte
                connection.sendall(b"x")
            assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert len(metastore.named("getVersion")) == asked


HS256: dict[str, object] = {"alg": "HS256", "typ": "JWT", "kid": "one"}


def now() -> int:
    """The time in a token."""
    return int(time.time())


def unsigned(issuer: Issuer) -> str:
    return jwt.encode({"sub": "alice", "exp": now() + 300}, "", "none", {"kid": issuer.kid})


def signed_by_the_public_key(issuer: Issuer) -> str:
    """HS256, with the text that everybody has. (PyJWT would refuse to sign it.)"""
    claims: dict[str, object] = {"sub": "alice", "exp": now() + 300}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (HS256, claims)]
    secret = json.dumps(issuer.keys["keys"][0]).encode()
    mark = hmac.digest(secret, b".".join(parts), "sha256")
    return b".".join([*parts, base64.urlsafe_b64encode(mark).rstrip(b"=")]).decode()


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (lambda issuer: Issuer().token(), "its signature is not"),
        (lambda issuer: issuer.token(kid="two"), "the key that it names is unknown"),
        (unsigned, "its algorithm is none of the key"),
        (signed_by_the_public_key, "its algorithm is none of the key"),
        (lambda issuer: issuer.token(exp=now() - 100), "it has expired"),
        (lambda issuer: issuer.token(exp=None), "a claim is missing"),
        (lambda issuer: issuer.token(nbf=now() + 200), "it is not valid yet"),
        (lambda issuer: issuer.token(None), "a claim is missing"),
        (lambda issuer: issuer.token("a\nb"), "the user's name is not a line"),
        (lambda issuer: issuer.token(5), "the user's name is not a line"),
        (lambda issuer: "x.y.z", "it is not a signed token"),
        (lambda issuer: issuer.token()[:-20], ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tokens_that_are_refused(place: Place, token: Callable[[Issuer], str], why: str) -> None:
    place.issuer.token()
    given = token(place.issuer)
    with place.web(Authorization=f"Bearer {given}") as web:
        answer = web.ask(VERSION)
        assert answer.status == 401 and web.kept
        assert answer.body == (
            b"Authentication error: Failed to validate JWT from Bearer token in Authentication header\n"
        )
        web.headers["Authorization"] = f"Bearer {place.issuer.token()}"
        assert web.call(VERSION)
    assert place.worker.logged(f"the token is refused: {why}")
    assert all(part not in place.worker.log() for part in given.split(".") if len(part) > 5)
    assert place.worker.counted(1, "hms_proxy_http_refused_total", status="401")


@pytest.mark.parametrize(
    "headers", [{"Authorization": ""}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer "}]
)
def test_no_token(place: Place, headers: dict[str, Any]) -> None:
    with place.web(x_actor_username="alice", **headers) as web:
        answer = web.ask(VERSION)
        assert answer.status == 401 and b"Couldn't find bearer token" in answer.body
        assert answer.headers["www-authenticate"] == "Bearer"
    assert not users(place.metastore)


def test_a_header_that_names_another_user_than_the_token(place: Place) -> None:
    with place.web("alice", x_actor_username="hive") as web:
        assert web.ask(VERSION).status == 401
        web.headers["x-actor-username"] = "alice"
        assert web.call(VERSION)
    assert place.worker.logged("x-actor-username names 'hive', the token 'alice'")


def test_an_expired_token_is_not_believed_although_it_was(tmp_path: Path) -> None:
    issuer = Issuer(kind="EC")
    settings = {"jwks": str(issuer.written(tmp_path / "keys")), "leeway_s": 0, "audience": ["hms"], "issuer": "me"}
    with (
        ScriptedMetastore() as metastore,
        started(tmp_path, metastore.address, security={"transports": ["http"]}, http_transport=settings) as worker,
    ):
        right = {"aud": "hms", "iss": "me"}
        with Web(worker.port) as web:
            web.headers["Authorization"] = f"Bearer {issuer.token(**right)}"
            assert wait_until(lambda: web.ask(VERSION).status == 200), worker.log()
            ends = believed_until(web, lambda ends: issuer.token(exp=ends, **right))
            assert wait_until(lambda: web.ask(VERSION).status == 401) and time.time() >= ends
            for claims in (right | {"aud": "other"}, right | {"iss": "you"}, {"iss": "me"}, {"aud": "hms"}):
                assert web.ask(VERSION, Authorization=f"Bearer {issuer.token(**claims)}").status == 401
            again = issuer.token(aud=["other", "hms"], iss="me")
            assert web.ask(VERSION, Authorization=f"Bearer {again}").status == 200
            Issuer(kid="one", kind="EC").written(tmp_path / "keys")  # the key has another value
            assert wait_until(lambda: web.ask(VERSION, Authorization=f"Bearer {again}").status == 401)
            (tmp_path / "keys").write_text("{}")
            assert worker.logged("the old files stay in use")
            issuer.written(tmp_path / "keys")
            assert wait_until(lambda: web.ask(VERSION, Authorization=f"Bearer {again}").status == 200)


def believed_until(web: Web, token: Callable[[int], str]) -> int:
    """When a token ends that has just been believed: the first that lasts until a busy machine has asked with it."""
    for lasts_s in (4, 16, 64):
        ends = now() + lasts_s
        web.headers["Authorization"] = f"Bearer {token(ends)}"
        if web.ask(VERSION).status == 200:
            return ends
    raise AssertionError("no token is believed")


def test_keys_at_a_url(tmp_path: Path) -> None:
    first, second = Issuer("one"), Issuer("two", "EC")
    served = {"keys": first.keys["keys"]}

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = json.dumps(served).encode()
            self.send_response(200 if served else 500)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Keys) as server, ScriptedMetastore() as metastore:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        settings = {"jwks": f"http://127.0.0.1:{server.server_port}/keys"}
        transports = {"transports": ["http"]}
        with started(tmp_path, metastore.address, security=transports, http_transport=settings) as worker:
            with Web(worker.port) as web:

                def status(issuer: Issuer) -> int:
                    return web.ask(VERSION, Authorization=f"Bearer {issuer.token()}").status

                assert wait_until(lambda: status(first) == 200), worker.log()
                assert status(second) == 401
                served["keys"] = [*first.keys["keys"], *second.keys["keys"]]
                assert wait_until(lambda: status(second) == 200), "an unknown key makes it look again"
                assert status(first) == 200
        server.shutdown()


def test_a_header_from_trusted_addresses(tmp_path: Path) -> None:
    settings = {"authentication": "header", "trusted_addresses": ["127.0.3.0/24"]}
    with (
        ScriptedMetastore() as metastore,
        started(tmp_path, metastore.address, security={"transports": ["http"]}, http_transport=settings) as worker,
    ):
        with Web(worker.port, source="127.0.3.9", x_actor_username="alice") as web:
            assert wait_until(lambda: web.ask(VERSION).status == 200), worker.log()
            web.headers["x-actor-username"] = "bob"
            assert web.call(VERSION)
            del web.headers["x-actor-username"]
            assert b"User header x-actor-username missing" in web.ask(VERSION).body
        with Web(worker.port, source="127.0.4.9", x_actor_username="alice") as web:
            answer = web.ask(VERSION)
            assert answer.status == 401 and b"not believed from this address" in answer.body
        assert sorted(found[0] for found in users(metastore).values()) == ["alice", "bob"]
        assert worker.logged("login refused")


@pytest.mark.parametrize("written", [b"false", b" False\n"])
def test_a_metastore_that_ignores_users(tmp_path: Path, written: bytes) -> None:
    settings = {"authentication": "header", "trusted_addresses": ["127.0.0.0/8"]}
    with ScriptedMetastore() as metastore:
        no = string_field(0, written) + STOP
        metastore.answers["get_config_value"] = lambda message, call: iter([call.reply(no)])
        transports = {"transports": ["http"]}
        with started(tmp_path, metastore.address, security=transports, http_transport=settings) as worker:
            assert worker.logged("ignores users (metastore.execute.setugi = false)")
            with Web(worker.port, x_actor_username="alice") as web:
                assert web.ask(VERSION).status == 503
        assert not users(metastore)
