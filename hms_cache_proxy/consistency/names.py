"""Normalises names of catalogs, databases and tables, for fences, dependencies and cache keys.

Job: do what a metastore does with a name on the wire: split `@catalog#database`, cut blanks at both ends as Java's
`String.trim` does (every character up to U+0020), fold case. Must not know the cache, methods or sockets.

Invariants:
- Reads are only answered for names in ASCII: `read_name` returns None for others, because their case folding depends on
  the version of Java; also for names with NUL, which PostgreSQL refuses. The names of a write are folded as Unicode
  (`write_name`), so a write that spells an ASCII name with another character (KELVIN SIGN folds to k) still fences that
  object.
- Splitting and folding never fail. A name that a metastore refuses (`@no-separator`) gives None.

Owner: any process; no state.
"""

from __future__ import annotations

from hms_cache_proxy.store import protocol

BLANKS = bytes(range(0x21))
"""The characters that Java's trim removes at both ends."""

_CATALOG_MARK = b"@"
_CATALOG_END = b"#"
_EMPTY_DATABASE = b"!"
_ENDS = (_CATALOG_END, _EMPTY_DATABASE)
DEFAULT_CATALOG = protocol.DEFAULT_CATALOG


def read_name(raw: bytes | None) -> bytes | None:
    """The stored form of a name in a read; None if it is absent, not ASCII, or has NUL inside."""
    if raw is None or not raw.isascii():
        return None
    name = raw.strip(BLANKS).lower()
    return None if b"\0" in name else name


def write_name(raw: bytes | None) -> bytes | None:
    """The stored form of a name in a write, whatever its characters; None if it is absent."""
    if raw is None:
        return None
    if raw.isascii():
        return raw.strip(BLANKS).lower()
    text = raw.decode("utf-8", "replace").strip(BLANKS.decode("ascii"))
    return text.lower().encode("utf-8")


def split_database(raw: bytes | None, catalog: bytes = DEFAULT_CATALOG) -> tuple[bytes, bytes | None] | None:
    """(catalog, database) of a name that may include its catalog; the database is None if the name has none.

    `@cat#` names only a catalog, `@cat#!` an empty database name. None for `@` without `#`, which a metastore refuses.
    The parts are not trimmed or folded.
    """
    if raw is None or not raw.startswith(_CATALOG_MARK):
        return catalog, raw
    catalog, separator, database = raw[1:].partition(_CATALOG_END)
    if not separator:
        return None
    if not database:
        return catalog, None
    return catalog, b"" if database == _EMPTY_DATABASE else database


def ends_oddly(raw: bytes | None) -> bool:
    """Does a database's name end like one that is absent (`#`) or empty (`!`)? A metastore puts the catalog of many
    requests before the database's name, and reads the end first: `db#` is then no database."""
    return raw is not None and raw.endswith(_ENDS)


def write_database(raw: bytes | None, catalog: bytes | None = None) -> tuple[bytes, bytes] | None:
    """The stored (catalog, database) that a write names. A catalog in the name wins."""
    parts = split_database(raw, DEFAULT_CATALOG if catalog is None else catalog)
    if parts is None:
        return None
    folded_catalog, folded_database = write_name(parts[0]), write_name(parts[1])
    if folded_catalog is None or folded_database is None:
        return None
    return folded_catalog, folded_database
