"""Decides whether a suspected metastore is down, by asking for its version on a new connection.

Job: run one task for each metastore, so that an error in one does not affect the others. A metastore that answers is
healthy, however long a call takes there. A metastore that refuses the connection, closes it, or does not answer within
PROBE_S is sick, and is probed until it answers. A metastore that is not suspected is never probed. Must not know calls.
Owner: the worker's event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from hms_cache_proxy.errors import UpstreamError, WireError
from hms_cache_proxy.security.tls import problem
from hms_cache_proxy.upstream.endpoints import Endpoint, Endpoints
from hms_cache_proxy.upstream.sasl_client import open_streams
from hms_cache_proxy.wire.message import MessageType, message_header
from hms_cache_proxy.wire.scan import MessageScanner

PROBE_S = 2.0  # if there is no answer for longer, calls go to another metastore that is healthy
AGAIN_S = 1.0  # between probes of a sick one
TRUST_S = 2.0  # pause after an answer, because a long call makes its metastore suspected again and again
_QUESTION = message_header(b"getVersion", MessageType.CALL, 1) + b"\0"
_READ_BYTES = 1 << 16

log = structlog.get_logger()


class Prober:
    """One per worker. `told` is called when a circuit opens or closes."""

    def __init__(self, endpoints: Endpoints, told: Callable[[str, bool], None]) -> None:
        self._endpoints = endpoints
        self._told = told
        self._suspected = {endpoint: asyncio.Event() for endpoint in endpoints.all}
        self._sick: set[Endpoint] = set()  # of which it has been told
        endpoints.suspect = lambda endpoint: self._suspected[endpoint].set()

    async def watch(self, endpoint: Endpoint) -> None:
        """Runs forever, for one metastore. If it fails, it may be called again: what is known stays known."""
        self._told(endpoint.uri, endpoint in self._sick)
        while True:
            await self._suspected[endpoint].wait()
            await self._settle(endpoint)
            self._suspected[endpoint].clear()  # the answer is newer than the suspicion
            await asyncio.sleep(TRUST_S)

    async def _settle(self, endpoint: Endpoint) -> None:
        """Probes until it answers."""
        while True:
            found = await probe(endpoint)
            if not found.problem:
                break
            self._endpoints.refused(endpoint, found.problem, silent=found.silent, hangs=found.hangs)
            if endpoint not in self._sick:
                self._sick.add(endpoint)
                self._told(endpoint.uri, True)
                log.warning(
                    "metastore is sick: calls go to another one if there is one",
                    uri=endpoint.uri,
                    problem=found.problem,
                )
            await asyncio.sleep(AGAIN_S)
        endpoint.heard_ns = time.monotonic_ns()
        self._endpoints.answered(endpoint)
        if endpoint in self._sick:
            self._sick.remove(endpoint)
            self._told(endpoint.uri, False)
            log.info("metastore answers again", uri=endpoint.uri)


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a probe. `problem`: empty if the metastore answers. `hangs`: it does not answer in time; `silent`:
    not even the connection attempt. The handshake of TLS and a login are not part of that attempt: a busy metastore or
    KDC may take long for them."""

    problem: str
    silent: bool = False
    hangs: bool = False


async def probe(endpoint: Endpoint) -> Found:
    """Probes once, on a new connection."""
    connected = asyncio.Event()
    try:
        async with asyncio.timeout(PROBE_S):
            reader, writer = await open_streams(endpoint, reached=connected.set)
            try:
                return Found(await _ask(reader, writer))
            finally:
                writer.transport.abort()  # close() would wait for the end of TLS from a metastore that may hang
    except TimeoutError:
        what = "no answer to a probe" if connected.is_set() else "no connection"
        return Found(f"{what} within {PROBE_S:g} s", silent=not connected.is_set(), hangs=True)
    except (OSError, WireError, UpstreamError) as error:
        return Found(problem(error) if isinstance(error, OSError) else str(error))


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    writer.write(_QUESTION)
    scanner = MessageScanner()
    while piece := await reader.read(_READ_BYTES):
        if isinstance(scanner.feed(piece), int):
            return ""
    return "it closes the connections of probes"
