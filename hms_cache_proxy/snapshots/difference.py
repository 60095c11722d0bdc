"""Compares two snapshots: which databases, tables and partitions differ, by name.

Job: do the comparison. Must not know: how it is shown, Spark. A table with the same name and another id is a new table.
Tables that are only listed are compared by id and type.

Both snapshots are read once, in the order of their own tables. The digests of one table's partitions at a time are in
memory; those of more tables only if the two orders differ, as they may between a full snapshot and an increment. Files
that both snapshots have in common are read twice.

Owner: any process; needs pyarrow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final

from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.layers import Run
from hms_cache_proxy.snapshots.manifest import Manifest
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.snapshots.reading import Reading
from hms_cache_proxy.snapshots.rows import TableRow
from hms_cache_proxy.store.protocol import DatabaseKey, DatabaseRecord, PartitionRecord, TableKey
from hms_cache_proxy.wire import spec

_BODY: Final = "body"
_BESIDE: Final = ("constraints", "statistics")
"""What a table has besides its body; the rest is made from the body."""


@dataclass(slots=True)
class PartitionCounts:
    """The partitions of one table. `before`, `after`: how many there are."""

    before: int = 0
    after: int = 0
    added: int = 0
    removed: int = 0
    changed: int = 0


@dataclass(slots=True)
class SnapshotDifference:
    """`changed_...`: by name, which fields differ. `partitions`: tables with a difference, those that were added or
    dropped, too."""

    added_databases: list[DatabaseKey] = field(default_factory=list)
    dropped_databases: list[DatabaseKey] = field(default_factory=list)
    changed_databases: dict[DatabaseKey, list[str]] = field(default_factory=dict)
    added_tables: list[TableKey] = field(default_factory=list)
    dropped_tables: list[TableKey] = field(default_factory=list)
    changed_tables: dict[TableKey, list[str]] = field(default_factory=dict)
    partitions: dict[TableKey, PartitionCounts] = field(default_factory=dict)

    @property
    def all_partitions(self) -> PartitionCounts:
        """The sums over `partitions`."""
        found = self.partitions.values()
        return PartitionCounts(*(sum(getattr(one, name.name) for one in found) for name in fields(PartitionCounts)))


def difference(before: tuple[Place, Manifest], after: tuple[Place, Manifest]) -> SnapshotDifference:
    """From one snapshot to another. Raises SnapshotError if one of them cannot be read."""
    found = SnapshotDifference()
    old, new = Reading(*before, None), Reading(*after, None)
    _databases(found, *({(one.catalog, one.name): one for one in side.databases()} for side in (old, new)))
    old_tables, new_tables = (
        {(row.catalog, row.database, row.name): row for row in side.tables()} for side in (old, new)
    )
    _tables(found, old_tables, new_tables)
    old_sets, new_sets = _PartitionSets(old, old_tables), _PartitionSets(new, new_tables)
    for key in {**old_tables, **new_tables}:
        counts = _partitions(old_sets.of(key), new_sets.of(key))
        if counts.added or counts.removed or counts.changed:
            found.partitions[key] = counts
    return found


def _databases(
    found: SnapshotDifference, old: dict[DatabaseKey, DatabaseRecord], new: dict[DatabaseKey, DatabaseRecord]
) -> None:
    found.added_databases = sorted(new.keys() - old.keys())
    found.dropped_databases = sorted(old.keys() - new.keys())
    for key in sorted(old.keys() & new.keys()):
        if old[key] != new[key]:
            found.changed_databases[key] = _thrift("Database", old[key].body, new[key].body) or ["remote"]


def _tables(found: SnapshotDifference, old: dict[TableKey, TableRow], new: dict[TableKey, TableRow]) -> None:
    found.added_tables = sorted(new.keys() - old.keys())
    found.dropped_tables = sorted(old.keys() - new.keys())
    for key in sorted(old.keys() & new.keys()):
        names = list(_table(old[key], new[key]))
        if names:
            found.changed_tables[key] = names


def _table(old: TableRow, new: TableRow) -> Iterator[str]:
    for name in ("table_id", "table_type"):
        if getattr(old, name) != getattr(new, name):
            yield name
    if old.write_ids != new.write_ids:
        yield "write_ids"
    if old.record is None or new.record is None:
        if old.record is not new.record:
            yield "included"
        return
    yield from _thrift("Table", old.record.body, new.record.body)
    for name in _BESIDE:
        if getattr(old.record, name) != getattr(new.record, name):
            yield name


def _thrift(kind: str, old: bytes, new: bytes) -> list[str]:
    """The fields that differ, with those of structures in them: `sd.cols`."""
    if old == new:
        return []
    return list(_fields(spec.decode(spec.struct(kind), old)[0], spec.decode(spec.struct(kind), new)[0])) or [_BODY]


def _fields(old: Any, new: Any, within: str = "") -> Iterator[str]:
    for name, value in vars(old).items():
        other = getattr(new, name)
        if value == other:
            continue
        if hasattr(value, "__dict__") and hasattr(other, "__dict__"):
            yield from _fields(value, other, f"{within}{name}.")
        else:
            yield within + name


class _PartitionSets:
    """Digests of the partitions of one snapshot, by table."""

    def __init__(self, reading: Reading, tables: dict[TableKey, TableRow]) -> None:
        self._runs = reading.runs()
        self._coming = iter(tables.items())
        self._there = tables.keys()
        self._held: dict[TableKey, dict[bytes, bytes]] = {}

    def of(self, key: TableKey) -> dict[bytes, bytes]:
        """By name. Each table can be asked for once."""
        if key not in self._there:
            return {}
        while key not in self._held:
            other, row = next(self._coming)
            self._held[other] = _digests(self._runs.of(row.table_id))
        return self._held.pop(key)


def _digests(runs: Iterator[Run]) -> dict[bytes, bytes]:
    """Of one table. None if the cache cannot hold its partitions: a snapshot has only some of these."""
    found: dict[bytes, bytes] = {}
    unfit = False
    for run in runs:
        unfit = unfit or run.unfit is not None
        if not unfit:
            found.update((record.name, _digest(record)) for record in run.records())
    return {} if unfit else found


def _digest(record: PartitionRecord) -> bytes:
    return hashlib.blake2b(repr(rows.partition_row(0, 0, record)).encode(), digest_size=16).digest()


def _partitions(old: dict[bytes, bytes], new: dict[bytes, bytes]) -> PartitionCounts:
    both = old.keys() & new.keys()
    return PartitionCounts(
        len(old), len(new), len(new) - len(both), len(old) - len(both), sum(old[name] != new[name] for name in both)
    )
