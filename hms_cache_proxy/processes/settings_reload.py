"""Settings that change without a restart: the supervisor reads the configuration again at SIGHUP.

Job: compare the new settings with those in force, keep those that may change (config/changeable.py) in a file for the
workers (server/reloading.py), and say in the log what changed and what needs a restart. A configuration that is wrong
changes nothing. The file outlives a worker, so the next one begins with the same settings; it does not outlive the
proxy.
Must not know: what the settings mean. Owner: the supervisor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import structlog

from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.config.changeable import changeable, may_change, with_changes
from hms_cache_proxy.config.sections import settings, to_json
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security.principals import ShortNames

log = structlog.get_logger()


def forget(config: Config) -> None:
    """At the start: what an earlier proxy on this data directory was told is no longer in force, also if this one does
    not read its settings again."""
    paths.changed_settings(config).unlink(missing_ok=True)


class SettingsReload:
    """`read` reads the configuration as at the start; `config` is what it gave then."""

    def __init__(self, config: Config, read: Callable[[], Config]) -> None:
        self._config = config
        self._read = read

    def again(self) -> bool:
        """Read the configuration again. False if it is wrong, or cannot be kept; the log says why."""
        try:
            found = self._read()
            ShortNames(found.kerberos.auth_to_local, "", key="kerberos.auth_to_local")
        except ConfigError as error:
            log.error("the settings cannot be read again: the old ones stay in force", error=str(error))
            return False
        different = list(_differences(self._config, found))
        changed = [key for key in different if may_change(key)]
        waiting = [key for key in different if key not in changed]
        final = paths.changed_settings(self._config)
        fresh = final.with_name(final.name + ".new")
        try:
            fresh.write_bytes(to_json(changeable(found)))  # without secrets
            fresh.replace(final)
        except OSError as error:  # a full disk: the files that secure connections are read again all the same
            log.error("the changed settings cannot be kept: the old ones stay in force", error=str(error))
            return False
        self._config = with_changes(self._config, found)
        log.info("settings read again", changed=changed)
        if waiting:
            log.warning("these settings have changed too, and need a restart", keys=waiting)
        return True


def _differences(old: Config, new: Config) -> Iterator[str]:
    """The keys whose values differ."""
    for one in settings():
        value: Callable[[Config], Any] = attrgetter(one.key)
        if value(old) != value(new):
            yield one.key
