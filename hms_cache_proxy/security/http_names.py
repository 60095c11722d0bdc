"""The lines of HTTP heads that tell metastores whom a request comes from, by the settings.

Job: make these lines for the proxy's own calls and for calls of users. Must not know: connections.
Invariants: a user's lines name that user, by the token of the user's request or by `x-actor-username`; if neither is
possible, LoginFailed is raised. A token appears nowhere but in these lines. Owner: one process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from hms_cache_proxy.config.http_transport import HttpTransportSection, is_header_name
from hms_cache_proxy.config.security import SecuritySection
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security.mechanism import LoginFailed
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.wire.http_head import request_head

_KEY = "http_transport.upstream_token_file"

log = structlog.get_logger()


class HttpNames:
    """`path`: of the requests."""

    def __init__(self, security: SecuritySection, http: HttpTransportSection) -> None:
        self._path = http.upstream_path
        self._identity = security.upstream_identity
        self._user = http.upstream_user
        file = http.upstream_token_file
        self._token = Renewable(lambda: read_token(file), [file]) if file else None

    def own_head(self, host: str) -> Callable[[], bytes]:
        """What makes the heads of the proxy's own requests: by its present token, or its name."""
        return lambda: request_head(self._path, host, self._own())

    def users_head(self, host: str, user: str | None, bearer: bytes) -> Callable[[], bytes]:
        """The same, of calls of this user, who has sent this token. LoginFailed if they cannot be sent so."""
        if self._identity == "service":
            return self.own_head(host)
        if user is None:
            raise LoginFailed("nobody to act for: the client has not said who it is")
        if self._identity == "pass_through":
            if not bearer:
                raise LoginFailed(f"no token of {user} to pass through")
            lines = _bearer(bearer)
        elif is_header_name(user):
            lines = _actor(user)
        else:
            raise LoginFailed(f"no header can name the user {user!r}")
        head = request_head(self._path, host, lines)
        return lambda: head

    def _own(self) -> bytes:
        if self._token is None:
            return _actor(self._user)
        try:
            self._token.renew()
        except ConfigError as error:
            log.error("cannot reload: the old token stays in use", error=str(error))
        return _bearer(self._token.value)


def for_metastores(security: SecuritySection, http: HttpTransportSection) -> HttpNames | None:
    """None: metastores are not spoken to over HTTP."""
    return HttpNames(security, http) if http.upstream else None


def read_token(file: str) -> bytes:
    """The token in a file. ConfigError if there is none."""
    try:
        token = Path(file).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{_KEY}: cannot read {file}: {error.strerror}") from error
    if not token or any(not 0x21 <= byte <= 0x7E for byte in token):
        raise ConfigError(f"{_KEY}: {file}: there is no token in it")
    return token


def _bearer(token: bytes) -> bytes:
    return b"Authorization: Bearer %b\r\n" % token


def _actor(user: str) -> bytes:
    return b"x-actor-username: %b\r\n" % user.encode()
