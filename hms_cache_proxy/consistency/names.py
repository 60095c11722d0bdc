"""One normaliser of catalog, database and table names, for fences, dependencies and cache keys alike.

Job: what a metastore makes of a name on the wire: `@catalog#database` is split, blanks around it are cut as
Java's `String.trim` does (every character up to U+0020), case is folded. Must not know the cache, methods
or sockets.

Invariants:
- A read is only answered for names in ASCII: `read_name` gives None for the others (case folding beyond
  ASCII depends on the Java version). A written name is folded the wide way (`write_name`), so that a write
  which names an ASCII object by an exotic spelling (KELVIN SIGN folds to k) still meets the fence of that
  object.
- Splitting and folding never fail; what a metastore refuses (`@no-separator`) gives None.

Owner: any process; no state.
"""

from __future__ import annotations

BLANKS = bytes(range(0x21))
"""What Java's trim removes at both ends."""

_CATALOG_MARK = b"@"
_CATALOG_END = b"#"
_EMPTY_DATABASE = b"!"
DEFAULT_CATALOG = b"hive"


def read_name(raw: bytes | None) -> bytes | None:
    """The stored form of a name that a read asks for; None if it is absent or not ASCII."""
    if raw is None or not raw.isascii():
        return None
    return raw.strip(BLANKS).lower()


def write_name(raw: bytes | None) -> bytes | None:
    """The stored form of a name that a write touches, whatever its characters; None if it is absent."""
    if raw is None:
        return None
    if raw.isascii():
        return raw.strip(BLANKS).lower()
    text = raw.decode("utf-8", "replace").strip(BLANKS.decode("ascii"))
    return text.lower().encode("utf-8")


def split_database(raw: bytes | None, default_catalog: bytes = DEFAULT_CATALOG) -> tuple[bytes, bytes | None] | None:
    """(catalog, database) of a name that may carry its catalog; the database is None where the name has none.

    `@cat#` names a catalog alone, `@cat#!` the empty database name. None for `@` without `#`, which a
    metastore refuses. Neither part is trimmed or folded here.
    """
    if raw is None or not raw.startswith(_CATALOG_MARK):
        return default_catalog, raw
    catalog, separator, database = raw[1:].partition(_CATALOG_END)
    if not separator:
        return None
    if not database:
        return catalog, None
    return catalog, b"" if database == _EMPTY_DATABASE else database


def write_database(
    raw: bytes | None, catalog: bytes | None = None, default_catalog: bytes = DEFAULT_CATALOG
) -> tuple[bytes, bytes] | None:
    """The stored (catalog, database) that a write names; a catalog inside the name wins."""
    parts = split_database(raw, default_catalog if catalog is None else catalog)
    if parts is None:
        return None
    folded_catalog, folded_database = write_name(parts[0]), write_name(parts[1])
    if folded_catalog is None or folded_database is None:
        return None
    return folded_catalog, folded_database
