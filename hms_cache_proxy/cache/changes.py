"""What one commit of the cache changes: plain data that the follower passes to `CacheWriter.commit`.

Job: hold the state of objects as of event `cursor`. Must not know: how it is stored. Invariant: everything in one
`Changes` was read in one snapshot of the store, the one whose event id is `cursor`. Owner: the follower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.statistics import row_bytes
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.store.protocol import DatabaseKey, DatabaseRecord, PartitionRecord, TableKey, TableRecord


@dataclass(frozen=True, slots=True)
class TableStub:
    """A table that exists and is listed, but is not loaded; `reason` says why (`loading`, `excluded`, `full` ...)."""

    table_id: int
    table_type: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """Single partitions of a table. With `replace_all`, `upserts` (ordered by name) becomes the complete set.

    Without `replace_all`, it changes nothing if the table's partitions are not loaded: they will be read later. While
    chunks are being loaded, it changes both the complete old set and the part of the new one that is loaded.
    """

    table_id: int
    upserts: list[PartitionRecord] = field(default_factory=list)
    deletes: list[bytes] = field(default_factory=list)
    replace_all: bool = False


@dataclass(frozen=True, slots=True)
class PartitionChunk:
    """The next partitions of a table that is too large for one commit, ordered by name.

    `first` begins a new set; `last` makes it the set that readers see.
    """

    table_id: int
    records: list[PartitionRecord]
    first: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True)
class TableWriteIds:
    """The writes to a transactional table. `text`: its ValidWriteIdList in Hive's form. `writers`: open write ids under
    which the table was already changed; until they end, readers with a write id list do not get the table from the
    cache."""

    key: TableKey
    text: bytes
    writers: tuple[int, ...] = ()


@dataclass(slots=True)
class Changes:
    """One step of the follower. In `databases` and `tables` None means dropped.

    A dropped database takes its tables with it. A table that appears under a new name with the same `table_id` in the
    same step keeps its partitions (a rename). `write_ids`: by table id, as of `cursor` or older. `not_loaded`: table id
    to the reason why its partitions must not be used. `held`: targets that may have been read newer than `cursor`, or
    torn; they must not be used until the next commit. `touched`: further targets whose versions are raised, besides
    those of the objects that change here. `complete`: lists (`targets.databases`, `targets.tables`) that now have all
    their names. `marks`: the new mark of a marked target (functions, catalogs, descriptions of databases); None: its
    changes are not detected. `reset`: all entries lose validity before anything here is applied; only then may the
    cursor go back. `transactions`: the open transactions in the form that the follower reads after a restart; None:
    unchanged.
    """

    cursor: int
    fingerprint: bytes | None = None
    done_ticket: int = 0
    reset: str | None = None
    databases: dict[DatabaseKey, DatabaseRecord | None] = field(default_factory=dict)
    tables: dict[TableKey, TableRecord | None] = field(default_factory=dict)
    stubs: dict[TableKey, TableStub] = field(default_factory=dict)
    write_ids: dict[int, TableWriteIds] = field(default_factory=dict)
    not_loaded: dict[int, str] = field(default_factory=dict)
    partitions: list[PartitionChange] = field(default_factory=list)
    chunks: list[PartitionChunk] = field(default_factory=list)
    complete: set[Target] = field(default_factory=set)
    marks: dict[Target, bytes | None] = field(default_factory=dict)
    touched: set[Target] = field(default_factory=set)
    held: frozenset[Target] = frozenset()
    transactions: bytes | None = None

    @property
    def nothing(self) -> bool:
        """Whether no object, list or version changes."""
        return not (
            self.databases
            or self.tables
            or self.stubs
            or self.not_loaded
            or self.partitions
            or self.chunks
            or self.complete
            or self.marks
            or self.touched
            or self.write_ids
        )

    def admitted_bytes(self) -> int:
        """About how many bytes this adds to the cache; compared with `max_bytes`."""
        return (
            sum(len(record.body) + 256 for record in self.databases.values() if record is not None)
            + sum(_table_bytes(record) for record in self.tables.values() if record is not None)
            + sum(_row_bytes(record) for change in self.partitions for record in change.upserts)
            + sum(_row_bytes(record) for chunk in self.chunks for record in chunk.records)
        )

    def touched_by_objects(self) -> Iterator[Target]:
        """Targets of databases and tables that change here. A name that may appear or disappear also touches its
        list."""
        for catalog, name in self.databases:
            yield targets.database(catalog, name)
            yield targets.databases(catalog)
        for key in (*self.tables, *self.stubs):
            yield targets.table(*key)
            yield targets.tables(key[0], key[1])


def _table_bytes(record: TableRecord) -> int:
    attached = 0
    if record.constraints is not None:
        attached = sum(len(element) for elements in record.constraints.elements.values() for element in elements)
    attached += 4 * row_bytes(record.statistics)
    return 2 * len(record.body) + attached + 512


def _row_bytes(record: PartitionRecord) -> int:
    own = len(record.name) + len(record.values) + len(record.times) + len(record.parameters) + 32
    return own + len(record.name) + row_bytes(record.statistics) if record.statistics else own
