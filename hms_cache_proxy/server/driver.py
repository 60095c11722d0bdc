"""The asyncio side of client connections: executes the commands of connection.py.

Job: transports, tasks, the clock, log lines and metrics. It decides nothing, except on the hot path: a chunk that the
dispatcher recognizes is answered without the connection's logic. A bug ends only the connection in which it occurs: its
exception is caught here, logged with a traceback, and counted.
Owner: the worker's event loop; nothing here is called from another thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from time import monotonic_ns
from typing import Any, cast

import structlog

from hms_cache_proxy.errors import ProxyError
from hms_cache_proxy.metrics import UpstreamFailure
from hms_cache_proxy.server.audit_lines import AuditKind
from hms_cache_proxy.server.audit_log import transport_name
from hms_cache_proxy.server.client_states import HotPathUse
from hms_cache_proxy.server.commands import (
    Again,
    AskPeers,
    Await,
    Close,
    CloseUpstream,
    Command,
    LoggedIn,
    Observe,
    OpenUpstream,
    ReadingUpstream,
    RequestRefused,
    Send,
    SendUpstream,
    SetReading,
    UpstreamTrouble,
    Why,
)
from hms_cache_proxy.server.connection import ClientConnection
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.upstream.endpoints import CallUser, Endpoint
from hms_cache_proxy.upstream.link import HttpFailure, UpstreamLink, connect, keep_alive, why_unopened
from hms_cache_proxy.upstream.replay import user_named
from hms_cache_proxy.wire.framing import frame_header

HIGH_WATER_BYTES = 1 << 18  # of a transport's buffer: the memory for one slow client
LARGE_BYTES = 1 << 15  # what arrives and takes this much or more waits for its turn with other long work
CLOSED = "closed by the metastore"
CLOSE_GRACE_S = 10.0  # how long a client has to read the last bytes of a closed connection

log = structlog.get_logger()


class Client(asyncio.Protocol):
    """One client connection and its upstream connection."""

    def __init__(self, hub: Hub, begin: Callable[..., ClientConnection] = ClientConnection) -> None:
        """`begin` makes the connection's logic: ClientConnection, or one that takes the same arguments."""
        self._hub = hub
        self._begin = begin
        self._hot = hub.dispatcher.hot
        self._peer = ""
        self._upstream: UpstreamLink | None = None
        self._opening: asyncio.Task[None] | None = None
        self._place: Endpoint | None = None  # the endpoint where this connection has a place, or waits for one
        self._queued: asyncio.TimerHandle | None = None
        self._turn_due = False
        self._late: list[bytes] = []  # waits for its turn; nothing more is read meanwhile
        self._reading_wanted = True
        self._grace: asyncio.TimerHandle | None = None
        self._lost = self._refused = False
        self._looks = False  # the last request waited for a look, so the next one is likely to need one too

    # the client's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        hub = self._hub
        self._transport = cast(asyncio.Transport, transport)  # uvloop has other classes
        self._half_open = transport.get_extra_info("ssl_object") is None  # TLS ends both directions at once
        self._write = self._transport.write
        name = transport.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if name else ""
        self.address = str(name[0]) if name else ""
        self._core = self._begin(
            dispatcher=hub.dispatcher,
            endpoints=hub.endpoints,
            settings=hub.settings,
            peer=self._peer,
            now_ns=monotonic_ns(),
        )
        session = self._session = self._core.session
        speaks = session.known_by or self._core.speaks  # whoever has logged in before the first call speaks SASL
        session.transport = transport_name(speaks, over_tls=not self._half_open)
        hub.metrics.accepted.inc()
        hub.metrics.connections.inc()
        hub.member.count(1)
        hub.by_address[self.address] += 1
        limit = hub.allowed.connections_per_address
        if hub.draining or hub.member.total() > hub.allowed.connections:
            self._turn_away("max_connections")
            return
        if limit and hub.by_address[self.address] > limit:
            self._turn_away("max_connections_per_address")
            return
        hub.clients.add(self)
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        keep_alive(self._transport)

    def has_logged_in_at(self, endpoint: Endpoint, link: UpstreamLink) -> None:
        """The client's own login at a metastore has opened this connection. It has a place. Called before the client's
        own connection is made."""
        self._place, self._upstream = endpoint, link
        self._hub.metrics.upstream_connections.inc()

    def _turn_away(self, limit: str) -> None:
        self._refused = True
        self._transport.abort()
        if not self._hub.draining:
            self._audit("connection_refused", why=limit)
            self._hub.metrics.limit_broken(limit)
            self._hub.say("client refused", limit, peer=self._peer, limit=limit)

    def data_received(self, data: bytes) -> None:
        if self._late:
            self._late.append(data)  # a SaslStream that is lost gives all that it has: nothing overtakes
        elif len(data) >= LARGE_BYTES:
            self._late = [data]
            self._transport.pause_reading()
            self._hub.turns.add(self.address, self._take_late)
        else:
            self._take(data)

    def _take_late(self) -> None:
        data, self._late = b"".join(self._late), []
        if data and not self._lost and not self._transport.is_closing():
            self._take(data)
            self._set_reading()

    def _take(self, data: bytes) -> None:
        now_ns = monotonic_ns()
        core = self._core
        mode = core.mode
        try:
            if mode == _HOT:
                if self._looks and self._waits(data, now_ns):
                    return
                reply = self._hot(self._session, data, now_ns)
                if reply is not None:
                    core.last_ns = now_ns
                    self._write(reply)
                    return
                if self._waits(data, now_ns):
                    return
            elif mode == _HOT_FRAMED and int.from_bytes(data[:4], "big") == len(data) - 4:
                reply = self._hot(self._session, data[4:], now_ns)
                if reply is not None:
                    core.last_ns = now_ns
                    self._write(frame_header(len(reply)) + reply)
                    return
            if self._upstream is not None and core.upstream_idle:
                self._check_upstream(self._upstream)
            if not self._refused:
                self._run(core.received(data, now_ns, cold=mode != _GENERAL))
        except Exception:
            self._bug()

    def _waits(self, data: bytes, now_ns: int) -> bool:
        """Does this request only wait for a look?"""
        wait = self._core.wait_for_look(data, now_ns)
        self._looks = wait is not None
        if wait is not None:
            self._hub.wait(self, wait)
        return self._looks

    def eof_received(self) -> bool:
        self._event(self._core.ended)
        return self._half_open  # replies to earlier requests can still be sent

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._hub.stuck.remove(self)
        self._hub.gone(self)
        if self._grace is not None:
            self._grace.cancel()
        self._hub.metrics.connections.dec()
        self._hub.member.count(-1)
        self._hub.by_address[self.address] -= 1
        if not self._hub.by_address[self.address]:
            del self._hub.by_address[self.address]
        self._event(self._core.gone)
        self._forget_if_over()

    def pause_writing(self) -> None:
        self._hub.stuck.add(self, self._transport.get_write_buffer_size(), monotonic_ns())
        self._run(self._core.client_blocked())

    def resume_writing(self) -> None:
        self._hub.stuck.remove(self)
        self._event(self._core.client_writable)

    # the metastore's transport (called by UpstreamLink)

    def upstream_received(self, link: UpstreamLink, data: bytes) -> None:
        if link is self._upstream:
            try:
                self._run(self._core.upstream_received(data, monotonic_ns(), closing=link.closing))
            except Exception:
                self._bug()

    def upstream_lost(self, link: UpstreamLink, error: Exception | None) -> None:
        if link is self._upstream:
            self._upstream = None
            self._hub.metrics.upstream_connections.dec()
            self._leave_place()
            kind: UpstreamFailure = error.kind if isinstance(error, HttpFailure) else "closed"
            detail = CLOSED if error is None else str(error)
            self._event(lambda now_ns: self._core.upstream_lost(detail, now_ns, kind, orderly=error is None))

    def _check_upstream(self, link: UpstreamLink) -> None:
        """Check an idle connection before a call uses it: a write on a dead connection has an unknown outcome."""
        if link.ended():
            self._close_upstream()
            self._run(self._core.upstream_lost(CLOSED, monotonic_ns(), orderly=True))

    def upstream_blocked(self, link: UpstreamLink) -> None:
        if link is self._upstream:
            self._run(self._core.upstream_blocked())

    def upstream_writable(self, link: UpstreamLink) -> None:
        if link is self._upstream:
            self._event(self._core.upstream_writable)

    # the worker

    def expire(self) -> None:
        """End whatever has waited for too long."""
        self._event(self._core.expire)

    def looked(self) -> bool:
        """A request that waits for a look is answered on the hot path, if that is possible now."""
        try:
            reply = self._core.looked()
            if reply is not None and not self._transport.is_closing():
                self._write(reply)
        except Exception:
            self._bug()
            return True
        return reply is not None

    def moved(self) -> None:
        """The waiting request of this connection may be decided again."""
        if not self.looked():
            self._event(self._core.moved)

    def take_too_much(self) -> None:
        """Close a client that does not read, because its replies use memory that others need."""
        self._hub.metrics.limit_broken("memory_bytes")
        self._hub.say("client closed", "memory_bytes", why="it does not read", limit="memory_bytes", peer=self._peer)
        self._transport.abort()

    @property
    def lost(self) -> bool:
        """Has the connection ended?"""
        return self._lost

    def end_login(self, why: str) -> None:
        """Close a client that is no longer let in. A write that it has sent is done all the same."""
        self._hub.say("client closed", why, why=Why.LOGIN.value, detail=why, peer=self._peer)
        self._transport.abort()

    def drain(self) -> None:
        """The worker stops."""
        self._take_late()
        self._event(self._core.drain)

    def abort(self) -> None:
        """Abort the connection."""
        self._transport.abort()
        self._event(self._core.gone)
        self._close_upstream()
        self._hub.clients.discard(self)

    # carrying out

    def _event(self, happened: Callable[[int], list[Command]]) -> None:
        try:
            self._run(happened(monotonic_ns()))
        except Exception:
            self._bug()

    def _run(self, commands: list[Command]) -> None:
        for command in commands:
            _HANDLERS[type(command)](self, command)
        if self._lost:
            self._forget_if_over()

    def _bug(self) -> None:
        """Contain any exception: it ends this connection only."""
        self._hub.metrics.internal_error("connection")
        log.exception("connection closed after an internal error", peer=self._peer)
        self._transport.abort()
        try:
            self._core.abandon()
        finally:
            self._close_upstream()
            self._hub.clients.discard(self)

    def _forget_if_over(self) -> None:
        if self._core.closed:
            self._close_upstream()
            self._hub.clients.discard(self)

    def _send(self, command: Send) -> None:
        if not self._transport.is_closing():
            self._write(command.data)

    def _send_upstream(self, command: SendUpstream) -> None:
        if self._upstream is not None:
            self._upstream.write(command.data)

    def _open_upstream(self, command: OpenUpstream) -> None:
        hub, endpoint = self._hub, command.endpoint
        self._place = endpoint
        if hub.places.take(endpoint, self):
            self.place_free(endpoint)
            return
        self._queued = asyncio.get_running_loop().call_later(hub.allowed.queue_s, self._no_place, endpoint)
        for holder in hub.places.holders(endpoint):
            if holder.release_upstream():
                return

    def place_free(self, endpoint: Endpoint) -> None:
        """A place for a connection to the endpoint has become free."""
        if self._queued is not None:
            self._queued.cancel()
            self._queued = None
        login, caller = self._session.login, CallUser(None)
        if login is not None:
            caller = CallUser(login.user, login.bearer)
        elif endpoint.http is not None:
            caller = CallUser(user_named(self._session.identity))
        self._opening = self._hub.spawn(self._connect(endpoint, caller), f"connect {endpoint.uri}")

    def _no_place(self, endpoint: Endpoint) -> None:
        allowed = self._hub.allowed
        self._leave_place()
        detail = (
            f"{endpoint.uri}: all {allowed.upstream_connections} connections (upstream_options.max_connections)"
            f" stayed busy for {allowed.queue_s:g} s"
        )
        self._event(lambda now_ns: self._core.upstream_busy(detail, now_ns))

    def _leave_place(self) -> None:
        endpoint, self._place = self._place, None
        if self._queued is not None:
            self._queued.cancel()
            self._queued = None
        if endpoint is not None:
            self._hub.leave_place(endpoint, self)

    def release_upstream(self) -> bool:
        """Release the upstream connection for a client that waits for one, if it is idle. True if it was released."""
        self._event(self._core.release_upstream)
        return self._place is None

    async def _connect(self, endpoint: Endpoint, caller: CallUser) -> None:
        try:
            link = await connect(endpoint, self, self._hub.allowed.connect_s, caller)
        except ProxyError as error:
            detail, why = str(error), why_unopened(error)
            self._opening = None
            self._leave_place()
            self._event(lambda now_ns: self._core.upstream_refused(detail, now_ns, why))
            return
        except Exception:
            self._opening = None
            self._bug()
            return
        self._opening = None
        self._upstream = link
        self._hub.metrics.upstream_connections.inc()
        self._event(self._core.upstream_opened)

    def _close_upstream(self, command: CloseUpstream | None = None) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._upstream is not None:
            link, self._upstream = self._upstream, None
            self._hub.metrics.upstream_connections.dec()
            link.close()
        self._leave_place()

    def _reading(self, command: SetReading) -> None:
        self._reading_wanted = command.wanted
        self._set_reading()

    def _set_reading(self) -> None:
        transport, wanted = self._transport, self._reading_wanted and not self._late
        if not transport.is_closing():
            (transport.resume_reading if wanted else transport.pause_reading)()

    def _reading_upstream(self, command: ReadingUpstream) -> None:
        if self._upstream is not None:
            self._upstream.reading(command.wanted)

    def _again(self, command: Again) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._hub.turns.add(self.address, self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        self._event(self._core.turn)

    def _await(self, command: Await) -> None:
        self._hub.wait(self, command.wait)

    def _ask_peers(self, command: AskPeers) -> None:
        assert self._hub.peers is not None, "only a proxy with peers asks them"
        self._hub.peers.ask(command.request, self._peers_agreed)

    def _peers_agreed(self) -> None:
        self._event(self._core.peers_agreed)

    def _observe(self, command: Observe) -> None:
        hub = self._hub
        slot = hub.metrics.slot(command.label, command.outcome, command.reason)
        took_ns = monotonic_ns() - command.began_ns
        slot.observe(took_ns / 1e9)
        hub.logs.observed(self._session, took_ns, command)
        if command.upstream_ns:
            hub.metrics.at_upstream(command.label, command.upstream_ns / 1e9)
        if self._place is not None and hub.places.wanted(self._place):
            asyncio.get_running_loop().call_soon(self.release_upstream)  # one call for each client, in turn

    def _upstream_trouble(self, command: UpstreamTrouble) -> None:
        self._hub.metrics.upstream_failed(command.kind)
        details = {"kind": command.kind, "uri": command.uri, "detail": command.detail, "peer": self._peer}
        self._hub.say("upstream trouble", command.kind + command.uri, **details)

    def _audit(self, event: AuditKind, **details: str | int | None) -> None:
        if self._hub.logs.audit is not None:
            self._hub.logs.audit.event(event, self._peer, self._session.transport, **details)

    def _logged_in(self, command: LoggedIn) -> None:
        self._audit("login", mechanism=command.how, user=command.user)
        log.info("login", mechanism=command.how, user=command.user, peer=self._peer)

    def _refused_request(self, command: RequestRefused) -> None:
        self._hub.metrics.http_refused(command.status)
        unknown = command.status == HTTPStatus.UNAUTHORIZED
        audited: AuditKind = "login_refused" if unknown else "request_refused"
        self._audit(audited, status=command.status, why=command.why, detail=command.detail or None)
        event = "login refused" if unknown else "request refused"
        details = {"status": str(command.status), "why": command.why, "detail": command.detail, "peer": self._peer}
        self._hub.say(event, f"{command.status} {self.address}", **details)  # a reason may have what the client chose

    def _close(self, command: Close) -> None:
        metrics, why = self._hub.metrics, command.why
        if why is Why.LIMIT:
            metrics.limit_broken(command.key)
        elif why is Why.TRANSPORT:
            self._audit("connection_refused", why=command.detail)
            metrics.refused_transport(command.key)
        elif why is Why.IDLE:
            metrics.limit_broken("idle_timeout_s")
        if why is not Why.FINISHED:
            key = {"key": command.key} if command.key else {}
            topic, peer = why.value + self.address, self._peer
            self._hub.say("client closed", topic, why=why.value, **key, detail=command.detail, peer=peer)
        if why in (Why.UPSTREAM, Why.CACHE, Why.IDLE):
            self._transport.abort()  # a client cannot mistake a reset for the end of a reply
        else:
            self._transport.close()
            self._grace = asyncio.get_running_loop().call_later(CLOSE_GRACE_S, self._transport.abort)


_GENERAL, _HOT, _HOT_FRAMED = HotPathUse.GENERAL, HotPathUse.HOT, HotPathUse.HOT_FRAMED
_HANDLERS: dict[type[Any], Callable[[Client, Any], None]] = {
    Send: Client._send,
    SendUpstream: Client._send_upstream,
    OpenUpstream: Client._open_upstream,
    CloseUpstream: Client._close_upstream,
    SetReading: Client._reading,
    ReadingUpstream: Client._reading_upstream,
    Again: Client._again,
    Await: Client._await,
    AskPeers: Client._ask_peers,
    Observe: Client._observe,
    UpstreamTrouble: Client._upstream_trouble,
    LoggedIn: Client._logged_in,
    RequestRefused: Client._refused_request,
    Close: Client._close,
}
