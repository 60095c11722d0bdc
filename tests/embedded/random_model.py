"""What exists while random calls are drawn, as the last read of Hive told it.

Job: databases, tables and partitions by name, and places where the next one could lie. Must not know: calls.
Invariant: locations begin with ELSEWHERE, EXTERNAL or MANAGED, whatever directories a metastore has for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.embedded.differential import ELSEWHERE

EXTERNAL, MANAGED = "file:/WH/external", "file:/WH/managed"
TABLES = tuple(f"t{number}" for number in range(1, 7))
VALUES = ("1", "2", "a b", "ü", "x/y")
KEYS = ("p", "q")
ODD = ("/a", "/a/b", "/a/b/c", "/with space", "/ü", "/link", "/link/in", "/a/", "/x/../a", "//a//b", "/a%20b")
"""Places outside of the warehouses that lie in each other, or are each other; `link` leads to `/a`."""


@dataclass(slots=True)
class Noted:
    """A table with its partitions."""

    database: str
    table: Any
    parts: list[Any]

    @property
    def name(self) -> str:
        return str(self.table.tableName)

    @property
    def keys(self) -> list[str]:
        return [str(key.name) for key in self.table.partitionKeys]

    @property
    def has_transactions(self) -> bool:
        return (self.table.parameters or {}).get("transactional") == "true"


@dataclass(slots=True)
class Model:
    """`overlapping`: may objects share directories?"""

    names: tuple[str, str]
    random: Random
    overlapping: bool
    databases: dict[str, Any] = field(default_factory=dict)
    tables: dict[tuple[str, str], Noted] = field(default_factory=dict)
    _given: int = 0

    def table(self, *, partitioned: bool | None = None) -> Noted | None:
        """Any table, or one that is (not) partitioned."""
        some = [each for _, each in sorted(self.tables.items()) if partitioned in (None, bool(each.keys))]
        return self.random.choice(some) if some else None

    def free_name(self, database: str) -> str:
        """Of a table: mostly one that is not there."""
        free = [name for name in TABLES if (database, name) not in self.tables]
        return self.random.choice(free if free and self.random.random() < 0.95 else TABLES)

    def database(self) -> str | None:
        """One that exists, mostly the first."""
        some = [name for name in self.names if name in self.databases]
        return some[0 if self.random.random() < 0.7 else -1] if some else None

    def values(self, noted: Noted) -> list[str]:
        """Of a partition that may be there or not."""
        return [self.random.choice(VALUES[: 5 if at == 0 else 2]) for at, _ in enumerate(noted.keys)]

    def place(self, default: float = 0.5) -> str | None:
        """Where something new is to lie; None where the metastore is to choose."""
        if self.random.random() < default:
            return None
        self._given += 1
        if not self.overlapping:
            return f"{ELSEWHERE}/own/{self._given}"
        there = [place for noted in self.tables.values() for place in self._places(noted)]
        if not there or self.random.random() < 0.4:
            return ELSEWHERE + self.random.choice(ODD)
        place = self.random.choice(sorted(there))
        return self.random.choice([place, f"{place}/", f"{place}/in", f"{place}/in", place.rpartition("/")[0]])

    def _places(self, noted: Noted) -> list[str]:
        """Where a table and its partitions lie; the databases' own directories hold more than objects."""
        places = [str(each.sd.location) for each in (noted.table, *noted.parts) if each.sd.location]
        return [place for place in places if place.count("/") > 3]


def name_of(keys: list[str], values: list[str]) -> str:
    """A partition's name; of the characters that Hive escapes, the slash only is drawn."""
    return "/".join(f"{key}={value.replace('/', '%2F')}" for key, value in zip(keys, values, strict=False))
