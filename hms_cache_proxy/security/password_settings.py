"""Makes what checks passwords, from the settings.

A file, rule or package that cannot be used is a ConfigError of one line that names the setting. Must not know: logins,
connections. The modules of the two kinds need packages that not everybody has.
"""

from __future__ import annotations

from hms_cache_proxy.config.passwords import LdapSection, takes_passwords
from hms_cache_proxy.config.security import SecuritySection
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security.passwords import Passwords, Remembered
from hms_cache_proxy.security.renewal import Renewable


def check(security: SecuritySection, ldap: LdapSection) -> None:
    """Look at everything once. ConfigError if something cannot be used."""
    for_clients(security, ldap)


def for_clients(security: SecuritySection, ldap: LdapSection) -> Renewable[Remembered] | None:
    """What checks clients' passwords, which follows its files; None: passwords are not taken."""
    if not takes_passwords(security, ldap):
        return None
    return Renewable(
        lambda: Remembered(_checker(security, ldap), security.remember_passwords_s),
        [security.password_file, ldap.bind_password_file, ldap.ca],
    )


def _checker(security: SecuritySection, ldap: LdapSection) -> Passwords:
    if not security.password_file:
        from hms_cache_proxy.security.directory import LdapDirectory

        return LdapDirectory(ldap)
    try:
        from hms_cache_proxy.security.password_file import PasswordFile
    except ImportError as error:
        key = "security.password_file"
        text = f"{key}: it needs a package: pip install 'hms-cache-proxy[passwords]' ({error})"
        raise ConfigError(text) from error
    return PasswordFile(security.password_file)
