"""RawStore over the metastore's own database.

Job: open the database, find out its schema and identity, and take snapshots of it. Must not know: the cache, Thrift
connections.

Invariants:
- VERSION is read first. No other table is read before the line of Hive is known.
- A snapshot is one REPEATABLE READ, READ ONLY transaction. Its first statement reads the last event id, the fingerprint
  of that event, the marks, and whether the server is a replica. The snapshot is exactly the state of that event id,
  because the metastore raises the id in the transaction of the change itself, under a lock that is held until its
  commit. Hive 2.3 has no such lock: there the log is whatever rows the snapshot has (follower/trailing.py).
- An idle look (`log_end`) is only this first statement, in one round trip. An idle snapshot is BEGIN, sent together
  with this statement, and COMMIT.
- Only SELECTs are sent. After an error the connection is dropped, and the next snapshot opens a new one.

Owner: one thread of the follower's process; a second connection is used by a thread of its own (second_connection.py).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, bindparam, case, func, literal_column, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from hms_cache_proxy.config.urls import POSTGRES_URLS, SQLITE_URLS, store_url_problem
from hms_cache_proxy.errors import StoreError, Unfit
from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import (
    OF_TRANSACTIONS,
    PAGE_BYTES,
    Constraints,
    DatabaseKey,
    DatabaseRecord,
    EventRow,
    LogEnd,
    Marks,
    PartitionRecord,
    SomePartitions,
    StoreIdentity,
    TableKey,
    TableName,
    TableRecord,
    TableWrites,
    WritesKey,
    unwatched,
)
from hms_cache_proxy.store.sql.change_marks import AGAIN_S, COLUMNS, mark_columns, marks_of
from hms_cache_proxy.store.sql.databases import Databases, DatabaseStatements
from hms_cache_proxy.store.sql.descriptors import Descriptors, DescriptorStatements
from hms_cache_proxy.store.sql.dialect import ByIds, Dialect, Row
from hms_cache_proxy.store.sql.listings import Walks
from hms_cache_proxy.store.sql.partition_rows import PartitionReader, PartitionRows, PartitionStatements
from hms_cache_proxy.store.sql.partitions import SqlPartitions
from hms_cache_proxy.store.sql.schema import Schema, hive_line
from hms_cache_proxy.store.sql.second_connection import SecondConnection
from hms_cache_proxy.store.sql.tables import Tables, TableStatements
from hms_cache_proxy.store.sql.write_ids import SqlWriteIds, WriteIdStatements

_VERSION = 'SELECT "SCHEMA_VERSION" FROM "VERSION"'
_UUID = "guid"  # the key in METASTORE_DB_PROPERTIES
_AHEAD = 250
"""If at most so many ids follow a row of the log, their rows are read together with its fingerprint."""
_LARGE = PAGE_BYTES // _AHEAD
"""Not if one of their messages has more bytes than this."""


def open_sql_store(
    url: str, *, statement_timeout_s: float = 300, answered: Callable[[], None] = unwatched, two: bool = False
) -> SqlStore:
    """Connects to the database of a metastore, which must be reachable.

    `url`: in SQLAlchemy's form, postgresql://user:password@host:port/database, with libpq's parameters after a `?`; or
    mysql+pymysql://user:password@host:port/database, also for MariaDB; or sqlite:////directory/file, for an embedded
    metastore. `answered` is called after each statement. `two`: a second connection helps to read many partitions.
    Raises StoreError.
    """
    database = open_database(url, statement_timeout_s=statement_timeout_s, answered=answered)
    try:
        store = SqlStore(database)
        if two:
            store.second = SecondConnection(
                database,
                lambda heard: open_database(url, statement_timeout_s=statement_timeout_s, answered=heard),
                answered,
            )
        return store
    except BaseException:
        database.close()
        raise


def open_database(url: str, *, statement_timeout_s: float = 300, answered: Callable[[], None] = unwatched) -> Dialect:
    """The connection for a URL. It is opened at its first use."""
    problem = store_url_problem(url)
    if problem:
        raise StoreError(f"store_url {problem}")
    try:
        parsed: URL = make_url(url)
    except ArgumentError as error:
        raise StoreError(
            "store_url is no database URL; postgresql://user:password@host:5432/metastore is one"
        ) from error
    if parsed.drivername in POSTGRES_URLS:
        from hms_cache_proxy.store.sql.postgres import Postgres  # a driver is loaded only if it is used

        return Postgres(parsed, statement_timeout_s=statement_timeout_s, answered=answered)
    if parsed.drivername in SQLITE_URLS:
        from hms_cache_proxy.store.sql.sqlite import SQLite

        return SQLite(parsed, statement_timeout_s=statement_timeout_s, answered=answered)
    try:
        from hms_cache_proxy.store.sql.mysql import MySQL
    except ImportError as error:
        raise StoreError("the driver for MySQL is missing: pip install 'hms-cache-proxy[mysql]'") from error
    return MySQL(parsed, statement_timeout_s=statement_timeout_s, answered=answered)


def schema_version(database: Dialect) -> str:
    """The one row of VERSION. Raises StoreError."""
    versions: list[str] = [row[0].decode() for row in database.rows(_VERSION)]
    if len(versions) != 1:
        raise StoreError(f"the VERSION table has {len(versions)} rows; a metastore's has one")
    return versions[0]


@dataclass(frozen=True, slots=True)
class _Transactional:
    """The statements for write ids, which exist from 3.1 on."""

    tables: ByIds
    write_ids: WriteIdStatements


def _transactional(schema: Schema, database: Dialect) -> _Transactional | None:
    if "TXN_TO_WRITE_ID" not in schema.tables:
        return None
    writes = schema["TXN_TO_WRITE_ID"].c
    row = (writes.T2W_TXNID, writes.T2W_DATABASE, writes.T2W_TABLE)
    tables = database.by_ids(lambda among: select(*row).where(among(writes.T2W_TXNID)))
    return _Transactional(tables, WriteIdStatements(schema, database))


@dataclass(frozen=True, slots=True)
class _PageStatements:
    """The next rows of the log; and their ids and the sizes of their messages."""

    rows: str
    sizes: str


@dataclass(frozen=True, slots=True)
class _Statements:
    """All statements, compiled once per store."""

    first: str
    first_without_marks: str
    event: str
    event_and_after: str
    events: _PageStatements
    transaction_events: _PageStatements
    oldest_event: str
    event_keys: str
    transactional: _Transactional | None
    databases: DatabaseStatements
    tables: TableStatements
    partitions: PartitionStatements
    descriptors: DescriptorStatements

    @classmethod
    def of(cls, schema: Schema, database: Dialect) -> _Statements:
        log, sequence = schema["NOTIFICATION_LOG"].c, schema["NOTIFICATION_SEQUENCE"]
        mark = (log.NL_ID, log.EVENT_TIME, database.digest(log.MESSAGE))
        last = select(func.max(sequence.c.NEXT_EVENT_ID) - literal_column("1")).scalar_subquery()
        catalog = log.CAT_NAME if "CAT_NAME" in log else literal_column("NULL")
        newest = select(last.label("id")).subquery()
        first = (
            select(newest.c.id, database.replica(), *mark)
            .select_from(newest.outerjoin(schema["NOTIFICATION_LOG"], log.EVENT_ID == newest.c.id))
            .order_by(log.NL_ID)
        )
        whole = (log.EVENT_ID, log.NL_ID, log.EVENT_TIME, log.EVENT_TYPE, catalog, log.DB_NAME, log.TBL_NAME)
        size = database.size(log.MESSAGE)

        def page(*only: ColumnElement[bool]) -> _PageStatements:
            wanted = (log.EVENT_ID > bindparam("after"), *only)
            both = (select(*whole, log.MESSAGE, log.MESSAGE_FORMAT), select(log.EVENT_ID, size))
            order = (log.EVENT_ID, log.NL_ID)
            return _PageStatements(
                *(database.compile(one.where(*wanted).order_by(*order).limit(bindparam("limit"))) for one in both)
            )

        here, digest = log.EVENT_ID == bindparam("event_id"), database.digest(log.MESSAGE)
        large = size > literal_column(str(_LARGE))
        message = case((here, None), (large, None), else_=log.MESSAGE)
        event_and_after = (
            select(*whole, message, log.MESSAGE_FORMAT, case((here, digest), else_=None), large)
            .where(log.EVENT_ID >= bindparam("event_id"))
            .order_by(log.EVENT_ID, log.NL_ID)
        )
        kinds: list[ColumnElement[str]] = [literal_column(f"'{kind}'") for kind in sorted(OF_TRANSACTIONS)]
        return cls(
            database.compile(first.add_columns(*mark_columns(schema, database))),
            database.compile(first),
            database.compile(select(*mark).where(log.EVENT_ID == bindparam("event_id")).order_by(log.NL_ID)),
            database.compile(event_and_after),
            page(),
            page(log.EVENT_TYPE.in_(kinds)),
            database.compile(select(func.min(log.EVENT_ID))),
            database.compile(
                select(log.EVENT_ID, log.NL_ID).where(log.EVENT_ID > bindparam("after")).order_by(log.EVENT_ID)
            ),
            _transactional(schema, database),
            DatabaseStatements(schema, database),
            TableStatements(schema, database),
            PartitionStatements(schema, database),
            DescriptorStatements(schema, database),
        )


class SqlStore:
    """RawStore over SQL."""

    def __init__(self, database: Dialect) -> None:
        self.database = database
        self.second: SecondConnection | None = None
        version = schema_version(database)
        self.schema = Schema.of(hive_line(version), folds=database.folds_names)
        binary = database.binary_collation()
        self._marks_from_s = 0.0
        self._walks = Walks()
        self._statements = _Statements.of(self.schema, database)
        uuid = self._database_uuid()
        self._identity = StoreIdentity(uuid, version, self.schema.line, binary, True, database.exact_text)

    @property
    def identity(self) -> StoreIdentity:
        """As found when the store was opened. The uuid is read again while the metastore has not made one."""
        if not self._identity.database_uuid:
            self._identity = replace(self._identity, database_uuid=self._database_uuid())
        return self._identity

    @contextmanager
    def snapshot(self) -> Iterator[SqlSnapshot]:
        """One consistent state, until the end of the block. One at a time."""
        first = self._first()
        with self.database.snapshot(first) as rows, nullcontext() if self.second is None else self.second.within():
            yield SqlSnapshot(self.database, self._statements, self._end(first, rows), self._walks, self.second)

    def log_end(self) -> LogEnd:
        """By the first statement of a snapshot only; without BEGIN and COMMIT."""
        first = self._first()
        return self._end(first, self.database.look(first))

    def _first(self) -> str:
        marked = time.monotonic() >= self._marks_from_s
        return self._statements.first if marked else self._statements.first_without_marks

    def _end(self, first: str, rows: Sequence[Row]) -> LogEnd:
        """The result of the first statement."""
        marks = None
        if first is self._statements.first:
            marks = marks_of(rows[0][-COLUMNS:])
            if marks is None:
                self._marks_from_s = time.monotonic() + AGAIN_S
        event_id, replica = rows[0][:2]
        fingerprint = _fingerprint([row[2:5] for row in rows if row[2] is not None])
        return LogEnd(int(event_id or 0), fingerprint, marks, bool(replica))

    def close(self) -> None:
        """Close the connections."""
        if self.second is not None:
            self.second.close()
        self.database.close()

    def _database_uuid(self) -> str:
        if "METASTORE_DB_PROPERTIES" not in self.schema.tables:
            return ""
        properties = self.schema["METASTORE_DB_PROPERTIES"].c
        statement = select(properties.PROPERTY_VALUE).where(properties.PROPERTY_KEY == bindparam("key"))
        rows = self.database.rows(self.database.compile(statement), key=_UUID)
        return str(rows[0][0], "utf-8") if rows else ""


class SqlSnapshot:
    """Snapshot of an SqlStore."""

    def __init__(
        self,
        database: Dialect,
        statements: _Statements,
        end: LogEnd,
        walks: Walks,
        second: SecondConnection | None,
    ) -> None:
        self._database = database
        self._marks = end.marks
        self._statements = statements
        self._event_id = end.event_id
        self._is_replica = end.is_replica
        self._newest = end.fingerprint
        self._ahead: tuple[int, list[EventRow]] | None = None  # an event id, and all rows after it
        descriptors = Descriptors(database, statements.descriptors)
        transactional = self._transactional = statements.transactional
        self._write_ids = None if transactional is None else SqlWriteIds(database, transactional.write_ids)
        self._databases = Databases(database, statements.databases)
        self._tables = Tables(database, statements.tables, descriptors)
        self._partitions = SqlPartitions(
            database, statements.partitions, _partition_reader(database, statements, descriptors, second), walks
        )

    @property
    def event_id(self) -> int:
        """The last event id."""
        return self._event_id

    @property
    def is_replica(self) -> bool:
        """As the server reports."""
        return self._is_replica

    def fingerprint(self, event_id: int) -> bytes | None:
        """The hash of this row of the log. That of the newest row takes no further statement. If few rows follow it,
        they are kept for `events`, which the follower calls next."""
        if event_id == self._event_id:
            return self._newest
        if not 0 < self._event_id - event_id <= _AHEAD:
            return _fingerprint(self._database.rows(self._statements.event, event_id=event_id))
        rows = self._database.rows(self._statements.event_and_after, event_id=event_id)
        at = sum(row[0] == event_id for row in rows)
        if not any(row[-1] for row in rows[at:]):
            self._ahead = event_id, [_event(row[:-2]) for row in rows[at:]]
        return _fingerprint([(row[1], row[2], row[-2]) for row in rows[:at]])

    def events(self, after: int, limit: int) -> list[EventRow]:
        """Rows with ids above `after`, ascending; fewer if they have PAGE_BYTES."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == after:
            return ahead[1][:limit]
        return self._rows(self._statements.events, after, limit)

    def transaction_events(self, after: int, limit: int) -> list[EventRow]:
        """The same for the types in OF_TRANSACTIONS."""
        return self._rows(self._statements.transaction_events, after, limit)

    def _rows(self, page: _PageStatements, after: int, limit: int) -> list[EventRow]:
        sizes = self._database.rows(page.sizes, after=after, limit=limit)
        fitting = _fitting(sizes)
        return [_event(row) for row in self._database.rows(page.rows, after=after, limit=fitting)] if fitting else []

    def event_keys(self, after: int) -> list[tuple[int, int]]:
        """(event id, NL_ID) of the rows with ids above `after`."""
        return [(event_id, nl_id) for event_id, nl_id in self._database.rows(self._statements.event_keys, after=after)]

    def under_way(self) -> tuple[int, int] | None:
        """As the database reports."""
        return self._database.under_way()

    def overtaken(self) -> list[EventRow]:
        """Nothing: the transaction sees one state."""
        return []

    def oldest_event_id(self) -> int | None:
        """The smallest id that is still in the log."""
        oldest = self._database.rows(self._statements.oldest_event)[0][0]
        return None if oldest is None else int(oldest)

    def transaction_tables(self, transaction_ids: Sequence[int]) -> list[tuple[int, bytes, bytes]]:
        """(transaction, database, table) of the write ids of these transactions."""
        if self._transactional is None:
            return []
        wanted = set(transaction_ids)
        rows = self._database.rows_by_ids(self._transactional.tables, wanted)
        return [(id_, database, table) for id_, database, table in rows if id_ in wanted]

    @encode.encoding
    def write_ids(self, tables: Sequence[WritesKey]) -> dict[WritesKey, TableWrites]:
        """The writes to these tables."""
        return {} if self._write_ids is None else self._write_ids.named(tables)

    def marks(self) -> Marks | None:
        """The marks, from the first statement."""
        return self._marks

    def database_names(self) -> list[DatabaseKey]:
        """(catalog, name) of every database."""
        return self._databases.names()

    @encode.encoding
    def databases(self, names: Sequence[DatabaseKey]) -> dict[DatabaseKey, DatabaseRecord]:
        """The named databases that exist."""
        return self._databases.named(names)

    def table_names(self, catalog: bytes, database: bytes) -> list[tuple[bytes, bytes, int]]:
        """(name, type, id) of the tables of a database."""
        return self._tables.names(catalog, database)

    def tables(self, catalog: bytes, database: bytes, names: Sequence[bytes]) -> dict[bytes, TableRecord]:
        """The named tables that exist."""
        return {key[2]: record for key, record in self.tables_of([(catalog, database, name) for name in names]).items()}

    @encode.encoding
    def tables_of(self, keys: Sequence[TableKey]) -> dict[TableKey, TableRecord]:
        """The named tables of several databases."""
        return self._tables.named(keys)

    @encode.encoding
    def constraints(self, tables: Sequence[TableName]) -> dict[int, Constraints]:
        """Constraints by table id."""
        return self._tables.constraints(tables)

    def partition_counts(self, table_ids: Sequence[int]) -> dict[int, int]:
        """Number of partitions by table id."""
        return self._tables.counts(table_ids)

    @encode.encoding
    def partitions(
        self,
        table: TableRecord,
        *,
        names: Sequence[bytes] | None = None,
        after: bytes | None = None,
        limit: int | None = None,
    ) -> list[PartitionRecord]:
        """The named partitions, or those after `after`, in order of their names."""
        if names is not None:
            return self._partitions.named(table, names, limit)
        return self._partitions.after(table, after, limit)

    @encode.encoding
    def partitions_of(self, wanted: Sequence[SomePartitions]) -> list[list[PartitionRecord] | Unfit]:
        """Partitions of several tables."""
        return self._partitions.of(wanted)


def _fitting(sizes: Sequence[Row]) -> int:
    """How many of the rows with these ids and sizes are one page."""
    total, last = 0, None
    for at, (event_id, size) in enumerate(sizes):
        if total >= PAGE_BYTES and event_id != last:
            return at
        total, last = total + (size or 0), event_id
    return len(sizes)


def _fingerprint(rows: Sequence[Row]) -> bytes | None:
    if not rows:
        return None
    digest = hashlib.sha256()
    for nl_id, time_s, message in rows:  # several rows only in Hive 2.3, where an id can occur twice
        digest.update(b"%d %d %s\n" % (nl_id, time_s, message or b""))
    return digest.digest()


def _event(row: Row) -> EventRow:
    id_, nl_id, time_s, kind, catalog, database, table, message, form = row
    return EventRow(id_, nl_id, time_s, kind.decode(), catalog, database, table, _text(message), _text(form))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _partition_reader(
    database: Dialect, statements: _Statements, descriptors: Descriptors, second: SecondConnection | None
) -> PartitionReader:
    def of(other: Dialect) -> PartitionRows:
        return PartitionRows(other, statements.partitions, Descriptors(other, statements.descriptors))

    return PartitionReader(PartitionRows(database, statements.partitions, descriptors), second, of)
