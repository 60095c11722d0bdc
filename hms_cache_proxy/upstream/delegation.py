"""Delegation tokens of the metastores, with which the proxy acts for its users.

Job: get a token for each metastore and user, keep it in memory, and replace it after an hour. The proxy asks for it
with its own login, which must be allowed to act for users there (hadoop.proxyuser). Clients that need the same token at
the same time wait for one call, which continues if they go away. Must not know: how a login with a token is done,
clients. Owner: one worker's loop.
Invariants: a token is only used for the user that it was asked for. One that has been refused is forgotten. A metastore
that does not answer occupies no thread, because logins at other metastores need the threads.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, NamedTuple

import structlog

from hms_cache_proxy.errors import UpstreamError, WireError
from hms_cache_proxy.security.metastore_security import MetastoreSecurity
from hms_cache_proxy.security.tokens import Token, parse_token
from hms_cache_proxy.upstream.endpoints import Endpoint, UserRefused
from hms_cache_proxy.upstream.sasl_client import MetastoreStreams, open_streams
from hms_cache_proxy.upstream.service import Declared, header_of, request_of, result_in, success_in
from hms_cache_proxy.wire.scan import MessageScanner

REPLACED_AFTER_S: Final = 3600.0  # a tenth of the shortest life that a token is likely to have
MOST: Final = 10_000  # tokens of one worker; the least recently used is forgotten first
_READ_BYTES: Final = 1 << 16

log = structlog.get_logger()

_Key = tuple[str, str]


class _Kept(NamedTuple):
    token: Token
    until_s: float


class _Asking(NamedTuple):
    """`reached`: the metastore has accepted a connection."""

    task: asyncio.Task[Token]
    reached: asyncio.Event


class Delegation:
    """`secured`: how the proxy logs in as itself. `timeout_s`: of a login, and of the calls after it."""

    def __init__(self, secured: MetastoreSecurity, timeout_s: float, *, most: int = MOST) -> None:
        assert secured.logins is not None, "the proxy logs in to the metastores"
        self._renewer = secured.logins.principal
        self._timeout_s = timeout_s
        self._most = most
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._asking: dict[_Key, _Asking] = {}
        self.ending: set[asyncio.Task[None]] = set()
        """Cancel old tokens; nobody waits for them."""

    async def token(self, endpoint: Endpoint, user: str, reached: Callable[[], None]) -> Token:
        """The user's token there. `reached` is called if the metastore had to be asked and accepted a connection, also
        if the token does not come in time. UserRefused if the metastore does not give one for this user; TimeoutError,
        another OSError, WireError or UpstreamError if it cannot be asked."""
        key = endpoint.uri, user
        kept = self._kept.get(key)
        if kept is not None and monotonic() < kept.until_s:
            self._kept.move_to_end(key)
            return kept.token
        asking = self._asking.get(key)
        if asking is None:
            there = asyncio.Event()
            task = asyncio.get_running_loop().create_task(self._ask(endpoint, user, there.set), name="ask for a token")
            asking = self._asking[key] = _Asking(task, there)
            task.add_done_callback(lambda done: self._asked(key, done))
        try:
            return await asyncio.shield(asking.task)  # a client that goes away does not take it from the others
        finally:
            if asking.reached.is_set():
                reached()

    def forget(self, endpoint: Endpoint, user: str, token: Token) -> None:
        """The metastore has refused it."""
        kept = self._kept.get((endpoint.uri, user))
        if kept is not None and kept.token == token:
            del self._kept[endpoint.uri, user]

    def _asked(self, key: _Key, done: asyncio.Task[Token]) -> None:
        del self._asking[key]
        if not done.cancelled():
            done.exception()  # those who wait for it have it, too

    async def _ask(self, endpoint: Endpoint, user: str, reached: Callable[[], None]) -> Token:
        key = endpoint.uri, user
        old = self._kept.pop(key, None)
        async with asyncio.timeout(self._timeout_s):
            streams = await open_streams(endpoint, reached=reached)
        try:
            async with asyncio.timeout(self._timeout_s):
                token = await self._fetch(streams, endpoint.uri, user)
        except BaseException:
            _abort(streams)
            raise
        self._kept[key] = _Kept(token, monotonic() + REPLACED_AFTER_S)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        log.info("token of a metastore", user=user, uri=endpoint.uri)
        if old is None:
            _abort(streams)
        else:
            ending = asyncio.get_running_loop().create_task(self._cancel(streams, endpoint.uri, user, old.token))
            self.ending.add(ending)
            ending.add_done_callback(self.ending.discard)
        return token

    async def _fetch(self, streams: MetastoreStreams, uri: str, user: str) -> Token:
        given = {"token_owner": user.encode(), "renewer_kerberos_principal_name": self._renewer.encode()}
        try:
            return parse_token((await _call(streams, uri, "get_delegation_token", **given)).decode())
        except Declared as error:
            raise UserRefused(f"acting for {user}: {error}") from error
        except (AttributeError, UnicodeDecodeError, WireError) as error:
            raise UpstreamError(f"acting for {user}: not a token") from error

    async def _cancel(self, streams: MetastoreStreams, uri: str, user: str, old: Token) -> None:
        """So that the metastore need not keep it for days."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await _call(streams, uri, "cancel_delegation_token", token_str_form=old.text().encode())
        except (OSError, UpstreamError, WireError) as error:
            log.info("an old token of a metastore stays there until it expires", user=user, error=str(error))
        finally:
            _abort(streams)


def _abort(streams: MetastoreStreams) -> None:
    """close() would wait for the end of TLS from a metastore that may hang."""
    streams[1].transport.abort()


async def _call(streams: MetastoreStreams, uri: str, method: str, **arguments: Any) -> Any:
    """The result of one call. Raises Declared, UnknownMethod, UpstreamError, OSError, or WireError."""
    reader, writer = streams
    writer.write(request_of(method, 1, arguments))
    scanner, received = MessageScanner(), bytearray()
    while piece := await reader.read(_READ_BYTES):
        received += piece
        if isinstance(scanner.feed(piece), int):
            data = bytes(received)
            return success_in(uri, method, data, result_in(uri, method, header_of(data, 1), data))
    raise ConnectionResetError("the metastore closed the connection")
