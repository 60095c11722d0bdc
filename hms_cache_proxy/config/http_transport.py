"""The settings of HTTP for clients: the section `[http_transport]`.

Must not know: how a token is checked, what the keys are (security/).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from hms_cache_proxy.config.fields import Parsed, Section, parse_list, setting
from hms_cache_proxy.config.security import SecuritySection, offers_http


@dataclass(frozen=True)
class HttpTransportSection(Section):
    """`[http_transport]`."""

    path: str = setting(
        "metastore", description="Path of the requests, as in Hive's `metastore.server.thrift.http.path`."
    )
    authentication: Literal["jwt", "header"] = setting(
        "jwt",
        description="How the user of a request is known. jwt: by a signed token (`Authorization: Bearer`). header: by"
        " `x-actor-username`, which `trusted_addresses` may send.",
    )
    trusted_addresses: Annotated[tuple[str, ...], Parsed(parse_list)] = setting(
        (),
        description="Addresses and networks, such as 10.1.0.0/16, whose header `x-actor-username` is believed. Requests"
        " from others are refused.",
    )
    jwks: str = setting(
        "", description="The keys that sign tokens (a JSON Web Key Set): a file, or an https:// URL. Both are followed."
    )
    jwks_refresh_s: float = setting(
        300,
        ge=1,
        le=86_400,
        description="How often the keys are read from a URL; also at an unknown key.",
    )
    audience: Annotated[tuple[str, ...], Parsed(parse_list)] = setting(
        (), description="Tokens must be for one of these (claim `aud`); empty: it is not checked."
    )
    issuer: str = setting("", description="Tokens must be from this issuer (claim `iss`); empty: it is not checked.")
    user_claim: str = setting("sub", description="The claim with the user's name.")
    leeway_s: float = setting(
        60, ge=0, le=600, description="By how much the clocks of issuer and proxy may differ, when times are checked."
    )


_OF_TOKENS: Final = ("jwks", "jwks_refresh_s", "audience", "issuer", "user_claim", "leeway_s")


def is_url(jwks: str) -> bool:
    """Is it a URL, and not a file?"""
    return "://" in jwks


def http_disagreements(security: SecuritySection, http: HttpTransportSection) -> Iterator[tuple[str, str]]:
    """Keys of the section whose values contradict each other, or other sections, and why."""
    defaults = HttpTransportSection()
    if not offers_http(security):
        for name in (*_OF_TOKENS, "path", "authentication", "trusted_addresses"):
            if getattr(http, name) != getattr(defaults, name):
                yield f"http_transport.{name}", "has no meaning: http is not among security.transports"
        return
    if not http.path.strip("/") or any(letter in http.path for letter in "?#*% "):
        yield "http_transport.path", "must be a path such as metastore"
    if http.authentication == "jwt":
        yield from _token_problems(http)
        return
    for name in _OF_TOKENS:
        if getattr(http, name) != getattr(defaults, name):
            yield f"http_transport.{name}", "has no meaning with http_transport.authentication = header"
    if not http.trusted_addresses:
        why = "is required with authentication = header: whoever may send the header may act as any user"
        yield "http_transport.trusted_addresses", why
    for network in http.trusted_addresses:
        try:
            ip_network(network)
        except ValueError as error:
            yield "http_transport.trusted_addresses", str(error)


def _token_problems(http: HttpTransportSection) -> Iterator[tuple[str, str]]:
    if not http.jwks:
        yield "http_transport.jwks", "is required: http is among security.transports"
    if is_url(http.jwks) and not _secure(http.jwks):
        yield "http_transport.jwks", "must be a file, an https:// URL, or an http:// URL of a loopback address"
    if http.trusted_addresses:
        yield "http_transport.trusted_addresses", "has no meaning with http_transport.authentication = jwt"
    if not http.user_claim:
        yield "http_transport.user_claim", "must name a claim"


def _secure(url: str) -> bool:
    parts = urlsplit(url)
    try:
        loopback = parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        loopback = False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and loopback))
