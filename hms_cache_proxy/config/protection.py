"""The settings that protect a metastore from its clients: the section `[protection]`. All of it is off by default.

Must not know: how a call is refused or held back (methods/protection.py).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from hms_cache_proxy.config.fields import Parsed, Section, parse_list, setting


def _parse_globs(value: object) -> object:
    items = parse_list(value)
    if isinstance(items, list | tuple):
        for item in items:
            if not str(item).strip() or "." in str(item):
                raise ValueError(f"{item!r} is not the name of a database, or a glob such as sales_*")
    return items


_Databases = Annotated[tuple[str, ...], Parsed(_parse_globs)]


@dataclass(frozen=True)
class ProtectionSection(Section):
    """`[protection]`. The settings can change without a restart."""

    read_only: bool = setting(False, description="Refuse every call that changes something.")
    refuse_writes: _Databases = setting(
        (), description="Databases, as globs, in which nothing may be changed; in every catalog."
    )
    refuse_reads: _Databases = setting(
        (),
        description="Databases, as globs, whose objects are not returned. This is no access control: lists over several"
        " databases still have their names.",
    )
    calls_per_user: int = setting(
        0,
        ge=0,
        description="Maximum relayed reads and writes of one user at the same time, in each worker; further ones wait"
        " up to `upstream_options.queue_timeout_s`; 0 = no limit.",
    )
    calls_per_address: int = setting(
        0, ge=0, description="The same for one client address: how many relayed calls at the same time; 0 = no limit."
    )

    @property
    def refuses(self) -> bool:
        """Whether any call may be refused because of what it is about."""
        return self.read_only or bool(self.refuse_writes) or bool(self.refuse_reads)


class DatabaseGlobs:
    """Compiled globs over names of databases."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._patterns = tuple(re.compile(fnmatch.translate(glob.strip().lower())) for glob in globs)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def match(self, database: bytes) -> bool:
        name = database.decode("utf-8", "replace")
        return any(pattern.match(name) for pattern in self._patterns)
