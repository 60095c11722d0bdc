"""Looking again, slowly, at tables and databases that nothing was said about: some changes write no event.

Job: the order and the pace of passes over all that is loaded, some in each step. Must not know the store, the log, the
cache's layout.

What Hive 4.2 changes in a Table without a row in its log: truncate_table without partitions (COLUMN_STATS_ACCURATE),
the key-value commit of a transaction, the sources of a materialized view. Partitions have no such change. In a
Database: description, location and managed location.

Owner: the follower's process.
"""

from __future__ import annotations

from collections.abc import Iterable

from hms_cache_proxy.store.protocol import TableKey

TABLES_PER_STEP = 25
"""Of the steps that look at some."""


class Sweep:
    """One pass after another, each at least `interval_s` after the one before began; 0: none."""

    __slots__ = ("_began_s", "_interval_s", "_left")

    def __init__(self, interval_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._began_s = now_s
        self._left: list[TableKey] = []

    def due(self, now_s: float) -> bool:
        """Is it time for another pass?"""
        return 0 < self._interval_s <= now_s - self._began_s and not self._left

    @property
    def under_way(self) -> bool:
        """Are some left of the pass that was begun?"""
        return bool(self._left)

    def begin(self, tables: Iterable[TableKey], now_s: float) -> None:
        """A pass over these."""
        self._began_s = now_s
        self._left = sorted(tables, reverse=True)

    def next(self) -> list[TableKey]:
        """What this step looks at. A step that fails skips it, until the next pass."""
        taken = self._left[-TABLES_PER_STEP:]
        del self._left[-TABLES_PER_STEP:]
        return taken[::-1]
