"""Files of TLS: what they become, what is said of those that cannot be used, and that changes are noticed."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.config.security import TlsSection
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security import tls
from hms_cache_proxy.security.certificate import expiry
from hms_cache_proxy.security.renewal import Renewable
from tests.chance import chance
from tests.testbed.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


def section(**settings: Any) -> TlsSection:
    texts: dict[str, Any] = {key: str(value) for key, value in settings.items()}
    return TlsSection(**texts)


@pytest.mark.parametrize("year", [2031, 2049, 2050, 2199], ids=["31", "49", "50: another form", "199"])
def test_expiry(authority: Authority, year: int) -> None:
    files = authority.signed("server", expires=datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC))
    assert tls.server_side(section(**files.settings())).expires == datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC)


def test_any_bytes_are_a_certificate_or_a_value_error(authority: Authority) -> None:
    der = ssl.PEM_cert_to_DER_cert(authority.signed("server").certificate.read_text())
    rng = chance("certificates")
    for _ in range(3000):
        damaged = bytearray(der[: rng.choice((len(der), rng.randrange(len(der))))])
        for _ in range(rng.randrange(4)):
            if damaged:
                damaged[rng.randrange(min(len(damaged), 200))] = rng.randrange(256)
        try:
            assert isinstance(expiry(bytes(damaged)), datetime)
        except ValueError:
            pass


def test_key_and_certificate_in_one_file(authority: Authority, tmp_path: Path) -> None:
    files = authority.signed("server")
    both = tmp_path / "both.pem"
    both.write_bytes(files.key.read_bytes() + files.certificate.read_bytes())
    assert tls.server_side(section(certificate=both)).expires == files.expires


def test_a_key_with_a_password(authority: Authority, tmp_path: Path) -> None:
    files = authority.signed("server", password="secret")
    password = tmp_path / "password"
    password.write_text("secret\n")
    tls.server_side(section(**files.settings(), key_password_file=password))
    with pytest.raises(ConfigError, match=r"tls.key: .*server.key: the key is encrypted: set tls.key_password_file"):
        tls.server_side(section(**files.settings()))
    password.write_text("wrong")
    with pytest.raises(ConfigError, match=r"tls.key: .*server.key: the key cannot be decrypted"):
        tls.server_side(section(**files.settings(), key_password_file=password))


def test_files_that_cannot_be_used(authority: Authority, tmp_path: Path) -> None:
    files, other = authority.signed("server"), authority.signed("other")
    none, empty = tmp_path / "none", tmp_path / "empty"
    empty.write_bytes(b"")
    for key, settings, problem in (
        ("tls.certificate", {"certificate": none}, f"cannot read {none}: No such file"),
        ("tls.certificate", {"certificate": empty}, f"{empty}: there is no PEM certificate in it"),
        ("tls.certificate", {"certificate": files.key}, "there is no PEM certificate in it"),
        ("tls.certificate", {"certificate": files.certificate}, "there is no private key in it"),
        ("tls.key", {"key": none}, f"cannot read {none}"),
        ("tls.key", {"key": files.certificate}, "there is no private key in it"),
        ("tls.key", {"key": other.key}, "the key does not belong to the certificate in tls.certificate"),
        ("tls.key_password_file", {"key": files.key, "key_password_file": none}, f"cannot read {none}"),
        ("tls.client_ca", {"key": files.key, "client_ca": none}, f"cannot read {none}"),
        ("tls.client_ca", {"key": files.key, "client_ca": files.key}, "there is no PEM certificate in it"),
    ):
        with pytest.raises(ConfigError) as raised:
            tls.server_side(section(**{"certificate": files.certificate, **settings}))
        assert str(raised.value).startswith(f"{key}: ") and problem in str(raised.value), (key, str(raised.value))
    with pytest.raises(ConfigError, match="tls.upstream_ca: cannot read"):
        tls.client_context(section(upstream_ca=none))


UPSTREAM = {
    "kerberos.upstream": "true",
    "kerberos.keytab": "x",
    "kerberos.principal": "proxy/_HOST@R",
    "kerberos.upstream_principal": "hive/_HOST@R",
}
PASSED = {**UPSTREAM, "security.upstream_identity": "pass_through", "security.transports": "sasl"}

OVER_HTTP = {"http_transport.upstream": "true", "http_transport.upstream_user": "proxy"}
BY_TOKEN = {"http_transport.upstream": "true", "http_transport.upstream_token_file": "x"}

LDAP = {
    "security.transports": "tls+sasl",
    "tls.certificate": "x",
    "ldap.url": "ldaps://h",
    "ldap.user_dn": "uid={user},dc=x",
}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"security.transports": "tls"}, "tls.certificate: is required: tls is among security.transports"),
        ({"security.transports": ","}, "security.transports: must name at least one of plain, tls"),
        ({"security.transports": "ldap"}, "security.transports: input should be 'plain', 'tls', 'sasl', "),
        ({"security.transports": "http"}, "http_transport.jwks: is required: http is among security.transports"),
        (
            {"security.transports": "http", "http_transport.jwks": "https://[h/keys"},
            "http_transport.jwks: must be a file",
        ),
        (
            {"security.transports": "tls+http", "http_transport.jwks": "x"},
            "tls.certificate: is required: tls is among security.transports",
        ),
        ({"http_transport.jwks": "x"}, "http_transport.jwks: has no meaning: http is not among security.transports"),
        ({"security.transports": "tls+sasl", "kerberos.keytab": "x"}, "tls.certificate: is required"),
        ({"security.transports": "sasl"}, "kerberos.keytab: is required: sasl is among security.transports"),
        ({"kerberos.keytab": "x"}, "kerberos.keytab: has no meaning without sasl among security.transports"),
        (
            {"security.transports": "sasl", "kerberos.keytab": "x", "kerberos.auth_to_local": ","},
            "kerberos.auth_to_local: must have at least one rule",
        ),
        (
            {"security.transports": "sasl", "kerberos.keytab": "x", "kerberos.protection": ","},
            "kerberos.protection: must name at least one of auth, auth-int, auth-conf",
        ),
        (
            {**UPSTREAM, "kerberos.principal": "proxy"},
            "kerberos.principal: must be a principal such as hive/_HOST@REALM",
        ),
        ({**UPSTREAM, "kerberos.upstream_principal": ""}, "kerberos.upstream_principal: must be a principal such as"),
        ({"kerberos.principal": "proxy@R"}, "kerberos.principal: has no meaning without kerberos.upstream = true"),
        (
            {"security.upstream_identity": "service"},
            "security.upstream_identity: has no meaning without kerberos.upstream = true",
        ),
        (UPSTREAM, "security.upstream_identity: cannot be delegate with plain among security.transports"),
        (
            {**UPSTREAM, "security.transports": "sasl, tls", "tls.certificate": "x"},
            "security.upstream_identity: cannot be delegate with tls among security.transports",
        ),
        (
            {**UPSTREAM, "security.upstream_identity": "service", "security.block": "foreign_cancellations"},
            "security.block: must name token_store with security.upstream_identity = service",
        ),
        (
            {"security.upstream_identity": "pass_through"},
            "security.upstream_identity: has no meaning without kerberos.upstream = true",
        ),
        (
            {**UPSTREAM, "security.upstream_identity": "pass_through", "security.transports": "sasl, http"},
            "security.upstream_identity: cannot be pass_through with http among security.transports",
        ),
        (
            {**PASSED, "security.transports": "tls+sasl", "tls.certificate": "x", "security.password_file": "x"},
            "security.upstream_identity: cannot be pass_through where clients may log in with a password",
        ),
        ({**PASSED, "authorization": "learned"}, "authorization: learned needs users; with pass_through only"),
        (
            {**PASSED, "ttl.enabled": "true", "ttl.impersonation": "on"},
            "ttl.impersonation: needs users; with pass_through",
        ),
        ({**PASSED, "tokens.lifetime": "1h"}, "tokens.lifetime: has no meaning unless clients may log in to the proxy"),
        ({"tokens.lifetime": "1h"}, "tokens.lifetime: has no meaning unless clients may log in to the proxy"),
        (
            {**UPSTREAM, "security.transports": "sasl", "tokens.proxy_users": "hive"},
            "tokens.proxy_users: 'hive' is not a rule such as hive=*",
        ),
        (
            {**UPSTREAM, "security.transports": "sasl", "tokens.proxy_users": "hive=%a|%"},
            "tokens.proxy_users: 'hive=%a|%' is not a rule such as hive=*",
        ),
        (
            {**UPSTREAM, "security.transports": "sasl", "tokens.proxy_users": "hive=%analysts"},
            "tokens.groups_file: is required",
        ),
        (
            {**UPSTREAM, "security.transports": "sasl", "tokens.proxy_users": "hive=*", "tokens.groups_file": "x"},
            "tokens.groups_file: has no meaning",
        ),
        (
            {**UPSTREAM, "security.transports": "sasl", "tokens.proxy_users": "hive=*@nowhere"},
            "tokens.proxy_users: 'nowhere' does not appear to be an IPv4 or IPv6 network",
        ),
        (
            {**UPSTREAM, "security.upstream_identity": "service", "embedded": "true"},
            "kerberos.upstream: has no meaning with embedded = true",
        ),
        (
            {**OVER_HTTP, **UPSTREAM, "security.transports": "sasl"},
            "http_transport.upstream: cannot be used with kerberos.upstream",
        ),
        ({**OVER_HTTP, "http_transport.upstream_path": "a?b"}, "http_transport.upstream_path: must be a path"),
        ({"http_transport.upstream": "true"}, "http_transport.upstream_user: set one of upstream_user and"),
        ({**OVER_HTTP, **BY_TOKEN}, "http_transport.upstream_token_file: set one of upstream_user and"),
        ({"http_transport.upstream_user": "p"}, "http_transport.upstream_user: has no meaning without"),
        ({**OVER_HTTP, "http_transport.upstream_user": " p"}, "http_transport.upstream_user: must be a name of"),
        ({**BY_TOKEN, "upstream": "ms:9083"}, "http_transport.upstream_token_file: needs tls.upstream = true"),
        (BY_TOKEN, "security.upstream_identity: cannot be delegate with http_transport.upstream_token_file"),
        (
            {**BY_TOKEN, "security.upstream_identity": "pass_through"},
            "security.upstream_identity: cannot be pass_through with plain among security.transports",
        ),
        (
            {**OVER_HTTP, "security.upstream_identity": "pass_through"},
            "security.upstream_identity: cannot be pass_through without http_transport.upstream_token_file",
        ),
        (
            {**OVER_HTTP, "security.upstream_identity": "service", "security.block": "foreign_cancellations"},
            "security.block: must name token_store with security.upstream_identity = service",
        ),
        ({**OVER_HTTP, "embedded": "true"}, "http_transport.upstream: has no meaning with embedded = true"),
        (
            {"upstream": "https://ms:9083"},
            "upstream: 'https://ms:9083': only thrift://HOST:PORT is supported, with http",
        ),
        ({"security.password_file": "x"}, "security.password_file: has no meaning: sasl is not among"),
        ({"ldap.url": "ldap://h"}, "ldap.url: has no meaning: sasl is not among security.transports"),
        (
            {"security.transports": "sasl", "security.password_file": "x"},
            "security.transports: must have tls+sasl: passwords are taken within TLS only",
        ),
        ({**LDAP, "security.password_file": "x"}, "security.password_file: and ldap.url cannot both be set"),
        ({**LDAP, "ldap.url": "http://h"}, "ldap.url: must be ldaps://"),
        ({**LDAP, "ldap.url": "ldaps://[h"}, "ldap.url: must be ldaps://"),
        ({**LDAP, "ldap.url": "ldap://h"}, "ldap.start_tls: must be true, or ldap.url ldaps://"),
        ({**LDAP, "ldap.start_tls": "true"}, "ldap.start_tls: has no meaning with ldaps://"),
        ({**LDAP, "ldap.url": "ldap://localhost", "ldap.ca": "x"}, "ldap.ca: has no meaning without TLS"),
        ({**LDAP, "ldap.user_dn": "cn=x"}, "ldap.user_dn: must contain {user}"),
        ({**LDAP, "ldap.base_dn": "dc=x"}, "ldap.user_dn: or ldap.base_dn must be set, and not both"),
        ({**LDAP, "ldap.bind_dn": "dc=x"}, "ldap.bind_dn: has no meaning with ldap.user_dn"),
        (
            {**LDAP, "ldap.user_dn": "", "ldap.base_dn": "dc=x", "ldap.user_filter": "uid={user}"},
            "ldap.user_filter: must be a filter in parentheses",
        ),
        (
            {**LDAP, "ldap.user_dn": "", "ldap.base_dn": "dc=x", "ldap.bind_dn": "cn=x"},
            "ldap.bind_dn: and ldap.bind_password_file must be set together",
        ),
        ({"security.transports": "sasl", "kerberos.keytab": "x", "ldap.ca": "x"}, "ldap.ca: has no meaning without"),
        ({"tls.certificate": "x"}, "tls.certificate: has no meaning: tls is not among security.transports"),
        (
            {"security.transports": "tls", "tls.certificate": "x", "tls.client_certificates": "required"},
            "tls.client_ca: is required with tls.client_certificates = required",
        ),
        (
            {"security.transports": "tls", "tls.certificate": "x", "tls.client_ca": "x"},
            "tls.client_ca: has no meaning with tls.client_certificates = none",
        ),
        ({"tls.upstream_ca": "x"}, "tls.upstream_ca: has no meaning without tls.upstream = true"),
        (
            {"tls.upstream": "true", "tls.upstream_server_name": "metastore..example"},
            "tls.upstream_server_name: no certificate can have this name",
        ),
        (
            {"tls.upstream": "true", "tls.upstream_server_name": ".example"},
            "tls.upstream_server_name: no certificate can have this name",
        ),
        ({"tls.upstream": "true", "embedded": "true"}, "tls.upstream: has no meaning with embedded = true"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(cli=settings)
    assert problem in str(raised.value)


def test_a_change_is_noticed(tmp_path: Path) -> None:
    file, link = tmp_path / "one", tmp_path / "link"
    file.write_text("1")
    link.symlink_to(file)

    def make() -> str:
        text = link.read_text() if link.exists() else ""
        if not text.isdigit():
            raise ConfigError(f"{text} is no number")
        return text

    kept = Renewable(make, [str(link), ""])
    assert kept.value == "1" and not kept.renew()
    assert kept.renew(at_once=True)
    file.write_text("22")
    assert kept.renew() and kept.value == "22"
    other = tmp_path / "other"  # Kubernetes replaces a link
    other.write_text("33")
    (tmp_path / "new").symlink_to(other)
    os.replace(tmp_path / "new", link)
    assert kept.renew() and kept.value == "33"


def test_what_cannot_be_used_changes_nothing_and_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("1")

    def make() -> int:
        try:
            return int(file.read_text())
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot be used: {error}") from error

    kept = Renewable(make, [str(file)])
    file.write_text("bad")
    with pytest.raises(ConfigError, match="bad"):
        kept.renew()
    assert not kept.renew() and kept.value == 1
    with pytest.raises(ConfigError, match="bad"):
        kept.renew(at_once=True)
    file.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        kept.renew()
    file.write_text("2")
    assert kept.renew() and kept.value == 2 and not kept.renew()
