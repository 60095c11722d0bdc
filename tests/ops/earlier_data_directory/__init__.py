"""Data directories that an earlier version left behind, as compressed files, and what is in them.

    fences.tar.xz        Hive 4.2 on PostgreSQL; the proxy was killed while a write was in flight and another waited to
                         be followed
    not_followed.tar.xz  the same metastore; then the proxy ran on a metastore of that database that writes no log, and
                         was stopped after a write

`make.py` says how they are made. Both have one database with the tables in TABLES; each table has PARTITIONS partitions
and the parameter VERSION, which is EARLIER in the cache.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from struct import Struct
from typing import Final

from hms_cache_proxy.cache import layout

COMMIT: Final = "4483a61"
DATABASE: Final = "earlier"
QUIET: Final = "quiet"
REPLIED: Final = "replied"
IN_FLIGHT: Final = "in_flight"
TABLES: Final = (QUIET, REPLIED, IN_FLIGHT)
PARTITIONS: Final = 3
VERSION: Final = "version"
EARLIER: Final = "1"
LATER: Final = "2"
FORMAT: Final = 5
"""Of the caches."""

_FORMAT: Final = Struct(">H")
_META: Final = Struct(">HIQqQQIIIQ")  # the fixed part of the meta record; the present one has two counts more
_COUNTS: Final = Struct(">II")
_GENERATION_BYTES: Final = 4
_ROWS: Final = {b"n": (Struct(">QBH"), layout.NAME_ROW), b"t": (Struct(">QBHHI"), layout.TABLE_ROW)}
"""Of objects, by the byte after the generation: the fixed part then, and now. The same numbers, of other lengths."""


def stored(name: str) -> Path:
    """The compressed file of a data directory."""
    return Path(__file__).parent / f"{name}.tar.xz"


def unpack(name: str, directory: Path) -> Path:
    """Put a data directory into `directory`; gives its path."""
    with tarfile.open(stored(name)) as archive:
        # Python 3.11.3 and older have no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(directory)
    return directory / "data"


def converted(meta: bytes) -> bytes:
    """A meta record in the present format. No set is unfinished and no table transactional: all of them are loaded with
    all partitions."""
    assert _FORMAT.unpack_from(meta) == (FORMAT,) and layout.FORMAT == FORMAT + 4
    return _FORMAT.pack(layout.FORMAT) + meta[_FORMAT.size : _META.size] + _COUNTS.pack(0, 0) + meta[_META.size :]


def converted_object(key: bytes, row: bytes) -> bytes:
    """A row of the objects in the present format. A listing may say nothing of its tables, and none of them has a
    key."""
    if (kind := key[_GENERATION_BYTES : _GENERATION_BYTES + 1]) not in _ROWS:
        return row
    then, now = _ROWS[kind]
    return now.pack(*then.unpack_from(row)) + row[then.size :]
