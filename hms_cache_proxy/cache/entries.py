"""What a snapshot returns: a database, a table, or the proof that there is none.

There are three answers everywhere: an entry; `ABSENT` (as of the cursor the metastore has no such object, so a negative
answer may be served); and None (not loaded: ask the metastore). The entries are NamedTuples, not dataclasses, because
each hit builds one, and a tuple costs a fifth. Must not know LMDB. Owner: any process.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Absent(Enum):
    """An object that is known not to exist."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
TableState = tuple[int, ...]
"""The result of `CacheSnapshot.state`. It is equal as long as neither the table nor one of its partitions has
changed."""


class DatabaseEntry(NamedTuple):
    """A database; `body` is the `Database` struct with its stop byte. A `remote` one is never served from the cache."""

    body: bytes
    remote: bool


class TableEntry(NamedTuple):
    """A table that exists. `body` is the `Table` struct with its stop byte; None if the table is not loaded
    (`reason_not_loaded`).

    `partitions_loaded`: `partition_count` and everything about partitions is known; else `reason_not_loaded` says why
    not. `write_ids`: a transactional table's ValidWriteIdList; reads with an equivalent list may be answered. None:
    they may not. `typed`: which partition keys only have values of their type (cache/key_types.py).
    `constraints_known`: `CacheSnapshot.constraints` returns them. `statistics_known`: the table's own column statistics
    are in the cache; `statistics_of_partitions`: those of all its partitions are, too. `set_number`, `long_names` and
    `has_statistics` are for cache/ only.
    """

    catalog: bytes
    database: bytes
    name: bytes
    table_id: int
    table_type: bytes
    body: bytes | None
    transactional: bool = False
    materialized_view: bool = False
    partition_keys: tuple[tuple[bytes, bytes], ...] = ()
    location: bytes | None = None
    partitions_loaded: bool = False
    partition_count: int = 0
    reason_not_loaded: str = ""
    set_number: int = 0
    long_names: bool = False
    typed: bytes = b""
    write_ids: bytes | None = None
    constraints_known: bool = False
    statistics_known: bool = False
    statistics_of_partitions: bool = False
    has_statistics: bool = False
