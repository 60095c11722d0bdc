"""The settings of what connections are secured with: the sections `[security]` and `[tls]`.

Must not know: how a handshake is done, what the files hold (security/).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from hms_cache_proxy.config.fields import Parsed, Section, parse_list, setting

TransportName = Literal["plain", "tls"]


@dataclass(frozen=True)
class SecuritySection(Section):
    """`[security]`."""

    transports: Annotated[tuple[TransportName, ...], Parsed(parse_list)] = setting(
        ("plain",),
        description="What clients may speak at `listen`: plain Thrift, tls, or both, told apart by the first bytes. A"
        " connection of any other kind is closed.",
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


def uses_tls(security: SecuritySection, tls: TlsSection) -> bool:
    """Do connections of any kind use TLS?"""
    return "tls" in security.transports or tls.upstream


def security_disagreements(security: SecuritySection, tls: TlsSection) -> Iterator[tuple[str, str]]:
    """Keys of these sections whose values contradict each other, and why."""
    if not security.transports:
        yield "security.transports", "must name at least one of plain, tls"
    if "tls" in security.transports and not tls.certificate:
        yield "tls.certificate", "is required: tls is among security.transports"
    for name in ("certificate", "key", "key_password_file", "client_ca"):
        if getattr(tls, name) and "tls" not in security.transports:
            yield f"tls.{name}", "has no meaning: tls is not among security.transports"
    if tls.client_certificates != "none" and not tls.client_ca:
        yield "tls.client_ca", f"is required with tls.client_certificates = {tls.client_certificates}"
    if tls.client_certificates == "none" and tls.client_ca:
        yield "tls.client_ca", "has no meaning with tls.client_certificates = none"
    for name in ("upstream_ca", "upstream_server_name"):
        if getattr(tls, name) and not tls.upstream:
            yield f"tls.{name}", "has no meaning without tls.upstream = true"
