"""Checks before anything starts what HTTP needs, for clients and to metastores: packages, keys, the proxy's own token.

Must not know: connections.
"""

from __future__ import annotations

import importlib

from hms_cache_proxy.config.http_transport import HttpTransportSection, is_url
from hms_cache_proxy.config.security import SecuritySection, offers_http
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security import http_names


def check(security: SecuritySection, http: HttpTransportSection) -> None:
    """ConfigError if something is missing, or cannot be used."""
    if http.upstream:
        _packages("http_transport.upstream", "httptools")
        http_names.for_metastores(security, http)
    if not offers_http(security):
        return
    tokens = http.authentication == "jwt"
    _packages("security.transports", "httptools", *(("jwt", "cryptography") if tokens else ()))
    if tokens and not is_url(http.jwks):
        from hms_cache_proxy.security.web_tokens import read_keys

        read_keys(http.jwks)


def _packages(key: str, *names: str) -> None:
    try:
        for name in names:
            importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{key}: http needs more packages: pip install 'hms-cache-proxy[http]'") from error
