"""How connections to metastores are secured, by the settings.

Job: hold this in one value, for everything that connects to a metastore. Must not know: connections.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hms_cache_proxy.config import Config
from hms_cache_proxy.security import http_names, kerberos_settings, tls
from hms_cache_proxy.security.http_names import HttpNames
from hms_cache_proxy.security.service_login import ServiceLogins
from hms_cache_proxy.security.tls import ClientSide


class MetastoreSecurity(NamedTuple):
    """None: without TLS, without a login, not over HTTP."""

    tls: ClientSide | None = None
    logins: ServiceLogins | None = None
    http: HttpNames | None = None


PLAIN: Final = MetastoreSecurity()


def towards_metastores(config: Config) -> MetastoreSecurity:
    """ConfigError if a file cannot be used."""
    return MetastoreSecurity(
        tls.for_metastores(config.tls),
        kerberos_settings.for_metastores(config.kerberos),
        http_names.for_metastores(config.security, config.http_transport),
    )
