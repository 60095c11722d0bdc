"""The mechanisms of SASL that clients may log in with, by the settings.

Job: `offered` says which they are; each begins a login for a connection, and knows what its user is called. Must not
know: negotiations, connections (login.py). Owner: one worker's loop; the steps of a login run in the mechanism's
threads, as they take milliseconds (a ticket; a file is locked, the replay cache), or seconds (a password).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from hms_cache_proxy.config import Config
from hms_cache_proxy.security import kerberos_settings, password_settings
from hms_cache_proxy.security.kerberos_settings import Acceptance
from hms_cache_proxy.security.mechanism import IncomingLogin, LoginRefused
from hms_cache_proxy.security.passwords import PlainLogin, Remembered
from hms_cache_proxy.security.principals import parse_principal
from hms_cache_proxy.security.renewal import Renewable

AT_ONCE: Final = 4  # steps of logins of one mechanism


class Mechanism(Protocol):
    """One way to log in."""

    name: str
    threads: ThreadPoolExecutor
    only_within_tls: bool
    files: tuple[str, Renewable[Any]]
    """What is made from files, and its name where they are followed."""

    def begin(self) -> IncomingLogin:
        """For one connection."""

    def user(self, principal: str) -> str:
        """What one who has logged in is called. LoginRefused if nothing says so."""


class KerberosMechanism:
    """GSSAPI."""

    name = "GSSAPI"
    only_within_tls = False

    def __init__(self, acceptance: Acceptance) -> None:
        self._acceptance = acceptance
        self.files: tuple[str, Renewable[Any]] = ("keytab", acceptance.keytab)
        self.threads = ThreadPoolExecutor(AT_ONCE, "kerberos-clients")

    def begin(self) -> IncomingLogin:
        """With the keys of now."""
        return self._acceptance.keytab.value.login()

    def user(self, principal: str) -> str:
        """By the rules of `kerberos.auth_to_local`."""
        try:
            user = self._acceptance.names.of(parse_principal(principal))
        except ValueError:
            user = None
        if user is None:
            raise LoginRefused(
                "No user has this principal's name", detail=f"no rule of kerberos.auth_to_local applies to {principal}"
            )
        return user


class PasswordMechanism:
    """PLAIN."""

    name = "PLAIN"

    def __init__(self, passwords: Renewable[Remembered], *, only_within_tls: bool) -> None:
        self._passwords = passwords
        self.only_within_tls = only_within_tls
        self.files: tuple[str, Renewable[Any]] = ("passwords", passwords)
        self.threads = ThreadPoolExecutor(AT_ONCE, "passwords")

    def begin(self) -> IncomingLogin:
        """With the passwords of now."""
        return PlainLogin(self._passwords.value)

    def user(self, principal: str) -> str:
        """The name that belongs to the password."""
        return principal


def offered(config: Config) -> list[Mechanism]:
    """By name of setting: Kerberos with a keytab, passwords with a file or directory."""
    found: list[Mechanism] = []
    if config.kerberos.keytab:
        found.append(KerberosMechanism(kerberos_settings.for_clients(config.kerberos)))
    passwords = password_settings.for_clients(config.security, config.ldap)
    if passwords is not None:
        found.append(PasswordMechanism(passwords, only_within_tls=not config.security.passwords_without_tls))
    return found
