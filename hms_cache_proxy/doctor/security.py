"""The doctor's check of what secures connections: can all files be used, and does the certificate expire soon?"""

from __future__ import annotations

from datetime import UTC, datetime

from hms_cache_proxy.config import Config
from hms_cache_proxy.doctor.finding import Finding, Severity
from hms_cache_proxy.plurals import counted
from hms_cache_proxy.security import check, tls

_SUBJECT = "TLS"
SOON_DAYS = 14


def look_at_security(config: Config) -> list[Finding]:
    """Nothing where no client may use TLS. ConfigError if a file cannot be used: `serve` does not start then either."""
    check.files(config)
    clients = tls.check(config.security, config.tls)
    if clients is None:
        return []
    found = [_validity(config.tls.certificate, clients.expires)]
    if "plain" in config.security.transports:
        text = "clients may connect without TLS too"
        found.append(Finding(_SUBJECT, Severity.NOTE, text, "remove plain from security.transports once none needs it"))
    return found


def _validity(file: str, expires: datetime) -> Finding:
    days = (expires - datetime.now(UTC)).total_seconds() / 86_400
    if days < 0:
        return Finding(_SUBJECT, Severity.ERROR, f"{file}: expired on {expires:%Y-%m-%d}", "replace the certificate")
    text = f"{file}: valid until {expires:%Y-%m-%d}"
    if days < SOON_DAYS:
        left = counted(days, "more day")
        return Finding(_SUBJECT, Severity.WARNING, f"{text}, for {left}", "replace the certificate")
    return Finding(_SUBJECT, Severity.OK, text)
