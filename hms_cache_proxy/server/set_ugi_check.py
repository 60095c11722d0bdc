"""Watches whether the metastores act as the users that the proxy names with set_ugi.

Job: ask each metastore, and say why users must not be let in. A user who is authenticated here must not act as somebody
else there. A metastore with `metastore.execute.setugi = false` answers set_ugi, but runs every call as itself. (A
metastore that requires a login closes plain connections itself. One where the proxy logs in, or to which it speaks
HTTP, is not told users with set_ugi, and is not asked.)
Must not know: logins, requests. Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.security.metastore_security import MetastoreSecurity
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.upstream.endpoints import Endpoint
from hms_cache_proxy.upstream.service import Declared, ServiceConnection

HEEDS_USERS: Final = "hive.metastore.execute.setugi"
_AGAIN_S: Final = 1.0  # while one of the metastores does not answer
_LATER_S: Final = 60.0  # they may be started again with other settings
_NOT_ASKED: Final = "no metastore has said yet whether it heeds users"
_IGNORES: Final = "%s ignores users (metastore.execute.setugi = false): every call would run as the metastore itself"

log = structlog.get_logger()


class SetUgiCheck:
    """One per worker. `asks`: metastores are told users with set_ugi. `ignoring`: why nobody who has logged in may be
    served; empty: no metastore is known to ignore users."""

    def __init__(self, config: Config, hub: Hub) -> None:
        self._config, self._hub = config, hub
        self.asks = not (config.replay or config.kerberos.upstream or config.http_transport.upstream)
        self._heeded = not self.asks  # a metastore has said so
        self.ignoring = ""

    @property
    def problem(self) -> str:
        """The same, also as long as no metastore has been asked."""
        return self.ignoring or ("" if self._heeded else _NOT_ASKED)

    def start(self) -> None:
        """Ask from now on."""
        if self.asks:
            self._hub.keep(self._watch, "ask metastores about users")

    async def _watch(self) -> None:
        while True:
            said = [await asyncio.to_thread(self._heeds, endpoint) for endpoint in self._hub.endpoints.all]
            ignoring = [end.uri for end, heeds in zip(self._hub.endpoints.all, said, strict=True) if heeds is False]
            if ignoring:
                self.ignoring = _IGNORES % ignoring[0]
                log.error("users are refused", why=self.ignoring)
            elif any(said):
                self.ignoring, self._heeded = "", True
            await asyncio.sleep(_AGAIN_S if None in said else _LATER_S)

    def _heeds(self, endpoint: Endpoint) -> bool | None:
        """Does this metastore heed set_ugi? None: it does not answer."""
        timeout_s, secured = self._config.upstream_options.connect_timeout_s, MetastoreSecurity(endpoint.tls)
        try:
            with ServiceConnection(endpoint.host, endpoint.port, timeout_s=timeout_s, secured=secured) as connection:
                said = connection.call("get_config_value", name=HEEDS_USERS.encode(), defaultValue=b"true")
        except Declared:
            return True  # Hive's default, which this metastore does not tell
        except UpstreamError:
            return None
        return (said or b"").strip().lower() != b"false"  # as Hadoop reads it, which tells it as it is written
