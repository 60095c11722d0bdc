"""The settings of secured connections: the sections `[security]`, `[tls]` and `[kerberos]`.

Must not know: how a handshake is done, what the files hold (security/).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from hms_cache_proxy.config.address import is_host_name
from hms_cache_proxy.config.fields import Parsed, Section, parse_list, setting

TransportName = Literal["plain", "tls", "sasl", "tls+sasl", "http", "tls+http"]
ProtectionName = Literal["auth", "auth-int", "auth-conf"]
BlockedName = Literal["token_store", "foreign_cancellations"]
TRANSPORT_NAMES = get_args(TransportName)


@dataclass(frozen=True)
class SecuritySection(Section):
    """`[security]`."""

    transports: Annotated[tuple[TransportName, ...], Parsed(parse_list)] = setting(
        ("plain",),
        description="What clients may speak at `listen`, told apart by the first bytes: plain (Thrift as it is), tls"
        " (the same within TLS), sasl (Thrift after a login), http (calls as HTTP requests), tls+sasl and"
        " tls+http (these within TLS). A connection of any other kind is closed.",
    )
    upstream_identity: Literal["delegate", "pass_through", "service"] = setting(
        "delegate",
        description="Whom a metastore with Kerberos or HTTP takes calls to come from. delegate: the client's user,"
        " whose delegation token the proxy gets there, as a superuser; over HTTP, the proxy names the user in"
        " `x-actor-username`. pass_through: the client, which logs in at the metastore, through the proxy; over HTTP,"
        " the user of the token that the client has sent. service: the proxy itself, whoever the client is.",
    )
    block: Annotated[tuple[BlockedName, ...], Parsed(parse_list)] = setting(
        ("token_store", "foreign_cancellations"),
        description="What Hive allows and the proxy refuses, to clients that have logged in and where it logs in to the"
        " metastores itself. token_store: calls that show or change the metastore's keys and tokens (get_master_keys,"
        " get_token, ...). foreign_cancellations: that users cancel delegation tokens of others.",
    )
    password_file: str = setting(
        "",
        description="File with the users who may log in with a password (SASL PLAIN), as `htpasswd -B` writes it. A"
        " directory can check passwords instead (`[ldap]`).",
    )
    passwords_without_tls: bool = setting(
        False, description="Passwords may cross the network unencrypted: from clients, and to the directory."
    )
    remember_passwords_s: float = setting(
        60,
        ge=0,
        le=3600,
        description="How long the outcome of a check of a password is used again, for the same user and password.",
    )
    handshake_timeout_s: float = setting(
        10,
        gt=0,
        le=3600,
        description="Time for a client's handshake, and, if there is a choice of transports, for its first bytes.",
    )
    max_handshakes: int = setting(
        256,
        ge=1,
        description="Maximum handshakes at the same time, in each worker. One more ends the oldest of them.",
    )


@dataclass(frozen=True)
class TlsSection(Section):
    """`[tls]`."""

    certificate: str = setting(
        "", description="PEM file with the certificate for clients, followed by its intermediate certificates."
    )
    key: str = setting("", description="PEM file with the certificate's private key; empty: it is in `certificate`.")
    key_password_file: str = setting("", description="A file with the password of the private key.")
    client_certificates: Literal["none", "optional", "required"] = setting(
        "none",
        description="Whether clients are asked for a certificate. One that `client_ca` has not signed is refused.",
    )
    client_ca: str = setting("", description="PEM file with the authorities that sign clients' certificates.")
    minimum_version: Literal["1.2", "1.3"] = setting(
        "1.2", description="Lowest version of TLS, for clients and for metastores."
    )
    upstream: bool = setting(
        False, description="Connect to the metastores with TLS. There is no way back to plain connections."
    )
    upstream_ca: str = setting(
        "", description="PEM file with the authorities that sign the metastores' certificates; empty: the system's."
    )
    upstream_server_name: str = setting(
        "", description="Name that the metastores' certificates must have; empty: the host in `upstream`."
    )


@dataclass(frozen=True)
class KerberosSection(Section):
    """`[kerberos]`."""

    keytab: str = setting(
        "",
        description="File with the proxy's keys. Clients may log in with a ticket for any principal in it.",
    )
    protection: Annotated[tuple[ProtectionName, ...], Parsed(parse_list)] = setting(
        ("auth", "auth-int", "auth-conf"),
        description="Protection of messages after a login: auth (none), auth-int (a checksum), auth-conf (encryption)."
        " Of several, a client chooses; to metastores, the strongest is used that they offer.",
    )
    auth_to_local: Annotated[tuple[str, ...], Parsed(parse_list)] = setting(
        ("DEFAULT",),
        description="Rules that make a client's principal a user name, as in `hadoop.security.auth_to_local`; the first"
        " that applies decides. DEFAULT: the first component, in the default realm of krb5.conf.",
    )
    upstream: bool = setting(False, description="Log in to the metastores with Kerberos. There is no way back to none.")
    upstream_principal: str = setting(
        "",
        description="The metastores' principal (`metastore.kerberos.principal`), such as `hive/_HOST@REALM`; `_HOST` is"
        " the host in `upstream`.",
    )
    principal: str = setting(
        "",
        description="The proxy's own principal, whose key is in `keytab`, for logins to metastores; `_HOST` is this"
        " machine's name.",
    )


def uses_files(security: SecuritySection, tls: TlsSection) -> bool:
    """Are there files that are followed: are connections secured in any way?"""
    return uses_tls(security, tls) or wants_login(security) or offers_http(security)


def wants_login(security: SecuritySection) -> bool:
    """May clients log in with SASL?"""
    return any(name.endswith("sasl") for name in security.transports)


def passes_logins(security: SecuritySection, kerberos: KerberosSection) -> bool:
    """Do clients log in at the metastores, through the proxy?"""
    return kerberos.upstream and security.upstream_identity == "pass_through"


def issues_tokens(security: SecuritySection, kerberos: KerberosSection) -> bool:
    """Does the proxy issue delegation tokens of its own?"""
    return wants_login(security) and bool(kerberos.keytab) and not passes_logins(security, kerberos)


def offers_tls(security: SecuritySection) -> bool:
    """May clients use TLS?"""
    return any(name.startswith("tls") for name in security.transports)


def offers_http(security: SecuritySection) -> bool:
    """May clients use HTTP?"""
    return any(name.endswith("http") for name in security.transports)


def uses_tls(security: SecuritySection, tls: TlsSection) -> bool:
    """Do connections of any kind use TLS?"""
    return offers_tls(security) or tls.upstream


def security_disagreements(
    security: SecuritySection, tls: TlsSection, kerberos: KerberosSection, *, passwords: bool
) -> Iterator[tuple[str, str]]:
    """Keys of these sections whose values contradict each other, and why. `passwords`: clients may log in with one."""
    yield from _tls_disagreements(security, tls)
    yield from _kerberos_disagreements(security, kerberos, passwords=passwords)


def needs_of_users(authorization: str, impersonation: str) -> Iterator[tuple[str, str]]:
    """Keys that cannot be used where clients log in at the metastores, and why."""
    why = "needs users; with pass_through only the metastore knows them"
    if authorization in ("learned", "per_user"):
        yield "authorization", f"{authorization} {why}"
    if impersonation == "on":
        yield "ttl.impersonation", why


def service_disagreements(security: SecuritySection, *, known_upstream: bool) -> Iterator[tuple[str, str]]:
    """`known_upstream`: the metastores know who calls, by Kerberos or HTTP."""
    if security.upstream_identity == "delegate":
        return
    if not known_upstream:
        why = "has no meaning without kerberos.upstream = true or http_transport.upstream = true"
        yield "security.upstream_identity", why
    elif security.upstream_identity == "service" and "token_store" not in security.block:
        why = "must name token_store with security.upstream_identity = service: everybody would get the proxy's answers"
        yield "security.block", why


def _tls_disagreements(security: SecuritySection, tls: TlsSection) -> Iterator[tuple[str, str]]:
    if not security.transports:
        yield "security.transports", f"must name at least one of {', '.join(TRANSPORT_NAMES)}"
    if offers_tls(security) and not tls.certificate:
        yield "tls.certificate", "is required: tls is among security.transports"
    for name in ("certificate", "key", "key_password_file", "client_ca"):
        if getattr(tls, name) and not offers_tls(security):
            yield f"tls.{name}", "has no meaning: tls is not among security.transports"
    if tls.client_certificates != "none" and not tls.client_ca:
        yield "tls.client_ca", f"is required with tls.client_certificates = {tls.client_certificates}"
    if tls.client_certificates == "none" and tls.client_ca:
        yield "tls.client_ca", "has no meaning with tls.client_certificates = none"
    for name in ("upstream_ca", "upstream_server_name"):
        if getattr(tls, name) and not tls.upstream:
            yield f"tls.{name}", "has no meaning without tls.upstream = true"
    if not is_host_name(tls.upstream_server_name):
        yield "tls.upstream_server_name", "no certificate can have this name: a label is empty, or too long"


def _kerberos_disagreements(
    security: SecuritySection, kerberos: KerberosSection, *, passwords: bool
) -> Iterator[tuple[str, str]]:
    used = wants_login(security) or kerberos.upstream
    if not kerberos.keytab and (kerberos.upstream or (wants_login(security) and not passwords)):
        why = "kerberos.upstream = true" if kerberos.upstream else "sasl is among security.transports"
        yield "kerberos.keytab", f"is required: {why}"
    if kerberos.keytab and not used:
        yield (
            "kerberos.keytab",
            "has no meaning without sasl among security.transports and without kerberos.upstream = true",
        )
    if not kerberos.protection:
        yield "kerberos.protection", "must name at least one of auth, auth-int, auth-conf"
    if wants_login(security) and kerberos.keytab and not kerberos.auth_to_local:
        yield "kerberos.auth_to_local", "must have at least one rule: without one, no client could log in"
    for name in ("principal", "upstream_principal"):
        given = getattr(kerberos, name)
        if kerberos.upstream and not _is_service(given):
            yield f"kerberos.{name}", "must be a principal such as hive/_HOST@REALM with kerberos.upstream = true"
        if given and not kerberos.upstream:
            yield f"kerberos.{name}", "has no meaning without kerberos.upstream = true"
    named_by_clients = [name for name in ("plain", "tls") if name in security.transports]
    if kerberos.upstream and security.upstream_identity == "delegate" and named_by_clients:
        yield (
            "security.upstream_identity",
            f"cannot be delegate with {named_by_clients[0]} among security.transports: these clients do not log in, so"
            " there is nobody to act for; with service, the metastore takes all calls to come from the proxy",
        )
    others = [name for name in security.transports if not name.endswith("sasl")]
    if passes_logins(security, kerberos) and others:
        yield (
            "security.upstream_identity",
            f"cannot be pass_through with {others[0]} among security.transports: these clients do not log in with SASL",
        )
    if passes_logins(security, kerberos) and passwords:
        yield "security.upstream_identity", "cannot be pass_through where clients may log in with a password"


def _is_service(text: str) -> bool:
    name, _, realm = text.partition("@")
    return bool(realm) and all(name.split("/")) and len(name.split("/")) <= 2
