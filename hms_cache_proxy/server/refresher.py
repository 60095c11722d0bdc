"""Executes the refreshes of TTL mode: asks the metastore after the answers have been given.

Job: reload entries over connections of its own, one for each user whose entries are due. A connection begins with that
user's set_ugi; where the proxy logs in, it logs in for the user or as itself. If a reload fails, the old entry stays
and is still due, and the other entries need a new connection. Must not know: what is asked.
Owner: a task of the worker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from hms_cache_proxy.budget import Budget, Charge
from hms_cache_proxy.errors import CacheError, UpstreamError, WireError
from hms_cache_proxy.methods.decision import Ask
from hms_cache_proxy.methods.reply_contents import Said, kept_part, said, whole_header
from hms_cache_proxy.methods.ttl.looking import HOLD_BYTES, Reload
from hms_cache_proxy.methods.ttl.refreshing import DueEntries
from hms_cache_proxy.metrics import UpstreamFailure, WorkerMetrics
from hms_cache_proxy.rate_limited_log import RateLimitedLog
from hms_cache_proxy.upstream import replay
from hms_cache_proxy.upstream.endpoints import CallUser, Endpoint, Endpoints
from hms_cache_proxy.upstream.link import first_reached
from hms_cache_proxy.upstream.sasl_client import MetastoreStreams, open_streams
from hms_cache_proxy.wire.message import Header, MessageType, message_header
from hms_cache_proxy.wire.scan import MessageScanner

from . import bridged_call

TOGETHER_S = 0.02  # entries that come due within this time are reloaded together
AT_ONCE = 4  # connections
MOST_FAILURES = 10  # of one user's reloads; the others are left until they are read again
_READ_BYTES = 1 << 16

_SET_UGI = Header(b"set_ugi", MessageType.CALL, 0, 0)
_SET_UGI_BEGINS = message_header(b"set_ugi", MessageType.CALL, 0)

log = structlog.get_logger()


class Refresher:
    """One per worker; call `wake` when something is due."""

    def __init__(
        self,
        endpoints: Endpoints,
        metrics: WorkerMetrics,
        *,
        connect_timeout_s: float,
        request_timeout_s: float,
        memory: Budget,
    ) -> None:
        self._endpoints = endpoints
        self._metrics = metrics
        self._connect_timeout_s = connect_timeout_s
        self._request_timeout_s = request_timeout_s
        self._memory = memory
        self._say = RateLimitedLog().warn
        self._woken = asyncio.Event()
        self._slots = asyncio.Semaphore(AT_ONCE)

    def wake(self) -> None:
        """Something is due."""
        self._woken.set()

    async def run(self, due: DueEntries) -> None:
        """Reload what is due, forever."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._woken.wait()
                await asyncio.sleep(TOGETHER_S)
                self._woken.clear()
                by_user: dict[bytes, list[Reload]] = {}
                try:
                    for reload in due.take():
                        if reload is not None:
                            by_user.setdefault(reload.identity, []).append(reload)
                        await asyncio.sleep(0)  # each costs a commit
                except CacheError as error:
                    self._metrics.internal_error("ttl")
                    log.error(
                        "the cache failed; what is due for a refresh is reloaded when it is next read", error=str(error)
                    )
                for identity, reloads in by_user.items():
                    tasks.create_task(self._reload(identity, reloads), name="reload")

    async def _reload(self, identity: bytes, reloads: list[Reload]) -> None:
        left, failures = deque(reloads), 0
        try:
            async with self._slots:
                while left and failures < MOST_FAILURES:
                    before = len(left)
                    with self._noted():
                        await self._on_one_connection(identity, left)
                    if len(left) == before:
                        return  # nobody can be asked
                    failures += 1
        finally:
            for reload in left:
                self._give_up(reload)

    async def _on_one_connection(self, identity: bytes, left: deque[Reload]) -> None:
        """Reload until nothing is left, or until one fails, which is given up: its reply may be too long, or the
        metastore may have closed the connection instead of answering. If time is over, nothing is given up here."""
        async with asyncio.timeout(self._request_timeout_s):
            endpoint, streams = await self._connected(identity)
        try:
            while left:
                async with asyncio.timeout(self._request_timeout_s):
                    reply = await _ask_bridged(endpoint, streams, left[0].ask, self._memory)
                self._learn(left.popleft(), reply)
        except TimeoutError:
            raise
        except (WireError, OSError):
            self._give_up(left.popleft())
            raise
        finally:
            streams[1].close()

    async def _connected(self, identity: bytes) -> tuple[Endpoint, MetastoreStreams]:
        """A connection of this user."""
        caller = CallUser(replay.user_named(identity)) if identity else None
        endpoint, streams = await first_reached(
            self._endpoints,
            self._connect_timeout_s,
            lambda endpoint, reached: open_streams(endpoint, caller, reached),
        )
        try:
            if identity and self._endpoints.hear_users:  # after a login, set_ugi would change nothing
                said = await _ask(streams, _SET_UGI, _SET_UGI_BEGINS + identity, self._memory)
                if not replay.succeeded(said):
                    raise WireError("the metastore refused set_ugi, and nothing is reloaded as another user")
        except BaseException:
            streams[1].close()
            raise
        return endpoint, streams

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Failures are counted and logged."""
        try:
            yield
        except TimeoutError:
            self._failed("timeout", f"no reply within {self._request_timeout_s} s")
        except WireError as error:
            self._failed("protocol", str(error))
        except OSError as error:
            self._failed("closed", str(error))
        except UpstreamError as error:
            self._failed("connect", str(error))

    def _failed(self, kind: UpstreamFailure, error: str) -> None:
        self._metrics.upstream_failed(kind)
        self._say("a refresh failed; the cached entry is served until it expires", kind, error=error)

    def _give_up(self, reload: Reload) -> None:
        reload.release()
        self._metrics.ttl_refreshed(reload.kind.label, "failed")

    def _learn(self, reload: Reload, reply: bytes) -> None:
        well = kept_part(reload.ask.header.name.decode(), reply) is not None  # that it does not exist is an answer too
        try:
            if well:
                reload.learn(reply)
        except (CacheError, WireError) as error:
            self._metrics.internal_error("ttl")
            self._say("the reply to a refresh cannot be kept", reload.ask.header.name.decode(), error=str(error))
            well = False
        if not well:
            reload.release()
        self._metrics.ttl_refreshed(reload.kind.label, "loaded" if well else "failed")


async def _ask_bridged(endpoint: Endpoint, streams: MetastoreStreams, ask: Ask, memory: Budget) -> bytes:
    """The reply; made of the twin's if the metastore lacks the method (methods/bridge.py)."""
    header = ask.header
    if header.name not in endpoint.lacks:
        reply = await _ask(streams, header, ask.message, memory)
        if not bridged_call.is_bridged(header) or said(reply) is not Said.UNKNOWN_METHOD:
            return reply
        endpoint.lacks.add(header.name)
    bridged = bridged_call.twin_of(header, ask.message)
    if bridged is None:
        return await _ask(streams, header, ask.message, memory)
    return bridged.splice(await _ask(streams, bridged.asked, bridged.message, memory))


async def _ask(streams: MetastoreStreams, asked: Header, message: bytes, memory: Budget) -> bytes:
    """Send a request and read its whole reply, whose size HOLD_BYTES and the worker's memory limit."""
    reader, writer = streams
    writer.write(message)
    await writer.drain()
    scanner, received, charge = MessageScanner(), bytearray(), Charge(memory)
    while True:
        piece = await reader.read(_READ_BYTES)
        if not piece:
            raise ConnectionResetError("the metastore closed the connection")
        received += piece
        if len(received) > HOLD_BYTES or not charge.grow(len(piece)):
            raise WireError(f"the reply to {asked.name!r} is too long to keep")
        if isinstance(scanner.feed(piece), int):
            break
    reply = bytes(received)
    header = whole_header(reply)
    if (header.name, header.seqid) != (asked.name, asked.seqid) or header.type is MessageType.CALL:
        raise WireError(f"a reply to another call: {header.name!r} {header.seqid}, not {asked.name!r} {asked.seqid}")
    return reply
