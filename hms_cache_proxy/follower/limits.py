"""How much one step of the follower reads: limits and costs.

Job: hold these numbers. The unit of costs is one partition without column statistics. Must not know: the store, the
cache. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from hms_cache_proxy.store.protocol import PartitionRecord

TABLE_COST = 10
"""A table costs as much as this many partitions."""

LOADS_SHARE = 4
"""The queue always gets 1/LOADS_SHARE of a step's partitions, so events never stop a load."""

COLUMNS_COST = 4
"""The statistics of this many columns cost as much as a partition."""

LOOKED_AT = 1000
"""If a table has more partitions, A_FEW of them are read first, to estimate what all of them cost."""
A_FEW = 20

MANY = 5000
"""Partitions of small tables in one question; LOOKED_AT while their cost is not known."""

NAMED_SHARE = 4
"""If events name more than 1/NAMED_SHARE of a table's partitions, all are reloaded. Smaller parts are read by name,
because a table is not served while it is reloaded."""

TABLES_PER_READ = 100
"""Tables in one question. Limits the memory for their bodies before they are in the cache."""

OBJECT_BYTES = 64 << 20
"""The same limit in bytes, for all table objects of one step."""

SUSPECTS_PER_READ = 1000
"""Tables in one question for constraints only."""

BUSY_STEPS = 2
"""After so many steps in a row that found something, a step begins without a look whether there is anything new."""


@dataclass(frozen=True, slots=True)
class StepLimits:
    """`chunk`: the most partitions that one step loads for the queue; a larger table is loaded in chunks.

    `admit`: there is room for tables that are not in the cache yet; cached tables are reloaded in any case.
    `object_bytes`: table objects that one step may hold; further tables are queued.
    """

    chunk: int
    admit: bool = True
    object_bytes: int = OBJECT_BYTES


def weight(records: list[PartitionRecord]) -> float:
    """Their cost, in partitions without statistics."""
    return len(records) + sum(len(record.statistics) for record in records if record.statistics) / COLUMNS_COST
