"""Checks every file and rule that the security settings name, so that a wrong one is found before anything starts."""

from __future__ import annotations

from hms_cache_proxy.config import Config
from hms_cache_proxy.security import http_check, kerberos_settings, password_settings, tls


def files(config: Config) -> None:
    """ConfigError if one cannot be used."""
    tls.check(config.security, config.tls)
    kerberos_settings.check(config.security, config.kerberos, config.tokens)
    password_settings.check(config.security, config.ldap)
    http_check.check(config.security, config.http_transport)
