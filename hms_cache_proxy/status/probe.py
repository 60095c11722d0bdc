"""Checks every few seconds whether the metastores answer, and their versions, for /status.

The workers find out for themselves whether an upstream answers; this is for operators. The call blocks, so it runs in a
thread, and a metastore that hangs delays only the next check. Owner: the supervisor's loop.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from hms_cache_proxy.config import Address, Config
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.security.metastore_security import MetastoreSecurity, towards_metastores
from hms_cache_proxy.upstream.service import ServiceConnection

log = structlog.get_logger()

INTERVAL_S = 5.0
STARTING_INTERVAL_S = 0.1  # a call waits in the listening socket until the metastore runs


class UpstreamProbe:
    """All upstreams, in the order of the setting; `facts` is what /status shows of them."""

    def __init__(self, config: Config, *, starting: bool = False) -> None:
        """`starting`: the metastore starts together with this process; nothing is logged until it answers."""
        self._starting = starting
        self._replay = config.replay
        timeout_s = min(config.upstream_options.connect_timeout_s, INTERVAL_S)
        self._all = [_Seen(address, timeout_s, towards_metastores(config)) for address in config.upstream]
        self._told: tuple[bool, _Seen | None] | None = None  # what was logged last: does any answer, and the first one

    @property
    def answered(self) -> bool:
        """Whether any upstream has ever answered."""
        return any(seen.version is not None for seen in self._all)

    @property
    def outage(self) -> bool:
        """Whether no upstream is reachable."""
        return bool(self._all) and all(seen.reachable is False for seen in self._all)

    @property
    def _first(self) -> _Seen:
        return next((seen for seen in self._all if seen.reachable), self._all[0])

    def facts(self) -> dict[str, object]:
        """Of the first that answers: uri (of a replay: its file), version (None until it has answered), reachable (None
        until it has been asked), since_s (for how long); `all`: the same facts of each."""
        if not self._all:
            return {"uri": self._replay, "version": None, "reachable": None, "since_s": None, "all": []}
        return {**self._first.facts(), "all": [seen.facts() for seen in self._all]}

    async def watch(self) -> None:
        """Check until cancelled. Returns at once if there is no upstream."""
        while self._all:
            await asyncio.gather(*(seen.ask(quiet=self._starting) for seen in self._all))
            self._starting = self._starting and not self.answered
            self._tell()
            await asyncio.sleep(STARTING_INTERVAL_S if self._starting else INTERVAL_S)

    def _tell(self) -> None:
        """Log a change of the first that answers, or that none does."""
        first = self._first
        if self._starting or self._told == (state := (bool(first.reachable), first)):
            return
        before, self._told = self._told, state
        if not first.reachable:
            log.warning("no metastore answers", problem=first.problem)
        elif before is not None:
            log.info("metastore answers", uri=first.address.uri)


class _Seen:
    """One upstream."""

    def __init__(self, address: Address, timeout_s: float, secured: MetastoreSecurity) -> None:
        self.address = address
        self.version: str | None = None
        self.reachable: bool | None = None
        self.problem = ""
        self._since_s = time.monotonic()
        self._connection = ServiceConnection(address.host, address.port, timeout_s=timeout_s, secured=secured)

    def facts(self) -> dict[str, object]:
        since_s = None if self.reachable is None else round(time.monotonic() - self._since_s, 1)
        return {"uri": self.address.uri, "version": self.version, "reachable": self.reachable, "since_s": since_s}

    async def ask(self, *, quiet: bool) -> None:
        """Ask once; `quiet`: a failure does not count as unreachable."""
        try:
            version: bytes | None = await asyncio.to_thread(self._connection.call, "getVersion")
        except UpstreamError as error:
            self.problem = str(error)
            if not quiet:
                self._now(False)
            return
        self.version = (version or b"").decode("utf-8", "replace")  # None: it answers, and does not tell
        self._now(True)

    def _now(self, reachable: bool) -> None:
        if reachable is not self.reachable:
            self.reachable, self._since_s = reachable, time.monotonic()
