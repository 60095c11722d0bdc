"""Targets: bytes that name what a write touches and what a read depends on.

    b"*"                       everything
    b"?"                       something that the log will name: fences everything, but asks for no reload
    b"D" cat                   the list of databases of a catalog
    b"d" cat \\0 db             one database object
    b"l" cat \\0 db             the list of tables of a database
    b"t" cat \\0 db \\0 table    a table and everything below it
    b"m" cat \\0 db             every table of a database: only reads depend on it; a target of a table implies it
    b"s" cat \\0 db             only a version: what a listing says of its tables has changed
    b"F"                       the functions of all databases
    b"C"                       the catalogs
    b"B"                       only with a mark: the rows of all databases
    b"K"                       only a version: constraints were dropped somewhere
    b"R"                       all roles, grants and privileges, on which a user's answers depend
    b"G"                       only a version: roles, and privileges on everything or on something unknown
    b"g" cat \\0 db [\\0 table] only a version: privileges on a database, or on a table and its parts
    b"p" cat \\0 db \\0 table    only in tickets: all partitions of a table, for writes that log nothing
    b"p" cat \\0 db \\0 table \\0 name    only in tickets: a partition, by the name that a client gave
    b"q" cat \\0 db \\0 table \\0 partition    only in TTL mode: one partition
    b"Q" cat \\0 db \\0 table    only in TTL mode: lists of a table's partitions

Job: be the one vocabulary for versions (cache/), fences and floors (consistency/) and the method table (methods/). Must
not know: how names are normalised; callers pass stored names. `ALL` covers every target, and the target of a table
implies the `members` of its database; there is no other hierarchy, so the drop of a database also names the targets of
its tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

Target: TypeAlias = bytes

ALL: Target = b"*"
UNKNOWN: Target = b"?"
FUNCTIONS: Target = b"F"
CATALOGS: Target = b"C"
DESCRIPTIONS: Target = b"B"
MARKED = (FUNCTIONS, CATALOGS)
"""Targets that change without an event; a mark of their rows (`Snapshot.marks`) shows the changes."""
ROLES: Target = b"R"
"""Touched by each change of a role or a privilege through this proxy."""
WIDE_RIGHTS: Target = b"G"
"""Touched, beside ROLES, by those of these changes that are not about privileges on named databases and tables."""
CONSTRAINTS: Target = b"K"
"""Touched by each drop of a table or a constraint. A metastore then also drops constraints of the same names
elsewhere."""

SEPARATOR = b"\0"

TABLE_KIND, DATABASE_KIND, TABLES_KIND, DATABASES_KIND, MEMBERS_KIND, RIGHTS_KIND = b"t", b"d", b"l", b"D", b"m", b"g"
PARTITIONS_KIND = b"p"
"""What `kind_of` returns for the targets that `table`, `database`, `tables`, `databases`, `members` and `rights`
make, and for those of `partitions` and `called`."""
_IN_DATABASE = frozenset((TABLE_KIND, DATABASE_KIND, TABLES_KIND, MEMBERS_KIND, RIGHTS_KIND, PARTITIONS_KIND))


def kind_of(target: Target) -> bytes:
    """What kind of target it is."""
    return target[:1]


def names_in(target: Target) -> list[bytes]:
    """The names in a target: catalog, database, table, partition, as far as its kind has them. One with NUL, which only
    a partition may have, counts as several anywhere else."""
    return target[1:].split(SEPARATOR, 3 if target[:1] == PARTITIONS_KIND else -1)


def database_in(target: Target) -> bytes | None:
    """The name of the database that it is, or is in; None if it is not in one."""
    return names_in(target)[1] if kind_of(target) in _IN_DATABASE else None


def databases(catalog: bytes) -> Target:
    """The list of databases of a catalog."""
    return b"D" + catalog


def database(catalog: bytes, name: bytes) -> Target:
    """One database object."""
    return b"d%b\0%b" % (catalog, name)


def tables(catalog: bytes, database_name: bytes) -> Target:
    """The list of tables of a database."""
    return b"l%b\0%b" % (catalog, database_name)


def table(catalog: bytes, database_name: bytes, name: bytes) -> Target:
    """A table and everything below it."""
    return b"t%b\0%b\0%b" % (catalog, database_name, name)


def table_of_key(key: bytes) -> Target:
    """A table, by the name that the cache has it under: catalog, database and table with a SEPARATOR between them."""
    return b"t" + key


def database_of_key(key: bytes) -> Target:
    """The database of the table that the cache has under this name."""
    return b"d" + key[: key.rfind(SEPARATOR)]


def only_tables(targets: Iterable[Target]) -> tuple[Target, ...]:
    """Those that are tables."""
    return tuple(target for target in targets if kind_of(target) == TABLE_KIND)


def table_names(targets: Iterable[Target]) -> Iterator[list[bytes]]:
    """Catalog, database and name of those that are tables; not of one with NUL in a name, which no table has."""
    return (found for found in map(names_in, only_tables(targets)) if len(found) == 3)


def listed_databases(targets: Iterable[Target]) -> Iterator[list[bytes]]:
    """Catalog and name of the databases whose lists of tables are among these."""
    return (names_in(target) for target in targets if kind_of(target) == TABLES_KIND)


def listed_catalogs(targets: Iterable[Target]) -> Iterator[bytes]:
    """The catalogs whose lists of databases are among these."""
    return (target[1:] for target in targets if kind_of(target) == DATABASES_KIND)


def members(catalog: bytes, database_name: bytes) -> Target:
    """Every table of a database: for a read that shows what is in all of them."""
    return b"m%b\0%b" % (catalog, database_name)


def members_of(target: Target) -> Target | None:
    """The `members` that a table's target implies; None for another target."""
    if target[:1] != b"t":
        return None
    return b"m" + target[1 : target.rfind(SEPARATOR)]


def listed_by(target: Target) -> Target | None:
    """The `members` of a list of tables; None for another target."""
    return b"m" + target[1:] if target[:1] == b"l" else None


def said(catalog: bytes, database_name: bytes) -> Target:
    """What the listing of a database says: which tables there are, and of each its id, type, comment and owner."""
    return b"s%b\0%b" % (catalog, database_name)


def lasting(depends: tuple[Target, ...]) -> tuple[Target, ...]:
    """What an answer that shows only what a listing says depends on, once it agrees with the cache; `depends`: on what
    it depends before. A table that is changed otherwise no longer matters."""
    found = (b"s" + target[1:] if target[:1] == b"l" else target for target in depends)
    return tuple(target for target in found if not is_members(target))


def is_members(target: Target) -> bool:
    """Whether it stands for every table of a database."""
    return target[:1] == b"m"


def partitions(catalog: bytes, database_name: bytes, name: bytes) -> Target:
    """A request to reload all partitions of a table; nothing depends on it."""
    return b"p%b\0%b\0%b" % (catalog, database_name, name)


def partitions_of(targets: Iterable[Target]) -> tuple[Target, ...]:
    """The `partitions` of the tables among these."""
    return tuple(b"p" + target[1:] for target in only_tables(targets))


def called(catalog: bytes, database_name: bytes, name: bytes, partition_name: bytes) -> Target:
    """A request to reload one partition, by the name that a client gave; nothing depends on it."""
    return b"p%b\0%b\0%b\0%b" % (catalog, database_name, name, partition_name)


def rights(catalog: bytes, database_name: bytes, *table_name: bytes) -> Target:
    """Privileges on a database, or on a table, its partitions and columns."""
    return b"g" + SEPARATOR.join((catalog, database_name, *table_name))


def rights_on(depends: tuple[Target, ...]) -> tuple[Target, ...]:
    """The changes of privileges that matter to who reads these databases and tables, if each matters only to what it
    is about."""
    return (WIDE_RIGHTS, *(b"g" + target[1:] for target in depends if target[:1] in (b"d", b"t")))


def objects(depends: tuple[Target, ...]) -> tuple[Target, ...]:
    """Those that name something of the cache, and no privileges."""
    return tuple(target for target in depends if target[:1] not in (b"R", b"G", b"g"))


def whole(target: Target) -> Target:
    """The target of a request of which only the beginning is known: one partition becomes all of the table, privileges
    on one object become those on anything."""
    if target[:1] == b"g":
        return WIDE_RIGHTS
    return SEPARATOR.join(target.split(SEPARATOR)[:3]) if target[:1] == b"p" else target


def partition(catalog: bytes, database_name: bytes, name: bytes, values: bytes) -> Target:
    """One partition of a table; `values` identifies it."""
    return b"q%b\0%b\0%b\0%b" % (catalog, database_name, name, values)


def partition_lists(catalog: bytes, database_name: bytes, name: bytes) -> Target:
    """Lists, filters and aggregates of a table's partitions."""
    return b"Q%b\0%b\0%b" % (catalog, database_name, name)
