"""What a snapshot gives back: a database, a table, or the knowledge that there is none.

Three answers are told apart everywhere: an entry, `ABSENT` (the metastore has no such object as of the cursor: a
negative answer may be served) and None (not loaded: ask the metastore). NamedTuples, not dataclasses: one is built
per hit, and a tuple costs a fifth. Must not know LMDB. Owner: any process.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Absent(Enum):
    """What is known not to exist."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
TableState = tuple[int, ...]
"""What `CacheSnapshot.state` gives: equal as long as neither the table nor one of its partitions has changed."""


class DatabaseEntry(NamedTuple):
    """A database; `body` is the `Database` struct with its stop byte. A `remote` one is never answered from cache."""

    body: bytes
    remote: bool


class TableEntry(NamedTuple):
    """A table that exists. `body` is the `Table` struct with its stop byte; None if it is not loaded
    (`reason_not_loaded`).

    `partitions_loaded`: `partition_count` and everything about partitions is known; else `reason_not_loaded` says
    why not. `write_ids`: a transactional table's ValidWriteIdList, with which reads may be answered that bring an
    equivalent one; None while they may not. `typed`: which partition keys have values of their type only
    (cache/typed.py). `constraints_known`: `CacheSnapshot.constraints` tells them. `statistics_known`, and of a
    partitioned table `statistics_of_partitions`: the same of statistics. `set_number`, `long_names` and
    `has_statistics` are for the reader itself.
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
