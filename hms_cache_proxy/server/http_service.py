"""What a worker needs to serve HTTP: users, keys, and metastores that act as the named user.

Job: make the Clients of HTTP connections, and follow the keys. Requests are refused while a metastore is known to
ignore the users that it is told (set_ugi_check.py), and until one has been asked. Must not know: heads, tokens. Owner:
the worker's loop.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from hms_cache_proxy.config import Config
from hms_cache_proxy.security.http_users import HttpUsers
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.http_connection import HttpConnection, HttpSide
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.reloading import Reloading
from hms_cache_proxy.server.set_ugi_check import SetUgiCheck
from hms_cache_proxy.wire.http import Head, HttpError


class HttpService:
    """One per worker."""

    def __init__(self, config: Config, hub: Hub, heeding: SetUgiCheck) -> None:
        settings = config.http_transport
        self._hub, self._heeding = hub, heeding
        if settings.authentication == "jwt":
            from hms_cache_proxy.server.http_keys import HttpKeys  # needs PyJWT

            self._keys: HttpKeys | None = HttpKeys(settings, hub.metrics)
            through = config.security.upstream_identity == "pass_through"
            self._users = HttpUsers(settings, self._keys.tokens, self._keys.refused, pass_through=through)
        else:
            self._keys = None
            self._users = HttpUsers(settings, None)
        slow_ns = int(config.security.handshake_timeout_s * 1e9)
        self._begin = partial(HttpConnection, side=HttpSide(self._admit, slow_ns))

    def client(self) -> Client:
        """For a new HTTP connection."""
        return Client(self._hub, self._begin)

    def start(self, reloading: Reloading) -> None:
        """Follow keys from now on."""
        if self._keys is not None:
            if self._keys.file is not None:
                reloading.follow("jwks", self._keys.file)
            self._hub.keep(self._keys.run, "follow keys")

    def _admit(self, head: Head, address: str) -> Admitted:
        admitted = self._users.admit(head, address)
        problem = self._heeding.problem
        if problem:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, problem, closes=False)
        return admitted
