"""The settings of TTL mode: the section `[ttl]`, and which values apply to a kind and a table.

A value comes from the first of these that sets it: the rule of `ttl.tables` whose pattern matches, the rule of
`ttl.kinds`, the section.
Must not know: what the values are used for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
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
"""The kinds that are cached with `scope = "partition"`, as with Presto's metastore-cache-scope."""

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


def of_text(value: object) -> object:
    """In the environment, tables and lists are written as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None


def parse_pattern(value: object) -> object:
    """The pattern unchanged; ValueError if it is not one."""
    check_pattern(str(value))
    return value


Bytes = Annotated[int, Parsed(parse_size)]
Seconds = Annotated[float, Parsed(parse_duration)]


@dataclass(frozen=True)
class KindRule(Section):
    """Values for one kind; they replace those of the section."""

    ttl: Seconds | None = setting(None, ge=0)
    refresh_interval: Seconds | None = setting(None, ge=0)
    maximum_size: int | None = setting(None, ge=0)
    maximum_bytes: Bytes | None = setting(None, ge=0)
    cache_missing: bool | None = None


@dataclass(frozen=True)
class TableRule(Section):
    """Values for the tables that match a pattern; they replace those of their kind."""

    pattern: Annotated[str, Parsed(parse_pattern)]
    ttl: Seconds | None = setting(None, ge=0)
    refresh_interval: Seconds | None = setting(None, ge=0)


class Policy(NamedTuple):
    """The values for one kind and one table. `refresh_s` is NEVER if it would not be below `ttl_s`."""

    ttl_s: float
    refresh_s: float
    cache_missing: bool

    @property
    def cached(self) -> bool:
        """A ttl of 0 means that nothing is cached."""
        return self.ttl_s > 0


@dataclass(frozen=True)
class TtlSection(Section):
    """`[ttl]`."""

    enabled: bool = setting(False, description="Cache by time if no notification log is followed; docs/ttl.md.")
    ttl: Seconds = setting(
        300.0, ge=0, description="An older entry is reloaded before it is served; 0s = nothing is cached."
    )
    refresh_interval: Seconds = setting(
        NEVER,
        ge=0,
        description="An older entry is served, and reloaded in the background; has effect only below `ttl.ttl`.",
    )
    maximum_size: int = setting(
        100_000, ge=0, description="Maximum number of entries of each kind; the least recently used are evicted first."
    )
    maximum_bytes: Bytes = setting(256 << 20, ge=0, description="Maximum bytes of each kind.")
    scope: Literal["all", "partition"] = setting(
        "all", description="`partition`: only partitions and their statistics, like Presto's cache scope."
    )
    cache_missing: bool = setting(False, description="Also cache that something does not exist.")
    impersonation: Literal["off", "on"] = setting(
        "off", description="`on`: each user (set_ugi) has separate entries; a write invalidates those of all users."
    )
    partition_column_limit: int = setting(
        0, ge=0, description="A partition with more columns than this is not cached, only counted; 0 = no limit."
    )
    validation_percentage: float = setting(
        0, ge=0, le=100, description="Percentage of partition hits that are compared with the metastore's answer."
    )
    kinds: Annotated[dict[KindName, KindRule], Parsed(of_text)] = setting(
        {}, description="Tables `[ttl.kinds.KIND]`: ttl, refresh_interval, sizes, cache_missing."
    )
    tables: Annotated[tuple[TableRule, ...], Parsed(of_text)] = setting(
        (), description="Tables `[[ttl.tables]]`: pattern, ttl, refresh_interval; the first match applies."
    )

    def policy(self, kind: str, tables: Iterable[tuple[bytes, bytes]] = ()) -> Policy:
        """The values for a kind and the tables (database and name, as stored) that the entry is about: of several
        tables, the shortest times."""
        if self.scope == "partition" and kind not in PARTITION_SCOPE:
            return Policy(0, NEVER, False)
        rule = self.kinds.get(kind, KindRule())  # type: ignore[call-overload]  # a name of KindName
        ttl, refresh = _first(rule.ttl, self.ttl), _first(rule.refresh_interval, self.refresh_interval)
        rules = [self._rule_of(*table) for table in tables] if self.tables else []
        if rules:
            ttl = min(ttl if one is None else _first(one.ttl, ttl) for one in rules)
            refresh = min(refresh if one is None else _first(one.refresh_interval, refresh) for one in rules)
        missing = self.cache_missing if rule.cache_missing is None else rule.cache_missing
        return Policy(ttl, refresh if refresh < ttl else NEVER, missing)

    def bounds(self, kind: str) -> tuple[int, int]:
        """Maximum number of entries, and of bytes, of a kind."""
        rule = self.kinds.get(kind, KindRule())  # type: ignore[call-overload]  # a name of KindName
        entries = self.maximum_size if rule.maximum_size is None else rule.maximum_size
        return entries, self.maximum_bytes if rule.maximum_bytes is None else rule.maximum_bytes

    def _rule_of(self, database: bytes, table: bytes) -> TableRule | None:
        text = (b"%b.%b" % (database, table)).decode("utf-8", "replace")
        return next((rule for rule in self.tables if check_pattern(rule.pattern).fullmatch(text)), None)


def _first(special: float | None, usual: float) -> float:
    return usual if special is None else special
