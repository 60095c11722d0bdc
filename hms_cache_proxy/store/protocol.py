"""What the follower reads: records of databases, tables, partitions and events, and the two Protocols that return them.

Job: the interface between a store (SQL, Thrift) and everything above. Records have encoded wire bytes, so nothing above
needs a codec. Must not know: any driver, any SQL, the cache's layout.

Invariants:
- Names are as the metastore stores them (lower case for catalogs, databases and tables), UTF-8 bytes.
- Decoded, the bytes are equal to the metastore's own answer, field by field, set or unset.
- Everything that is read through one `Snapshot` belongs to one state of the store, the one of `Snapshot.event_id`.
  Exceptions are objects that rows from `overtaken` name: all or part of them may be newer.

Owner: the follower's process; a store and its snapshots belong to one thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, NamedTuple, Protocol

from hms_cache_proxy.errors import Unfit
from hms_cache_proxy.store.write_ids import ValidWriteIdList

HiveLine = Literal["2.3", "3.1", "4.0", "4.1", "4.2"]
DatabaseKey = tuple[bytes, bytes]
"""(catalog, database)."""

TableKey = tuple[bytes, bytes, bytes]
"""(catalog, database, table)."""

WritesKey = tuple[bytes, bytes]
"""(database, table): write ids have no catalogs, so tables of one name in two catalogs share them."""

DEFAULT_CATALOG = b"hive"
"""The catalog of a name without one, and of everything in a metastore that knows no catalogs."""

UNKNOWN_ID = 0
"""The id of a table if a listing does not have it, or of a transaction if the store does not know it."""

OF_TRANSACTIONS = frozenset(("ALLOC_WRITE_ID_EVENT", "COMMIT_TXN", "ABORT_TXN", "ALTER_TABLE"))
"""Types of events that show which tables open transactions write, and the current names of these."""

PAGE_BYTES = 16 << 20
"""A page of the log is cut off where its messages have so many bytes: one message can have hundreds of megabytes."""

SKEWED = "a partition with skewed values: Hive 3.1 does not say the same of it in all lists"
"""The text of an Unfit."""


def unwatched() -> None:
    """The default for `answered`: does nothing."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One row of the notification log, with the message as stored (`message_format` says how to read it)."""

    event_id: int
    nl_id: int
    time_s: int
    type: str
    catalog: bytes | None
    database: bytes | None
    table: bytes | None
    message: str | None
    message_format: str | None


@dataclass(frozen=True, slots=True)
class DatabaseRecord:
    """A database; `body` is the `Database` struct with its stop byte, as stored and as `get_databases_req` returns it.

    `get_database` returns the same, with one exception: if its metadata transformer is on (the default), and the
    location of a database of catalog `hive` is at or under metastore.warehouse.dir, Hive 4 returns the default location
    under metastore.warehouse.external.dir. The backing database does not have these settings.
    """

    catalog: bytes
    name: bytes
    body: bytes
    remote: bool
    location: bytes | None = None


class ConstraintKind(IntEnum):
    """The kind of a list of constraints. The value is its field id in SQLAllTableConstraints."""

    PRIMARY_KEY = 1
    FOREIGN_KEY = 2
    UNIQUE = 3
    NOT_NULL = 4
    DEFAULT = 5
    CHECK = 6
    PLACES = 7  # no list of an answer: where the columns of the primary key are (foreign_keys.py)


@dataclass(frozen=True, slots=True)
class Constraints:
    """A table's constraints. `elements`: by kind, the encoded list elements (SQLPrimaryKey and so on, each with its
    stop byte), in the order of constraint name and position; empty kinds are left out. A foreign key lacks what is the
    other table's (foreign_keys.py). `parents`: ids of the tables that its foreign keys refer to, in order.
    """

    elements: Mapping[ConstraintKind, tuple[bytes, ...]] = field(default_factory=dict)
    parents: tuple[int, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether there are none, as for most tables."""
        return not self.elements and not self.parents


NO_CONSTRAINTS = Constraints()


class StatisticsHead(NamedTuple):
    """What all statistics of one column share. `prefix`: `ColumnStatisticsObj` up to the value of the union's field:
    name, type, headers of field 3 and of the field for that type."""

    engine: bytes
    column: bytes
    prefix: bytes


class ColumnStatistics(NamedTuple):
    """Statistics of one column. `data`: the bytes after `head.prefix`, which are the struct inside the union, and the
    stops of the union and of `ColumnStatisticsObj`; empty if the metastore cannot answer (an unknown type, a NULL).
    `analyzed_s`: Unix time.
    """

    head: StatisticsHead
    analyzed_s: int
    data: bytes

    @property
    def engine(self) -> bytes:
        """The engine that made them."""
        return self.head.engine

    @property
    def column(self) -> bytes:
        """The column, in lower case."""
        return self.head.column

    @property
    def element(self) -> bytes:
        """The `ColumnStatisticsObj` with its stop byte. Only if `data` is not empty."""
        return self.head.prefix + self.data


Statistics = tuple[ColumnStatistics, ...]
"""The statistics of a table or a partition, of all engines, in the order of their heads."""


class TableName(NamedTuple):
    """A table by name and id."""

    catalog: bytes
    database: bytes
    name: bytes
    table_id: int


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table; `body` is the `Table` struct with its stop byte, as `get_table_req` returns it.

    `transactional`: insert-only or full ACID (`full_acid`). `partition_keys`: (name, type) in order. The metastore
    refuses insert-only tables to callers without capabilities; `body` is what it returns to others. `constraints`,
    `statistics`: None if the store does not have them. `summary`: fields 4, 6 and 7 of `TableMeta` (comment and owner)
    and its stop byte; None if it is not known what get_table_meta returns.
    """

    catalog: bytes
    database: bytes
    name: bytes
    table_id: int
    table_type: bytes
    body: bytes
    transactional: bool
    materialized_view: bool
    partition_keys: tuple[tuple[bytes, bytes], ...]
    location: bytes | None
    full_acid: bool = False
    constraints: Constraints | None = None
    statistics: Statistics | None = None
    summary: bytes | None = None


class PartitionRecord(NamedTuple):
    """A partition, cut into runs of `Partition` fields as they are on the wire. A tuple, because millions are made: a
    frozen dataclass takes four times as long.

    `values`: field 1. `times`: fields 4, 5. `sd_head`: header of field 6 and sd field 1 (columns). `location`: the bare
    string of sd field 2; None if it is unset. `sd_tail`: sd fields 3 to 12 and the sd's stop. `parameters`: field 7.
    `tail`: fields 10 and up, without the struct's stop. Fields 2, 3 and 9 (database, table, catalog) are the table's.
    An empty `sd_head` means field 6 is unset.

    `sd_tail` is the form in lists of partitions (get_partitions, _by_names). If the calls for one partition
    (get_partition, _by_name, _with_auth, _req) or get_partitions_by_filter return another form, it is in
    `sd_tail_single` and `sd_tail_filter`; None: the same. store/README.md says which form _ps has.

    `statistics`: of its columns; None if they are not known although the table's are.
    """

    name: bytes
    values: bytes
    times: bytes
    location: bytes | None
    parameters: bytes
    tail: bytes
    sd_head: bytes
    sd_tail: bytes
    sd_tail_single: bytes | None = None
    sd_tail_filter: bytes | None = None
    statistics: Statistics | None = ()


class SomePartitions(NamedTuple):
    """Partitions of a table: those with these names, or all (None)."""

    table: TableRecord
    names: Sequence[bytes] | None = None


@dataclass(frozen=True, slots=True)
class TableWrites:
    """The writes to a transactional table.

    `valid`: the list that the metastore makes for a reader that begins now. `open`: every write id that is neither
    committed nor aborted, also above the list's high watermark, and its transaction (UNKNOWN_ID if not known).
    """

    valid: ValidWriteIdList
    open: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of objects that change without an event: bytes that differ after any change, even if it was changed back.

    `databases`: of their rows, because Hive 4 logs no change of a database's description or locations; None if they are
    too many.
    """

    functions: bytes
    catalogs: bytes
    databases: bytes | None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What a snapshot that began now would have: the log's last event id, the fingerprint of its row, the marks, and
    whether the database is a replica. If all of this is unchanged, nothing has changed."""

    event_id: int
    fingerprint: bytes | None
    marks: Marks | None
    is_replica: bool


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """What a cache belongs to. If it changes, the cache is rebuilt.

    `database_uuid`: the metastore's own id; empty if it never made one. `binary_collation`: the store orders names
    bytewise. `exact`: a snapshot is exactly the state of its event id (SQL); otherwise (Thrift) `Snapshot.overtaken`
    returns the exceptions. `exact_text`: the database compares texts by their bytes; MySQL ignores blanks at the end,
    and refuses characters that its character set lacks, so readers must decline requests with such texts.
    """

    database_uuid: str
    schema_version: str
    hive_line: HiveLine
    binary_collation: bool
    exact: bool
    exact_text: bool = True

    @property
    def ordered_log(self) -> bool:
        """Event ids are assigned under a lock, in the order of commits. Hive 2.3 has no lock, so an id may occur twice,
        or late."""
        return self.hive_line != "2.3"

    @property
    def single_partitions(self) -> bool:
        """Whether the form of a partition in calls for one partition is known, which may differ from that in lists.

        Over Thrift only lists are read. They leave out fields 4 to 7 of serdeInfo, which Hive 2.3 does not have.
        """
        return self.exact or self.hive_line == "2.3"

    @property
    def databases_rewritten(self) -> bool:
        """Hive 4 returns another location than the stored one for a database under metastore.warehouse.dir (such as
        `default`), so the rows do not show what get_database returns. Over Thrift the cache has its own answer."""
        return self.exact and self.hive_line.startswith("4.")

    @property
    def databases_logged(self) -> bool:
        """Whether a change of a database writes an event. In Hive 2.3 only its creation and drop do; marks may show the
        rest (`Marks`)."""
        return self.hive_line != "2.3"


class Snapshot(Protocol):
    """One consistent state of the store."""

    @property
    def event_id(self) -> int:
        """The last event id in this state; 0 if there was no event yet."""
        ...

    @property
    def is_replica(self) -> bool:
        """Is the database a replica, which may be behind its primary? Evaluated after the state was fixed."""
        ...

    def fingerprint(self, event_id: int) -> bytes | None:
        """The hash of this row of the log (NL_ID, time, message); None if there is no such row."""
        ...

    def events(self, after: int, limit: int) -> list[EventRow]:
        """At most `limit` rows with an id above `after`, ascending. A database returns fewer if those have PAGE_BYTES,
        but all rows of the last id among them."""
        ...

    def transaction_events(self, after: int, limit: int) -> list[EventRow]:
        """The same for the types in OF_TRANSACTIONS. Others may be among the rows."""
        ...

    def event_keys(self, after: int) -> list[tuple[int, int]] | None:
        """(event id, NL_ID) of every row above `after`, which identify the row; None if that costs as much as `events`
        (Thrift).
        """
        ...

    def under_way(self) -> tuple[int, int] | None:
        """Of the database transactions that write to the store: the oldest id that is in progress in this state, and
        the first id that is not assigned yet. None if this cannot be known.
        """
        ...

    def overtaken(self) -> list[EventRow]:
        """Rows above `event_id` that were logged while the snapshot was read. Must be called after everything else.

        What they name may be newer than `event_id`, or a mixture of states. Empty for an exact store.
        """
        ...

    def oldest_event_id(self) -> int | None:
        """The smallest id that is still in the log; None if the log has no rows."""
        ...

    def transaction_tables(self, transaction_ids: Sequence[int]) -> list[tuple[int, bytes, bytes]]:
        """(transaction, database, table) of every write id of these transactions, as far as the store knows them. Write
        ids have no catalogs.
        """
        ...

    def write_ids(self, tables: Sequence[WritesKey]) -> dict[WritesKey, TableWrites]:
        """The writes to these tables. They are never newer than any object of this snapshot.

        A table that was never written has a list, too, and so has one that does not exist. The answer lacks names that
        no list can have (store/write_ids.py), and all tables of Hive 2.3, which has no write ids.
        """
        ...

    def marks(self) -> Marks | None:
        """The marks of this state; None if the store has none (Thrift, MySQL), or if there are too many rows."""
        ...

    def database_names(self) -> list[DatabaseKey]:
        """Every database of every catalog, ordered bytewise."""
        ...

    def databases(self, names: Sequence[DatabaseKey]) -> dict[DatabaseKey, DatabaseRecord]:
        """The named databases that exist."""
        ...

    def table_names(self, catalog: bytes, database: bytes) -> list[tuple[bytes, bytes, int]]:
        """(name, type, table id or UNKNOWN_ID) of every table of a database, ordered bytewise by name."""
        ...

    def tables(self, catalog: bytes, database: bytes, names: Sequence[bytes]) -> dict[bytes, TableRecord]:
        """The named tables that exist."""
        ...

    def tables_of(self, keys: Sequence[TableKey]) -> dict[TableKey, TableRecord]:
        """The named tables of any databases, as `tables` returns them. Over SQL this takes one statement more than
        tables of one database."""
        ...

    def constraints(self, tables: Sequence[TableName]) -> dict[int, Constraints]:
        """The constraints of tables, by id; for a table that does not exist, none. Empty if the store does not read
        them."""
        ...

    def partition_counts(self, table_ids: Sequence[int]) -> dict[int, int]:
        """The number of partitions, by table id."""
        ...

    def partitions(
        self,
        table: TableRecord,
        *,
        names: Sequence[bytes] | None = None,
        after: bytes | None = None,
        limit: int | None = None,
    ) -> list[PartitionRecord]:
        """Partitions ordered bytewise by name: the named ones, or those after `after`; at most `limit`."""
        ...

    def partitions_of(self, wanted: Sequence[SomePartitions]) -> list[list[PartitionRecord] | Unfit]:
        """The partitions of several tables, each as `partitions` returns them, or the Unfit that it would raise. Over
        SQL this takes no more statements than one table."""
        ...


class RawStore(Protocol):
    """A store. Only one snapshot is open at a time."""

    @property
    def identity(self) -> StoreIdentity: ...

    def snapshot(self) -> AbstractContextManager[Snapshot]: ...

    def log_end(self) -> LogEnd:
        """The current end of the log, by one question to the store. Not called within a snapshot.

        Over Thrift the fingerprint is None if the last row was not read lately.
        """
        ...

    def close(self) -> None: ...
