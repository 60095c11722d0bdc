"""The groups of users, from a file in the format of /etc/group: `GROUP:PASSWORD:NUMBER:USER,USER` in each line.

Job: tell whether a user is in one of several groups. Must not know: what groups may do. A user is in the groups whose
lines name it. The primary group of the user's account does not count, because it is not in this file. Owner: the
present value of a Renewable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from hms_cache_proxy.errors import ConfigError

KEY: Final = "tokens.groups_file"
_FIELDS: Final = 4


class UserGroups:
    """`members`: the users of each group."""

    def __init__(self, members: Mapping[str, frozenset[str]]) -> None:
        self._members = members

    def has(self, groups: Collection[str], user: str) -> bool:
        """Is the user in one of these groups?"""
        return any(user in self._members.get(group, ()) for group in groups)


def read_groups(file: str) -> UserGroups:
    """ConfigError if the file cannot be read, or a line is not as it must be."""
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{KEY}: {file}: {error}") from error
    members: dict[str, frozenset[str]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split(":")
        if len(parts) != _FIELDS or not parts[0].strip():
            raise ConfigError(f"{KEY}: {file}, line {number}: must be GROUP:PASSWORD:NUMBER:USER,USER")
        users = (user.strip() for user in parts[3].split(","))
        group = parts[0].strip()
        members[group] = members.get(group, frozenset()) | frozenset(filter(None, users))
    return UserGroups(members)
