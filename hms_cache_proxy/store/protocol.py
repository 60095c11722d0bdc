"""What the follower reads: records of databases, tables, partitions and events, and the two Protocols that give them.

Job: the seam between a backing store (SQL, Thrift) and everything above. Records carry encoded wire bytes, so
nothing above needs a codec. Must not know: any driver, any SQL, the cache's layout.

Invariants:
- Names are as the metastore stores them (lower case for catalogs, databases and tables), UTF-8 bytes.
- Bytes decode equal, field by field, set and unset included, to what the metastore itself answers.
- Everything read through one `Snapshot` belongs to one state of the store, the one of `Snapshot.event_id`; but for
  what the rows that `overtaken` gives name, which may be newer, or half of it.

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

UNKNOWN_ID = 0
"""A table's id where a listing does not tell it; a transaction's where the store cannot."""

OF_TRANSACTIONS = frozenset(("ALLOC_WRITE_ID_EVENT", "COMMIT_TXN", "ABORT_TXN", "ALTER_TABLE"))
"""Kinds of events that tell which tables open transactions write, and what these are called now."""

SKEWED = "a partition with skewed values: Hive 3.1 does not say the same of it in all lists"
"""Text of Unfit."""


def unwatched() -> None:
    """What a store does after each answer of its source where nobody watches over it."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One row of the notification log; the message as stored (`message_format` says how to read it)."""

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
    """A database; `body` is the `Database` struct with its stop byte, as stored (`get_databases_req` returns it so).

    `get_database` says the same but for one case: with its metadata transformer on (the default) Hive 4 replaces the
    location of a database of catalog `hive` whose `location` has a path at or under the path of
    metastore.warehouse.dir by the default location under metastore.warehouse.external.dir. The backing database
    does not know these settings.
    """

    catalog: bytes
    name: bytes
    body: bytes
    remote: bool
    location: bytes | None = None


class ConstraintKind(IntEnum):
    """What a list of constraints holds; the value is its field in SQLAllTableConstraints."""

    PRIMARY_KEY = 1
    UNIQUE = 3
    NOT_NULL = 4
    DEFAULT = 5
    CHECK = 6


@dataclass(frozen=True, slots=True)
class Constraints:
    """A table's constraints. `elements`: by kind the encoded list elements (SQLPrimaryKey and so on, each with its stop
    byte), in order of constraint name and position; a kind without any is left out. `parents`: ids of the
    tables that it refers to by foreign keys, in order.
    """

    elements: Mapping[ConstraintKind, tuple[bytes, ...]] = field(default_factory=dict)
    parents: tuple[int, ...] = ()

    @property
    def nothing(self) -> bool:
        """Most tables have none."""
        return not self.elements and not self.parents


NO_CONSTRAINTS = Constraints()


class StatisticsHead(NamedTuple):
    """What the statistics of one column have in common. `prefix`: `ColumnStatisticsObj` up to the value of the union's
    field: name, type, headers of field 3 and of the field for that type."""

    engine: bytes
    column: bytes
    prefix: bytes


class ColumnStatistics(NamedTuple):
    """Statistics of one column. `data`: what follows `head.prefix`: the struct inside the union, and the stops of the
    union and of `ColumnStatisticsObj`; empty where the metastore can give no answer (a type it does not know, a NULL).
    `analyzed_s`: Unix time.
    """

    head: StatisticsHead
    analyzed_s: int
    data: bytes

    @property
    def engine(self) -> bytes:
        """Who has made them."""
        return self.head.engine

    @property
    def column(self) -> bytes:
        """The column, in lower case."""
        return self.head.column

    @property
    def element(self) -> bytes:
        """The `ColumnStatisticsObj` with its stop byte; only where `data` is not empty."""
        return self.head.prefix + self.data


Statistics = tuple[ColumnStatistics, ...]
"""Of a table or a partition, by all engines, in order of their heads."""


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
    refuses insert-only tables to callers without capabilities; `body` is what it gives the others. `constraints` and
    `statistics`: None where the store does not tell.
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


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A partition cut into runs of `Partition` fields as they lie on the wire.

    `values`: field 1. `times`: fields 4, 5. `sd_head`: header of field 6 and sd field 1 (columns). `location`: the
    bare string of sd field 2, None where it is unset. `sd_tail`: sd fields 3 to 12 and the sd's stop.
    `parameters`: field 7. `tail`: fields 10 and up, without the struct's stop. Fields 2, 3 and 9 (database, table,
    catalog) are the table's. An empty `sd_head` means field 6 is unset.

    `sd_tail` is what lists of partitions say (get_partitions, _by_names, _ps, _ps_with_auth). Where the calls for one
    partition (get_partition, _by_name, _with_auth, _req) or get_partitions_by_filter say something else, it is in
    `sd_tail_single` and `sd_tail_filter`; None = the same.

    `statistics`: of its columns; None where they cannot be told though those of its table can.
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
    """Partitions of a table: those of these names that exist, or all of them (None)."""

    table: TableRecord
    names: Sequence[bytes] | None = None


@dataclass(frozen=True, slots=True)
class TableWrites:
    """The writes to a transactional table.

    `valid`: the list that the metastore makes for a reader who begins now. `open`: every write id that is neither
    committed nor aborted, also over the list's high watermark, and its transaction; UNKNOWN_ID where it cannot be told.
    """

    valid: ValidWriteIdList
    open: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Marks:
    """Of what changes without an event: bytes that differ once any of it was changed, even if it was changed back.

    `databases`: None where they are too many. Hive 4 logs no alter of a database's description or locations.
    """

    functions: bytes
    catalogs: bytes
    databases: bytes | None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The log's last event id, the fingerprint of its row, the marks, and whether the database is a replica: what a
    snapshot that began now would say of itself. Where all of it is as it was, nothing has changed."""

    event_id: int
    fingerprint: bytes | None
    marks: Marks | None
    is_replica: bool


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """What a cache must be thrown away for when it changes.

    `database_uuid`: the metastore's own id, empty where it never made one. `binary_collation`: the store orders names
    bytewise. `exact`: a snapshot is exactly the state of its event id (SQL); otherwise (Thrift) `Snapshot.overtaken`
    tells what is not. `exact_text`: it tells texts apart by their bytes, in the pieces that it was found fit to give;
    MySQL ignores blanks at the end, and refuses what its character set lacks, so readers must not ask with such.
    """

    database_uuid: str
    schema_version: str
    hive_line: HiveLine
    binary_collation: bool
    exact: bool
    exact_text: bool = True

    @property
    def ordered_log(self) -> bool:
        """Event ids are given under a lock, in the order of commits. 2.3 gives them without: twice, late, or both."""
        return self.hive_line != "2.3"

    @property
    def single_partitions(self) -> bool:
        """It is known what the calls for one partition say where that is not what lists say.

        Over Thrift only lists are asked. They leave out fields 4 to 7 of serdeInfo, which came after 2.3.
        """
        return self.exact or self.hive_line == "2.3"

    @property
    def databases_rewritten(self) -> bool:
        """Hive 4 says another location than the stored one of a database under metastore.warehouse.dir (`default` is
        one): the store alone does not tell what get_database answers. Over Thrift its own answer is stored."""
        return self.exact and self.hive_line.startswith("4.")

    @property
    def databases_logged(self) -> bool:
        """A change of a database writes an event. In 2.3 only its creation and end do; marks may tell (`Marks`)."""
        return self.hive_line != "2.3"


class Snapshot(Protocol):
    """One consistent state of the store."""

    @property
    def event_id(self) -> int:
        """The last event id used in this state; 0 for an empty log."""
        ...

    @property
    def is_replica(self) -> bool:
        """Is the database a replica, which may be behind its primary? As it was when the state had been chosen."""
        ...

    def fingerprint(self, event_id: int) -> bytes | None:
        """Hash of that log row (NL_ID, time, message); None if there is no such row."""
        ...

    def events(self, after: int, limit: int) -> list[EventRow]:
        """At most `limit` rows with an id over `after`, ascending."""
        ...

    def transaction_events(self, after: int, limit: int) -> list[EventRow]:
        """The same of the kinds in OF_TRANSACTIONS; others may be among them."""
        ...

    def event_keys(self, after: int) -> list[tuple[int, int]] | None:
        """(event id, NL_ID) of every row over `after`: what tells rows apart; None where that costs what `events` does
        (Thrift).
        """
        ...

    def under_way(self) -> tuple[int, int] | None:
        """Of the transactions that write to the store: the oldest id whose end this state does not show, and the first
        id that is not given out. None where nothing tells.
        """
        ...

    def overtaken(self) -> list[EventRow]:
        """To be asked after everything else: rows over `event_id` that were logged while the snapshot was read.

        What they name may have been read newer than `event_id`, or one part older than another. Empty for an exact
        store.
        """
        ...

    def oldest_event_id(self) -> int | None:
        """The smallest id still in the log; None if the log has no rows."""
        ...

    def transaction_tables(self, transaction_ids: Sequence[int]) -> list[tuple[int, bytes, bytes]]:
        """(transaction, database, table) of every write id given to these transactions, as far as the store can tell;
        it has no catalogs.
        """
        ...

    def write_ids(self, tables: Sequence[WritesKey]) -> dict[WritesKey, TableWrites]:
        """The writes to these tables, none of them newer than any object of this snapshot.

        A table that was never written has a list too, and so has one that does not exist. Absent from the answer are
        names of which no list can speak (store/write_ids.py), and every table of a Hive without write ids (2.3).
        """
        ...

    def marks(self) -> Marks | None:
        """The marks of this state; None where nothing tells (Thrift, MySQL), or there is too much to look at."""
        ...

    def database_names(self) -> list[DatabaseKey]:
        """Every database of every catalog, ordered bytewise."""
        ...

    def databases(self, names: Sequence[DatabaseKey]) -> dict[DatabaseKey, DatabaseRecord]:
        """The named databases; absent from the answer = absent from the store."""
        ...

    def table_names(self, catalog: bytes, database: bytes) -> list[tuple[bytes, bytes, int]]:
        """(name, type, table id or UNKNOWN_ID) of every table of a database, ordered by name bytewise."""
        ...

    def tables(self, catalog: bytes, database: bytes, names: Sequence[bytes]) -> dict[bytes, TableRecord]:
        """The named tables; absent from the answer = absent from the store."""
        ...

    def constraints(self, tables: Sequence[TableName]) -> dict[int, Constraints]:
        """Constraints of tables by id, none for a table that does not exist; empty where the store does not tell."""
        ...

    def partition_counts(self, table_ids: Sequence[int]) -> dict[int, int]:
        """Number of partitions by table id; 0 for a table without any."""
        ...

    def partitions(
        self,
        table: TableRecord,
        *,
        names: Sequence[bytes] | None = None,
        after: bytes | None = None,
        limit: int | None = None,
    ) -> list[PartitionRecord]:
        """Partitions ordered by name bytewise: the named ones, or those after `after`, at most `limit`."""
        ...

    def partitions_of(self, wanted: Sequence[SomePartitions]) -> list[list[PartitionRecord] | Unfit]:
        """Those of several tables, each as `partitions` gives them; Unfit, where it would raise that. Over SQL it takes
        no more statements than one table does."""
        ...


class RawStore(Protocol):
    """A backing store; `snapshot()` is used one at a time."""

    @property
    def identity(self) -> StoreIdentity: ...

    def snapshot(self) -> AbstractContextManager[Snapshot]: ...

    def log_end(self) -> LogEnd:
        """The end of the log as it is now, by one question to the store; outside of a snapshot.

        Over Thrift the fingerprint is None where the last row has not been read lately.
        """
        ...

    def close(self) -> None: ...
