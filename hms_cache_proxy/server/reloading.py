"""Follows the files of TLS: what is made from them is made again when they change, or when the supervisor got SIGHUP.

Job: look once a second, tell the log and the metrics. New connections use what is new; those that are open keep what
they began with. Files that cannot be used change nothing. Must not know: what the files hold. Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.security.tls import ClientSide, ServerSide

LOOK_INTERVAL_S: Final = 1.0

log = structlog.get_logger()


class Reloading:
    """`secured`, `towards`: what this worker has made, if anything."""

    def __init__(
        self,
        page: StatePage,
        metrics: WorkerMetrics,
        secured: Renewable[ServerSide] | None,
        towards: ClientSide | None,
    ) -> None:
        self._page, self._metrics, self._secured = page, metrics, secured
        self._told = page[Slot.RELOADS]
        self._kept: dict[str, Renewable[Any]] = {}
        if secured is not None:
            self._kept["certificate"] = secured
            self._tell_expiry(secured.value)
        if towards is not None:
            self._kept["upstream_ca"] = towards.renewable

    async def run(self) -> None:
        """Look again and again, forever."""
        while self._kept:
            await asyncio.sleep(LOOK_INTERVAL_S)
            self.look()

    def look(self) -> None:
        """Make again what is no longer as its files are."""
        told = self._page[Slot.RELOADS]
        at_once, self._told = told != self._told, told
        for what, kept in self._kept.items():
            try:
                if not kept.renew(at_once=at_once):
                    continue
            except ConfigError as error:
                self._metrics.reloaded(what, well=False)
                log.error("cannot reload: the old files stay in use", what=what, error=str(error))
                continue
            self._metrics.reloaded(what, well=True)
            log.info("reloaded", what=what)
            if kept is self._secured:
                self._tell_expiry(kept.value)

    def _tell_expiry(self, now: ServerSide) -> None:
        self._metrics.certificate_expires(now.expires.timestamp())
        if now.expires < datetime.now(UTC):
            log.error("the certificate has expired: clients will refuse it", expired=now.expires.isoformat())
