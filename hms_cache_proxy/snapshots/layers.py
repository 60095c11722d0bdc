"""The partitions of a snapshot that was brought up to date: those of the full snapshot, with later changes applied.

    manifest.files, kind `partitions`   the files of the full snapshot, which may be in another directory
    manifest.files, kind `changes`      what each increment changed, oldest first

A row of `changes` is about one table id: ALL (what earlier files have of this table counts no more), SET (a partition
as it is now, or `unfit`), DROP (this name is gone).

Job: read the changes, and apply them to the rows of the full snapshot. Must not know: where the rows go.

Invariant: the changes of a snapshot fit in memory, because a full snapshot ends a chain of increments in time
(pipeline/increment.py).

Owner: any process; no state but what `read` returns. Needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.manifest import Manifest
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.store.protocol import PartitionRecord

ALL: Final = "all"
SET: Final = "set"
DROP: Final = "drop"


class Run(Protocol):
    """Some partitions of one table, as rows.PartitionRun."""

    @property
    def table_id(self) -> int: ...
    @property
    def unfit(self) -> str | None: ...
    def records(self) -> list[PartitionRecord]: ...


@dataclass(slots=True)
class TableChanges:
    """What the increments changed in one table. `replaced`: the full snapshot's rows of it do not count. A partition
    that is None is gone."""

    replaced: bool = False
    unfit: str | None = None
    partitions: dict[bytes, PartitionRecord | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergedRun:
    """A run that was put together in memory."""

    table_id: int
    unfit: str | None
    merged: list[PartitionRecord]

    def records(self) -> list[PartitionRecord]:
        """The partitions, in the order of their names."""
        return self.merged


def read(place: Place, manifest: Manifest) -> dict[int, TableChanges]:
    """All changes, by table id. Raises SnapshotError."""
    found: dict[int, TableChanges] = {}
    for file in manifest.of_kind(rows.CHANGES):
        for change, run in rows.changes(place.read(file)):
            table = found.setdefault(run.table_id, TableChanges())
            if change == ALL:
                found[run.table_id] = TableChanges(replaced=True)
            elif change == DROP:
                table.partitions.update(dict.fromkeys(run.names()))
            elif run.unfit is not None:
                table.unfit = run.unfit
            else:
                table.partitions.update((record.name, record) for record in run.records())
    return found


class Runs:
    """The runs of a snapshot's partitions, in the order of its tables. `table_id`: the next table; None at the end."""

    def __init__(self, runs: Iterable[Run], changes: dict[int, TableChanges]) -> None:
        """`runs`: of the full snapshot."""
        replaced = {table_id for table_id, table in changes.items() if table.replaced}
        self._runs = (run for run in runs if run.table_id not in replaced)
        self._changes = changes
        self._next = next(self._runs, None)

    @property
    def table_id(self) -> int | None:
        return None if self._next is None else self._next.table_id

    def of(self, table_id: int) -> Iterator[Run]:
        """Takes the next runs, as long as they are of this table, with its changes."""
        changes = self._changes.pop(table_id, None)
        return self._of(table_id) if changes is None else _merged(table_id, self._of(table_id), changes)

    def _of(self, table_id: int) -> Iterator[Run]:
        while self._next is not None and self._next.table_id == table_id:
            run, self._next = self._next, next(self._runs, None)
            yield run


def _merged(table_id: int, runs: Iterable[Run], changes: TableChanges) -> Iterator[Run]:
    """The runs with the changes, in the order of names."""
    unfit = changes.unfit
    names = sorted(changes.partitions)
    at = 0
    for run in runs:
        unfit = unfit or run.unfit
        if unfit is not None:
            continue
        merged: list[PartitionRecord] = []
        for record in run.records():
            while at < len(names) and names[at] <= record.name:
                changed = changes.partitions[names[at]]
                if changed is not None:
                    merged.append(changed)
                at += 1
            if record.name not in changes.partitions:
                merged.append(record)
        yield MergedRun(table_id, None, merged)
    if unfit is not None:
        yield MergedRun(table_id, unfit, [])
        return
    rest = [changes.partitions[name] for name in names[at:]]
    yield MergedRun(table_id, None, [record for record in rest if record is not None])
