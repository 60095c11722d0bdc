"""Finds out whom an HTTP request comes from: by a token, or by a header from a trusted address.

Job: check path and method, then find the user. HttpError, with Hive's status and text and a reason for the log, if that
fails.
Must not know: connections, bodies, how a token is signed.
Invariants: where tokens are used, `x-actor-username` decides nothing, and is refused if it names somebody else than the
token. Where they are not, it is believed only from `trusted_addresses`. Owner: one worker's loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from ipaddress import ip_network
from typing import Final, Protocol

from hms_cache_proxy.config.http_transport import HttpTransportSection
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.security.addresses import within
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.wire.http import Head, HttpError

ACTOR: Final = b"x-actor-username"
METHODS: Final = (b"POST", b"GET")  # as in Hive; what counts is the body
_ADDRESSES: Final = 1000  # that are remembered
_AUTHORITY: Final = re.compile(rb"(?i:https?)://[^/?]*")
"""The beginning of a target that is a whole URI, which a server has to understand (RFC 9112, section 3.2.2)."""
_NO_ACTOR: Final = "Authentication error: User header x-actor-username missing in request"
_NO_TOKEN: Final = "Authentication error: Couldn't find bearer token in the auth header in the request"
_BAD_TOKEN: Final = "Authentication error: Failed to validate JWT from Bearer token in Authentication header"


class Tokens(Protocol):
    """web_tokens.WebTokens, whose module needs a package that not everybody has."""

    def user(self, token: bytes) -> str: ...


class HttpUsers:
    """`tokens` is None where users are known by a header. `refused`: is told of each token that is refused.
    `pass_through`: metastores are shown the tokens."""

    def __init__(
        self,
        settings: HttpTransportSection,
        tokens: Tokens | None,
        refused: Callable[[WireError], None] = lambda error: None,
        *,
        pass_through: bool = False,
    ) -> None:
        self._path = b"/" + settings.path.strip("/").encode()
        self._below = self._path + b"/"
        self._networks = [ip_network(network) for network in settings.trusted_addresses]
        self._trusted: dict[str, bool] = {}
        self._tokens = tokens
        self._refused = refused
        self._pass_through = pass_through

    def admit(self, head: Head, address: str) -> Admitted:
        """The user of a request from this address. HttpError if it is refused."""
        if head.method not in METHODS:
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "only POST is supported", closes=False)
        path = _AUTHORITY.sub(b"", head.path, count=1) if head.path[:1] != b"/" else head.path
        path = path.partition(b"?")[0]
        if path != self._path and not path.startswith(self._below):
            raise HttpError(HTTPStatus.NOT_FOUND, f"requests go to {self._path.decode()}", closes=False)
        if self._tokens is None:
            return self._by_header(head, address)
        return self._by_token(head, self._tokens)

    def _by_header(self, head: Head, address: str) -> Admitted:
        actor = head.headers.get(ACTOR)
        if not actor:
            raise _unknown(_NO_ACTOR)
        if not self._trusts(address):
            raise _unknown("Authentication error: x-actor-username is not believed from this address", _text(actor))
        return Admitted(_text(actor), "header")

    def _by_token(self, head: Head, tokens: Tokens) -> Admitted:
        scheme, _, token = head.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not token.strip():
            raise _unknown(_NO_TOKEN)
        try:
            user = tokens.user(token.strip())
        except WireError as error:
            self._refused(error)
            raise _unknown(_BAD_TOKEN, str(error)) from error
        actor = head.headers.get(ACTOR)
        if actor is not None and actor != user.encode():
            raise _unknown(_BAD_TOKEN, f"x-actor-username names {_text(actor)!r}, the token {user!r}")
        return Admitted(user, "jwt", token.strip() if self._pass_through else b"")

    def _trusts(self, address: str) -> bool:
        known = self._trusted.get(address)
        if known is None:
            known = within(address, self._networks)
            if len(self._trusted) >= _ADDRESSES:
                self._trusted.clear()
            self._trusted[address] = known
        return known


def _text(actor: bytes) -> str:
    try:
        name = actor.decode()
    except UnicodeDecodeError as error:
        raise _unknown("Authentication error: x-actor-username is not UTF-8") from error
    if not name.isprintable():
        raise _unknown("Authentication error: x-actor-username is not a line of text")
    return name


def _unknown(text: str, detail: str = "") -> HttpError:
    return HttpError(HTTPStatus.UNAUTHORIZED, text, detail=detail, closes=False)
