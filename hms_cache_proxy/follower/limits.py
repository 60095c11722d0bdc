"""How much one step of the follower reads: its bounds, and what things cost.

Job: numbers, in partitions without column statistics. Must not know: the store, the cache. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from hms_cache_proxy.store.protocol import PartitionRecord

TABLE_COST = 10
"""Partitions that cost what a table costs."""

LOADS_SHARE = 4
"""The part of a step's partitions that what is queued gets in any case: events put no load off."""

COLUMNS_COST = 4
"""Columns whose statistics cost what a partition costs."""

LOOKED_AT = 1000
"""Of tables with more partitions a few are looked at first, to know what all of them cost."""
A_FEW = 20

MANY = 5000
"""Partitions of small tables that are asked for at once; LOOKED_AT, while it is not known what they cost."""

NAMED_SHARE = 4
"""If events name more than this part of a large table, it is read at once: while it is reloaded, it is not served."""

TABLES_PER_READ = 100
"""Tables that are asked for at once: bounds what their bodies take in memory before they are in the cache."""

OBJECT_BYTES = 64 << 20
"""The same for all that one step takes over."""

SUSPECTS_PER_READ = 1000
"""The same for tables of which only constraints are asked for."""


@dataclass(frozen=True, slots=True)
class StepLimits:
    """`chunk`: the most partitions that one step loads for the queue, and that one table may have to be loaded at
    once.

    `admit`: there is room for tables that are not in the cache yet; those that are and change stay. `object_bytes`: of
    table objects that a step may hold; tables beyond them are queued.
    """

    chunk: int
    admit: bool = True
    object_bytes: int = OBJECT_BYTES


def weight(records: list[PartitionRecord]) -> float:
    """Their cost, in partitions without statistics."""
    return len(records) + sum(len(record.statistics) for record in records if record.statistics) / COLUMNS_COST
