"""The settings of the proxy's own delegation tokens: the section `[tokens]`.

Must not know: what a token is, what the file holds (security/).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Final, NamedTuple

from hms_cache_proxy.config.fields import Parsed, Section, parse_list, setting
from hms_cache_proxy.config.security import KerberosSection, SecuritySection, issues_tokens
from hms_cache_proxy.config.ttl import Seconds

ANYBODY: Final = "*"
GROUP: Final = "%"  # before the name of a group
LONGEST_S: Final = 315_360_000
"""No token lasts longer."""


@dataclass(frozen=True)
class TokensSection(Section):
    """`[tokens]`."""

    key_file: str = setting(
        "",
        description="A file with the keys that sign delegation tokens, one a line, of 32 letters or more; the first"
        " signs, all verify. Proxies that are to know each other's tokens need the same keys. Empty: the proxy makes a"
        " key of its own in the data directory.",
    )
    lifetime: Seconds = setting(
        604_800.0,
        ge=1,
        le=LONGEST_S,
        description="How long a delegation token is good, as Hive's `metastore.cluster.delegation.token.max-lifetime`.",
    )
    proxy_users: Annotated[tuple[str, ...], Parsed(parse_list)] = setting(
        (),
        description="Who may ask for tokens of others, as `hadoop.proxyuser`: `hive=*` (anybody's),"
        " `trino=alice|bob@10.0.0.5|10.1.0.0/16` (these users', from these addresses), or `hue=%analysts` (those of"
        " users of this group, by `groups_file`).",
    )
    groups_file: str = setting(
        "",
        description="A file with the groups of users that `proxy_users` names, in the format of /etc/group, which"
        " `getent group` writes.",
    )
    administrators: Annotated[tuple[str, ...], Parsed(parse_list)] = setting(
        (), description="Users who may cancel every token. Others may cancel those that they own or may renew."
    )


class ProxyUserRule(NamedTuple):
    """A user who may ask for tokens of `users`, of the users of `groups`, or of `anybody`, from `networks` (none: from
    anywhere)."""

    name: str
    users: frozenset[str]
    groups: frozenset[str]
    anybody: bool
    networks: tuple[IPv4Network | IPv6Network, ...]


def parse_proxy_users(rules: Sequence[str]) -> list[ProxyUserRule]:
    """ValueError if one is not a rule."""
    return [_rule(text) for text in rules]


def _rule(text: str) -> ProxyUserRule:
    name, found, rest = text.partition("=")
    users, at, networks = rest.partition("@")
    named = [user.strip() for user in users.split("|")]
    groups = frozenset(user.removeprefix(GROUP).strip() for user in named if user.startswith(GROUP))
    if not found or not name.strip() or not all(named) or not all(groups) or (at and not networks.strip()):
        raise ValueError(
            f"{text!r} is not a rule such as hive=*, hue=%analysts or trino=alice|bob@10.0.0.5|10.1.0.0/16"
        )
    return ProxyUserRule(
        name.strip(),
        frozenset(user for user in named if user != ANYBODY and not user.startswith(GROUP)),
        groups,
        ANYBODY in named,
        tuple(ip_network(part.strip()) for part in networks.split("|")) if at else (),
    )


def token_disagreements(
    security: SecuritySection, kerberos: KerberosSection, tokens: TokensSection
) -> Iterator[tuple[str, str]]:
    """Keys of the section whose values contradict each other, or other sections, and why."""
    defaults = TokensSection()
    if not issues_tokens(security, kerberos):
        for name in ("key_file", "lifetime", "proxy_users", "groups_file", "administrators"):
            if getattr(tokens, name) != getattr(defaults, name):
                yield f"tokens.{name}", "has no meaning unless clients may log in to the proxy with Kerberos"
    try:
        grouped = any(rule.groups for rule in parse_proxy_users(tokens.proxy_users))
    except ValueError as error:
        yield "tokens.proxy_users", str(error)
        return
    if grouped and not tokens.groups_file:
        yield "tokens.groups_file", f"is required: a rule of tokens.proxy_users names a group ({GROUP})"
    if tokens.groups_file and not grouped:
        yield "tokens.groups_file", f"has no meaning: no rule of tokens.proxy_users names a group ({GROUP})"
