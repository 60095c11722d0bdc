"""TLS contexts, made from the files that the settings name.

Job: `for_clients` and `for_metastores`. A file that cannot be used is a ConfigError of one line that names the setting.
Must not know: connections. Contexts are replaced, never changed: a connection keeps the one that it began with.
"""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import structlog

from hms_cache_proxy.config.security import SecuritySection, TlsSection, offers_tls
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security.certificate import expiry
from hms_cache_proxy.security.renewal import Renewable

log = structlog.get_logger()

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_CERTIFICATES = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class ServerSide(NamedTuple):
    """For connections of clients."""

    context: ssl.SSLContext
    expires: datetime


def check(security: SecuritySection, tls: TlsSection) -> ServerSide | None:
    """Look at all files once. ConfigError if one cannot be used."""
    for_metastores(tls)
    return server_side(tls) if offers_tls(security) else None


def for_clients(tls: TlsSection) -> Renewable[ServerSide]:
    """The context for clients, which follows its files."""
    return Renewable(
        lambda: server_side(tls),
        [tls.certificate, tls.key, tls.key_password_file, tls.client_ca],
    )


def server_side(tls: TlsSection) -> ServerSide:
    """The context for clients as the files are now."""
    expires = _expiry(tls.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.minimum_version]
    context.options |= ssl.OP_NO_RENEGOTIATION  # a client could make the worker compute as often as it likes
    _load_key(context, tls)
    if tls.client_ca:
        _load_authorities(context, "tls.client_ca", tls.client_ca)
        context.verify_mode = _CERTIFICATES[tls.client_certificates]
    return ServerSide(context, expires)


class ClientSide:
    """TLS towards metastores, by the setting `tls.upstream`."""

    def __init__(self, tls: TlsSection) -> None:
        self._name = tls.upstream_server_name
        self.renewable = Renewable(lambda: client_context(tls), [tls.upstream_ca])

    def server_name(self, host: str) -> str:
        """The name that the certificate of a metastore at this host must have."""
        return self._name or host

    @property
    def context(self) -> ssl.SSLContext:
        """For new connections."""
        return self.renewable.value

    def renew(self) -> None:
        """Follow the file. One that cannot be used is logged, and changes nothing."""
        try:
            self.renewable.renew()
        except ConfigError as error:
            log.error("cannot reload", error=str(error))


def for_metastores(tls: TlsSection) -> ClientSide | None:
    """How connections to metastores are made; None: without TLS."""
    return ClientSide(tls) if tls.upstream else None


def client_context(tls: TlsSection) -> ssl.SSLContext:
    """The context for metastores as the files are now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[tls.minimum_version]
    if tls.upstream_ca:
        _load_authorities(context, "tls.upstream_ca", tls.upstream_ca)
    else:
        context.load_default_certs()
    return context


def problem(error: OSError) -> str:
    """Why a connection with TLS could not be made, for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
            return "TLS: the other side does not speak TLS"
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    return error.strerror or str(error) or type(error).__name__


def _load_key(context: ssl.SSLContext, tls: TlsSection) -> None:
    key, file = ("tls.key", tls.key) if tls.key else ("tls.certificate", tls.certificate)
    pem = _read(key, file)
    password = _read("tls.key_password_file", tls.key_password_file).strip() if tls.key_password_file else b""
    try:
        context.load_cert_chain(tls.certificate, tls.key or None, lambda: password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            why = "the key does not belong to the certificate in tls.certificate"
        elif b"PRIVATE KEY" not in pem:
            why = "there is no private key in it"
        elif b"ENCRYPTED" in pem:
            why = "the key cannot be decrypted" if password else "the key is encrypted: set tls.key_password_file"
        else:
            why = f"cannot be used: {error}"
        raise ConfigError(f"{key}: {file}: {why}") from error


def _load_authorities(context: ssl.SSLContext, key: str, file: str) -> None:
    _read(key, file)
    try:
        context.load_verify_locations(file)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"{key}: {file}: there is no PEM certificate in it ({error})") from error


def _expiry(file: str) -> datetime:
    """Of the first certificate in a file."""
    key, begin, end = "tls.certificate", "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    _, found, rest = _read(key, file).decode("ascii", "replace").partition(begin)
    body, ended, _ = rest.partition(end)
    try:
        if not found or not ended:
            raise ValueError("there is no PEM certificate in it")
        return expiry(ssl.PEM_cert_to_DER_cert(f"{begin}{body}{end}"))
    except ValueError as error:
        raise ConfigError(f"{key}: {file}: {error}") from error


def _read(key: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}: cannot read {file}: {error.strerror}") from error
