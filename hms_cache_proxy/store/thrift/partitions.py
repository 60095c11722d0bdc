"""Reads the partitions of a table over Thrift: first their names, then the partitions by name, in batches.

Job: make PartitionRecords in the bytewise order of their names. Must not know: events, the cache.

No call returns "the partitions after this one". So while a table is read in chunks, the list of its names is kept
between the chunks, which are in different snapshots. This is correct because the reader of chunks applies every later
event to the table, and asks here by name for the partitions that the events name; their names are then added to the
list, or removed. If a partition in the list no longer exists, it is left out of the answer: there is an event about it.

A partition has its values, not its name. The name is made as Hive makes it. If this name was not among those that were
requested (because this Hive writes such values differently), the partitions are requested one by one.

Owner: the follower, in one thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from hms_cache_proxy.errors import StoreError, Unfit
from hms_cache_proxy.store.protocol import PartitionRecord, TableRecord
from hms_cache_proxy.store.thrift.records import partition_record
from hms_cache_proxy.store.thrift.service import NO_SUCH_OBJECT, Metastore, askable
from hms_cache_proxy.wire.spans import list_spans

BATCH: Final = 1000
"""Partitions in one call: about 3 MB of reply."""
MOST_LISTINGS: Final = 32
"""Tables that are being read in chunks and whose names are kept. The names of further tables are read again for each
chunk."""

_GONE: Final = frozenset({"NoSuchObjectException", "InvalidObjectException"})
_LIMIT_SETTING: Final = "hive.metastore.limit.partition.request"


class ThriftPartitions:
    """Partitions of one metastore's tables. `exists` asks whether the table still exists."""

    def __init__(self, metastore: Metastore, exists: Callable[[TableRecord], bool]) -> None:
        self._metastore = metastore
        self._exists = exists
        self._batch = _batch(metastore.setting(_LIMIT_SETTING))
        self._listings: dict[int, list[bytes]] = {}

    def count(self, table: TableRecord) -> int:
        """The number of partitions of the table."""
        answer = self._metastore.call(
            "get_num_partitions_by_filter",
            absent=_GONE,
            db_name=self._metastore.database(table.catalog, table.database),
            tbl_name=table.name,
            filter=b"",
        )
        return 0 if answer is NO_SUCH_OBJECT else int(answer)

    def named(self, table: TableRecord, names: Sequence[bytes], limit: int | None) -> list[PartitionRecord]:
        """The named partitions that exist."""
        wanted = sorted({name for name in names if askable(name)})
        found = self._fetch(table, wanted)
        listing = self._listings.get(table.table_id)
        if listing is not None:
            _update(listing, wanted, {record.name for record in found})
        return found[:limit]

    def after(self, table: TableRecord, after: bytes | None, limit: int | None) -> list[PartitionRecord]:
        """The partitions whose names come after `after`, at most `limit`; fewer only at the end."""
        names = self._listing(table, begin=after is None)
        at = 0 if after is None else bisect_right(names, after)
        found: list[PartitionRecord] = []
        while at < len(names) and (limit is None or len(found) < limit):
            size = self._batch if limit is None else min(self._batch, limit - len(found))
            found += self._fetch(table, names[at : at + size])
            at += size
        if at >= len(names) and (limit is None or len(found) < limit):
            del self._listings[table.table_id]
        return found

    def _listing(self, table: TableRecord, *, begin: bool) -> list[bytes]:
        listing = None if begin else self._listings.get(table.table_id)
        if listing is None:
            while len(self._listings) >= MOST_LISTINGS:
                del self._listings[next(iter(self._listings))]
            self._listings.pop(table.table_id, None)
            listing = self._listings[table.table_id] = sorted(self._names(table))
        return listing

    def _names(self, table: TableRecord) -> list[bytes]:
        database = self._metastore.database(table.catalog, table.database)
        try:
            names: list[bytes] = self._metastore.call(
                "get_partition_names", db_name=database, tbl_name=table.name, max_parts=-1
            )
        except StoreError:  # Hive 2.3 returns "Internal error" if the table is gone
            if self._exists(table):
                raise
            return []
        return names

    def _fetch(self, table: TableRecord, names: Sequence[bytes]) -> list[PartitionRecord]:
        found: list[PartitionRecord] = []
        for start in range(0, len(names), self._batch):
            batch = names[start : start + self._batch]
            records = self._ask(table, batch)
            wanted = frozenset(batch)
            if len(records) > len(batch) or any(record.name not in wanted for record in records):
                records = [record for name in batch for record in self._one(table, name)]
            found += records
        found.sort(key=lambda record: record.name)
        return found

    def _one(self, table: TableRecord, name: bytes) -> list[PartitionRecord]:
        records = self._ask(table, [name])
        if len(records) > 1:
            raise Unfit(f"more than one partition of the name {name!r}")
        return [record._replace(name=name) for record in records]

    def _ask(self, table: TableRecord, names: Sequence[bytes]) -> list[PartitionRecord]:
        metastore = self._metastore
        answer = metastore.reply(
            "get_partitions_by_names",
            absent=_GONE,
            db_name=metastore.database(table.catalog, table.database),
            tbl_name=table.name,
            names=list(names),
        )
        if answer is NO_SUCH_OBJECT:
            if self._exists(table):
                raise StoreError(f"{metastore.uri} has table {table.name!r} and says that it has not")
            return []
        reply, start = answer
        shared: dict[bytes, bytes] = {}
        return [partition_record(table, reply, at, shared, line=metastore.line) for at, _ in list_spans(reply, start)]


def _update(listing: list[bytes], wanted: Sequence[bytes], found: set[bytes]) -> None:
    """Adds names that exist to an ordered list, and removes those that do not."""
    for name in wanted:
        at = bisect_left(listing, name)
        listed = at < len(listing) and listing[at] == name
        if name in found and not listed:
            listing.insert(at, name)
        elif listed and name not in found:
            del listing[at]


def _batch(limit: str | None) -> int:
    """Partitions in one call; the metastore may limit them."""
    try:
        most = int(limit or "-1")
    except ValueError:
        return BATCH
    return min(most, BATCH) if most > 0 else BATCH
