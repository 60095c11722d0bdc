"""Is the metastore there, and which version is it? Asked every few seconds, told by /status.

The workers find out for themselves whether an upstream answers; this is for people. The blocking call
runs in a thread, and a metastore that hangs delays nothing but the next look. Owner: the supervisor's
loop.
"""

from __future__ import annotations

import asyncio

import structlog

from hms_cache_proxy.config import Address, Config
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.upstream.service import ServiceConnection

log = structlog.get_logger()

INTERVAL_S = 5.0
STARTING_INTERVAL_S = 0.1  # a call waits in the listening socket until the metastore runs


class UpstreamProbe:
    """The first upstream that answers, of the configured ones in their order; `facts` is what /status shows."""

    def __init__(self, config: Config, *, starting: bool = False) -> None:
        """`starting`: the metastore is started together with this process; until it answers, that is no news."""
        self._starting = starting
        self._addresses = config.upstream
        self._replay = config.replay
        timeout_s = min(config.upstream_options.connect_timeout_s, INTERVAL_S)
        self._connections = [ServiceConnection(a.host, a.port, timeout_s=timeout_s) for a in config.upstream]
        self._found: Address | None = None
        self._version: str | None = None
        self._reachable: bool | None = None  # None: not asked yet

    @property
    def answered(self) -> bool:
        """It did, once."""
        return self._found is not None

    def facts(self) -> dict[str, object]:
        """uri (of a replay: its file), version (None until it answered once), reachable (None until it was asked)."""
        if not self._addresses:
            return {"uri": self._replay, "version": None, "reachable": None}
        address = self._found or self._addresses[0]
        return {"uri": address.uri, "version": self._version, "reachable": self._reachable}

    async def watch(self) -> None:
        """Ask for ever, if there is anybody to ask."""
        while self._addresses:
            await self._look()
            await asyncio.sleep(STARTING_INTERVAL_S if self._starting else INTERVAL_S)

    async def _look(self) -> None:
        problem = ""
        for address, connection in zip(self._addresses, self._connections, strict=True):
            try:
                version: bytes = await asyncio.to_thread(connection.call, "getVersion")
            except UpstreamError as error:
                problem = str(error)
                continue
            if self._reachable is False or self._found not in (None, address):
                log.info("metastore answers", uri=address.uri)
            self._starting = False
            self._found, self._version, self._reachable = address, version.decode("utf-8", "replace"), True
            return
        if self._starting:
            return
        if self._reachable is not False:
            log.warning("no metastore answers", problem=problem)
        self._reachable = False
