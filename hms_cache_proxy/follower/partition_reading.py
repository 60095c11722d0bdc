"""Reads the partitions of one step: those of many small tables in one question, and chunks of large tables.

Job: collect requests until there are enough for one question to the store, put the answers into the step's `Changes`,
and count how much this step may still read. Must not know: events, lists of tables, the cache.

Invariant: all collected requests are read from the same snapshot before the step ends (`read_waiting`).

Owner: the follower's process; one object per step.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.errors import Unfit
from hms_cache_proxy.follower.limits import A_FEW, LOADS_SHARE, LOOKED_AT, MANY, StepLimits, weight
from hms_cache_proxy.follower.load_queue import LOADING, UNFIT, ChunkedLoad, LoadQueue
from hms_cache_proxy.store.protocol import PartitionRecord, Snapshot, SomePartitions, TableKey, TableRecord


class _Waiting(NamedTuple):
    """Partitions that wait to be read."""

    key: TableKey
    wanted: SomePartitions


class PartitionReading:
    """The partitions of one step. `room`: how many it may still read, in units of cost; `count`: how many it has read;
    `unfit`: tables whose partitions the cache cannot hold, and why."""

    def __init__(self, source: Snapshot, changes: Changes, work: LoadQueue, limits: StepLimits) -> None:
        self._source = source
        self._changes = changes
        self._work = work
        self._limits = limits
        self.room = limits.chunk
        self.share = 0
        self.count = 0
        self.unfit: list[str] = []
        self._weight = 0.0
        self._waiting: list[_Waiting] = []
        self._reserved = 0.0  # the estimated cost of what waits

    def begin_queue(self, chunk: int) -> None:
        """The queue begins. It always gets a share of the step's partitions."""
        self.share = max(1, min(chunk, self._limits.chunk) // LOADS_SHARE)
        self.room = max(self.share, min(self.room, chunk))

    def fits_next_time(self, count: int) -> bool:
        """Would so many partitions of a table fit into the next step, but not into this one?"""
        return self.room - self._reserved < count * self._guess <= self.share

    def whole(self, key: TableKey, record: TableRecord, count: int) -> None:
        """All partitions of a table: now if there is room in this step, else in chunks."""
        self._work.discard(key)
        cost = self.cost(key, record) if count > LOOKED_AT else self._guess
        if cost is None:
            return
        if count * cost > max(self.room - self._reserved, 0):
            self._work.loads[key] = ChunkedLoad(record.table_id, None, cost)
            self._changes.not_loaded[record.table_id] = LOADING
        elif count:
            self._wait(key, SomePartitions(record), count * cost)
        else:
            self._changes.partitions.append(PartitionChange(record.table_id, replace_all=True))

    def named(self, key: TableKey, record: TableRecord, names: Collection[bytes]) -> None:
        """Some partitions of a table."""
        self._wait(key, SomePartitions(record, sorted(names)), len(names) * self._guess)

    def cost(self, key: TableKey, record: TableRecord) -> float | None:
        """The cost of a partition of this table; None if the cache cannot hold them."""
        if record.statistics is None:
            return 1
        found = self._page(key, record, None, A_FEW)
        if not found:
            return None if found is None else 1
        return weight(found) / len(found)

    def chunk(
        self, key: TableKey, record: TableRecord, *, after: bytes | None, limit: int
    ) -> list[PartitionRecord] | None:
        """The next partitions of a table that is loaded in chunks; None if the cache cannot hold them."""
        found = self._page(key, record, after, limit)
        if found is not None:
            self._account(found)
        return found

    def read_waiting(self) -> None:
        """Reads what waits."""
        waiting, self._waiting, self._reserved = self._waiting, [], 0.0
        if not waiting:
            return
        answers = self._source.partitions_of([one.wanted for one in waiting])
        for (key, (record, names)), found in zip(waiting, answers, strict=True):
            if isinstance(found, Unfit):
                self._not_held(key, record, found)
                continue
            self._account(found)
            gone = [] if names is None else sorted({*names}.difference(part.name for part in found))
            change = PartitionChange(record.table_id, found, gone, replace_all=names is None)
            self._changes.partitions.append(change)

    @property
    def _guess(self) -> float:
        """The estimated cost of a partition: the mean of those that this step has read."""
        return self._weight / self.count if self.count else 1

    def _wait(self, key: TableKey, wanted: SomePartitions, cost: float) -> None:
        """Adds to what waits, after reading what waits if it is enough. The first question is small: it shows what
        partitions cost."""
        if self._waiting and self._reserved + cost > (MANY if self.count else LOOKED_AT):
            self.read_waiting()
        self._waiting.append(_Waiting(key, wanted))
        self._reserved += cost

    def _page(
        self, key: TableKey, record: TableRecord, after: bytes | None, limit: int
    ) -> list[PartitionRecord] | None:
        try:
            return self._source.partitions(record, after=after, limit=limit)
        except Unfit as error:
            self._not_held(key, record, error)
            return None

    def _not_held(self, key: TableKey, record: TableRecord, why: Unfit) -> None:
        self._work.discard(key)
        if why.partition is not None:
            self._work.unfit[key] = why.partition
        self._changes.not_loaded[record.table_id] = UNFIT
        self.unfit.append(f"{b'.'.join(key).decode('utf-8', 'replace')}: {why}")

    def _account(self, found: list[PartitionRecord]) -> None:
        cost = weight(found)
        self._weight += cost
        self.room -= int(cost)
        self.count += len(found)
