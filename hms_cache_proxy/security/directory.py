"""Has an LDAP directory check passwords, by a simple bind (RFC 4513) as the user's entry.

Job: find the entry, by a pattern or a search, and bind as this entry. Must not know: logins, connections of clients.
Invariants
- A bind as a user is never repeated, because each refused one counts against the user.
- Names are escaped where they become part of a DN or of a filter.
- A connection belongs to one thread at a time, and is closed after an error.
Owner: one worker; `check` is called in several threads, each of which has its own connections.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any, Final

from hms_cache_proxy.config.passwords import USER, LdapSection
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security.passwords import Unchecked, WrongPassword

KEY: Final = "ldap.url"
_REFUSALS: Final = "INVALID_CREDENTIALS INAPPROPRIATE_AUTH CONSTRAINT_VIOLATION UNWILLING_TO_PERFORM".split()


def _library() -> Any:
    """python-ldap (it has no types)."""
    try:
        import ldap
        import ldap.dn
        import ldap.filter
    except ImportError as error:
        raise ConfigError(f"{KEY}: LDAP needs a package: pip install 'hms-cache-proxy[ldap]' ({error})") from error
    return ldap


class LdapDirectory:
    """ConfigError if the password of `bind_dn` cannot be read, the CA cannot be used, or the package is missing."""

    def __init__(self, settings: LdapSection) -> None:
        self._ldap = _library()
        self._settings = settings
        self._refusals = tuple(getattr(self._ldap, name) for name in _REFUSALS)
        self._password = _secret(settings.bind_password_file)
        self._threads = threading.local()
        try:
            self._connection()
        except (self._ldap.LDAPError, ValueError) as error:
            raise ConfigError(f"ldap: {settings.url}: {why(error)}") from error

    def check(self, user: str, password: bytes) -> str:
        """As Passwords has it."""
        try:
            if self._settings.user_dn:
                name, entry = user, self._settings.user_dn.replace(USER, self._ldap.dn.escape_dn_chars(user))
            else:
                name, entry = self._find(user)
            self._bind(user, entry, password)
        except (self._ldap.LDAPError, ValueError) as error:  # ValueError: of the CA's file, which is read again
            raise Unchecked(f"{self._settings.url}: {why(error)}") from error
        return name

    def _bind(self, user: str, entry: str, password: bytes) -> None:
        connection = self._connected()
        try:
            connection.simple_bind_s(entry, password)
        except self._refusals as error:
            raise WrongPassword(f"{self._settings.url} refuses {user}: {why(error)}") from error
        finally:
            connection.unbind_s()

    def _find(self, user: str) -> tuple[str, str]:
        """The name and the DN of a user's entry."""
        settings = self._settings
        wanted = settings.user_filter.replace(USER, self._ldap.filter.escape_filter_chars(user))
        try:
            found = [(dn, values) for dn, values in self._search(wanted) if dn is not None]  # None: a referral
        except self._ldap.SIZELIMIT_EXCEEDED as error:
            raise WrongPassword(f"{settings.url} has several entries for {user}") from error
        if len(found) != 1:
            raise WrongPassword(f"{settings.url} has {len(found) or 'no'} entries for {user}")
        ((entry, values),) = found
        names = next((some for key, some in values.items() if key.lower() == settings.user_attribute.lower()), [])
        if len(names) != 1:
            raise WrongPassword(f"{entry} has {len(names)} values of {settings.user_attribute} instead of one")
        return names[0].decode("utf-8", "replace"), entry

    def _search(self, wanted: str) -> list[tuple[str | None, dict[str, list[bytes]]]]:
        """With this thread's connection, or, if the directory has closed it meanwhile, with a new one."""
        connection = getattr(self._threads, "searching", None)
        self._threads.searching = None  # one that does not answer, such as one that a firewall forgot, is given up
        found = None
        if connection is not None:
            with contextlib.suppress(self._ldap.SERVER_DOWN):
                found = self._searched(connection, wanted)
        if found is None:
            connection = self._connected()
            if self._settings.bind_dn:
                connection.simple_bind_s(self._settings.bind_dn, self._password)
            found = self._searched(connection, wanted)
        self._threads.searching = connection
        return found

    def _searched(self, connection: Any, wanted: str) -> list[tuple[str | None, dict[str, list[bytes]]]]:
        settings = self._settings
        found: list[tuple[str | None, dict[str, list[bytes]]]] = connection.search_ext_s(
            settings.base_dn,
            self._ldap.SCOPE_SUBTREE,
            wanted,
            [settings.user_attribute],
            timeout=settings.timeout_s,
            sizelimit=2,
        )
        return found

    def _connected(self) -> Any:
        """A new connection, with TLS if it is to begin now."""
        connection = self._connection()
        if self._settings.start_tls:
            connection.start_tls_s()
        return connection

    def _connection(self) -> Any:
        """A new connection, which is made at its first use."""
        ldap, settings = self._ldap, self._settings
        connection = ldap.initialize(settings.url)
        connection.set_option(ldap.OPT_PROTOCOL_VERSION, ldap.VERSION3)
        connection.set_option(ldap.OPT_REFERRALS, 0)
        connection.set_option(ldap.OPT_NETWORK_TIMEOUT, settings.timeout_s)
        connection.set_option(ldap.OPT_TIMEOUT, settings.timeout_s)
        if settings.url.startswith("ldaps:") or settings.start_tls:
            if settings.ca:
                connection.set_option(ldap.OPT_X_TLS_CACERTFILE, settings.ca)
            connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
            connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)  # the last one: it applies the others
        return connection


def _secret(file: str) -> str:
    if not file:
        return ""
    key = "ldap.bind_password_file"
    try:
        password = Path(file).read_text().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}: {file}: {error}") from error
    if not password:
        raise ConfigError(f"{key}: {file} is empty")
    return password


def why(error: Exception) -> str:
    """What an error of python-ldap says: what went wrong, and the directory's own words."""
    said = error.args[0] if error.args and isinstance(error.args[0], dict) else {"desc": str(error)}
    return ": ".join(str(said[name]) for name in ("desc", "info") if said.get(name))
