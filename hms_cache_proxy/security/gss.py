"""Access to the Kerberos library, which is an extra.

Job: import gssapi at first use, and turn its errors into text. Must not know: logins, or of settings more than the key
that an error names.
"""

from __future__ import annotations

import re
from typing import Any

from hms_cache_proxy.errors import ConfigError

_SAID = re.compile(r"Major \(\d+\): (?P<major>.+), Minor \(\d+\): (?P<minor>.+)", re.DOTALL)


def library(key: str) -> Any:
    """gssapi (it has no types). ConfigError, which names the setting that needs it, if it is not installed."""
    try:
        import gssapi
    except ImportError as error:
        raise ConfigError(
            f"{key}: Kerberos needs a package: pip install 'hms-cache-proxy[kerberos]' ({error})"
        ) from error
    return gssapi


def why(error: Exception) -> str:
    """What an error of gssapi says, without its numbers."""
    found = _SAID.fullmatch(str(error))
    if found is None:
        return str(error)
    return found["major"] if found["minor"] in ("Unknown error", "Success") else found["minor"]


def default_realm(key: str) -> str:
    """The realm of krb5.conf; empty if it names none."""
    gssapi = library(key)
    name = gssapi.Name("user", gssapi.NameType.user)
    try:
        return str(name.canonicalize(gssapi.MechType.kerberos)).rpartition("@")[2]
    except gssapi.exceptions.GSSError:
        return ""
