"""The settings of the version bridge. Must not know: other sections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from hms_cache_proxy.config.fields import Parsed, Section, setting
from hms_cache_proxy.config.ttl import of_text


def _check_users(value: object) -> object:
    """In the environment, the table is written as JSON."""
    users = of_text(value)
    for user, words in users.items() if isinstance(users, dict) else ():
        if isinstance(words, str) or not words:
            raise ValueError(f"{user!r} needs a list of capabilities, such as ['HIVEFULLACIDREAD', 'EXTREAD']")
    return users


@dataclass(frozen=True)
class BridgeSection(Section):
    capabilities: Annotated[dict[str, tuple[str, ...]], Parsed(_check_users)] = setting(
        {},
        description="Capabilities for clients that name none: a list for each pattern of user names, such as `trino*`;"
        " the first pattern that matches applies. docs/operations.md says what a client must be able to do.",
    )
    managed_locations: Literal["client", "metastore"] = setting(
        "client",
        description="Where new transactional tables of these clients are stored: where the client says, or, if that is"
        " only the database's default, where the metastore chooses (files that the client wrote before are not there).",
    )
