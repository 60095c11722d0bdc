"""Opens what the section `[kerberos]` names.

Job: `for_clients` and `for_metastores`. A file or rule that cannot be used is a ConfigError of one line that names the
setting. Must not know: connections.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from hms_cache_proxy.config.security import KerberosSection, SecuritySection, passes_logins, wants_login
from hms_cache_proxy.config.tokens import TokensSection
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security import gss
from hms_cache_proxy.security.digest_md5 import check_cipher
from hms_cache_proxy.security.kerberos import Keytab
from hms_cache_proxy.security.principals import ShortNames
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.security.service_login import ServiceLogins
from hms_cache_proxy.security.token_keys import read_keys
from hms_cache_proxy.security.user_groups import read_groups
from hms_cache_proxy.wire.sasl import Layers

_LAYERS: Final = {"auth": Layers.AUTH, "auth-int": Layers.AUTH_INT, "auth-conf": Layers.AUTH_CONF}
_RULES: Final = "kerberos.auth_to_local"


class Acceptance(NamedTuple):
    """How clients log in: with which keys, which follow their file, what they are called then, and the protections."""

    keytab: Renewable[Keytab]
    names: ShortNames
    layers: Layers


def check(security: SecuritySection, kerberos: KerberosSection, tokens: TokensSection) -> None:
    """Look at everything once. ConfigError if something cannot be used."""
    if wants_login(security) and kerberos.keytab and not passes_logins(security, kerberos):
        for_clients(kerberos)
        if "auth-conf" in kerberos.protection:
            check_cipher("kerberos.protection")
        if tokens.key_file:
            read_keys(Path(tokens.key_file))
        if tokens.groups_file:
            read_groups(tokens.groups_file)
    logins = for_metastores(kerberos)
    if logins is not None:
        logins.check()


def for_clients(kerberos: KerberosSection) -> Acceptance:
    """The keys and names for clients."""
    layers = _layers(kerberos)
    keytab = Renewable(lambda: Keytab(kerberos.keytab, layers), [kerberos.keytab])
    realm = gss.default_realm("kerberos.keytab")
    if not realm and any(rule.strip() == "DEFAULT" for rule in kerberos.auth_to_local):
        raise ConfigError(f"{_RULES}: DEFAULT needs a default_realm in krb5.conf")
    return Acceptance(keytab, ShortNames(kerberos.auth_to_local, realm, key=_RULES), layers)


def for_metastores(kerberos: KerberosSection) -> ServiceLogins | None:
    """How the proxy logs in to metastores; None: it does not."""
    if not kerberos.upstream:
        return None
    return ServiceLogins(
        keytab=kerberos.keytab,
        principal=kerberos.principal,
        service=kerberos.upstream_principal,
        layers=_layers(kerberos),
    )


def _layers(kerberos: KerberosSection) -> Layers:
    layers = Layers(0)
    for name in kerberos.protection:
        layers |= _LAYERS[name]
    return layers
