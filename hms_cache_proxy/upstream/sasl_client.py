"""Connections to metastores, with TLS, a login or HTTP as the settings say; for the event loop, and for code without
one.

Job: connect within the caller's time limit, and return the stream that carries Thrift. The steps of logins run in
threads, because the KDC may be slow; LOGINS of them may run at once in a process. Must not know: calls. Owner: the
event loop; a SaslSocket: one thread.
"""

from __future__ import annotations

import asyncio
import os
import socket
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Final, Protocol, TypeVar

from hms_cache_proxy.errors import UpstreamError, WireError
from hms_cache_proxy.security.digest_md5 import ClientLogin
from hms_cache_proxy.security.http_names import HttpNames
from hms_cache_proxy.security.mechanism import LoginFailed, OwnLogin
from hms_cache_proxy.security.metastore_security import MetastoreSecurity
from hms_cache_proxy.security.service_login import ServiceLogins
from hms_cache_proxy.upstream.endpoints import CallUser, Endpoint, UserRefused, UserTokens
from hms_cache_proxy.upstream.sasl_stream import SaslStream, closed_during_login
from hms_cache_proxy.wire.framing import frame_header, parse_frame
from hms_cache_proxy.wire.message import NEED_MORE, MessageLimits
from hms_cache_proxy.wire.sasl import Status, message, parse_message, text_of

LOGINS: Final = 4
REPLY_BYTES: Final = 2**31 - 1  # replies of a metastore are trusted up to this size
_REPLIES: Final = MessageLimits(message_bytes=REPLY_BYTES, string_bytes=REPLY_BYTES)
_READ_BYTES: Final = 1 << 16
_HANDSHAKE_S: Final = 24 * 3600.0  # the caller's limit ends a handshake of TLS, never asyncio's of its own

AnyProtocol = TypeVar("AnyProtocol", bound=asyncio.Protocol)
MetastoreStreams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def _untold() -> None:
    pass


async def connect(
    endpoint: Endpoint,
    make: Callable[[], AnyProtocol],
    caller: CallUser | None = None,
    reached: Callable[[], None] = _untold,
) -> tuple[asyncio.Transport, AnyProtocol]:
    """A connection of the protocol that `make` makes, after the login: for `caller` if the proxy acts for users there,
    else as the proxy; None: for the proxy itself. `reached` is called when the metastore has accepted a connection;
    the handshake of TLS and a login may take long. OSError, UserRefused, or UpstreamError if the login fails."""
    if endpoint.http is not None:
        return await _over_http(endpoint, endpoint.http, make, caller, reached)
    user = None if caller is None else caller.user
    if endpoint.logins is None:
        return await _carried(endpoint, make, reached)
    try:
        if user is None or endpoint.users is None:
            return await _logged_in(endpoint, make, partial(endpoint.logins.login, endpoint.host), reached)
        return await _logged_in_as(endpoint, endpoint.users, make, user, reached)
    except WireError as error:
        raise UpstreamError(str(error)) from error


async def _logged_in_as(
    endpoint: Endpoint, users: UserTokens, make: Callable[[], AnyProtocol], user: str, reached: Callable[[], None]
) -> tuple[asyncio.Transport, AnyProtocol]:
    """With the user's token; if it is refused, once more with a new one, as the metastore may have forgotten it."""
    assert endpoint.logins is not None, "the proxy logs in there"
    for last in (False, True):
        token = await users.token(endpoint, user, reached)
        names = b64encode(token.identifier), b64encode(token.password)
        try:
            return await _logged_in(endpoint, make, partial(ClientLogin, *names, endpoint.logins.layers), reached)
        except LoginFailed as error:
            if not error.refused:
                raise
            users.forget(endpoint, user, token)
            if last:
                raise UserRefused(f"acting for {user}: {error}") from error
    raise AssertionError("the last attempt returns or raises")


async def _logged_in(
    endpoint: Endpoint, make: Callable[[], AnyProtocol], begin: Callable[[], OwnLogin], reached: Callable[[], None]
) -> tuple[asyncio.Transport, AnyProtocol]:
    loop, stream = asyncio.get_running_loop(), await begin_login(endpoint, reached)
    try:
        negotiation = await loop.run_in_executor(threads(), _Negotiation, begin)
        stream.send(negotiation.first)
        while not negotiation.done:
            stream.send(await loop.run_in_executor(threads(), negotiation.take, await stream.more()))
        stream.check_open()
    except BaseException:  # the time is over, too
        stream.abort()
        raise
    protocol = make()
    stream.open(protocol, negotiation.login.protection, negotiation.rest)
    return stream, protocol


async def begin_login(endpoint: Endpoint, reached: Callable[[], None] = _untold) -> SaslStream:
    """A connection on which nothing was said yet. OSError if there is none."""
    _, stream = await _carried(endpoint, lambda: SaslStream("metastore", REPLY_BYTES, threads()), reached)
    return stream


async def _carried(
    endpoint: Endpoint, make: Callable[[], AnyProtocol], reached: Callable[[], None]
) -> tuple[asyncio.Transport, AnyProtocol]:
    """TCP, and TLS on it where the settings say so."""
    loop, secured = asyncio.get_running_loop(), endpoint.secured
    if not secured:
        opened = await loop.create_connection(make, endpoint.host, endpoint.port)
        reached()
        return opened
    connection = await _connected(endpoint)
    reached()
    return await loop.create_connection(make, sock=connection, ssl_handshake_timeout=_HANDSHAKE_S, **secured)


async def _connected(endpoint: Endpoint) -> socket.socket:
    """A connected socket of the first of the host's addresses that accepts. OSError of the last that does not."""
    loop = asyncio.get_running_loop()
    failure = OSError(f"{endpoint.host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        endpoint.host, endpoint.port, type=socket.SOCK_STREAM
    ):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            await loop.sock_connect(connection, address)
        except BaseException as error:
            connection.close()
            if not isinstance(error, OSError):
                raise  # the time is over
            failure = OSError(error.errno, os.strerror(error.errno)) if error.errno else error  # without the address
        else:
            return connection
    raise failure


async def _over_http(
    endpoint: Endpoint,
    names: HttpNames,
    make: Callable[[], AnyProtocol],
    caller: CallUser | None,
    reached: Callable[[], None],
) -> tuple[asyncio.Transport, AnyProtocol]:
    from hms_cache_proxy.upstream.http_client import HttpStream  # needs a package that not everybody has

    try:
        host = endpoint.authority
        head = names.own_head(host) if caller is None else names.users_head(host, *caller)
    except LoginFailed as error:
        raise UserRefused(str(error)) from error
    protocol = make()
    _, stream = await _carried(endpoint, lambda: HttpStream(head, protocol), reached)
    return stream, protocol


async def open_streams(
    endpoint: Endpoint, caller: CallUser | None = None, reached: Callable[[], None] = _untold
) -> MetastoreStreams:
    """The same, as asyncio's streams."""
    reader = asyncio.StreamReader()
    transport, protocol = await connect(endpoint, lambda: asyncio.StreamReaderProtocol(reader), caller, reached)
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


class ThriftSocket(Protocol):
    """What a connection without an event loop needs of a socket."""

    def sendall(self, data: bytes, /) -> None: ...

    def recv(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


def opened_socket(connection: socket.socket, secured: MetastoreSecurity, host: str, authority: str) -> ThriftSocket:
    """What carries Thrift over a connected socket, as the proxy itself. `authority`: host and port. OSError, or
    WireError if the login fails; the socket is the caller's to close then."""
    if secured.http is not None:
        from hms_cache_proxy.upstream.http_client import HttpSocket

        return HttpSocket(connection, secured.http.own_head(authority))
    return connection if secured.logins is None else SaslSocket(connection, secured.logins, host)


class SaslSocket:
    """A socket after the login, as far as a connection without an event loop needs one. Every wait has the socket's
    time limit; the KDC's has limits of its own."""

    def __init__(self, connection: socket.socket, logins: ServiceLogins, host: str) -> None:
        """OSError, or WireError (LoginFailed) if the login fails; the socket is the caller's to close then."""
        self._connection = connection
        negotiation = _Negotiation(partial(logins.login, host))
        connection.sendall(negotiation.first)
        while not negotiation.done:
            connection.sendall(negotiation.take(self._receive()))
        self._protection = negotiation.login.protection
        self._received = bytearray(negotiation.rest)

    def sendall(self, data: bytes) -> None:
        """Send bytes in frames."""
        most = self._protection.most_bytes
        for at in range(0, len(data), most):
            payload = self._protection.wrap(data[at : at + most])
            self._connection.sendall(frame_header(len(payload)) + payload)

    def recv(self, size: int) -> bytes:
        """The content of the next frame, however long it is; nothing at the end. WireError for a wrong frame."""
        while True:
            frame = parse_frame(self._received, 0, _REPLIES)
            if frame is not NEED_MORE and frame.end <= len(self._received):
                payload = bytes(self._received[frame.start : frame.end])
                del self._received[: frame.end]
                if payload:
                    return self._protection.unwrap(payload)
                continue
            data = self._connection.recv(size)
            if not data:
                return b""
            self._received += data

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _receive(self) -> bytes:
        data = self._connection.recv(_READ_BYTES)
        if not data:
            raise closed_during_login("metastore")
        return data


class _Negotiation:
    """The client's side, with a mechanism that speaks first. It may wait for the KDC, at the start and at each step."""

    def __init__(self, begin: Callable[[], OwnLogin]) -> None:
        self.login = begin()
        self.first = message(Status.START, self.login.mechanism.encode())
        self.first += message(Status.OK, self.login.step(b"").payload)
        self.done = False
        self.rest = b""
        self._said_all = False

    def take(self, data: bytes) -> bytes:
        """The answer to bytes of the metastore. `rest` is what came behind the end. WireError if it refuses."""
        self.rest += data
        answer = b""
        while not self.done:
            found = parse_message(self.rest)
            if found is NEED_MORE:
                break
            self.rest = self.rest[found.end :]
            if found.status is Status.OK and not self._said_all:
                step = self.login.step(found.payload)
                self._said_all = step.done
                answer += message(Status.COMPLETE if step.done else Status.OK, step.payload)
            elif found.status is Status.COMPLETE and self._said_all:
                self.login.finish(found.payload)
                self.done = True
            else:
                text = text_of(found.payload)
                why = f"{self.login.mechanism}: the metastore refuses the login: {found.status.name} {text}".rstrip()
                raise LoginFailed(why, refused=True)
        return answer


@cache
def threads() -> ThreadPoolExecutor:
    """Where everything runs that may wait for the KDC."""
    return ThreadPoolExecutor(LOGINS, "kerberos-upstream")
