r"""Kerberos names (`alice@EXAMPLE.COM`, `hive/host@EXAMPLE.COM`), and the short names that rules make of them.

Job: parse names and rules, apply rules in their order. The rules are those of Hadoop's `hadoop.security.auth_to_local`:

    RULE:[2:$1](hive|spark)             of two components, if the text `$1` matches as a whole: that text
    RULE:[1:$1@$0](.*@OLD\.TEST)s/@.*//  of one: the text, with the first match replaced; `/g`: every match
    RULE:[1:$1]/L                       in lower case
    DEFAULT                             the first component of a name in the default realm

`$0` is the realm, `$1` the first component. The first rule that applies decides; if none does, the name has no short
name, and its owner is refused. Must not know: keys, tickets, users.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.errors import ConfigError

_RULE: Final = re.compile(
    r"RULE:\[(?P<number>\d):(?P<text>[^\]]+)\]"
    r"(?:\((?P<match>.*)\))?"
    r"(?:s/(?P<old>(?:\\.|[^/\\])+)/(?P<new>[^/]*)/(?P<every>g?))?"
    r"(?P<lower>/L)?"
)
_PART: Final = re.compile(r"((?:\\.|[^\\/@])*)([/@]?)")
_SIMPLE: Final = re.compile(r"[^/@\s]+")


@dataclass(frozen=True, slots=True)
class Principal:
    """A name: `components` before the realm, one for users and two for services."""

    components: tuple[str, ...]
    realm: str


def parse_principal(text: str) -> Principal:
    """The name in this text; a backslash takes the meaning from a `/` or `@`. ValueError if it is not one."""
    name, found, realm = _split(text)
    if not found or not realm or not all(name):
        raise ValueError(f"{text!r} is not a name such as alice@REALM or hive/host@REALM")
    return Principal(tuple(name), realm)


def _split(text: str) -> tuple[list[str], bool, str]:
    components, at = [], 0
    while True:
        part = _PART.match(text, at)
        assert part is not None
        components.append(re.sub(r"\\(.)", r"\1", part[1]))
        at = part.end()
        if part[2] != "/":
            break
    rest = text[at:]
    return components, part[2] == "@", "" if "/" in rest or "@" in rest or "\\" in rest else rest


@dataclass(frozen=True, slots=True)
class _Rule:
    """`number` 0: the rule DEFAULT."""

    number: int = 0
    text: str = ""
    match: re.Pattern[str] | None = None
    old: re.Pattern[str] | None = None
    new: str = ""
    every: bool = False
    lower: bool = False

    def apply(self, principal: Principal, default_realm: str) -> str | None:
        if not self.number:
            return principal.components[0] if principal.realm == default_realm else None
        if len(principal.components) != self.number:
            return None
        named = (principal.realm, *principal.components)
        text = re.sub(r"\$(\d)", lambda found: named[int(found[1])], self.text)
        if self.match is not None and not self.match.fullmatch(text):
            return None
        if self.old is not None:
            text = self.old.sub(self.new, text, count=0 if self.every else 1)
        return text.lower() if self.lower else text


class ShortNames:
    """Rules, ready to be applied. ConfigError, which names `key`, if one is not a rule."""

    def __init__(self, rules: Sequence[str], default_realm: str, *, key: str) -> None:
        self._key = key
        self._default_realm = default_realm
        self.use(rules)

    def use(self, rules: Sequence[str]) -> None:
        """From now on, these apply."""
        self._rules = tuple(_parse(rule, self._key) for rule in rules)

    def of(self, principal: Principal) -> str | None:
        """The short name; None if no rule applies, or what it makes is not a simple name."""
        for rule in self._rules:
            name = rule.apply(principal, self._default_realm)
            if name is not None:
                return name if _SIMPLE.fullmatch(name) else None
        return None


def _parse(text: str, key: str) -> _Rule:
    if text.strip() == "DEFAULT":
        return _Rule()
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{key}: {text!r} is not a rule such as DEFAULT or RULE:[1:$1@$0](.*@REALM)s/@.*//")
    number = int(found["number"])
    if not number or any(int(digit) > number for digit in re.findall(r"\$(\d)", found["text"])):
        raise ConfigError(f"{key}: {text!r} names a component that such a principal does not have")
    try:
        old = re.compile(found["old"]) if found["old"] else None
        new = re.sub(r"\$(\d)", r"\\g<\1>", (found["new"] or "").replace("\\", r"\\"))
        if old is not None and any(int(digit) > old.groups for digit in re.findall(r"\\g<(\d)>", new)):
            raise re.error("the replacement names a group that the pattern does not have")
        match = re.compile(found["match"]) if found["match"] is not None else None
    except re.error as error:
        raise ConfigError(f"{key}: {text!r}: {error}") from error
    return _Rule(number, found["text"], match, old, new, bool(found["every"]), bool(found["lower"]))
