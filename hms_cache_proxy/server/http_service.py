"""What a worker needs to serve HTTP: users, keys, and metastores that take the user's name.

Job: make the Clients of HTTP connections, follow the keys, and watch that the metastores heed set_ugi. A user who was
believed here must not act as somebody else there: a metastore with `metastore.execute.setugi = false` runs every call
as itself, so as long as one is known, or none has been asked, requests are refused. (A metastore that requires a login
closes plain connections itself. One where the proxy logs in takes calls to come from the proxy, and is not asked.)
Must not know: heads, tokens. Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Final

import structlog

from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.security.http_users import HttpUsers
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.security.towards import Towards
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.http_connection import HttpConnection, HttpSide
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.reloading import Reloading
from hms_cache_proxy.upstream.endpoints import Endpoint
from hms_cache_proxy.upstream.service import Declared, ServiceConnection
from hms_cache_proxy.wire.http import Head, HttpError

HEEDS_USERS: Final = "hive.metastore.execute.setugi"
_AGAIN_S: Final = 1.0  # while one of the metastores does not answer
_LATER_S: Final = 60.0  # they may be started again with other settings
_NOT_ASKED: Final = "no metastore has said yet whether it heeds users"
_IGNORES: Final = "%s ignores users (metastore.execute.setugi = false): every call would run as the metastore itself"

log = structlog.get_logger()


class HttpService:
    """One per worker."""

    def __init__(self, config: Config, hub: Hub) -> None:
        settings = config.http_transport
        self._config, self._hub = config, hub
        if settings.authentication == "jwt":
            from hms_cache_proxy.server.http_keys import HttpKeys  # needs PyJWT

            self._keys: HttpKeys | None = HttpKeys(settings, hub.metrics)
            through = config.security.upstream_identity == "pass_through"
            self._users = HttpUsers(settings, self._keys.tokens, self._keys.refused, pass_through=through)
        else:
            self._keys = None
            self._users = HttpUsers(settings, None)
        heedless = config.replay or config.kerberos.upstream or settings.upstream  # set_ugi is not sent
        self._problem = "" if heedless else _NOT_ASKED
        slow_ns = int(config.security.handshake_timeout_s * 1e9)
        self._begin = partial(HttpConnection, side=HttpSide(self._admit, slow_ns))

    def client(self) -> Client:
        """For a new HTTP connection."""
        return Client(self._hub, self._begin)

    def start(self, reloading: Reloading) -> None:
        """Follow keys and metastores from now on."""
        if self._keys is not None:
            if self._keys.file is not None:
                reloading.follow("jwks", self._keys.file)
            self._hub.keep(self._keys.run, "follow keys")
        if self._problem:
            self._hub.keep(self._watch, "ask metastores about users")

    def _admit(self, head: Head, address: str) -> Admitted:
        admitted = self._users.admit(head, address)
        if self._problem:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, self._problem, closes=False)
        return admitted

    async def _watch(self) -> None:
        while True:
            said = [await asyncio.to_thread(self._heeds, endpoint) for endpoint in self._hub.endpoints.all]
            ignoring = [end.uri for end, heeds in zip(self._hub.endpoints.all, said, strict=True) if heeds is False]
            if ignoring:
                self._problem = _IGNORES % ignoring[0]
                log.error("HTTP requests are refused", why=self._problem)
            elif any(said):
                self._problem = ""
            await asyncio.sleep(_AGAIN_S if None in said else _LATER_S)

    def _heeds(self, endpoint: Endpoint) -> bool | None:
        """Does this metastore heed set_ugi? None: it does not answer."""
        timeout_s, secured = self._config.upstream_options.connect_timeout_s, Towards(endpoint.tls)
        try:
            with ServiceConnection(endpoint.host, endpoint.port, timeout_s=timeout_s, secured=secured) as connection:
                said = connection.call("get_config_value", name=HEEDS_USERS.encode(), defaultValue=b"true")
        except Declared:
            return True  # Hive's default, which this metastore does not tell
        except UpstreamError:
            return None
        return (said or b"").strip().lower() != b"false"  # as Hadoop reads it, which tells it as it is written
