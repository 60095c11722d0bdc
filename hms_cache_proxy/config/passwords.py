"""The settings of logins with a password (SASL PLAIN): the section `[ldap]`, and the settings of `[security]` that go
with it.

Must not know: how a password is checked (security/).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from hms_cache_proxy.config.fields import Section, setting
from hms_cache_proxy.config.security import KerberosSection, SecuritySection, wants_login

USER: Final = "{user}"


@dataclass(frozen=True)
class LdapSection(Section):
    """`[ldap]`."""

    url: str = setting(
        "",
        description="The directory that checks passwords: ldaps://HOST[:PORT], or ldap://HOST[:PORT] with `start_tls`.",
    )
    start_tls: bool = setting(False, description="Begin TLS on the ldap:// connection before anything is sent on it.")
    ca: str = setting(
        "", description="PEM file with the authorities that sign the directory's certificate; empty: the system's."
    )
    user_dn: str = setting(
        "",
        description="The name of a user's entry, such as `uid={user},ou=people,dc=example,dc=com`: the proxy binds as"
        " this entry. Empty: the entry is searched for.",
    )
    base_dn: str = setting("", description="Where users' entries are searched for, with all that is below it.")
    user_filter: str = setting("(uid={user})", description="Which entry there is the user's.")
    user_attribute: str = setting(
        "uid", description="The attribute of the entry that was found whose value becomes the user's name."
    )
    bind_dn: str = setting("", description="As whom the proxy searches; empty: anonymously.")
    bind_password_file: str = setting("", description="A file with the password of `bind_dn`.")
    timeout_s: float = setting(5, gt=0, le=60, description="Time for each step of a check by the directory.")


def takes_passwords(security: SecuritySection, ldap: LdapSection) -> bool:
    """May clients log in with a password?"""
    return wants_login(security) and bool(security.password_file or ldap.url)


def password_disagreements(
    security: SecuritySection, kerberos: KerberosSection, ldap: LdapSection
) -> Iterator[tuple[str, str]]:
    """Keys of these settings whose values contradict each other, or other sections, and why."""
    defaults = LdapSection()
    given = [name for name in vars(defaults) if getattr(ldap, name) != getattr(defaults, name)]
    if not wants_login(security):
        keys = [f"ldap.{name}" for name in given] + ["security.password_file"] * bool(security.password_file)
        yield from ((key, "has no meaning: sasl is not among security.transports") for key in keys)
        return
    if security.password_file and ldap.url:
        yield "security.password_file", "and ldap.url cannot both be set: one of them checks passwords"
    if not ldap.url:
        yield from ((f"ldap.{name}", "has no meaning without ldap.url") for name in given)
    else:
        yield from _ldap_problems(security, ldap, given)
    nobody = not kerberos.keytab and "tls+sasl" not in security.transports and not security.passwords_without_tls
    if takes_passwords(security, ldap) and nobody:
        yield (
            "security.transports",
            "must have tls+sasl: passwords are taken within TLS only. security.passwords_without_tls = true allows them"
            " to cross the network unencrypted",
        )


def _ldap_problems(security: SecuritySection, ldap: LdapSection, given: list[str]) -> Iterator[tuple[str, str]]:
    try:
        parts = urlsplit(ldap.url)
    except ValueError:  # brackets without an address
        parts = urlsplit("")
    if parts.scheme not in ("ldap", "ldaps") or not parts.hostname or parts.path.strip("/") or parts.query:
        yield "ldap.url", "must be ldaps://HOST[:PORT] or ldap://HOST[:PORT]"
        return
    if parts.scheme == "ldaps" and ldap.start_tls:
        yield "ldap.start_tls", "has no meaning with ldaps://, which is TLS from the beginning"
    encrypted = parts.scheme == "ldaps" or ldap.start_tls
    if not encrypted and not _loopback(parts) and not security.passwords_without_tls:
        yield (
            "ldap.start_tls",
            "must be true, or ldap.url ldaps://...: passwords would cross the network unencrypted, which"
            " security.passwords_without_tls = true allows",
        )
    if ldap.ca and not encrypted:
        yield "ldap.ca", "has no meaning without TLS to the directory"
    if bool(ldap.user_dn) is bool(ldap.base_dn):
        yield "ldap.user_dn", "or ldap.base_dn must be set, and not both: by one of them a user's entry is found"
    if ldap.user_dn and USER not in ldap.user_dn:
        yield "ldap.user_dn", f"must contain {USER}"
    for name in ("user_filter", "user_attribute", "bind_dn", "bind_password_file"):
        if ldap.user_dn and name in given:
            yield f"ldap.{name}", "has no meaning with ldap.user_dn: nothing is searched for"
    if USER not in ldap.user_filter or not (ldap.user_filter.startswith("(") and ldap.user_filter.endswith(")")):
        yield "ldap.user_filter", f"must be a filter in parentheses that contains {USER}"
    if bool(ldap.bind_dn) is not bool(ldap.bind_password_file):
        yield "ldap.bind_dn", "and ldap.bind_password_file must be set together"


def _loopback(parts: SplitResult) -> bool:
    try:
        return parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
