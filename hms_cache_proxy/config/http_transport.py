"""The settings of HTTP, for clients and to metastores: the section `[http_transport]`.

Must not know: how a token is checked, what the keys are (security/).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from hms_cache_proxy.config.fields import Parsed, Section, parse_list, setting
from hms_cache_proxy.config.security import (
    KerberosSection,
    SecuritySection,
    TlsSection,
    offers_http,
    service_disagreements,
)


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
    upstream: bool = setting(
        False,
        description="Send calls to the metastores as HTTP requests (`metastore.server.thrift.transport.mode = http`);"
        " within TLS with `tls.upstream`.",
    )
    upstream_path: str = setting(
        "metastore", description="Path of these requests: the metastores' `metastore.server.thrift.http.path`."
    )
    upstream_user: str = setting(
        "",
        description="User of the proxy's own calls, in the header `x-actor-username`, where the metastores know users"
        " by it (`metastore.authentication = NONE`).",
    )
    upstream_token_file: str = setting(
        "",
        description="File with the token of the proxy's own calls, where the metastores know users by tokens"
        " (`metastore.authentication = JWT`). It is read again when it changes.",
    )


_PATH: Final = re.compile(r"[A-Za-z0-9._~/-]+")
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


def upstream_disagreements(
    security: SecuritySection, tls: TlsSection, kerberos: KerberosSection, http: HttpTransportSection, *, loopback: bool
) -> Iterator[tuple[str, str]]:
    """The same, of how metastores know who calls. `loopback`: all of them are on this machine."""
    unencrypted = not tls.upstream and not loopback
    yield from _of_http(security, http, kerberos=kerberos.upstream, unencrypted=unencrypted)
    yield from service_disagreements(security, known_upstream=kerberos.upstream or http.upstream)


def _of_http(
    security: SecuritySection, http: HttpTransportSection, *, kerberos: bool, unencrypted: bool
) -> Iterator[tuple[str, str]]:
    if not http.upstream:
        for name in ("upstream_path", "upstream_user", "upstream_token_file"):
            if getattr(http, name) != getattr(HttpTransportSection(), name):
                yield f"http_transport.{name}", "has no meaning without http_transport.upstream = true"
        return
    if kerberos:
        yield (
            "http_transport.upstream",
            "cannot be used with kerberos.upstream: over HTTP, nobody logs in with Kerberos",
        )
    if not http.upstream_path.strip("/") or not _PATH.fullmatch(http.upstream_path):
        yield "http_transport.upstream_path", "must be a path such as metastore"
    if bool(http.upstream_user) is bool(http.upstream_token_file):
        key = "http_transport.upstream_token_file" if http.upstream_user else "http_transport.upstream_user"
        yield key, "set one of upstream_user and upstream_token_file: the proxy's own calls need a user"
    if http.upstream_user and not is_header_name(http.upstream_user):
        yield "http_transport.upstream_user", "must be a name of printable ASCII letters"
    if http.upstream_token_file and unencrypted:
        yield "http_transport.upstream_token_file", "needs tls.upstream = true: the network could read the tokens"
    yield from _identity_problems(security, http)


def is_header_name(user: str) -> bool:
    """Can a header name this user, so that it cannot be taken for another one? Of other letters, a metastore reads
    each byte as one; blanks around a name, it does not see."""
    return bool(user) and user.isascii() and user.isprintable() and user == user.strip()


def _identity_problems(security: SecuritySection, http: HttpTransportSection) -> Iterator[tuple[str, str]]:
    key, identity = "security.upstream_identity", security.upstream_identity
    if identity == "delegate" and http.upstream_token_file:
        yield (
            key,
            "cannot be delegate with http_transport.upstream_token_file: a metastore that knows users by tokens does"
            " not heed whom the proxy names; set pass_through or service",
        )
    if identity == "pass_through":
        if not http.upstream_token_file:
            yield key, "cannot be pass_through without http_transport.upstream_token_file, for the proxy's own calls"
        others = [name for name in security.transports if not name.endswith("http")]
        if others or http.authentication != "jwt":
            why = f"{others[0]} among security.transports" if others else "http_transport.authentication = header"
            yield key, f"cannot be pass_through with {why}: these clients bring no token"


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
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets without an address
        return False
    try:
        loopback = parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        loopback = False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and loopback))
