"""The settings of TTL mode: the section `[ttl]`, and what they say for one kind and one table.

The first that says something counts: a rule of `ttl.tables` whose pattern matches, `ttl.kinds`, the section itself.
This module must not know what is done with it. Import `TtlSection` from hms_cache_proxy.settings.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from hms_cache_proxy.config.fields import Parsed, Section, setting
from hms_cache_proxy.config.selection import check_pattern

KindName = Literal[
    "database",
    "database_names",
    "table",
    "table_names",
    "view_names",
    "partition",
    "partition_names",
    "partition_filter",
    "table_statistics",
    "partition_statistics",
    "constraints",
    "functions",
    "roles",
    "role_grants",
    "table_privileges",
]
PARTITION_SCOPE = ("partition", "partition_statistics")
"""What `scope = "partition"` caches, as Presto's metastore-cache-scope does."""

NEVER = float("inf")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", re.IGNORECASE)
_SIZES = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i)?B?", re.IGNORECASE)


def parse_duration(value: object) -> object:
    """Seconds of `30m`, `1.5h`, `250ms`, 90 or `never` (infinite); ValueError if it is none of them."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() == "never":
        return NEVER
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is not a time such as 30s, 15m, 1d or never")
    return float(match[1]) * _UNITS[match[2].lower()]


def parse_size(value: object) -> object:
    """Bytes of `512MiB`, `8GiB`, 1048576; ValueError if it is none of them."""
    if not isinstance(value, str):
        return value
    match = _SIZES.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is not a size such as 1048576, 512MiB or 8GiB")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def _of_text(value: object) -> object:
    """Tables and lists come from the environment as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None


def parse_pattern(value: object) -> object:
    """A pattern as it is; ConfigError or ValueError if it is none."""
    check_pattern(str(value))
    return value


Bytes = Annotated[int, Parsed(parse_size)]
Seconds = Annotated[float, Parsed(parse_duration)]


@dataclass(frozen=True)
class KindRule(Section):
    """What one kind has in place of what the section says."""

    ttl: Seconds | None = setting(None, ge=0)
    refresh_interval: Seconds | None = setting(None, ge=0)
    maximum_size: int | None = setting(None, ge=0)
    maximum_bytes: Bytes | None = setting(None, ge=0)
    cache_missing: bool | None = None


@dataclass(frozen=True)
class TableRule(Section):
    """What tables that match a pattern have in place of what their kind says."""

    pattern: Annotated[str, Parsed(parse_pattern)]
    ttl: Seconds | None = setting(None, ge=0)
    refresh_interval: Seconds | None = setting(None, ge=0)


class Policy(NamedTuple):
    """What counts for one kind, and one table. `refresh_s`: never where it would come after `ttl_s`."""

    ttl_s: float
    refresh_s: float
    cache_missing: bool

    @property
    def cached(self) -> bool:
        """A ttl of 0 means: not at all."""
        return self.ttl_s > 0


@dataclass(frozen=True)
class TtlSection(Section):
    """`[ttl]`."""

    enabled: bool = setting(False, description="Cache by time where no notification log is followed; docs/ttl.md.")
    ttl: Seconds = setting(
        300.0, ge=0, description="An entry older than this is reloaded before it is given; 0s = none."
    )
    refresh_interval: Seconds = setting(
        NEVER,
        ge=0,
        description="An entry older than this is given, and reloaded behind it; counts if below `ttl.ttl`.",
    )
    maximum_size: int = setting(100_000, ge=0, description="Entries of each kind; the least recently used go first.")
    maximum_bytes: Bytes = setting(256 << 20, ge=0, description="Bytes of each kind.")
    scope: Literal["all", "partition"] = setting(
        "all", description="`partition`: only partitions and their statistics, as Presto's cache scope."
    )
    cache_missing: bool = setting(False, description="Remember also that something does not exist.")
    impersonation: Literal["off", "on"] = setting(
        "off", description="`on`: each user (set_ugi) has entries of his own; writes invalidate everybody's."
    )
    partition_column_limit: int = setting(
        0, ge=0, description="A partition with more columns than this is counted and not kept; 0 = no limit."
    )
    validation_percentage: float = setting(
        0, ge=0, le=100, description="How many of a hundred partition hits are compared with the metastore's answer."
    )
    kinds: Annotated[dict[KindName, KindRule], Parsed(_of_text)] = setting(
        {}, description="Tables `[ttl.kinds.KIND]`: ttl, refresh_interval, sizes, cache_missing."
    )
    tables: Annotated[tuple[TableRule, ...], Parsed(_of_text)] = setting(
        (), description="Tables `[[ttl.tables]]`: pattern, ttl, refresh_interval; the first that matches counts."
    )

    def policy(self, kind: str, database: bytes | None = None, table: bytes | None = None) -> Policy:
        """What counts for a kind, and for a table where it is about one (names as stored)."""
        if self.scope == "partition" and kind not in PARTITION_SCOPE:
            return Policy(0, NEVER, False)
        rule = self.kinds.get(kind, KindRule())  # type: ignore[call-overload]  # a name of KindName
        ttl, refresh = _first(rule.ttl, self.ttl), _first(rule.refresh_interval, self.refresh_interval)
        special = self._rule_of(database, table) if table is not None else None
        if special is not None:
            ttl, refresh = _first(special.ttl, ttl), _first(special.refresh_interval, refresh)
        missing = self.cache_missing if rule.cache_missing is None else rule.cache_missing
        return Policy(ttl, refresh if refresh < ttl else NEVER, missing)

    def bounds(self, kind: str) -> tuple[int, int]:
        """Entries and bytes that a kind may have."""
        rule = self.kinds.get(kind, KindRule())  # type: ignore[call-overload]  # a name of KindName
        entries = self.maximum_size if rule.maximum_size is None else rule.maximum_size
        return entries, self.maximum_bytes if rule.maximum_bytes is None else rule.maximum_bytes

    def _rule_of(self, database: bytes | None, table: bytes | None) -> TableRule | None:
        name = b"%b.%b" % (database or b"", table or b"")
        text = name.decode("utf-8", "replace")
        return next((rule for rule in self.tables if check_pattern(rule.pattern).fullmatch(text)), None)


def _first(special: float | None, usual: float) -> float:
    return usual if special is None else special
