"""One state of the cache, as of one commit.

Job: look objects up in one LMDB read transaction. Open a snapshot (cache/reader.py), answer, close it. Never keep it
open during a wait, because LMDB cannot reuse pages while it is open. Only streams and walks may keep its transaction
longer (cache/streams.py says how long).

Must not know: what a request is, or whether an answer may be served. Owner: one thread per reader.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from struct import error as StructError
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import lmdb

from hms_cache_proxy.cache import layout, targets
from hms_cache_proxy.cache.attachments import UNCONSTRAINED, ConstraintsEntry, constraints_unpack
from hms_cache_proxy.cache.entries import ABSENT, Absent, DatabaseEntry, TableEntry, TableState
from hms_cache_proxy.cache.environment import Environment
from hms_cache_proxy.cache.joiner import Joiner
from hms_cache_proxy.cache.layout import KEY_BYTES, WriteIdsRow
from hms_cache_proxy.cache.segments import Variant
from hms_cache_proxy.cache.shared_transaction import SharedTransaction
from hms_cache_proxy.cache.statistics import Gathered, table_unpack
from hms_cache_proxy.cache.streams import ChosenStream, NameStream, PartitionStream
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.cache.walk import ListingWalk, NameWalk
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.store.protocol import ColumnStatistics, Statistics, StoreIdentity

if TYPE_CHECKING:
    from hms_cache_proxy.cache.reader import CacheReader

_Place = TypeVar("_Place", int, bytes)

KEPT_DATABASES: Final = 1000  # databases that a process remembers of one commit
_DAMAGE: Final = (lmdb.Error, StructError, zlib.error)
"""What reading a damaged row raises."""


class CacheSnapshot:
    """One state of the cache. As a context manager it turns errors about a damaged file into CacheError."""

    __slots__ = (
        "_databases",
        "_environment",
        "_get",
        "_objects",
        "_prefixes",
        "_reader",
        "_transaction",
        "_txn",
        "identity",
        "meta",
    )

    def __init__(self, reader: CacheReader, environment: Environment, txn: Any) -> None:
        self._reader = reader
        self._environment = environment
        self._objects = environment.objects
        self._txn = txn
        self._get = txn.get
        self._transaction: SharedTransaction | None = None
        self.meta = reader.meta_of(environment, txn)
        self._prefixes = reader.prefixes
        self._databases = reader.databases
        assert reader.identity is not None
        self.identity: StoreIdentity = reader.identity
        """The store of this cache."""

    @property
    def seq(self) -> int:
        """The sequence number of this state's commit."""
        return self.meta.seq

    def close(self) -> None:
        """Ends the snapshot. Entries from it stay usable, because they are copies."""
        if self._transaction is None:
            self._txn.abort()
        else:
            self._transaction.release()

    def __enter__(self) -> CacheSnapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if isinstance(error, _DAMAGE):
            raise self._reader.failed(error) from error

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Turns the same errors into CacheError while a walk is used after its snapshot was closed."""
        try:
            yield
        except _DAMAGE as error:
            raise self._reader.failed(error) from error

    def version(self, target: Target) -> int:
        """The sequence number of the last commit that touched a target. A Reset touches all."""
        key = target if len(target) < KEY_BYTES else layout.version_key(target)
        row = self._get(key, db=self._environment.versions)
        floor = self.meta.floor_version
        if row is None:
            return floor
        version: int = layout.SEQ.unpack(row)[0]
        return version if version > floor else floor

    def holds(self, depends: Iterable[Target]) -> bool:
        """Whether one of these targets is held: it changed while it was read, and may not be served before the next
        commit."""
        held = self.meta.held
        if not held:
            return False
        listed = {targets.members_of(target) for target in held}
        return targets.ALL in held or any(target in held or target in listed for target in depends)

    def complete(self, target: Target) -> bool:
        """Whether a list (`targets.databases`, `targets.tables`) has all its names, or a marked target has a mark."""
        return self.mark(target) is not None

    def mark(self, target: Target) -> bytes | None:
        """The mark of a marked target; None if its changes are not detected."""
        key = self._prefixes[b"c"] + target
        found: bytes | None = self._get(layout.version_key(key), db=self._objects)
        return found

    def database(self, catalog: bytes, name: bytes) -> DatabaseEntry | Absent | None:
        """A database; ABSENT if there is none; None if that is not known."""
        full = catalog + b"\0" + name
        known = self._databases.get(full)
        if known is not None:
            return known
        row = self.row(b"d", full)
        if row is not None:
            known = DatabaseEntry(row[1:], bool(row[0] & layout.REMOTE))
            if len(self._databases) < KEPT_DATABASES:
                self._databases[full] = known
            return known
        return ABSENT if self.complete(targets.databases(catalog)) else None

    def database_list(self, catalog: bytes) -> list[bytes] | None:
        """Names of all databases of a catalog in bytewise order; None if they are not all known."""
        if not self.complete(targets.databases(catalog)):
            return None
        begin = catalog + b"\0"
        return [name[len(begin) :] for name, _ in self.rows(b"d", begin)]

    def table(self, catalog: bytes, database: bytes, name: bytes) -> TableEntry | Absent | None:
        """A table; ABSENT if there is none; None if that is not known."""
        full = b"%b\0%b\0%b" % (catalog, database, name)
        row = self.row(b"t", full)
        if row is not None:
            return self._entry(catalog, database, name, row)
        row = self.row(b"n", full)
        if row is not None:
            table_id, _, kind = layout.NAME_ROW.unpack_from(row)
            at = layout.NAME_ROW.size + kind
            reason, table_type = row[at:].decode(), row[layout.NAME_ROW.size : at]
            return TableEntry(catalog, database, name, table_id, table_type, None, reason_not_loaded=reason)
        if self.complete(targets.tables(catalog, database)):
            return ABSENT
        return ABSENT if self.database(catalog, database) is ABSENT else None

    def table_list(
        self, catalog: bytes, database: bytes, prefix: bytes = b"", limit: int | None = None
    ) -> list[tuple[bytes, bytes, bool]] | None:
        """(name, type, whether it is loaded) of the first `limit` tables of a database whose names begin with `prefix`,
        in bytewise order; None if they are not all known."""
        if not self.complete(targets.tables(catalog, database)):
            return None
        begin = b"%b\0%b\0" % (catalog, database)
        cut, at, found = len(begin), layout.NAME_ROW.size, []
        for name, row in self.rows(b"n", begin + prefix, limit):
            _, flags, kind = layout.NAME_ROW.unpack_from(row)
            found.append((name[cut:], row[at : at + kind], bool(flags & layout.LOADED)))
        return found

    def walk_tables(self, catalog: bytes, database: bytes, prefix: bytes = b"") -> ListingWalk:
        """The rows of a complete listing whose names begin with `prefix`; outlives this snapshot until it is closed."""
        return self._walk_listing(b"%b%b\0%b\0" % (self._prefixes[b"n"], catalog, database), prefix)

    def walk_databases(self, catalog: bytes, prefix: bytes = b"") -> ListingWalk:
        """The rows of a catalog's databases whose names begin with `prefix`, if all are known (`complete`); outlives
        this snapshot until it is closed."""
        return self._walk_listing(b"%b%b\0" % (self._prefixes[b"d"], catalog), prefix)

    def all_loaded(self, catalog: bytes, database: bytes) -> bool:
        """Whether every table in a database's listing is loaded, so that nothing of them changes unnoticed."""
        key = layout.version_key(self._prefixes[b"u"] + targets.SEPARATOR.join((catalog, database)))
        return self._get(key, db=self._objects) is None

    def databases_not_loaded(self) -> list[bytes]:
        """The databases (catalog \\0 name) of which some table is not loaded."""
        return [database for database, _ in self.rows(b"u", b"")]

    def partition(self, entry: TableEntry, name: bytes, variant: Variant = Variant.SINGLE) -> bytes | None:
        """One `Partition` struct with its stop byte; None if the table has no such partition."""
        return self._joiner(entry, variant).one(self._txn, name)

    def partitions(self, entry: TableEntry, names: list[bytes], variant: Variant = Variant.LIST) -> list[bytes | None]:
        """The `Partition` structs of these names, in the order of `names`; None for a name without a partition."""
        joiner, txn = self._joiner(entry, variant), self._txn
        return [joiner.one(txn, name) for name in names]

    def join_partitions(
        self,
        entry: TableEntry,
        names: list[bytes] | tuple[bytes, ...],
        out: list[bytes],
        variant: Variant = Variant.LIST,
    ) -> int:
        """Appends pieces of the `Partition` structs of these names to `out`; returns the number of partitions.

        Names without a partition are left out. Joined, the pieces are the elements of a Thrift list.
        """
        return self._joiner(entry, variant).by_names(self._txn, names, out)

    def partitions_among(self, entry: TableEntry, names: list[bytes]) -> list[bytes]:
        """The names that have a partition."""
        return [name for name, _ in self._joiner(entry, Variant.LIST).named(self._txn, names)]

    def partition_names(self, entry: TableEntry, after: bytes | None = None, limit: int | None = None) -> list[bytes]:
        """Names in bytewise order, after `after`, at most `limit`. For many names use `iter_names`."""
        most = entry.partition_count if limit is None else min(limit, entry.partition_count)
        return self._joiner(entry, Variant.LIST).names(self._txn, after, most)

    def walk(self, entry: TableEntry) -> NameWalk:
        """A cursor over the names. It may outlive this snapshot."""
        walk = NameWalk(self._shared_transaction(), self._joiner(entry, Variant.LIST), time.monotonic_ns())
        self._reader.streams.add(walk)
        return walk

    def iter_names(self, entry: TableEntry, after: bytes | None = None, limit: int | None = None) -> NameStream:
        """Names in bytewise order, encoded as list elements, in slices. The stream may outlive this snapshot."""
        most = entry.partition_count if limit is None else min(limit, entry.partition_count)
        stream = NameStream(self._shared_transaction(), self._joiner(entry, Variant.LIST), after, most)
        self._reader.streams.add(stream)
        return stream

    def iter_partitions(
        self, entry: TableEntry, after: bytes | None = None, limit: int | None = None, variant: Variant = Variant.LIST
    ) -> PartitionStream:
        """Partitions in the order of their names, in slices. The stream may outlive this snapshot
        (cache/streams.py)."""
        most = entry.partition_count if limit is None else min(limit, entry.partition_count)
        stream = PartitionStream(self._shared_transaction(), self._joiner(entry, variant), after, most)
        self._reader.streams.add(stream)
        return stream

    def iter_chosen(self, entry: TableEntry, names: list[bytes], variant: Variant = Variant.LIST) -> PartitionStream:
        """The partitions of these names, in slices. The stream may outlive this snapshot."""
        stream = ChosenStream(self._shared_transaction(), self._joiner(entry, variant), names)
        self._reader.streams.add(stream)
        return stream

    def row(self, tag: bytes, name: bytes) -> bytes | None:
        """The row of `objects` with this tag and name (cache/layout.py). For cache/ only."""
        key = self._prefixes[tag] + name
        if len(key) < KEY_BYTES:
            found: bytes | None = self._get(key, db=self._objects)
            return found
        return layout.find(self._txn, self._objects, b"", key)

    def rows(self, tag: bytes, begin: bytes, limit: int | None = None) -> list[tuple[bytes, bytes]]:
        """(name, row) of the first `limit` of these rows whose names begin so, in bytewise order. For cache/ only."""
        prefix = self._prefixes[tag]
        return layout.names_under(self._txn, self._objects, prefix, begin, limit)

    def _walk_listing(self, listing: bytes, prefix: bytes) -> ListingWalk:
        cursor = self._txn.cursor(self._objects)
        walk = ListingWalk(self._shared_transaction(), cursor, listing, prefix, time.monotonic_ns())
        self._reader.streams.add(walk)
        return walk

    def _shared_transaction(self) -> SharedTransaction:
        if self._transaction is None:
            self._transaction = SharedTransaction(self._txn)
        return self._transaction

    def _joiner(self, entry: TableEntry, variant: Variant) -> Joiner:
        assert entry.partitions_loaded, "partitions of a table that is not loaded"
        if self._transaction is not None and self._transaction.ended:  # the reader may have moved over to another file
            raise CacheError("a search goes on after its state of the cache was given up")
        return self._reader.joiners.get(self._environment, entry, variant)

    def _entry(self, catalog: bytes, database: bytes, name: bytes, row: bytes) -> TableEntry:
        table_id, flags, kind, location, keys = layout.TABLE_ROW.unpack_from(row)
        type_end = layout.TABLE_ROW.size + kind
        location_end = type_end + location
        body = location_end + keys
        number = count = set_flags = 0
        loaded = False
        reason, typed = "", b""
        if keys:
            key = self._prefixes[b"s"] + layout.TABLE_ID.pack(table_id)
            fixed = self._get(key, db=self._objects)
            number, _, count, state, set_flags, words, kinds = layout.SET_ROW.unpack_from(fixed)
            loaded = state == layout.PARTITIONS_LOADED
            end = layout.SET_ROW.size + words
            reason, typed = fixed[layout.SET_ROW.size : end].decode(), fixed[end : end + kinds]
        return TableEntry(
            catalog,
            database,
            name,
            table_id,
            row[layout.TABLE_ROW.size : type_end],
            row[body:],
            bool(flags & layout.TRANSACTIONAL),
            bool(flags & layout.MATERIALIZED_VIEW),
            self._reader.keys_of(row[location_end:body]) if keys else (),
            row[type_end:location_end] if flags & layout.HAS_LOCATION else None,
            loaded,
            count,
            reason,
            number,
            bool(set_flags & layout.LONG_NAMES),
            typed,
            self._usable_write_ids(table_id) if flags & layout.TRANSACTIONAL else None,
            bool(flags & layout.CONSTRAINTS_KNOWN),
            bool(flags & layout.STATISTICS_KNOWN),
            loaded and bool(flags & layout.STATISTICS_KNOWN) and not set_flags & layout.STATISTICS_UNKNOWN,
            bool(set_flags & layout.HAS_STATISTICS),
        )

    def constraints(self, entry: TableEntry) -> ConstraintsEntry | None:
        """A loaded table's constraints; None if they are not known."""
        if not entry.constraints_known:
            return None
        row = self._get(self._prefixes[b"k"] + layout.TABLE_ID.pack(entry.table_id), db=self._objects)
        return UNCONSTRAINED if row is None else constraints_unpack(row)

    def table_statistics(self, entry: TableEntry) -> Statistics | None:
        """The column statistics of a loaded table, of all engines; None if they are not known."""
        if not entry.statistics_known:
            return None
        row = self._get(self._prefixes[b"a"] + layout.TABLE_ID.pack(entry.table_id), db=self._objects)
        return () if row is None else table_unpack(row)

    def partition_statistics(
        self, entry: TableEntry, names: Iterable[bytes], columns: Container[bytes] | None, engine: bytes | None
    ) -> list[tuple[bytes, list[ColumnStatistics]]]:
        """(partition, statistics) of the named partitions, for these columns and this engine (None: all), in the order
        of `names`. Partitions without such statistics are left out. Requires `entry.statistics_of_partitions`."""
        assert entry.statistics_of_partitions, "statistics that are not known"
        if not entry.has_statistics:
            return []
        rows = self._statistics_rows(entry, ((name, name) for name in names))
        return list(self._reader.decoder(entry.set_number).decode(rows, columns, engine, self._shared(entry)))

    def gather_statistics(
        self,
        entry: TableEntry,
        names: Iterable[tuple[int, bytes]],
        columns: Container[bytes],
        engine: bytes,
        most: int,
    ) -> tuple[Gathered, int]:
        """The statistics of the partitions (place, name), for these columns and this engine, by column; and the number
        of partitions that have `most` of them. Requires `entry.statistics_of_partitions`."""
        assert entry.statistics_of_partitions, "statistics that are not known"
        rows = self._statistics_rows(entry, names) if entry.has_statistics else iter(())
        decoder = self._reader.decoder(entry.set_number)
        return decoder.gather(rows, columns, engine, most, self._shared(entry))

    def _statistics_rows(
        self, entry: TableEntry, names: Iterable[tuple[_Place, bytes]]
    ) -> Iterator[tuple[_Place, bytes]]:
        prefix, txn, database = layout.SET.pack(entry.set_number), self._txn, self._environment.statistics
        for place, name in names:
            row = layout.find(txn, database, prefix, name)
            if row is not None:
                yield place, row

    def _shared(self, entry: TableEntry) -> Callable[[bytes], bytes]:
        prefix, txn, database = layout.SET.pack(entry.set_number), self._txn, self._environment.shared

        def shared(index: bytes) -> bytes:
            row: bytes | None = txn.get(prefix + index, db=database)
            if row is None:
                raise CacheError("statistics refer to a missing shared row")
            return row

        return shared

    def state(self, entry: TableEntry) -> TableState:
        """A value that changes when the table or one of its partitions changes, in this cache or in one that replaces
        it."""
        version = self.version(targets.table(entry.catalog, entry.database, entry.name))
        return self._environment.inode, self.meta.generation, entry.table_id, entry.set_number, version

    def again(self, entry: TableEntry) -> Callable[[], CacheSnapshot | None]:
        """Returns a function that opens a new snapshot, or returns None if the table or its partitions have changed
        since this one."""
        reader, name = self._reader, (entry.catalog, entry.database, entry.name)
        state = self.state(entry)

        def opened() -> CacheSnapshot | None:
            same = False
            snapshot = reader.snapshot()
            try:
                found = snapshot.table(*name)
                same = isinstance(found, TableEntry) and snapshot.state(found) == state
            finally:
                if not same:
                    snapshot.close()
            return snapshot if same else None

        return opened

    def has_partitions(self, entry: TableEntry, names: Iterable[bytes]) -> bool:
        """Whether all of these names have a partition."""
        prefix, txn, database = layout.SET.pack(entry.set_number), self._txn, self._environment.partitions
        return all(layout.find(txn, database, prefix, name) is not None for name in names)

    def constrained(self, table_id: int) -> ConstraintsEntry | None:
        """The constraints of the table with this id, if it has some (as the parent of a foreign key has); None if it is
        not known."""
        row = self._get(self._prefixes[b"k"] + layout.TABLE_ID.pack(table_id), db=self._objects)
        return None if row is None else constraints_unpack(row)

    def referring(self, table_id: int) -> list[int]:
        """Ids of the tables whose foreign keys refer to this one."""
        found = self.rows(b"f", layout.TABLE_ID.pack(table_id))
        return [layout.TABLE_ID.unpack_from(key, layout.TABLE_ID.size)[0] for key, _ in found]

    def write_ids(self, table_id: int) -> WriteIdsRow | None:
        """The writes to a transactional table; None if they are not known."""
        row = self._get(self._prefixes[b"w"] + layout.TABLE_ID.pack(table_id), db=self._objects)
        return None if row is None else layout.write_ids_unpack(row)

    def _usable_write_ids(self, table_id: int) -> bytes | None:
        known = self.write_ids(table_id)
        return None if known is None or known.writers else known.text
