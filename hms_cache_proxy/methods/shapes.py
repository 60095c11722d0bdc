"""Rules that find the targets of a call in its arguments.

Job: implement declarative rules such as "the table that db_name and tbl_name name" and "for each partition of the list:
its table".
Must not know: which method has which rule (table.py), the cache, sessions.

Invariants:
- Names are folded generously (names.write_name): a rule may name too much, never too little.
- An absent name yields nothing. If all rules of a call yield nothing, the caller decides what that means.
- Paths are dotted field names of the newest IDL that has them; a step into a list means each of its elements.

Owner: any process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import Any, Protocol

from hms_cache_proxy.cache import targets as target
from hms_cache_proxy.consistency import names

from .projections import Path

DEFAULT_DATABASE = b"default"
MOST_CALLED = 1000
"""Partitions that one write reloads by name; each takes a row in the fences. If it names more, all are reloaded."""
DATABASE_RIGHTS, TABLE_RIGHTS = 2, (3, 4, 5)
"""HiveObjectType: of a database; of a table, a partition, a column."""
PART = 256
"""Elements whose names are read in one part (0.3 ms)."""
_PLAIN_PATTERN = re.compile(rb"\w+", re.ASCII).fullmatch


class Rule(Protocol):
    """One rule of a method."""

    def paths(self) -> Sequence[Path]:
        """The argument fields that it reads."""
        ...

    def targets(self, row: Any) -> Iterator[bytes]:
        """The targets that a decoded projection names."""
        ...


def get(row: Any, path: Path | None) -> Any:
    """The value at a path without lists; None where a step is absent."""
    return None if path is None or row is None else _getter(path)(row)


@cache
def _getter(path: Path) -> Callable[[Any], Any]:
    first, _, rest = path.partition(".")
    value = attrgetter(first)
    if not rest:
        return value
    inner = _getter(rest)

    def below(row: Any) -> Any:
        struct = value(row)
        return None if struct is None else inner(struct)

    return below


@dataclass(frozen=True, slots=True)
class _Database:
    database: Path
    catalog: Path | None
    make: tuple[Callable[[bytes, bytes], bytes], ...]
    listing: bool = False

    def paths(self) -> Sequence[Path]:
        return [path for path in (self.database, self.catalog) if path]

    def targets(self, row: Any) -> Iterator[bytes]:
        raw, catalog = get(row, self.database), get(row, self.catalog)
        named = names.write_database(raw, catalog)
        if named is None:
            return
        for make in self.make:
            yield make(*named)
        if self.listing:
            yield target.databases(named[0])


@dataclass(frozen=True, slots=True)
class _Table:
    database: Path
    table: Path
    catalog: Path | None
    listing: bool
    """The call creates or drops the table, so the database's list of tables changes too."""

    with_database: bool
    """A read: it also depends on the database."""

    pattern: Path | None = None
    """If this is set, the call is about every table of the database that matches."""

    def paths(self) -> Sequence[Path]:
        return [path for path in (self.database, self.table, self.catalog, self.pattern) if path]

    def targets(self, row: Any) -> Iterator[bytes]:
        named = names.write_database(get(row, self.database), get(row, self.catalog))
        if named is None:
            return
        wanted = get(row, self.table)
        for raw in wanted if isinstance(wanted, list) else [wanted]:
            table = names.write_name(raw)
            if table is not None:
                yield target.table(*named, table)
        if self.listing:
            yield target.tables(*named)
        if self.with_database:
            yield target.database(*named)
        if get(row, self.pattern) is not None:
            yield target.tables(*named)
            yield target.members(*named)


@dataclass(frozen=True, slots=True)
class _Partitions:
    """Partitions that may change without an event, and so have to be reloaded: those that the call names (one, or a
    list). All of the table if it names too many, or if it names none and that means all."""

    database: Path
    table: Path
    catalog: Path | None
    named: Path
    none_is_all: bool

    def paths(self) -> Sequence[Path]:
        return [path for path in (self.database, self.table, self.catalog, self.named) if path]

    def targets(self, row: Any) -> Iterator[bytes]:
        database = names.write_database(get(row, self.database), get(row, self.catalog))
        table = names.write_name(get(row, self.table))
        if database is None or table is None:
            return
        found = get(row, self.named)
        called = found if isinstance(found, list) else [found] if found else []
        if len(called) > MOST_CALLED or not all(called) or (self.none_is_all and not called):
            yield target.partitions(*database, table)
            return
        for name in called:
            yield target.called(*database, table, name)


@dataclass(frozen=True, slots=True)
class _Rename:
    """A table that may get another name or database: both names, and both lists if they differ. A new table without a
    catalog is in that of the old one."""

    old: tuple[Path, Path, Path | None]
    new: tuple[Path, Path, Path | None]

    def paths(self) -> Sequence[Path]:
        return [path for path in (*self.old, *self.new) if path]

    def targets(self, row: Any) -> Iterator[bytes]:
        before = self._named(row, self.old)
        after = self._named(row, self.new, None if before is None else before[0])
        sides = [side for side in (before, after) if side is not None]
        for side in sides:
            yield target.table(*side)
        if before != after:
            for side in sides:
                yield target.tables(side[0], side[1])

    @staticmethod
    def _named(
        row: Any, paths: tuple[Path, Path, Path | None], home: bytes | None = None
    ) -> tuple[bytes, bytes, bytes] | None:
        catalog = get(row, paths[2])
        database = names.write_database(get(row, paths[0]), home if catalog is None else catalog)
        table = names.write_name(get(row, paths[1]))
        return None if database is None or table is None else (*database, table)


@dataclass(frozen=True, slots=True)
class _Catalog:
    """A catalog that is created or dropped: its list of databases, and its `default` database."""

    catalog: Path

    def paths(self) -> Sequence[Path]:
        return [self.catalog]

    def targets(self, row: Any) -> Iterator[bytes]:
        catalog = names.write_name(get(row, self.catalog))
        if catalog is not None:
            yield target.databases(catalog)
            yield target.database(catalog, DEFAULT_DATABASE)
            yield target.tables(catalog, DEFAULT_DATABASE)


@dataclass(frozen=True, slots=True)
class _Databases:
    """The list of databases of the catalog that a pattern may name."""

    pattern: Path | None

    def paths(self) -> Sequence[Path]:
        return [self.pattern] if self.pattern else []

    def targets(self, row: Any) -> Iterator[bytes]:
        parts = names.split_database(get(row, self.pattern))
        catalog = names.write_name(parts[0]) if parts else None
        if catalog is not None:
            yield target.databases(catalog)


@dataclass(frozen=True, slots=True)
class _Matching:
    """The list of tables of the one database that a pattern matches; nothing if it may match several."""

    pattern: Path

    def paths(self) -> Sequence[Path]:
        return [self.pattern]

    def targets(self, row: Any) -> Iterator[bytes]:
        raw = get(row, self.pattern)
        named = names.write_database(raw)
        if named is not None and _PLAIN_PATTERN(named[1]):
            yield target.tables(*named)
            yield target.database(*named)


@dataclass(frozen=True, slots=True)
class _DatabasesOf:
    """The list of databases of the catalog in a separate field; nothing if the pattern may name a catalog too."""

    catalog: Path
    pattern: Path

    def paths(self) -> Sequence[Path]:
        return [self.catalog, self.pattern]

    def targets(self, row: Any) -> Iterator[bytes]:
        raw, pattern = get(row, self.catalog), get(row, self.pattern)
        catalog = names.DEFAULT_CATALOG if raw is None else names.write_name(raw)
        if catalog and not (pattern or b"").startswith(b"@"):
            yield target.databases(catalog)


@dataclass(frozen=True, slots=True)
class _Each:
    """A rule for each element of a list; its paths begin at the element. Only where `if_true` is, if it is given.
    `mixed`: the elements may be about several tables."""

    many: Path
    rule: Rule
    if_true: Path | None
    mixed: bool

    def paths(self) -> Sequence[Path]:
        return [*(f"{self.many}.{path}" for path in self.rule.paths()), *([self.if_true] if self.if_true else [])]

    def elements(self, row: Any) -> Sequence[Any]:
        """Those that the rule is for."""
        if self.if_true is not None and not get(row, self.if_true):
            return ()
        return get(row, self.many) or ()

    def targets(self, row: Any) -> Iterator[bytes]:
        for element in self.elements(row):
            yield from self.rule.targets(element)


@dataclass(frozen=True, slots=True)
class _Constrained:
    """The tables that constraints of a new table name, which may be others: in the catalog that each names, and in that
    of the new table, which a metastore gives to all of them if the first names none (tested: Hive 4.2.0)."""

    many: Path
    database: str
    table: str
    catalog: Path

    def paths(self) -> Sequence[Path]:
        return [*(f"{self.many}.{field}" for field in (self.database, self.table, "catName")), self.catalog]

    def targets(self, row: Any) -> Iterator[bytes]:
        home = get(row, self.catalog)
        for element in get(row, self.many) or ():
            table = names.write_name(get(element, self.table))
            for catalog in {home, home if element.catName is None else element.catName}:
                named = names.write_database(get(element, self.database), catalog)
                if named is not None and table is not None:
                    yield target.table(*named, table)


def in_parts(rule: Rule, row: Any) -> Iterator[list[bytes]]:
    """What the rule names, in parts of at most PART elements."""
    if isinstance(rule, _Each):
        elements = rule.elements(row)
        for at in range(0, len(elements), PART):
            each = (rule.rule.targets(element) for element in elements[at : at + PART])
            yield [named for some in each for named in some]
        return
    named = rule.targets(row)
    while some := list(islice(named, PART)):
        yield some


@dataclass(frozen=True, slots=True)
class _Everything:
    """A target without names: if one of the given fields is set, or always if no fields are given."""

    made: bytes
    if_set: tuple[Path, ...]

    def paths(self) -> Sequence[Path]:
        return self.if_set

    def targets(self, row: Any) -> Iterator[bytes]:
        if not self.if_set or any(get(row, path) is not None for path in self.if_set):
            yield self.made


def database(db: Path, catalog: Path | None = None) -> Rule:
    """A database object."""
    return _Database(db, catalog, (target.database,))


def whole_database(db: Path, catalog: Path | None = None) -> Rule:
    """A database that is created or dropped: the database, its list of tables, and the list of databases."""
    return _Database(db, catalog, (target.database, target.tables), listing=True)


def table_names(db: Path, catalog: Path | None = None) -> Rule:
    """The list of tables of a database, as a read depends on it."""
    return _Database(db, catalog, (target.tables, target.database))


def matching(databases: Path) -> Rule:
    """The list of tables of the database that a pattern matches."""
    return _Matching(databases)


def databases_of(catalog: Path, pattern: Path) -> Rule:
    """The list of databases of a catalog, as a read depends on it."""
    return _DatabasesOf(catalog, pattern)


def functions() -> Rule:
    """The functions of all databases."""
    return _Everything(target.FUNCTIONS, ())


def roles() -> Rule:
    """All roles, grants and privileges."""
    return _Everything(target.ROLES, ())


def wide_rights() -> Rule:
    """Roles, whose privileges may be on anything."""
    return _Everything(target.WIDE_RIGHTS, ())


def rights(on: Path) -> Rule:
    """Privileges on what a HiveObjectRef names."""
    return _Rights(on)


def catalogs() -> Rule:
    """All catalogs."""
    return _Everything(target.CATALOGS, ())


def table(db: Path, tbl: Path, catalog: Path | None = None) -> Rule:
    """A table and everything below it, changed in place."""
    return _Table(db, tbl, catalog, listing=False, with_database=False)


def partitions(db: Path, tbl: Path, named: Path, catalog: Path | None = None, *, none_is_all: bool = False) -> Rule:
    """Partitions of a table that change without an event. `none_is_all`: if none is named, all of them."""
    return _Partitions(db, tbl, catalog, named, none_is_all)


def whole_table(db: Path, tbl: Path, catalog: Path | None = None) -> Rule:
    """A table that is created or dropped."""
    return _Table(db, tbl, catalog, listing=True, with_database=False)


def constrained(rows: Path, db: str, tbl: str, catalog: Path) -> Rule:
    """The tables that rows of constraints name in these fields; `catalog`: of the table that is created."""
    return _Constrained(rows, db, tbl, catalog)


def read_table(db: Path, tbl: Path, catalog: Path | None = None) -> Rule:
    """What a read of a table (or of a list of them) depends on."""
    return _Table(db, tbl, catalog, listing=False, with_database=True)


def read_tables(db: Path, tbl: Path, catalog: Path, pattern: Path) -> Rule:
    """What a read of a list of tables depends on, if the request may name them by a pattern instead."""
    return _Table(db, tbl, catalog, listing=False, with_database=True, pattern=pattern)


def locked(db: Path, tbl: Path) -> Rule:
    """What a lock component locks: a table, or a whole database."""
    return _Locked(db, tbl)


@dataclass(frozen=True, slots=True)
class _Locked:
    db: Path
    table: Path

    def paths(self) -> Sequence[Path]:
        return [self.db, self.table]

    def targets(self, row: Any) -> Iterator[bytes]:
        named = names.write_database(get(row, self.db))
        if named is None:
            return
        name = names.write_name(get(row, self.table))
        yield target.database(*named) if name is None else target.table(*named, name)


def rename(old: tuple[Path, Path, Path | None], new: tuple[Path, Path, Path | None]) -> Rule:
    """A table that may get another name."""
    return _Rename(old, new)


def catalog(name: Path) -> Rule:
    """A catalog that is created or dropped."""
    return _Catalog(name)


def databases(pattern: Path | None = None) -> Rule:
    """The list of databases, as a read depends on it."""
    return _Databases(pattern)


def each(many: Path, rule: Rule, *, if_true: Path | None = None, mixed: bool = False) -> Rule:
    """A rule for every element of a list; with `if_true`, only if this field is true. `mixed`: see `is_mixed`."""
    return _Each(many, rule, if_true, mixed)


def is_mixed(rule: Rule) -> bool:
    """Whether it is for a list whose elements may be about several tables, so the first does not stand for all."""
    return isinstance(rule, _Constrained) or (isinstance(rule, _Each) and rule.mixed)


@dataclass(frozen=True, slots=True)
class _Rights:
    on: Path

    def paths(self) -> Sequence[Path]:
        return [f"{self.on}.{field}" for field in ("objectType", "dbName", "objectName", "catName")]

    def targets(self, row: Any) -> Iterator[bytes]:
        kind, raw, name, catalog = (get(row, path) for path in self.paths())
        database, table = names.write_database(raw, catalog), names.write_name(name)
        if kind == DATABASE_RIGHTS and database:
            yield target.rights(*database)
        elif kind in TABLE_RIGHTS and database and table:
            yield target.rights(*database, table)
        else:
            yield target.WIDE_RIGHTS


@dataclass(frozen=True, slots=True)
class _EverythingUnless:
    """Everything, unless all of the given fields are set."""

    needed: tuple[Path, ...]

    def paths(self) -> Sequence[Path]:
        return self.needed

    def targets(self, row: Any) -> Iterator[bytes]:
        if any(get(row, path) is None for path in self.needed):
            yield target.ALL


def everything_unless(*needed: Path) -> Rule:
    """A read that depends on everything unless all of these fields are set."""
    return _EverythingUnless(needed)


def everything() -> Rule:
    """Everything, to be reloaded."""
    return _Everything(target.ALL, ())


def anything(*if_set: Path) -> Rule:
    """If one of these fields is set: anything may change, and events say what."""
    return _Everything(target.UNKNOWN, if_set)
