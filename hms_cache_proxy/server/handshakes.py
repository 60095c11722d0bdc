"""Begins connections: finds out what a client speaks, and does its handshakes.

Job: make a Client (driver.py) of each new socket, or close it. A client may begin with TLS, with a login by SASL
(login.py) or with HTTP. Its first bytes are looked at in the kernel's buffer (MSG_PEEK), so that TLS or the Client can
still read all of them; inside TLS, FirstBytes holds them. Where only plain Thrift is allowed, on the socket or inside
TLS, nobody looks at the first bytes: the Client refuses what it does not understand (inbox.py). Must not know:
requests.
Invariants: a transport that `security.transports` does not name is never answered, outside TLS or inside. A connection
must become a Client within `security.handshake_timeout_s`. A worker has at most `security.max_handshakes` such
connections; one more ends the oldest, because a handshake that works does not take long.
Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable, Mapping
from typing import Final

from hms_cache_proxy.config.security import SecuritySection
from hms_cache_proxy.rate_limited_log import RateLimitedLog
from hms_cache_proxy.security import tls
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.security.tls import ServerSide
from hms_cache_proxy.server.first_bytes import FirstBytes
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.inbox import TransportRefused
from hms_cache_proxy.server.login import Logins
from hms_cache_proxy.server.passed_logins import PassedLogins
from hms_cache_proxy.upstream.sasl_stream import SaslStream
from hms_cache_proxy.wire.framing import DETECT_BYTES, Transport, detect
from hms_cache_proxy.wire.message import NEED_MORE

AGAIN_S = 0.02  # between looks at a client that sends its first bytes one by one
_NAMES: Final = {
    Transport.BINARY: "plain",
    Transport.FRAMED: "plain",
    Transport.SASL: "sasl",
    Transport.HTTP: "http",
}
_WITHIN_TLS: Final = {
    Transport.BINARY: "tls",
    Transport.FRAMED: "tls",
    Transport.SASL: "tls+sasl",
    Transport.HTTP: "tls+http",
}
"""What `security.transports` must name, so that this is served."""


class Handshakes:
    """`secured` is None where TLS is not allowed, `logins` where SASL is not, and `serve_http`, which makes the Client
    of an HTTP connection, where HTTP is not."""

    def __init__(
        self,
        settings: SecuritySection,
        secured: Renewable[ServerSide] | None,
        logins: Logins | PassedLogins | None,
        serve: Callable[[], asyncio.Protocol],
        hub: Hub,
        serve_http: Callable[[], asyncio.Protocol] | None = None,
    ) -> None:
        self._settings = settings
        self._allowed = frozenset(settings.transports)
        self._secured = secured
        self._logins = logins
        self._serve = serve
        self._serve_http = serve_http
        self._metrics = hub.metrics
        self._loop = asyncio.get_running_loop()
        self._beginning: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._say = RateLimitedLog().warn
        self._audit_log = hub.logs.audit

    async def admit(self, taken: socket.socket) -> None:
        """Begin this connection. Ends when it is a Client, or closed."""
        if self._allowed == {"plain"}:
            await self._loop.connect_accepted_socket(self._serve, taken)
            return
        task = asyncio.current_task()
        assert task is not None
        if len(self._beginning) >= self._settings.max_handshakes:
            self._end_oldest()
        self._beginning[task] = None
        try:
            await self._begin(taken)
        finally:
            self._beginning.pop(task, None)

    def close(self) -> None:
        """End all handshakes."""
        for task in list(self._beginning):
            task.cancel()

    def _end_oldest(self) -> None:
        oldest = next(iter(self._beginning))
        del self._beginning[oldest]
        oldest.cancel()
        self._metrics.limit_broken("max_handshakes")
        self._say("handshake ended", "max_handshakes", why="a newer one needs its place", limit="max_handshakes")

    async def _begin(self, taken: socket.socket) -> None:
        peer = _peer(taken)
        try:
            async with asyncio.timeout(self._settings.handshake_timeout_s):
                await self._go_on(taken, peer)
        except TimeoutError:
            taken.close()
            self._metrics.limit_broken("handshake_timeout_s")
            host, limit = peer.rpartition(":")[0], "handshake_timeout_s"
            self._say("handshake ended", limit + host, why="it took too long", limit=limit, peer=peer)
        except asyncio.CancelledError:
            taken.close()
            raise

    async def _go_on(self, taken: socket.socket, peer: str) -> None:
        try:
            found = await self._first(taken)
        except OSError:  # the client has gone
            found = None
        if found is Transport.TLS and self._secured is not None:
            await self._handshake(taken, peer)
            return
        protocol = self._protocol(found, _NAMES, peer)
        if protocol is not None:
            await self._loop.connect_accepted_socket(lambda: protocol, taken)
            await self._log_in(protocol, peer, within_tls=False)
            return
        taken.close()
        if found is not None:
            self._refuse(found, peer)

    def _protocol(self, found: Transport | None, names: Mapping[Transport, str], peer: str) -> asyncio.Protocol | None:
        """What serves such a connection; None if it is not allowed."""
        if found is None or names.get(found) not in self._allowed:
            return None
        if found is Transport.SASL:
            assert self._logins is not None
            return self._logins.stream(peer)
        if found is Transport.HTTP:
            assert self._serve_http is not None
            return self._serve_http()
        return self._serve()

    async def _first(self, taken: socket.socket) -> Transport | None:
        """What the client speaks; None: it closed before that was known."""
        while True:
            await self._readable(taken)
            ended = _sends_no_more(taken)  # asked first: then no bytes are still to come
            found = detect(taken.recv(DETECT_BYTES, socket.MSG_PEEK))
            if found is not NEED_MORE:
                return found
            if ended:
                return None
            await asyncio.sleep(AGAIN_S)

    async def _readable(self, taken: socket.socket) -> None:
        ready = asyncio.Event()
        self._loop.add_reader(taken, ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_reader(taken)

    async def _handshake(self, taken: socket.socket, peer: str) -> None:
        assert self._secured is not None
        choice = not self._allowed.isdisjoint(("tls+sasl", "tls+http"))
        inner = FirstBytes() if choice else self._serve()
        longer_s = 2 * self._settings.handshake_timeout_s  # than the time that `_begin` gives
        try:
            await self._loop.connect_accepted_socket(
                lambda: inner, taken, ssl=self._secured.value.context, ssl_handshake_timeout=longer_s
            )
        except TimeoutError:
            raise
        except OSError as error:  # ssl.SSLError is one
            self._metrics.handshake("tls", "failed")
            detail = tls.problem(error)
            self._audit(peer, "tls", detail)
            self._say("handshake failed", detail + peer.rpartition(":")[0], detail=detail, peer=peer)
            return
        self._metrics.handshake("tls", "done")
        if isinstance(inner, FirstBytes):
            await self._inside(inner, peer)

    async def _inside(self, inner: FirstBytes, peer: str) -> None:
        """Within TLS: which of the allowed ones it is."""
        try:
            while (found := detect(await inner.more())) is NEED_MORE:
                pass
        except OSError:  # the client has gone
            return
        except asyncio.CancelledError:
            inner.abort()
            raise
        protocol = self._protocol(found, _WITHIN_TLS, peer)
        if protocol is None:
            inner.abort()
            self._refuse(found, peer)
            return
        inner.pass_on(protocol)
        await self._log_in(protocol, peer, within_tls=True)

    async def _log_in(self, protocol: asyncio.Protocol, peer: str, *, within_tls: bool) -> None:
        """The rest of the handshake, if this is one."""
        if not isinstance(protocol, SaslStream):
            return
        assert self._logins is not None
        try:
            await self._logins.let_in(protocol, peer, within_tls=within_tls)
        except BaseException:  # the time is over, or a bug: nobody else knows of this connection
            protocol.abort()
            raise

    def _refuse(self, found: Transport, peer: str) -> None:
        self._metrics.refused_transport(found.name.lower())
        why, host = str(TransportRefused(found)), peer.rpartition(":")[0]
        self._audit(peer, found.name.lower(), why)
        self._say("client closed", host, why="transport", key=found.name.lower(), detail=why, peer=peer)

    def _audit(self, peer: str, transport: str, why: str) -> None:
        if self._audit_log is not None:
            self._audit_log.event("connection_refused", peer, transport, why=why)


def _sends_no_more(taken: socket.socket) -> bool:
    """Has the client closed its side of the connection? What it has sent may still be there."""
    poll = select.poll()
    poll.register(taken, select.POLLRDHUP)
    return bool(poll.poll(0))


def _peer(taken: socket.socket) -> str:
    """The client's address and port; empty if it has gone already."""
    try:
        name = taken.getpeername()
    except OSError:
        return ""
    return f"{name[0]}:{name[1]}"
