"""Certificates for tests: an authority of their own, and what it signs, as PEM files.

Job: make keys and certificates. Must not know: hms_cache_proxy. Keys are of elliptic curves, which are made in a
millisecond.
"""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import NameOID

_MAY_SIGN = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
"""Of an authority. Clients with Python 3.13 want to see it, and the identifiers of keys."""


@dataclass(frozen=True)
class Files:
    """A certificate and its key."""

    certificate: Path
    key: Path
    expires: datetime

    def settings(self) -> dict[str, str]:
        """As settings of the section `tls`."""
        return {"certificate": str(self.certificate), "key": str(self.key)}

    def server(self) -> ssl.SSLContext:
        """A server's context."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


class Authority:
    """Signs certificates for `localhost` and 127.0.0.1, in a directory."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.file = directory / f"{name}.pem"
        builder = _certificate(self._name, self._name, self._key, datetime.now(UTC) + timedelta(days=30))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_MAY_SIGN, critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.add_extension(own, critical=False)
        self.file.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def signed(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        expires: datetime | None = None,
        password: str = "",
    ) -> Files:
        """A new certificate. The files of the same name are replaced at once, the key first."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = (expires or datetime.now(UTC) + timedelta(days=20)).replace(microsecond=0)
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        certificate = _certificate(_named(name), self._name, key, end).add_extension(names, critical=False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = certificate.add_extension(signer, critical=False)
        signed = certificate.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        how: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        files = Files(self._directory / f"{name}.pem", self._directory / f"{name}.key", end)
        _replace(files.key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how))
        _replace(files.certificate, signed)
        return files

    def key_store(self, files: Files, password: str) -> Path:
        """The same certificate and key for a server in Java."""
        key = load_pem_private_key(files.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        how = BestAvailableEncryption(password.encode())
        store = files.key.with_suffix(".p12")
        store.write_bytes(pkcs12.serialize_key_and_certificates(b"server", key, certificate, None, how))
        return store

    def trust_store(self, password: str) -> Path:
        """This authority for a client in Java."""
        own = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(self.file.read_bytes()), b"authority")
        store = self.file.with_suffix(".p12")
        store.write_bytes(pkcs12.serialize_java_truststore([own], BestAvailableEncryption(password.encode())))
        return store

    def client(self, files: Files | None = None) -> ssl.SSLContext:
        """A client's context that trusts this authority alone; `files`: a certificate of its own."""
        context = ssl.create_default_context(cafile=str(self.file))
        if files is not None:
            context.load_cert_chain(files.certificate, files.key)
        return context


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(end, datetime.now(UTC)) - timedelta(days=1))
        .not_valid_after(end)
    )


def _replace(file: Path, content: bytes) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(content)
    new.replace(file)
