"""Follows the files that secure connections, and the settings that the supervisor has read again at SIGHUP.

Job: check once a second, and report to the log and the metrics. When files change, and at SIGHUP, what is made from
them is made again. New connections use it; open connections keep what they began with. Files that cannot be used change
nothing. Changed settings apply to the next call. Must not know: what the files hold. Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.config.changeable import changeable
from hms_cache_proxy.config.sections import from_json
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.security.tls import ClientSide, ServerSide

CHECK_INTERVAL_S: Final = 1.0

log = structlog.get_logger()


class FollowedSettings:
    """Each of `apply` gets a configuration with the changeable settings that are in force, if they are not those of
    `config`."""

    def __init__(self, config: Config, *apply: Callable[[Config], None]) -> None:
        self._file = paths.changed_settings(config)
        self._now = changeable(config)
        self._apply = apply
        self.read()

    def read(self) -> bool:
        """Read the file. Returns whether the settings have changed."""
        try:
            found = changeable(from_json(self._file.read_bytes()))
        except FileNotFoundError:
            return False
        if found == self._now:
            return False
        self._now = found
        for apply in self._apply:
            apply(found)
        return True


class Reloading:
    """`secured`, `towards`: what this worker has made, if anything. `settings`: follows the settings."""

    def __init__(
        self,
        page: StatePage,
        metrics: WorkerMetrics,
        secured: Renewable[ServerSide] | None,
        towards: ClientSide | None,
        settings: FollowedSettings,
    ) -> None:
        self._page, self._metrics, self._secured, self._settings = page, metrics, secured, settings
        self._told, self._refused = page[Slot.RELOADS], page[Slot.SETTINGS_REFUSED]
        self._read_settings()  # again: a signal since the worker first read them is among those
        self._kept: dict[str, Renewable[Any]] = {}
        if secured is not None:
            self._kept["certificate"] = secured
            self._tell_expiry(secured.value)
        if towards is not None:
            self._kept["upstream_ca"] = towards.renewable

    def follow(self, what: str, kept: Renewable[Any]) -> None:
        """Something else that is made from files."""
        self._kept[what] = kept

    async def run(self) -> None:
        """Check again and again, forever."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            self.check()

    def check(self) -> None:
        """Make again what is no longer as its files are."""
        told = self._page[Slot.RELOADS]
        at_once, self._told = told != self._told, told
        if at_once:
            self._read_settings()
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

    def _read_settings(self) -> None:
        if self._settings.read():
            self._metrics.reloaded("settings", well=True)
        refused, before = self._page[Slot.SETTINGS_REFUSED], self._refused
        if refused != before:
            self._refused = refused
            self._metrics.reloaded("settings", well=False)

    def _tell_expiry(self, now: ServerSide) -> None:
        self._metrics.certificate_expires(now.expires.timestamp())
        if now.expires < datetime.now(UTC):
            log.error("the certificate has expired: clients will refuse it", expired=now.expires.isoformat())
