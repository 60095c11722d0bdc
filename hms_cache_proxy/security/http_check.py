"""Looks once at what HTTP for clients needs, before anything starts: packages and the file with the keys.

Must not know: connections.
"""

from __future__ import annotations

import importlib

from hms_cache_proxy.config.http_transport import HttpTransportSection, is_url
from hms_cache_proxy.config.security import SecuritySection, offers_http
from hms_cache_proxy.errors import ConfigError


def check(security: SecuritySection, http: HttpTransportSection) -> None:
    """ConfigError if something is missing, or cannot be used."""
    if not offers_http(security):
        return
    tokens = http.authentication == "jwt"
    try:
        for name in ("httptools", *(("jwt", "cryptography") if tokens else ())):
            importlib.import_module(name)
    except ImportError as error:
        key = "security.transports"
        raise ConfigError(f"{key}: http needs more packages: pip install 'hms-cache-proxy[http]'", key=key) from error
    if tokens and not is_url(http.jwks):
        from hms_cache_proxy.security.web_tokens import read_keys

        read_keys(http.jwks)
