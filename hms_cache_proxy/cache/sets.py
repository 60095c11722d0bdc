"""Partition sets in one write transaction: fill, change, switch, drop.

A set is one complete collection of a table's partitions. It has a number; the table's SET_ROW says which set readers
use. A reload fills a new set while readers use the old one; the commit that completes it switches the table to it by
one row. A set that no row points to goes on the garbage list in the same transaction, and is deleted in slices later.

Must not know: the event cursor, versions, generations (except as a key prefix). Owner: the follower (CacheWriter).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import lt
from typing import Any, NamedTuple

from hms_cache_proxy.cache import key_types, layout, segments
from hms_cache_proxy.cache.environment import Environment
from hms_cache_proxy.cache.segments import SetEncoder
from hms_cache_proxy.cache.statistics import StatisticsEncoder
from hms_cache_proxy.store.protocol import PartitionRecord


@dataclass(frozen=True, slots=True)
class SetRow:
    """Which set has a table's partitions. `loading`: the set that chunks are filling; 0 for none."""

    number: int
    loading: int
    count: int
    loaded: bool
    long_names: bool
    reason: str
    owner: bytes  # cat \0 db \0 table: the table that uses it
    typed: bytes = b""  # cache/key_types.py
    statistics: int = 0  # layout.HAS_STATISTICS, layout.STATISTICS_UNKNOWN

    def pack(self) -> bytes:
        reason = self.reason.encode()
        flags = (layout.LONG_NAMES if self.long_names else 0) | self.statistics
        state = layout.PARTITIONS_LOADED if self.loaded else 0
        sizes = len(reason), len(self.typed)
        fixed = layout.SET_ROW.pack(self.number, self.loading, self.count, state, flags, *sizes)
        return fixed + reason + self.typed + self.owner

    @classmethod
    def unpack(cls, row: bytes) -> SetRow:
        number, loading, count, state, flags, reason, typed = layout.SET_ROW.unpack_from(row)
        at = layout.SET_ROW.size
        owner = at + reason + typed
        return cls(
            number,
            loading,
            count,
            bool(state & layout.PARTITIONS_LOADED),
            bool(flags & layout.LONG_NAMES),
            row[at : at + reason].decode(),
            row[owner:],
            row[at + reason : owner],
            flags & (layout.HAS_STATISTICS | layout.STATISTICS_UNKNOWN),
        )


class SetOwner(NamedTuple):
    """What a set needs to know about its table. `directory`: the usual beginning of its partitions' locations."""

    name: bytes  # cat \0 db \0 table
    directory: bytes | None
    partition_keys: tuple[tuple[bytes, bytes], ...]


@dataclass(slots=True)
class Filling:
    """The progress of a set that is filled in chunks. It is only in the writer's memory; after a restart, filling
    begins again."""

    typed: bytes
    count: int = 0
    last: bytes | None = None
    long_names: bool = False
    statistics: int = 0


class Interner:
    """The shared rows of one set; equal rows are stored once. Outlives a transaction."""

    __slots__ = ("_indexes", "encoder", "fresh", "statistics")

    def __init__(self, rows: list[bytes]) -> None:
        self._indexes = {segments.identity_of(row): segments.pack_index(at) for at, row in enumerate(rows)}
        self.fresh: list[tuple[bytes, bytes]] = []
        self.encoder = SetEncoder(self.intern)
        self.statistics = StatisticsEncoder(self.intern)

    def intern(self, row: bytes) -> bytes:
        """The index of a shared row. A new row waits in `fresh` to be written."""
        identity = segments.identity_of(row)
        index = self._indexes.get(identity)
        if index is None:
            index = self._indexes[identity] = segments.pack_index(len(self._indexes))
            self.fresh.append((index, row))
        return index


class PartitionSets:
    """The sets as one write transaction sees them."""

    __slots__ = ("_environment", "_fillings", "_interners", "_prefix", "_txn", "_unfinished", "counted", "next_set")

    def __init__(
        self,
        environment: Environment,
        txn: Any,
        generation: int,
        next_set: int,
        interners: dict[int, Interner],
        fillings: dict[int, Filling],
    ) -> None:
        self._environment = environment
        self._txn = txn
        self._prefix = layout.objects_prefix(generation, b"s")
        self._unfinished = layout.objects_prefix(generation, b"x")
        self._interners = interners
        self._fillings = fillings
        self.next_set = next_set
        self.counted = 0  # change of the number of partitions that readers can see

    def of_generation(self, generation: int) -> PartitionSets:
        """The sets of a new generation, which is empty. Loads in chunks are forgotten."""
        self._interners.clear()
        self._fillings.clear()
        return PartitionSets(self._environment, self._txn, generation, self.next_set, self._interners, self._fillings)

    def get(self, table_id: int) -> SetRow | None:
        """The table's row; None if it has none."""
        row = self._txn.get(self._key(table_id), db=self._environment.objects)
        return None if row is None else SetRow.unpack(row)

    def adopt(self, table_id: int, owner: bytes) -> None:
        """A table with partition keys exists under this name. A rename keeps its set."""
        row = self.get(table_id)
        if row is None:
            self._put(table_id, SetRow(0, 0, 0, False, False, "pending", owner))
        elif row.owner != owner:
            self._put(table_id, replace(row, owner=owner))

    def drop(self, table_id: int, owner: bytes) -> None:
        """No table exists under this name any more. Its set is dropped, unless a rename has taken it over."""
        row = self.get(table_id)
        if row is None or row.owner != owner:
            return
        self._discard(row)
        self._txn.delete(self._key(table_id), db=self._environment.objects)
        self._txn.delete(self._unfinished + layout.TABLE_ID.pack(table_id), db=self._environment.objects)

    def mark_not_loaded(self, table_id: int, reason: str) -> bytes | None:
        """The table's partitions must not be used any more. Returns the owner's name."""
        row = self.get(table_id)
        if row is None:
            return None
        self._discard(row)
        self._put(table_id, SetRow(0, 0, 0, False, False, reason, row.owner))
        return row.owner

    def replace_all(self, table_id: int, records: list[PartitionRecord], owner: SetOwner) -> None:
        """Makes `records` the complete set."""
        self.fill(table_id, records, owner, first=True, last=True)

    def fill(
        self,
        table_id: int,
        records: list[PartitionRecord],
        owner: SetOwner,
        *,
        first: bool,
        last: bool,
    ) -> None:
        """Appends a chunk to the set that is being loaded. `last` switches the table to this set."""
        row = self._row(table_id)
        if first:
            self._throw_away(row.loading)
            row = replace(row, loading=self._take_number())
            self._fillings[row.loading] = Filling(key_types.kinds(owner.partition_keys))
        filling = self._fillings.get(row.loading)
        assert row.loading and filling is not None, "a chunk without a first one"
        _check_order(records, filling.last)
        long_names = _any_long(records)
        write = self._write if long_names else self._append
        filling.count += write(row.loading, records, owner.directory)
        filling.statistics |= self._write_statistics(row.loading, records, filling.statistics, append=True)
        filling.long_names |= long_names
        filling.typed = key_types.still(filling.typed, owner.partition_keys, records)
        if records:
            filling.last = records[-1].name
        if last:
            self._throw_away(row.number)
            self.counted += filling.count - row.count
            del self._fillings[row.loading]
            row = SetRow(
                *(row.loading, 0, filling.count, True, filling.long_names, "", row.owner, filling.typed),
                statistics=filling.statistics,
            )
        self._put(table_id, row)

    def change(self, table_id: int, upserts: list[PartitionRecord], deletes: list[bytes], owner: SetOwner) -> None:
        """Changes single partitions in the complete set, and in the part of a new set that is loaded so far."""
        row = self._row(table_id)
        filling = self._fillings.get(row.loading)
        if filling is not None and filling.last is not None:
            end = filling.last
            seen = [record for record in upserts if record.name <= end]
            filling.count += self._write(row.loading, seen, owner.directory)
            filling.count -= self._delete(row.loading, [name for name in deletes if name <= end], filling.statistics)
            filling.statistics |= self._write_statistics(row.loading, seen, filling.statistics)
            filling.long_names |= _any_long(seen)
            filling.typed = key_types.still(filling.typed, owner.partition_keys, seen)
        if row.loaded:
            added = self._write(row.number, upserts, owner.directory)
            added -= self._delete(row.number, deletes, row.statistics)
            self.counted += added
            row = replace(row, statistics=row.statistics | self._write_statistics(row.number, upserts, row.statistics))
            row = replace(row, count=row.count + added, long_names=row.long_names or _any_long(upserts))
            self._put(table_id, replace(row, typed=key_types.still(row.typed, owner.partition_keys, upserts)))

    def _row(self, table_id: int) -> SetRow:
        row = self.get(table_id)
        assert row is not None, f"partitions of table {table_id}, which is not in the cache or has no partition keys"
        return row

    def _key(self, table_id: int) -> bytes:
        return self._prefix + layout.TABLE_ID.pack(table_id)

    def _put(self, table_id: int, row: SetRow) -> None:
        self._txn.put(self._key(table_id), row.pack(), db=self._environment.objects)
        unfinished = self._unfinished + layout.TABLE_ID.pack(table_id)
        if not row.loaded or row.loading:
            self._txn.put(unfinished, b"", db=self._environment.objects)
        else:
            self._txn.delete(unfinished, db=self._environment.objects)

    def _take_number(self) -> int:
        number = self.next_set
        self.next_set += 1
        return number

    def _discard(self, row: SetRow) -> None:
        self._throw_away(row.number)
        self._throw_away(row.loading)
        self.counted -= row.count

    def _throw_away(self, number: int) -> None:
        if number:
            self._txn.put(layout.SET.pack(number), b"", db=self._environment.garbage)
            self._interners.pop(number, None)
            self._fillings.pop(number, None)

    def _write(self, number: int, records: list[PartitionRecord], directory: bytes | None) -> int:
        """Returns how many of these names are new."""
        prefix = layout.SET.pack(number)
        interner = self._interner(number)
        encode, txn, partitions = interner.encoder.encode, self._txn, self._environment.partitions
        added = 0
        for record in records:
            added += layout.store(txn, partitions, prefix, record.name, encode(record, directory))
        self._put_fresh(prefix, interner)
        return added

    def _append(self, number: int, records: list[PartitionRecord], directory: bytes | None) -> int:
        """The same for records in the order of their names, which are all new and none of them long. They are written
        in one call if they come after all keys of the database."""
        if not records:
            return 0
        prefix = layout.SET.pack(number)
        interner = self._interner(number)
        encode = interner.encoder.encode
        with self._txn.cursor(db=self._environment.partitions) as cursor:
            if cursor.last() and cursor.key() >= prefix + records[0].name:
                return self._write(number, records, directory)
            rows = ((prefix + record.name, encode(record, directory)) for record in records)
            _, added = cursor.putmulti(rows, append=True)
        self._put_fresh(prefix, interner)
        return int(added)

    def _write_statistics(
        self, number: int, records: list[PartitionRecord], before: int, *, append: bool = False
    ) -> int:
        """Returns the flags of these partitions. `before`: the set's flags; if they have HAS_STATISTICS, old rows may
        have to be removed."""
        prefix, database, txn = layout.SET.pack(number), self._environment.statistics, self._txn
        flags = 0
        if not before & layout.HAS_STATISTICS and not any([record.statistics for record in records]):
            unknown = any([record.statistics is None for record in records])
            return layout.STATISTICS_UNKNOWN if unknown else 0
        for record in records:
            if record.statistics:
                if not flags & layout.HAS_STATISTICS:
                    flags |= layout.HAS_STATISTICS
                    interner = self._interner(number)
                row = interner.statistics.encode(record.statistics)
                layout.store(txn, database, prefix, record.name, row, append=append)
                continue
            if record.statistics is None:
                flags |= layout.STATISTICS_UNKNOWN
            if before & layout.HAS_STATISTICS:
                layout.remove(txn, database, prefix, record.name)
        if flags & layout.HAS_STATISTICS:
            self._put_fresh(prefix, interner)
        return flags

    def _put_fresh(self, prefix: bytes, interner: Interner) -> None:
        for index, row in interner.fresh:
            self._txn.put(prefix + index, row, db=self._environment.shared)
        interner.fresh.clear()

    def _delete(self, number: int, names: list[bytes], statistics: int) -> int:
        prefix = layout.SET.pack(number)
        partitions = self._environment.partitions
        if statistics & layout.HAS_STATISTICS:
            for name in names:
                layout.remove(self._txn, self._environment.statistics, prefix, name)
        return sum(layout.remove(self._txn, partitions, prefix, name) for name in names)

    def _interner(self, number: int) -> Interner:
        interner = self._interners.get(number)
        if interner is None:
            shared = layout.names_under(self._txn, self._environment.shared, layout.SET.pack(number), b"")
            interner = self._interners[number] = Interner([row for _, row in shared])
        return interner


def _any_long(records: list[PartitionRecord]) -> bool:
    return bool(records) and layout.is_long(b"\0\0\0\0", max([record.name for record in records], key=len))


def _check_order(records: list[PartitionRecord], after: bytes | None) -> None:
    names = [record.name for record in records]
    ordered = all(map(lt, names, names[1:])) and (after is None or not names or after < names[0])
    assert ordered, "partitions of a load must come in bytewise order of their names"
