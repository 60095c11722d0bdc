"""Decides whether a suspected metastore is sick: asks it for its version, on a connection of its own each time.

Job: a task of the worker. A metastore that answers is healthy, however long a call takes there; one that cannot be
connected to, closes or says nothing within PROBE_S is sick, and is asked again until it answers. A healthy one that
nobody suspects is never asked. Must not know calls. Owner: the worker's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.upstream.endpoints import Endpoint, Endpoints
from hms_cache_proxy.wire.message import MessageType, message_header
from hms_cache_proxy.wire.scan import MessageScanner

PROBE_S = 2.0  # a metastore that pauses for longer is not one to wait for where another is healthy
AGAIN_S = 1.0  # between probes of a sick one
TRUST_S = 2.0  # after an answer: a long call makes its metastore suspected again and again
_QUESTION = message_header(b"getVersion", MessageType.CALL, 1) + b"\0"
_READ_BYTES = 1 << 16

log = structlog.get_logger()


class Prober:
    """One per worker; `told` hears of each circuit when it opens and closes."""

    def __init__(self, endpoints: Endpoints, told: Callable[[str, bool], None]) -> None:
        self._endpoints = endpoints
        self._told = told
        self._suspected = {endpoint: asyncio.Event() for endpoint in endpoints.all}
        endpoints.suspect = lambda endpoint: self._suspected[endpoint].set()

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as tasks:
            for endpoint in self._endpoints.all:
                tasks.create_task(self._watch(endpoint), name=f"probe {endpoint.uri}")

    async def _watch(self, endpoint: Endpoint) -> None:
        self._told(endpoint.uri, False)
        while True:
            await self._suspected[endpoint].wait()
            await self._settle(endpoint)
            self._suspected[endpoint].clear()  # the answer came after the suspicion
            await asyncio.sleep(TRUST_S)

    async def _settle(self, endpoint: Endpoint) -> None:
        """Probe until it answers."""
        said = False
        while True:
            problem, silent = await probe(endpoint)
            if not problem:
                break
            self._endpoints.refused(endpoint, problem, silent=silent)
            if not said:
                said = True
                self._told(endpoint.uri, True)
                log.warning("metastore is sick: calls go elsewhere if they can", uri=endpoint.uri, problem=problem)
            await asyncio.sleep(AGAIN_S)
        self._endpoints.answered(endpoint)
        if said:
            self._told(endpoint.uri, False)
            log.info("metastore answers again", uri=endpoint.uri)


async def probe(endpoint: Endpoint) -> tuple[str, bool]:
    """What is wrong with it, nothing if it answers; and whether it is that nobody answers a connect there."""
    connected = False
    try:
        async with asyncio.timeout(PROBE_S):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            connected = True
            try:
                return await _ask(reader, writer), False
            finally:
                writer.close()
    except TimeoutError:
        what = "no answer to a probe" if connected else "no connection"
        return f"{what} within {PROBE_S:g} s", not connected
    except (OSError, WireError) as error:
        return getattr(error, "strerror", None) or str(error), False


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    writer.write(_QUESTION)
    scanner = MessageScanner()
    while piece := await reader.read(_READ_BYTES):
        if isinstance(scanner.feed(piece), int):
            return ""
    return "it closes the connection of a probe"
