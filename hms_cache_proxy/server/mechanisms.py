"""The SASL mechanisms that the settings allow clients to log in with.

Job: `offered` returns them; each begins a login for a connection, and gives its user a name. Must not know:
negotiations, connections (login.py). Owner: one worker's loop; the steps of a login run in the mechanism's threads,
because they take milliseconds (a ticket, for which the replay cache's file is locked) or seconds (a password).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.security import digest_md5, kerberos_settings, password_settings, token_keys
from hms_cache_proxy.security.cancelled_tokens import CancelledTokens
from hms_cache_proxy.security.kerberos_settings import Acceptance
from hms_cache_proxy.security.mechanism import IncomingLogin, LoginRefused
from hms_cache_proxy.security.passwords import PlainLogin, Remembered
from hms_cache_proxy.security.principals import parse_principal
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.security.token_issuer import TokenIssuer
from hms_cache_proxy.security.tokens import digest, identifier_of, parse_identifier
from hms_cache_proxy.security.user_groups import read_groups
from hms_cache_proxy.wire.sasl import Layers

AT_ONCE: Final = 4  # steps of logins of one mechanism


class Entered(NamedTuple):
    """Who has logged in. `details`: for the logs. `why_over`: why it holds no longer; empty: it does. None: it holds as
    long as the connection."""

    user: str
    details: Mapping[str, str | int | None]
    why_over: Callable[[], str] | None = None


class Mechanism(Protocol):
    """One way to log in."""

    name: str
    threads: ThreadPoolExecutor
    only_within_tls: bool
    files: Mapping[str, Renewable[Any]]
    """What is made from files, by its name where they are followed."""

    def begin(self) -> IncomingLogin:
        """For one connection."""

    def entered(self, principal: str) -> Entered:
        """Who that is, after a login. LoginRefused if nothing says so."""


class KerberosMechanism:
    """GSSAPI."""

    name = "GSSAPI"
    only_within_tls = False

    def __init__(self, acceptance: Acceptance) -> None:
        self._acceptance = acceptance
        self.files: Mapping[str, Renewable[Any]] = {"keytab": acceptance.keytab}
        self.threads = ThreadPoolExecutor(AT_ONCE, "kerberos-clients")

    def begin(self) -> IncomingLogin:
        """With the keys of now."""
        return self._acceptance.keytab.value.login()

    def entered(self, principal: str) -> Entered:
        """By the rules of `kerberos.auth_to_local`."""
        try:
            user = self._acceptance.names.of(parse_principal(principal))
        except ValueError:
            user = None
        if user is None:
            raise LoginRefused(
                "No user has this principal's name", detail=f"no rule of kerberos.auth_to_local applies to {principal}"
            )
        return Entered(user, {"principal": principal})


class TokenMechanism:
    """DIGEST-MD5, with the proxy's own delegation tokens. `layers`: the protections that are offered."""

    name = digest_md5.MECHANISM
    only_within_tls = False

    def __init__(self, issuer: TokenIssuer, layers: Layers) -> None:
        self.issuer = issuer
        self._layers = layers
        groups = {} if issuer.groups is None else {"groups": issuer.groups}
        self.files: Mapping[str, Renewable[Any]] = {"token_keys": issuer.keys, **groups}
        self.threads = ThreadPoolExecutor(AT_ONCE, "token-clients")

    def begin(self) -> IncomingLogin:
        """With the keys of now."""
        return digest_md5.ServerLogin(self.issuer.password_of, self._layers)

    def entered(self, principal: str) -> Entered:
        """The token's owner, as long as the token is good."""
        encoded = identifier_of(principal.encode())
        token = parse_identifier(encoded)
        details = {"token": token.number, "real_user": token.real_user or None}
        return Entered(token.owner, details, partial(self.issuer.why_over, token, digest(encoded)))


class PasswordMechanism:
    """PLAIN."""

    name = "PLAIN"

    def __init__(self, passwords: Renewable[Remembered], *, only_within_tls: bool) -> None:
        self._passwords = passwords
        self.only_within_tls = only_within_tls
        self.files: Mapping[str, Renewable[Any]] = {"passwords": passwords}
        self.threads = ThreadPoolExecutor(AT_ONCE, "passwords")

    def begin(self) -> IncomingLogin:
        """With the passwords of now."""
        return PlainLogin(self._passwords.value)

    def entered(self, principal: str) -> Entered:
        """The name that belongs to the password."""
        return Entered(principal, {"principal": principal})


def offered(config: Config) -> list[Mechanism]:
    """By name of setting: Kerberos and tokens with a keytab, passwords with a file or directory."""
    found: list[Mechanism] = []
    if config.kerberos.keytab:
        acceptance = kerberos_settings.for_clients(config.kerberos)
        found += [KerberosMechanism(acceptance), TokenMechanism(_issuer(config, acceptance), acceptance.layers)]
    passwords = password_settings.for_clients(config.security, config.ldap)
    if passwords is not None:
        found.append(PasswordMechanism(passwords, only_within_tls=not config.security.passwords_without_tls))
    return found


def _issuer(config: Config, acceptance: Acceptance) -> TokenIssuer:
    keys = token_keys.followed_keys(config.tokens.key_file, paths.token_key(config))
    cancelled = CancelledTokens(paths.cancelled_tokens(config))
    file = config.tokens.groups_file
    return TokenIssuer(
        config.tokens,
        keys,
        cancelled,
        acceptance.names,
        groups=Renewable(partial(read_groups, file), [file]) if file else None,
        any_may_cancel="foreign_cancellations" not in config.security.block,
    )
