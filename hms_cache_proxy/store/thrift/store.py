"""RawStore over Thrift: the metastore's own replies, for when its database cannot be read.

Job: make snapshots of the metastore's own replies, which are cut and never encoded again. Must not know: the cache,
sockets.

**The state of a snapshot.** A metastore has no "as of". A snapshot first notes the current event id E. Everything that
is read later has all changes up to E (a metastore raises the id in the transaction of the change itself). It may also
have later changes, and these only in part: a list of names from before a drop, an object from after it. So the last
call of a snapshot is `overtaken`: the rows of the log after E. Every change that was committed while the snapshot was
read is among them, because the id of its event is greater than E, and became visible together with the change. So

- what none of these rows names is exactly as of E (and of every moment of the snapshot), however many calls it took;
- what one of them names must not be served before a later snapshot, whose E includes the row, has read it again without
  being overtaken. The follower holds such targets (`Changes.held`), and takes the next step at once.

This does not cover changes that log nothing, or logs that are written after the commit of the change; a store over SQL
does not cover them either. If such a change goes through the proxy, a ticket covers it.

**Hive 2.3** assigns event ids without a lock: an id may occur twice, and a smaller one may come after a larger. There
`event_id` is only where to begin, `events` returns whatever the log has after an id, also late rows, and `overtaken`
returns nothing: the follower reads a trailing window of the log before and after (follower/trailing.py).

**What is not known over Thrift**: the form of a partition in calls for one partition, if it differs from that in lists
(StoreIdentity); the tables of transactions (`transaction_tables` returns none); ids of tables in a listing; the
collation (order.py finds it out by filters).

Owner: one thread of the follower's process.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from hms_cache_proxy.errors import LogClosed, StoreError, Unfit
from hms_cache_proxy.security.metastore_security import PLAIN, MetastoreSecurity
from hms_cache_proxy.store.protocol import (
    DEFAULT_CATALOG,
    UNKNOWN_ID,
    Constraints,
    DatabaseKey,
    DatabaseRecord,
    EventRow,
    LogEnd,
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
from hms_cache_proxy.store.thrift.log import LogReader
from hms_cache_proxy.store.thrift.order import orders_bytewise
from hms_cache_proxy.store.thrift.partitions import ThriftPartitions
from hms_cache_proxy.store.thrift.records import database_record, table_record
from hms_cache_proxy.store.thrift.service import NO_SUCH_OBJECT, Metastore, askable
from hms_cache_proxy.store.thrift.write_ids import ThriftWriteIds
from hms_cache_proxy.upstream.service import ServiceConnection
from hms_cache_proxy.wire import facts, spec
from hms_cache_proxy.wire.spans import fields_of, list_spans

TABLES_AT_ONCE: Final = 100
"""Tables in one call. A metastore takes a few milliseconds for each."""
EVENTS_AT_ONCE: Final = 1000
VERIFIED_S: Final = 10.0
"""How long the last row of the log is not read again if its id is unchanged. It can have megabytes, and every step
needs its fingerprint."""

_TABLES_REQUEST = spec.struct("GetTablesRequest")
_CAPABILITIES = spec.struct("ClientCapabilities")(values=[facts.enum("ClientCapability")["INSERT_ONLY_TABLES"]])
_NO_OBJECT: Final = frozenset({"NoSuchObjectException"})
_META: Final = frozenset({"MetaException"})
_NO_DATABASE: Final = frozenset({"UnknownDBException"})


def open_thrift_store(
    addresses: Sequence[tuple[str, int]],
    *,
    timeout_s: float = 60,
    connect_timeout_s: float | None = None,
    answered: Callable[[], None] = unwatched,
    secured: MetastoreSecurity = PLAIN,
) -> ThriftStore:
    """Connect to the first of these metastores that answers and lets its log be read.

    The times are those of a ServiceConnection. `answered` is called after each answer, and after each metastore that
    gave none: the next one is tried. Raises StoreError; LogClosed if metastores answer but do not let their log be
    read.
    """
    problems: list[StoreError] = []
    for host, port in addresses:
        connection = ServiceConnection(
            host, port, timeout_s=timeout_s, connect_timeout_s=connect_timeout_s, secured=secured
        )
        metastore = Metastore(connection, answered)
        try:
            return ThriftStore(metastore)
        except StoreError as error:
            metastore.close()
            problems.append(error)
            answered()
    text = "; ".join(map(str, problems)) or "there is no metastore to read from: upstream is empty"
    raise LogClosed(text) if any(isinstance(problem, LogClosed) for problem in problems) else StoreError(text)


class ThriftStore:
    """RawStore over Thrift."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        metastore.examine()
        self._partitions = ThriftPartitions(metastore, lambda table: _still(self._open(), table))
        self._newest = Newest()
        self._log = LogReader(metastore, ordered=metastore.has_catalogs)
        first = self._open()
        self._identity = StoreIdentity(
            metastore.database_uuid,
            metastore.version,
            metastore.line,
            orders_bytewise(metastore, first),
            exact=False,
        )

    @property
    def uri(self) -> str:
        """The metastore that is read."""
        return self._metastore.uri

    @property
    def identity(self) -> StoreIdentity:
        """As found when the store was opened."""
        return self._identity

    @contextmanager
    def snapshot(self) -> Iterator[ThriftSnapshot]:
        """The state of the current event id, with the exceptions from `overtaken`."""
        yield self._open()

    def log_end(self) -> LogEnd:
        """Takes one call; the last row is not read again."""
        event_id = self._open().event_id
        return LogEnd(event_id, self._newest.get(event_id), None, is_replica=False)

    def close(self) -> None:
        """Close the connection."""
        self._metastore.close()

    def _open(self) -> ThriftSnapshot:
        return ThriftSnapshot(self._metastore, self._partitions, self._newest, self._log)


def _still(snapshot: ThriftSnapshot, table: TableRecord) -> bool:
    found = snapshot.tables(table.catalog, table.database, [table.name]).get(table.name)
    return found is not None and bool(found.partition_keys)


class Newest:
    """The fingerprint of the log's last row, and when it was read."""

    __slots__ = ("_digest", "_event_id", "_read_s")

    def __init__(self) -> None:
        self._event_id = 0
        self._digest = b""
        self._read_s = 0.0

    def get(self, event_id: int) -> bytes | None:
        """The fingerprint of this row, if it was read lately."""
        fresh = time.monotonic() - self._read_s < VERIFIED_S
        return self._digest if fresh and event_id == self._event_id else None

    def note(self, row: EventRow) -> bytes:
        """Notes that this row was read now; returns its fingerprint."""
        self._event_id, self._digest, self._read_s = row.event_id, _fingerprint(row), time.monotonic()
        return self._digest


class ThriftSnapshot:
    """Snapshot of a ThriftStore."""

    def __init__(self, metastore: Metastore, partitions: ThriftPartitions, newest: Newest, reader: LogReader) -> None:
        self._metastore = metastore
        self._last = newest
        self._log = reader
        self._partitions = partitions
        self._write_ids = ThriftWriteIds(metastore)
        self._event_id = int(metastore.call("get_current_notificationEventId").eventId)
        self._ordered = metastore.has_catalogs
        self._ahead: tuple[int, list[EventRow]] | None = None
        self._tables: dict[int, TableRecord] = {}
        self._databases: list[DatabaseKey] | None = None

    # --- the log

    @property
    def event_id(self) -> int:
        """The last event id when the snapshot began."""
        return self._event_id

    @property
    def is_replica(self) -> bool:
        """False: a metastore writes to its database."""
        return False

    def fingerprint(self, event_id: int) -> bytes | None:
        """The hash of this row of the log. The rows after it are kept for `events`, which the follower calls next."""
        if event_id <= 0:
            return None
        known = self._last.get(event_id) if event_id == self._event_id else None
        if known is not None:
            return known
        rows, complete = self._log.page(event_id - 1, EVENTS_AT_ONCE)
        if not rows or rows[0].event_id != event_id:
            return None
        self._ahead = (event_id, rows[1:]) if complete else None
        return self._last.note(rows[0]) if event_id == self._event_id else _fingerprint(rows[0])

    def events(self, after: int, limit: int) -> list[EventRow]:
        """Rows with ids above `after`, ascending; with an ordered log, only up to `event_id`."""
        if self._ahead is not None and self._ahead[0] == after:
            rows = self._ahead[1]
        else:
            rows = self._log.page(after, limit).rows
        if not self._ordered:
            return rows
        self._ahead = None
        mine = [row for row in rows if row.event_id <= self._event_id]
        if mine and mine[-1].event_id == self._event_id:
            self._last.note(mine[-1])
        return mine[:limit]

    def transaction_events(self, after: int, limit: int) -> list[EventRow]:
        """The same: not every metastore can select types of events."""
        return self.events(after, limit)

    def event_keys(self, after: int) -> list[tuple[int, int]] | None:
        """None: a metastore returns only whole rows."""
        return None

    def under_way(self) -> tuple[int, int] | None:
        """None: a metastore does not return this."""
        return None

    def overtaken(self) -> list[EventRow]:
        """All rows above `event_id` that exist by now."""
        if not self._ordered:
            return []
        found: list[EventRow] = []
        after = self._event_id
        while True:
            rows, complete = self._log.page(after, EVENTS_AT_ONCE)
            found += rows
            if complete:
                return found
            after = rows[-1].event_id

    def oldest_event_id(self) -> int | None:
        """The smallest id still in the log."""
        rows = self._log.page(0, 1).rows
        return rows[0].event_id if rows else None

    def transaction_tables(self, transaction_ids: Sequence[int]) -> list[tuple[int, bytes, bytes]]:
        """Nothing: no call returns this."""
        return []

    def write_ids(self, tables: Sequence[WritesKey]) -> dict[WritesKey, TableWrites]:
        """The writes to these tables, as of the first read of a table or a partition in this snapshot."""
        return self._write_ids.named(tables)

    def marks(self) -> None:
        """None: no call shows whether a function was altered."""
        return None

    # --- objects

    def database_names(self) -> list[DatabaseKey]:
        """(catalog, name) of every database."""
        if self._databases is None:
            self._databases = self._list_databases()
        return self._databases

    def _list_databases(self) -> list[DatabaseKey]:
        metastore = self._metastore
        if not metastore.has_catalogs:
            return sorted((DEFAULT_CATALOG, name) for name in metastore.call("get_all_databases"))
        return sorted(
            (catalog, name)
            for catalog in metastore.call("get_catalogs").names
            for name in metastore.call("get_databases", pattern=b"@%b#*" % catalog)
        )

    def databases(self, names: Sequence[DatabaseKey]) -> dict[DatabaseKey, DatabaseRecord]:
        """The named databases that exist. A database counts as absent only if a list does not have it: Hive 4 also
        returns NoSuchObjectException while its backing database is down."""
        found: dict[DatabaseKey, DatabaseRecord] = {}
        known = frozenset(self.database_names())
        for catalog, name in names:
            if (catalog, name) not in known:
                continue
            spelt = self._metastore.database(catalog, name)
            answer = self._metastore.reply("get_database", absent=_NO_OBJECT, name=spelt)
            if answer is NO_SUCH_OBJECT:
                self._gone((catalog, name))
            else:
                found[catalog, name] = database_record(catalog, *answer)
        return found

    def _gone(self, database: DatabaseKey) -> None:
        """The metastore has answered that a database does not exist. Raises StoreError if it still lists it."""
        self._databases = None
        if database in self.database_names():
            raise StoreError(f"{self._metastore.uri} lists database {database[1]!r} and says that there is none")

    def table_names(self, catalog: bytes, database: bytes) -> list[tuple[bytes, bytes, int]]:
        """(name, type, UNKNOWN_ID) of the tables of a database; the type is empty if it is not known."""
        if not askable(database):
            return []
        spelt = self._metastore.database(catalog, database)
        rows = self._metastore.call("get_table_meta", absent=_META, db_patterns=spelt, tbl_patterns=b"*", tbl_types=[])
        if rows is NO_SUCH_OBJECT:  # a single table without a type causes this
            return sorted((name, b"", UNKNOWN_ID) for name in self._metastore.call("get_all_tables", db_name=spelt))
        return sorted((row.tableName, row.tableType or b"", UNKNOWN_ID) for row in rows if row.dbName == database)

    def tables(self, catalog: bytes, database: bytes, names: Sequence[bytes]) -> dict[bytes, TableRecord]:
        """The named tables that exist."""
        self._write_ids.begin()
        found: dict[bytes, TableRecord] = {}
        wanted = [name for name in names if askable(database, name)]
        for start in range(0, len(wanted), TABLES_AT_ONCE):
            for record in self._some_tables(catalog, database, wanted[start : start + TABLES_AT_ONCE]):
                found[record.name] = record
                self._tables[record.table_id] = record
        return found

    def tables_of(self, keys: Sequence[TableKey]) -> dict[TableKey, TableRecord]:
        """One database after the other, because no call takes several."""
        grouped: defaultdict[DatabaseKey, list[bytes]] = defaultdict(list)
        for catalog, database, name in keys:
            grouped[catalog, database].append(name)
        return {
            (*database, name): record
            for database, names in grouped.items()
            for name, record in self.tables(*database, names).items()
        }

    def _some_tables(self, catalog: bytes, database: bytes, names: Sequence[bytes]) -> list[TableRecord]:
        request = _TABLES_REQUEST(dbName=database, tblNames=list(names), capabilities=_CAPABILITIES)
        if self._metastore.has_catalogs:
            request.catName = catalog
        answer = self._metastore.reply("get_table_objects_by_name_req", absent=_NO_DATABASE, req=request)
        if answer is NO_SUCH_OBJECT:
            self._gone((catalog, database))
            return []
        reply, start = answer
        tables = next((at for number, _, at, _ in fields_of(reply, start) if number == 1), None)
        if tables is None:
            raise StoreError(f"{self._metastore.uri}: get_table_objects_by_name_req: an answer without tables")
        return [table_record(catalog, reply, at) for at, _ in list_spans(reply, tables)]

    def constraints(self, tables: Sequence[TableName]) -> dict[int, Constraints]:
        """None: they would take a call for each table (and a metastore up to six statements for it), while a hundred
        tables take one call."""
        return {}

    def partition_counts(self, table_ids: Sequence[int]) -> dict[int, int]:
        """The number of partitions of tables that this snapshot has read; 0 for others."""
        return {table_id: self._count(self._tables.get(table_id)) for table_id in table_ids}

    def _count(self, table: TableRecord | None) -> int:
        return 0 if table is None or not table.partition_keys else self._partitions.count(table)

    def partitions(
        self,
        table: TableRecord,
        *,
        names: Sequence[bytes] | None = None,
        after: bytes | None = None,
        limit: int | None = None,
    ) -> list[PartitionRecord]:
        """The named partitions, or those after `after`, in the order of their names. Raises Unfit."""
        self._write_ids.begin()
        if names is not None:
            return self._partitions.named(table, names, limit)
        return self._partitions.after(table, after, limit)

    def partitions_of(self, wanted: Sequence[SomePartitions]) -> list[list[PartitionRecord] | Unfit]:
        """One table after the other, because no call takes several."""
        found: list[list[PartitionRecord] | Unfit] = []
        for table, names in wanted:
            try:
                found.append(self.partitions(table, names=names))
            except Unfit as error:
                found.append(error)
        return found


def _fingerprint(row: EventRow) -> bytes:
    text = f"{row.event_id} {row.time_s} {row.type} {row.message or ''}"
    return hashlib.sha256(text.encode()).digest()
