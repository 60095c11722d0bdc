"""One task of an audit: compares objects of the database with those in a copy of the cache.

Job: find the differences in some stretches of the catalog. Objects are decoded and compared field by field, including
which fields are set. What the cache lists as not loaded is not a difference: it is relayed. Must not know: Spark, the
driver.

Not compared: lists of write ids. They change without an event, and every request that uses one proves it again.

Owner: a Python worker of Spark on the proxy's own machine, or the driver's process; a connection, and the copy of the
cache, read-only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hms_cache_proxy.cache.entries import Absent, TableEntry
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.segments import TableNames, Variant
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.errors import Unfit, WireError
from hms_cache_proxy.follower.constraints import cached_form
from hms_cache_proxy.pipeline.findings import DIFFERENT, EXTRA, MISSING, Difference, FindingsSink, TaskResult, text
from hms_cache_proxy.pipeline.ranges import PARTITIONS_PER_STRETCH, Partitioned, PartitionStretch, TableStretch
from hms_cache_proxy.pipeline.tasks import HeldSnapshot, SnapshotSource, records
from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import PartitionRecord, Snapshot, TableRecord
from hms_cache_proxy.wire import spec

COMPARED_AT_ONCE: Final = 5_000
"""Partitions that are assembled in memory at once."""

_PARTITION: Final = "Partition"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a cache: a directory with `cache` and `state`, like a data directory."""

    directory: str

    @contextmanager
    def snapshot(self) -> Iterator[CacheSnapshot]:
        """Its one state."""
        with StatePage(Path(self.directory) / "state") as page:
            reader = CacheReader(Path(self.directory) / "cache", page)
            try:
                with reader.snapshot() as cache:
                    yield cache
            finally:
                reader.close()


def compare_tables(
    source: SnapshotSource | HeldSnapshot, copy: Copy, sink: FindingsSink, stretches: Sequence[TableStretch]
) -> TaskResult:
    """The differences of the tables that the database has."""
    result = TaskResult()
    with source.snapshot() as snapshot, copy.snapshot() as cache:
        return sink.collect(_of_tables(snapshot, cache, stretches, result.compared), result)


def _of_tables(
    snapshot: Snapshot, cache: CacheSnapshot, stretches: Sequence[TableStretch], compared: Counter[str]
) -> Iterator[Difference]:
    for stretch in stretches:
        found = snapshot.tables(*stretch.database, [table.name for table in stretch.tables if table.admitted])
        for record in found.values():
            entry = cache.table(record.catalog, record.database, record.name)
            if isinstance(entry, TableEntry) and entry.body is None:
                continue  # not loaded
            compared["tables"] += 1
            yield from _table(cache, entry, record)


def _table(cache: CacheSnapshot, entry: TableEntry | Absent | None, record: TableRecord) -> Iterator[Difference]:
    place = "table", text(record.catalog), text(record.database), text(record.name), None
    if entry is None or isinstance(entry, Absent):
        yield Difference(*place, MISSING)
        return
    assert entry.body is not None, "it is loaded"
    if entry.body != record.body:
        for name in differing("Table", entry.body, record.body):
            yield Difference(*place, DIFFERENT, name, entry.body, record.body)
    for name in ("table_id", "table_type", "transactional", "materialized_view", "partition_keys", "location"):
        if getattr(entry, name) != getattr(record, name):
            yield Difference(*place, DIFFERENT, name)
    if record.constraints is not None and cache.constraints(entry) != cached_form(record, record.constraints):
        yield Difference(*place, DIFFERENT, "constraints")
    if cache.table_statistics(entry) != record.statistics:
        yield Difference(*place, DIFFERENT, "statistics")


def compare_partitions(
    source: SnapshotSource | HeldSnapshot, copy: Copy, sink: FindingsSink, stretches: Sequence[PartitionStretch]
) -> TaskResult:
    """The differences of the partitions of partitioned tables."""
    result = TaskResult()
    with source.snapshot() as snapshot, copy.snapshot() as cache:
        return sink.collect(_of_partitions(snapshot, cache, stretches, result.compared), result)


def _of_partitions(
    snapshot: Snapshot, cache: CacheSnapshot, stretches: Sequence[PartitionStretch], compared: Counter[str]
) -> Iterator[Difference]:
    for stretch in stretches:
        for table in stretch.tables:
            entry = cache.table(*table.key)
            record = snapshot.tables(table.catalog, table.database, [table.name])[table.name]
            assert isinstance(entry, TableEntry), "a table that the driver has found in the cache"
            whole = replace(table, full_acid=record.full_acid)
            try:
                found = list(records(snapshot, whole, stretch.after, stretch.until))
            except Unfit:
                yield Difference(*_place(table, None), DIFFERENT, "unfit")
                continue
            compared["partitions"] += len(found)
            yield from _partitions(cache, entry, table, found, stretch)


def _partitions(
    cache: CacheSnapshot, entry: TableEntry, table: Partitioned, found: list[PartitionRecord], stretch: PartitionStretch
) -> Iterator[Difference]:
    stored = {record.name for record in found}
    for name in _names(cache, entry, stretch):
        if name not in stored:
            yield Difference(*_place(table, name), EXTRA)
    for start in range(0, len(found), COMPARED_AT_ONCE):
        yield from _slice(cache, entry, table, found[start : start + COMPARED_AT_ONCE])


def _slice(
    cache: CacheSnapshot, entry: TableEntry, table: Partitioned, found: list[PartitionRecord]
) -> Iterator[Difference]:
    names = [record.name for record in found]
    owner = TableNames(table.database, table.name, table.catalog)
    seen = {variant: cache.partitions(entry, names, variant) for variant in Variant}
    statistics: dict[bytes, Any] = {}
    if entry.statistics_of_partitions:
        statistics = dict(cache.partition_statistics(entry, names, None, None))
    for at, record in enumerate(found):
        place = _place(table, record.name)
        listed = seen[Variant.LIST][at]
        if listed is None:
            yield Difference(*place, MISSING)
            continue
        for variant in Variant:
            cached = seen[variant][at]
            assert cached is not None
            tail = (record.sd_tail, record.sd_tail_single, record.sd_tail_filter)[variant]
            if variant is not Variant.LIST and tail is None and cached == listed:
                continue
            stored = assembled(owner, record, record.sd_tail if tail is None else tail)
            for field in differing(_PARTITION, cached, stored):
                yield Difference(*place, DIFFERENT, field, cached, stored)
        if entry.statistics_of_partitions and tuple(statistics.get(record.name, ())) != record.statistics:
            yield Difference(*place, DIFFERENT, "statistics")


def _names(cache: CacheSnapshot, entry: TableEntry, stretch: PartitionStretch) -> Iterator[bytes]:
    """The cached names of a stretch."""
    after = stretch.after
    while True:
        some = cache.partition_names(entry, after, PARTITIONS_PER_STRETCH)
        for name in some:
            if stretch.until is not None and name > stretch.until:
                return
            yield name
        if len(some) < PARTITIONS_PER_STRETCH:
            return
        after = some[-1]


def _place(table: Partitioned, name: bytes | None) -> tuple[str, str, str, str, str | None]:
    partition = None if name is None else text(name)
    return "partition", text(table.catalog), text(table.database), text(table.name), partition


def assembled(owner: TableNames, record: PartitionRecord, sd_tail: bytes) -> bytes:
    """The Partition as the metastore returns it."""
    sd = record.sd_head + encode.string_field(2, record.location) + sd_tail if record.sd_head else b""
    own = record.values + owner.fields() + record.times + sd
    return own + record.parameters + record.tail + encode.STOP


def differing(struct: str, cached: bytes, stored: bytes) -> list[str]:
    """The fields in which two structs differ; `bytes` if one of them cannot be decoded, or not to its end."""
    kind = spec.struct(struct)
    try:
        (left, left_end), (right, right_end) = spec.decode(kind, cached), spec.decode(kind, stored)
    except WireError:
        return ["bytes"]
    found = [name for name in kind._names if getattr(left, name) != getattr(right, name)]
    if left_end != len(cached) or right_end != len(stored):
        found.append("bytes")
    return found
