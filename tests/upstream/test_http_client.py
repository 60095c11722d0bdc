"""Connections over HTTP: what the proxy's own calls, probes and clients' calls make of a metastore's answers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hms_cache_proxy.config.http_transport import HttpTransportSection
from hms_cache_proxy.config.security import SecuritySection
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.security.http_names import HttpNames
from hms_cache_proxy.security.mechanism import LoginFailed
from hms_cache_proxy.security.metastore_security import MetastoreSecurity
from hms_cache_proxy.upstream.endpoints import CallUser, Endpoint, UserRefused
from hms_cache_proxy.upstream.link import HttpFailure, UpstreamLink, connect
from hms_cache_proxy.upstream.prober import probe
from hms_cache_proxy.upstream.service import ServiceConnection
from hms_cache_proxy.wire.message import MessageType, message_header

ASKED = message_header(b"getVersion", MessageType.CALL, 1) + b"\0"
REPLY = message_header(b"getVersion", MessageType.REPLY, 1) + b"\x0b\0\0\0\0\0\x05four!\0"


def answer(body: bytes, status: str = "200 OK", *lines: str) -> bytes:
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *lines, "", ""))
    return head.encode() + body


def reply(request: bytes) -> bytes:
    """With the sequence id of the request."""
    at = request.index(b"\r\n\r\n") + 4 + 8 + len("getVersion")
    return REPLY[: 8 + len("getVersion")] + request[at : at + 4] + REPLY[12 + len("getVersion") :]


class Server:
    """Answers requests in turn, on any connection; `b""` closes it. `heads`: of the requests, by connection."""

    def __init__(self, answers: list[Callable[[bytes], bytes] | bytes]) -> None:
        self.heads: list[list[bytes]] = []
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        heads: list[bytes] = []
        self.heads.append(heads)
        request = b""
        while piece := connection.recv(1 << 16):
            request += piece
            head, found, body = request.partition(b"\r\n\r\n")
            if not found or len(body) < int(head.partition(b"Content-Length: ")[2]):
                continue
            heads.append(head)
            made = self._answers.pop(0)
            said = made if isinstance(made, bytes) else made(request)
            request = b""
            connection.sendall(said)
            if not said or b"Connection: close" in said:
                return


@contextmanager
def serving(*answers: Callable[[bytes], bytes] | bytes) -> Iterator[Server]:
    server = Server(list(answers))
    try:
        yield server
    finally:
        server.close()


def names(identity: str = "delegate", **settings: str) -> HttpNames:
    given = {"upstream_user": "proxy"} if not settings else settings
    return HttpNames(SecuritySection(upstream_identity=identity), HttpTransportSection(upstream=True, **given))  # type: ignore[arg-type]


def own(server: Server, http: HttpNames) -> ServiceConnection:
    return ServiceConnection("127.0.0.1", server.port, timeout_s=60, secured=MetastoreSecurity(http=http))


def version(request: bytes) -> bytes:
    return answer(reply(request), "200 OK", "Content-Type: application/x-thrift")


def last_version(request: bytes) -> bytes:
    return answer(reply(request), "200 OK", "Connection: close")


def test_own_calls_on_kept_connections() -> None:
    """One that the metastore closes between calls, with or without saying so, is opened again."""
    with serving(version, last_version, version, b"", version) as server, own(server, names()) as connection:
        assert [connection.call("getVersion") for _ in range(4)] == [b"four!"] * 4
        assert [len(heads) for heads in server.heads] == [2, 2, 1]
    for head in sum(server.heads, []):
        assert head.startswith(b"POST /metastore HTTP/1.1\r\n")
        assert b"\r\nx-actor-username: proxy\r\n" in head and b"Host: 127.0.0.1:%d\r\n" % server.port in head


@pytest.mark.parametrize(
    "said, why",
    [
        (
            answer(b"Authentication error: no", "401 Unauthorized"),
            "HTTP status 401 Unauthorized: Authentication error: no",
        ),
        (answer(b"", "302 Found", "Location: /login"), "HTTP status 302 Found"),
        (answer(b"<html>", "200 OK", "Content-Type: text/html"), "text/html instead of application/x-thrift"),
        (answer(REPLY[:-4]), "ends within the message"),
        (b"nonsense", "not an answer of HTTP"),
    ],
)
def test_answers_that_are_no_replies(said: bytes, why: str) -> None:
    with serving(said, version, said, version) as server:
        with own(server, names()) as connection:
            with pytest.raises(UpstreamError, match=why):
                connection.call("getVersion")
            assert connection.call("getVersion") == b"four!"
        endpoint = Endpoint("127.0.0.1", server.port, http=names())
        assert why in asyncio.run(probe(endpoint)).problem
        assert not asyncio.run(probe(endpoint)).problem


class Owner:
    """Of a link: keeps what happens."""

    def __init__(self) -> None:
        self.data = b""
        self.error: Exception | None = None
        self.over, self.said = asyncio.Event(), asyncio.Event()

    def upstream_received(self, link: UpstreamLink, data: bytes) -> None:
        self.data += data
        self.said.set()

    def upstream_lost(self, link: UpstreamLink, error: Exception | None) -> None:
        self.error = error
        self.over.set()

    def upstream_blocked(self, link: UpstreamLink) -> None: ...

    def upstream_writable(self, link: UpstreamLink) -> None: ...


async def asked(server: Server, http: HttpNames, caller: CallUser) -> tuple[UpstreamLink, Owner]:
    """After one call, or the end of the connection."""
    owner = Owner()
    link = await connect(Endpoint("127.0.0.1", server.port, http=http), owner, 60, caller)
    link.write(ASKED)
    done = [asyncio.ensure_future(event.wait()) for event in (owner.said, owner.over)]
    await asyncio.wait(done, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.cancel()
    return link, owner


def test_calls_of_clients(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("own")

    async def run(server: Server) -> None:
        link, owner = await asked(server, names(), CallUser("alice"))
        assert owner.data == REPLY and not link.ended()
        link.write(ASKED)
        await owner.over.wait()  # the metastore has said so with the second answer
        assert owner.data == REPLY + REPLY and owner.error is None and link.ended()
        _, owner = await asked(server, names("pass_through", upstream_token_file=str(file)), CallUser("bob", b"x.y.z"))
        await owner.over.wait()
        failure = owner.error
        assert isinstance(failure, HttpFailure) and failure.kind == "refused" and "401" in str(failure)
        _, owner = await asked(server, names(), CallUser("carol"))
        await owner.over.wait()
        failure = owner.error
        assert isinstance(failure, HttpFailure) and failure.kind == "status" and "503" in str(failure)
        for caller in (CallUser(None), CallUser(" alice"), CallUser("j\u00fcrgen"), CallUser("a\nb")):
            with pytest.raises(UserRefused):
                await connect(Endpoint("127.0.0.1", server.port, http=names()), Owner(), 60, caller)

    with serving(
        version, last_version, answer(b"no", "401 Unauthorized"), answer(b"", "503 Service Unavailable")
    ) as server:
        asyncio.run(run(server))
    first, bob, carol = server.heads
    assert all(b"\r\nx-actor-username: alice\r\n" in head and b"Authorization" not in head for head in first)
    assert b"\r\nAuthorization: Bearer x.y.z\r\n" in bob[0] and b"x-actor-username" not in bob[0]
    assert b"\r\nx-actor-username: carol\r\n" in carol[0]


def test_whose_heads(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    by_token = names("service", upstream_token_file=str(file))
    head = by_token.users_head("ms:1", "alice", b"theirs")
    assert b"\r\nAuthorization: Bearer one\r\n" in head() and b"alice" not in head()
    file.write_text("another")
    assert b"\r\nAuthorization: Bearer another\r\n" in head() and head() == by_token.own_head("ms:1")()
    with pytest.raises(LoginFailed, match="no token of alice"):
        names("pass_through", upstream_token_file=str(file)).users_head("ms:1", "alice", b"")
