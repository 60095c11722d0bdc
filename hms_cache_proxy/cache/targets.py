"""Targets: bytes that name what a write touches and what a read depends on.

    b"*"                       everything
    b"?"                       something, which the log will name: fences like everything, but asks for no refetch
    b"D" cat                   the list of databases of a catalog
    b"d" cat \\0 db             one database object
    b"l" cat \\0 db             the list of tables of a database
    b"t" cat \\0 db \\0 table    a table and everything below it
    b"F"                       the functions of all databases
    b"C"                       the catalogs
    b"B"                       only with a mark: what the rows of all databases say
    b"K"                       constraints were dropped somewhere: only a version
    b"R"                       roles, grants and privileges, all of them: what a user is shown depends on them
    b"p" cat \\0 db \\0 table    only in tickets: all partitions of a table, for writes that log nothing
    b"p" cat \\0 db \\0 table \\0 name    only in tickets: the partition that a client calls so
    b"q" cat \\0 db \\0 table \\0 partition    only in TTL mode: one partition
    b"Q" cat \\0 db \\0 table    only in TTL mode: what lists say of a table's partitions

Job: the one vocabulary of versions (cache/), fences and floors (consistency/) and the method table (methods/).
Must not know: how names are normalised; callers pass stored names. A target equals another or it is `ALL`: there is no
other hierarchy, so dropping a database names its tables' targets too.
"""

from __future__ import annotations

from typing import TypeAlias

Target: TypeAlias = bytes

ALL: Target = b"*"
UNKNOWN: Target = b"?"
FUNCTIONS: Target = b"F"
CATALOGS: Target = b"C"
DESCRIPTIONS: Target = b"B"
MARKED = (FUNCTIONS, CATALOGS)
"""What changes without an event, and is known by a mark of its rows (`Snapshot.marks`)."""
ROLES: Target = b"R"
"""Raised with each change of a role or a privilege through this proxy."""
CONSTRAINTS: Target = b"K"
"""Raised with each drop of a table or a constraint. A metastore then also drops what has the same names elsewhere."""

SEPARATOR = b"\0"


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


def partitions(catalog: bytes, database_name: bytes, name: bytes) -> Target:
    """A request to reload all partitions of a table; nothing depends on it."""
    return b"p%b\0%b\0%b" % (catalog, database_name, name)


def called(catalog: bytes, database_name: bytes, name: bytes, partition_name: bytes) -> Target:
    """A request to reload one partition, by the name that a client gave; nothing depends on it."""
    return b"p%b\0%b\0%b\0%b" % (catalog, database_name, name, partition_name)


def whole(target: Target) -> Target:
    """A target, or for a partition that is to be reloaded all of its table."""
    return SEPARATOR.join(target.split(SEPARATOR)[:3]) if target[:1] == b"p" else target


def partition(catalog: bytes, database_name: bytes, name: bytes, values: bytes) -> Target:
    """One partition of a table; `values` tells it from the others."""
    return b"q%b\0%b\0%b\0%b" % (catalog, database_name, name, values)


def partition_lists(catalog: bytes, database_name: bytes, name: bytes) -> Target:
    """What lists, filters and aggregates say of a table's partitions."""
    return b"Q%b\0%b\0%b" % (catalog, database_name, name)
