"""The proxy's own delegation tokens: who gets one, and which are valid.

Job: issue, renew and cancel tokens for callers, and give DIGEST-MD5 the password of a valid token. Tokens are not
stored: a token's identifier says whose it is and until when it is valid, and its password proves that one of the keys
signed it. So a token cannot be prolonged, and need not be renewed: to renew one only tells how long it is valid. Must
not know: connections, the form of calls. Errors are NotAllowed, which the caller may read; LoginRefused for a login.
Owner: one worker.
"""

from __future__ import annotations

import hmac
import secrets
import time
from base64 import b64encode
from collections.abc import Sequence
from typing import Final, NamedTuple

from hms_cache_proxy.config.tokens import ProxyUserRule, TokensSection, parse_proxy_users
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.security.addresses import within
from hms_cache_proxy.security.cancelled_tokens import MOST, CancelledTokens
from hms_cache_proxy.security.mechanism import LoginRefused
from hms_cache_proxy.security.principals import ShortNames, parse_principal
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.security.token_keys import TokenKeys
from hms_cache_proxy.security.tokens import Identifier, Token, digest, identifier_of, parse_identifier, parse_token
from hms_cache_proxy.security.user_groups import UserGroups

NAME_BYTES: Final = 1024
_UNKNOWN: Final = "DIGEST-MD5: IO error acquiring password"  # what Hive says of a token that it does not know


class NotAllowed(WireError):
    """A call about tokens is refused."""


class Caller(NamedTuple):
    """Who calls, and from where. `by_token`: logged in with a token."""

    user: str
    address: str
    by_token: bool


class TokenIssuer:
    """`names`: the rules that make names of principals. `groups`: those that rules name. `any_may_cancel`: whoever has
    the text of a token."""

    def __init__(
        self,
        settings: TokensSection,
        keys: Renewable[TokenKeys],
        cancelled: CancelledTokens,
        names: ShortNames,
        *,
        groups: Renewable[UserGroups] | None = None,
        any_may_cancel: bool = False,
    ) -> None:
        self.keys = keys
        self.groups = groups
        self._cancelled = cancelled
        self._names = names
        self._use(settings)
        self._lifetime_ms = int(settings.lifetime * 1000)
        self._any_may_cancel = any_may_cancel

    def use(self, settings: TokensSection, auth_to_local: Sequence[str]) -> None:
        """From now on, these say who may ask for whom, who may cancel, and what users are called. ConfigError."""
        self._names.use(auth_to_local)
        self._use(settings)

    def _use(self, settings: TokensSection) -> None:
        self._rules = parse_proxy_users(settings.proxy_users)
        self._administrators = frozenset(settings.administrators)

    def issue(self, caller: Caller, owner: str, renewer: str) -> tuple[str, Identifier]:
        """A new token, as text, and what it says."""
        if caller.by_token:
            raise NotAllowed("Delegation Token can be issued only with kerberos authentication")
        owner, renewer = self._short(owner), self._short(renewer)
        if not owner:
            raise NotAllowed("a delegation token needs an owner")
        if owner != caller.user:
            self._check_proxy_user(caller, owner)
        now_ms, keys = _now_ms(), self.keys.value
        named = owner, renewer, "" if owner == caller.user else caller.user
        made = Identifier(*named, now_ms, now_ms + self._lifetime_ms, secrets.randbits(31), keys.signing)
        encoded = made.encoded()
        return Token(encoded, keys.password(encoded, made.key)).text(), made

    def renew(self, caller: Caller, text: str) -> Identifier:
        """Which token it is: `latest_ms` is how long it is good."""
        found, _ = self._good(text)
        if not found.renewer or caller.user != found.renewer:
            raise NotAllowed(f"{caller.user} tries to renew a token with non-matching renewer {found.renewer}")
        return found

    def cancel(self, caller: Caller, text: str) -> Identifier:
        """From now on it is good no more."""
        found, encoded = self._good(text)
        allowed = caller.user in (found.owner, found.renewer) or caller.user in self._administrators
        if not allowed and not self._any_may_cancel:
            raise NotAllowed(f"{caller.user} is not authorized to cancel the token of {found.owner}")
        try:
            added = self._cancelled.add(digest(encoded), found.latest_ms, _now_ms())
        except OSError as error:  # a full disk
            raise NotAllowed(f"the cancellation cannot be recorded: {error.strerror}") from error
        if not added:
            raise NotAllowed(f"{MOST} tokens have been cancelled that have not expired: there is no room for more")
        return found

    def password_of(self, user_name: bytes) -> bytes:
        """For DIGEST-MD5, of a token that is good. LoginRefused."""
        try:
            _, password = self._checked(identifier_of(user_name))
        except WireError as error:
            raise LoginRefused(_UNKNOWN, detail=f"DIGEST-MD5: {error}") from error
        return b64encode(password)

    def why_over(self, token: Identifier, mark: bytes) -> str:
        """Why this token, with this digest, is good no more; empty: it is."""
        return self._why_over(token, mark, self.keys.value)

    def _why_over(self, token: Identifier, mark: bytes, keys: TokenKeys) -> str:
        if token.key not in keys:
            return "a delegation token that was signed with another key"
        if _now_ms() > token.latest_ms:
            return f"the delegation token of {token.owner} has expired"
        if mark in self._cancelled:
            return f"the delegation token of {token.owner} has been cancelled"
        return ""

    def _good(self, text: str) -> tuple[Identifier, bytes]:
        token = parse_token(text)
        found, password = self._checked(token.identifier)
        if not hmac.compare_digest(password, token.password):
            raise NotAllowed("a delegation token with a wrong password")
        return found, token.identifier

    def _checked(self, identifier: bytes) -> tuple[Identifier, bytes]:
        found, keys = parse_identifier(identifier), self.keys.value
        why = self._why_over(found, digest(identifier), keys)
        if why:
            raise NotAllowed(why)
        return found, keys.password(identifier, found.key)

    def _short(self, name: str) -> str:
        """A principal's short name; another name as it is."""
        if len(name.encode()) > NAME_BYTES or not name.isprintable():
            raise NotAllowed("a name that is too long, or not a line of text")
        if "@" not in name and "/" not in name:
            return name
        try:
            short = self._names.of(parse_principal(name))
        except ValueError:
            short = None
        if short is None:
            raise NotAllowed(f"no rule of kerberos.auth_to_local applies to {name}")
        return short

    def _check_proxy_user(self, caller: Caller, owner: str) -> None:
        rules = [rule for rule in self._rules if rule.name == caller.user and self._covers(rule, owner)]
        if not rules:
            raise NotAllowed(f"User: {caller.user} is not allowed to impersonate {owner}")
        if not any(not rule.networks or within(caller.address, rule.networks) for rule in rules):
            raise NotAllowed(f"Unauthorized connection for super-user: {caller.user} from IP {caller.address}")

    def _covers(self, rule: ProxyUserRule, owner: str) -> bool:
        """Is this one of its users?"""
        if rule.anybody or owner in rule.users:
            return True
        return self.groups is not None and self.groups.value.has(rule.groups, owner)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
