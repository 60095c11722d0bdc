"""Slowly checks all tables and databases again, because some changes write no event.

Job: decide the order and the pace of passes over everything that is loaded, a few tables in each step. Must not know
the store, the log, the cache's layout.

What Hive 4.2 changes without a row in its log: in a Table, truncate_table without partitions (COLUMN_STATS_ACCURATE),
the key-value commit of a transaction, and the sources of a materialized view; in a Database, description, location and
managed location; the drop of a REMOTE database. Partitions are not looked at (docs/consistency.md).

Owner: the follower's process.
"""

from __future__ import annotations

from collections.abc import Iterable

from hms_cache_proxy.store.protocol import TableKey

TABLES_PER_STEP = 25
"""Tables in one step of a pass."""


class Sweep:
    """One pass after another, each at least `interval_s` after the one before began; 0: none."""

    __slots__ = ("_began_s", "_interval_s", "_left")

    def __init__(self, interval_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._began_s = now_s
        self._left: list[TableKey] = []

    def due(self, now_s: float) -> bool:
        """Is it time to begin a pass?"""
        return 0 < self._interval_s <= now_s - self._began_s and not self._left

    @property
    def under_way(self) -> bool:
        """Is a pass unfinished?"""
        return bool(self._left)

    def begin(self, tables: Iterable[TableKey], now_s: float) -> None:
        """Begins a pass over these."""
        self._began_s = now_s
        self._left = sorted(tables, reverse=True)

    def next(self) -> list[TableKey]:
        """The tables for this step. If the step fails, they are skipped until the next pass."""
        taken = self._left[-TABLES_PER_STEP:]
        del self._left[-TABLES_PER_STEP:]
        return taken[::-1]
