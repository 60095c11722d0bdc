"""One TCP connection to a metastore, as the event loop sees it.

Job: connect within a time limit (sasl_client.py), and pass events on to the client connection that owns
it. Must not know messages.
Owner: one client connection, in the worker's event loop.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal, Protocol, TypeVar, cast

from hms_cache_proxy.errors import ProxyError, UpstreamError
from hms_cache_proxy.security.tls import problem
from hms_cache_proxy.upstream import sasl_client
from hms_cache_proxy.upstream.endpoints import CallUser, Endpoint, Endpoints, Unopened, UserRefused

Connected = TypeVar("Connected")

HIGH_WATER_BYTES = 1 << 18
CLOSE_GRACE_S = 10.0
_KEEP_ALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}  # seconds, seconds, probes


class LinkOwner(Protocol):
    """The owner of a link, which gets its events."""

    def upstream_received(self, link: UpstreamLink, data: bytes) -> None: ...

    def upstream_lost(self, link: UpstreamLink, error: Exception | None) -> None: ...

    def upstream_blocked(self, link: UpstreamLink) -> None: ...

    def upstream_writable(self, link: UpstreamLink) -> None: ...


class UpstreamLink(asyncio.Protocol):
    """The connection. Its owner may drop it at any time, and ignores later events."""

    def __init__(self, owner: LinkOwner) -> None:
        self._owner = owner
        self._reading = True
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has its own classes
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        keep_alive(self._transport)
        self._poll = select.poll()
        self._poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        self._owner.upstream_received(self, data)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._owner.upstream_lost(self, error)

    def pause_writing(self) -> None:
        self._owner.upstream_blocked(self)

    def resume_writing(self) -> None:
        self._owner.upstream_writable(self)

    @property
    def closing(self) -> bool:
        """Nothing can be sent any more: over HTTP, the metastore may say so together with a reply."""
        return self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Sends."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def reading(self, wanted: bool) -> None:
        """Starts or stops reading."""
        if wanted is self._reading or self._transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def ended(self) -> bool:
        """Asks the kernel whether an idle connection has ended, which the loop may not have noticed yet (1 us).

        The connection is readable only if it has ended, because no answer is outstanding. (With TLS, a message of the
        protocol itself counts as an end; the connection is then replaced for nothing, which is rare and harmless.)
        """
        return self.closing or bool(self._poll.poll(0))

    def close(self) -> None:
        """Closes after everything was sent; if the metastore does not read, after CLOSE_GRACE_S at the latest."""
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(CLOSE_GRACE_S, self._transport.abort)
        self._transport.close()


def keep_alive(transport: asyncio.Transport) -> None:
    """Makes the kernel detect within two minutes that the peer's machine is gone; otherwise the connection would stay
    forever."""
    connection: socket.socket = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


class HttpFailure(ConnectionAbortedError):
    """Why a connection over HTTP has ended, and how that is counted. refused: by a status that says that the call has
    not been done."""

    def __init__(self, text: str, kind: Literal["protocol", "status", "refused"]) -> None:
        super().__init__(text)
        self.kind = kind


class NoAnswer(UpstreamError):
    """A connection attempt got no answer in time."""


class LateLogin(UpstreamError):
    """A connection was accepted, and the handshake of TLS or the login took too long: there is a metastore that can be
    waited for."""


def why_unopened(error: ProxyError) -> Unopened:
    """What an error of `connect` means."""
    if isinstance(error, NoAnswer):
        return "silent"
    if isinstance(error, LateLogin):
        return "late"
    return "user" if isinstance(error, UserRefused) else "refused"


async def connect(endpoint: Endpoint, owner: LinkOwner, timeout_s: float, caller: CallUser) -> UpstreamLink:
    """A new connection for calls of this user. Raises NoAnswer or LateLogin after the time limit, UserRefused if the
    proxy cannot act for the user there, UpstreamError for any other failure."""
    if endpoint.users is not None and caller.user is None:
        raise UserRefused("nobody to act for: the client has not logged in")
    _, link = await _in_time(timeout_s, partial(sasl_client.connect, endpoint, lambda: UpstreamLink(owner), caller))
    if link.lost:
        raise UpstreamError("the metastore closed the connection at once")
    return link


async def first_reached(
    endpoints: Endpoints, timeout_s: float, begin: Callable[[Endpoint, Callable[[], None]], Awaitable[Connected]]
) -> tuple[Endpoint, Connected]:
    """What `begin` makes at the first metastore that takes a connection within the time limit. `begin` calls its second
    argument as soon as a connection is accepted. UpstreamError if none takes one, or none takes one for this user."""
    problem_of_last = endpoints.problems or "no metastore is configured"
    for endpoint in endpoints.candidates():
        try:
            return endpoint, await _in_time(timeout_s, partial(begin, endpoint))
        except UpstreamError as error:
            endpoints.unopened(endpoint, str(error), why_unopened(error))
            problem_of_last = f"{endpoint.uri}: {error}"
    raise UpstreamError(problem_of_last)


async def _in_time(timeout_s: float, begin: Callable[[Callable[[], None]], Awaitable[Connected]]) -> Connected:
    """The result of `begin`, which calls its argument as soon as a connection is accepted. Raises as `connect` does."""
    reached = asyncio.Event()
    try:
        async with asyncio.timeout(timeout_s):
            return await begin(reached.set)
    except TimeoutError as error:
        if reached.is_set():
            raise LateLogin(f"no login within {timeout_s:g} s") from error
        raise NoAnswer(f"no connection within {timeout_s:g} s") from error
    except OSError as error:
        raise UpstreamError(problem(error)) from error
