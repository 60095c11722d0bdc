"""Settings that change without a restart: the supervisor reads the configuration again at SIGHUP.

Job: compare what was read with what is in force, keep what may change (CHANGEABLE) in a file for the workers
(server/reloading.py), and say in the log what changed and what needs a restart. A configuration that is wrong changes
nothing. The file outlives a worker, so the next one begins with the same settings; it does not outlive the proxy.
Must not know: what the settings mean. Owner: the supervisor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

import structlog

from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.config.sections import settings, to_json
from hms_cache_proxy.errors import ConfigError

CHANGEABLE: Final = ("protection",)
"""Sections."""

log = structlog.get_logger()


class SettingsReload:
    """`read` reads the configuration as at the start; `config` is what it gave then."""

    def __init__(self, config: Config, read: Callable[[], Config]) -> None:
        self._config = config
        self._read = read
        paths.changed_settings(config).unlink(missing_ok=True)

    def again(self) -> None:
        """Read the configuration again."""
        try:
            found = self._read()
        except ConfigError as error:
            log.error("the settings cannot be read again: the old ones stay in force", error=str(error))
            return
        different = list(_differences(self._config, found))
        changed = [key for key in different if key.partition(".")[0] in CHANGEABLE]
        waiting = [key for key in different if key not in changed]
        self._config = replace(self._config, **{name: getattr(found, name) for name in CHANGEABLE})
        final = paths.changed_settings(self._config)
        fresh = final.with_name(final.name + ".new")
        fresh.write_bytes(to_json(Config(**{name: getattr(found, name) for name in CHANGEABLE})))  # without secrets
        fresh.replace(final)
        log.info("settings read again", changed=changed)
        if waiting:
            log.warning("these settings have changed too, and need a restart", keys=waiting)


def _differences(old: Config, new: Config) -> Iterator[str]:
    """The keys whose values differ."""
    for one in settings():
        value: Callable[[Config], Any] = attrgetter(one.key)
        if value(old) != value(new):
            yield one.key
