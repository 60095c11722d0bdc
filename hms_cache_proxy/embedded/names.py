"""Names as the metastore stores them.

Job: trim names and change them to lower case, split `@catalog#database`, validate names, and make names of partitions.
Must not know: the database.
Source: MetaStoreUtils.normalizeIdentifier, parseDbName and validateName of 4.2; StringUtils.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hms_cache_proxy.embedded.failures import internal, meta, no_such_object
from hms_cache_proxy.store import part_names, protocol
from hms_cache_proxy.wire.spec import Struct

DEFAULT_CATALOG = protocol.DEFAULT_CATALOG.decode()
NO_IDENTIFIER = 'Cannot invoke "String.trim()" because "identifier" is null'
"""Java's message for a missing name."""
SPACE = "".join(map(chr, range(33)))
"""The characters that Java's String.trim removes."""
DEFAULT_PARTITION = part_names.DEFAULT_PARTITION.decode()

_NAME = re.compile(r"[\w_]+", re.ASCII)
_SPECIAL_TABLE_NAME = re.compile(r"""[\w_ !"#$%&'()*+,\-./:;<=>?\[\]^|{}~]+""", re.ASCII)


def fold(name: str | None) -> str:
    """The name in lower case and trimmed. MetaException without a name (a NullPointerException in Hive)."""
    if name is None:
        raise meta(f"java.lang.NullPointerException: {NO_IDENTIFIER}")
    return name.strip(SPACE).lower()


def folded(name: str | None) -> str:
    """The same for calls that declare no exception for it: without a name, an internal error."""
    if name is None:
        raise internal("a name is null")
    return name.strip().lower()


def split(name: str | None, catalog: str | None = None) -> tuple[str, str | None]:
    """(catalog, database) of a name that may be `@catalog#database`; the database is None for `@catalog#`.

    An empty name is `@catalog#!`.
    """
    if name is not None and name.startswith("@"):
        if "#" not in name:
            raise meta(f"{name} is prepended with the catalog marker but does not appear to have a catalog name in it")
        prefix, _, rest = name[1:].partition("#")
        database = None if not rest else "" if rest == "!" else fold(rest)
        return fold(prefix), database
    return fold(catalog) if catalog else DEFAULT_CATALOG, None if name is None else fold(name)


def as_written(name: str, catalog: str | None = None) -> tuple[str, str]:
    """(catalog, database) as `split`, but in the case of the call, as some messages show it."""
    if not name.startswith("@"):
        return catalog or DEFAULT_CATALOG, name
    catalog, _, rest = name[1:].partition("#")
    return catalog, "" if rest == "!" else rest


def both(name: str | None, catalog: str | None = None) -> tuple[str, str]:
    """The same as split; MetaException if no database is named."""
    found, database = split(name, catalog)
    return found, fold(database)


class TableAddress(NamedTuple):
    """A table as a call names it, in the call's case. Without a catalog, the database's name may contain one."""

    database: str
    table: str
    catalog: str | None = None

    @property
    def both(self) -> tuple[str, str]:
        """(catalog, database) in lower case; MetaException if no database is named."""
        return both(self.database, self.catalog)


def named(database: str | None, table: str | None, catalog: str | None = None) -> tuple[str, str]:
    """(catalog, database) of a call that needs database and table (TableName). NoSuchObjectException if empty."""
    found_catalog, found_database = split(database, catalog)
    if found_database is None:
        raise meta("java.lang.NullPointerException: dbName is null")
    if table is None:
        raise meta("java.lang.NullPointerException: tblName is null")
    if not found_database or not table:
        raise no_such_object("tblName is not valid" if found_database else "dbName is not valid")
    return found_catalog, found_database


def exact(name: str | None, catalog: str | None) -> tuple[str, str]:
    """(catalog, database) of a request with a field for each. Neither is split; an empty catalog means none."""
    return DEFAULT_CATALOG if catalog is None else fold(catalog), fold(name)


def valid(name: str | None) -> bool:
    """Is this a valid name of a database, or of any other object except a table?"""
    return bool(name) and _NAME.fullmatch(name or "") is not None


def valid_table(name: str | None) -> bool:
    """Is this a valid name of a table? (`metastore.support.special.characters.tablename` is on, its default.)"""
    return bool(name) and _SPECIAL_TABLE_NAME.fullmatch(name or "") is not None


def qualified(catalog: str, *parts: str) -> str:
    """`hive.db.table`."""
    return ".".join((catalog, *parts))


def escape(part: str) -> str:
    """One side of `key=value` in a partition's name (FileUtils.escapePathName)."""
    return part_names.escape_or_default(part.encode()).decode()


def unescape(part: str) -> str:
    """The inverse of `escape`."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), part)


def partition_name(keys: Sequence[Struct], values: Sequence[str]) -> str:
    """`key=value/key=value`. MetaException if the numbers of keys and values differ, or a value is empty."""
    if len(keys) != len(values) or not keys:
        wanted = "".join(f"{key.name}, " for key in keys)
        raise meta(f"Invalid partition key & values; keys [{wanted}], values [{''.join(v + ', ' for v in values)}]")
    return "/".join(f"{escape(key.name.lower())}={escape(value)}" for key, value in zip(keys, values, strict=True))


def partition_values(name: str) -> list[str]:
    """The values of a partition's name (Warehouse.getPartValuesFromPartName)."""
    found = []
    for part in name.split("/"):
        key, equals, value = part.partition("=")
        if not equals:
            raise meta(f"Invalid partition name {name}")
        found.append(unescape(value))
    return found


def spec_of_path(name: str) -> dict[str, str]:
    """Key to value of a partition's name as Hadoop's Path splits it (Warehouse.makeSpecFromName of 4.2).

    Components other than `key=value` are left out; `..` removes the one before it. MetaException if the name begins
    like a URI.
    """
    scheme, colon, rest = name.partition(":")
    path = rest if colon and "/" not in scheme else name
    path = re.sub(r"/+", "/", path)
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    if path != name and not rest.startswith("/"):
        raise meta(
            "java.lang.IllegalArgumentException: java.net.URISyntaxException: Relative path in absolute URI:"
            f" {scheme}:{'/'.join(parts)}"
        )
    pairs = [part.rpartition("=") for part in parts]
    return {unescape(key): unescape(value) for key, _, value in pairs if key and value}


def partition_spec(name: str) -> dict[str, str]:
    """Key to value of a partition's name, `{}` for an empty one (Warehouse.makeSpecFromName)."""
    if not name:
        return {}
    pairs = {}
    for part in name.split("/"):
        key, equals, value = part.partition("=")
        if not equals:
            raise meta(f"Invalid partition name {name}")
        pairs[unescape(key)] = unescape(value)
    return pairs
