"""What is still to be loaded: lists of tables, tables, and partitions of tables too large for one commit.

Job: keep the queue for prewarm, repair and large tables. It is not stored: `LoadQueue.missing` builds it from what the
cache has not loaded, so a killed or failed step loses nothing. A load in chunks continues where it was, unless the
process was restarted. Must not know the store, clocks or sockets.

Invariants: a queued table is not loaded, hence not served. After a step a table that was reloaded or dropped is not in
the queue.

Owner: the follower's process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.inventory import Inventory
from hms_cache_proxy.store.protocol import DatabaseKey, TableKey

LOADING = "loading"
FULL = "full"
EXCLUDED = "excluded"
UNFIT = "unfit"
LEFT_OUT = frozenset({EXCLUDED, UNFIT})
"""Reasons why a table, or its partitions, are never loaded, although there may be room."""


@dataclass(frozen=True, slots=True)
class ChunkedLoad:
    """A table whose partitions are loaded in chunks. Those up to `after` are in its new set. `cost`: of one partition,
    in partitions without column statistics; None: not known yet."""

    table_id: int
    after: bytes | None
    cost: float | None = None


class LoadQueue:
    """The queue. A list comes before the tables that it names."""

    def __init__(self, *, all_databases: bool) -> None:
        self.all_databases = all_databases
        self.lists: dict[DatabaseKey, None] = {}
        self.tables: dict[TableKey, None] = {}
        self.loads: dict[TableKey, ChunkedLoad] = {}
        self.refused: dict[TableKey, None] = {}
        """Tables that had no room; they are tried again when there is some."""
        self.unfit: dict[TableKey, bytes] = {}
        """Tables whose partitions the cache cannot hold, each with one of these partitions: as long as that one stays
        as it is, they need not be read again."""

    @staticmethod
    def missing(cached: Inventory, filled: Mapping[int, bytes]) -> LoadQueue:
        """The queue for everything that the cache has not loaded: after a start, and after a failure, when it is not
        known what was done. `filled`: the last name in each set that is being filled in chunks. What is in such a set
        is as of the cursor, so the load goes on from there.
        """
        databases = cached.databases()
        catalogs = {catalog for catalog, _ in databases}
        listed = [cached.complete(targets.databases(catalog)) for catalog in catalogs]
        work = LoadQueue(all_databases=not listed or not all(listed))
        for key, remote in databases.items():
            if not remote and not cached.complete(targets.tables(*key)):
                work.lists[key] = None
        for table, reason in cached.lacking():
            if reason == FULL:
                work.refused[table] = None
            elif reason not in LEFT_OUT:
                work.tables[table] = None
        for table, table_id, number in cached.filling():
            if number in filled and table in work.tables:
                del work.tables[table]
                work.loads[table] = ChunkedLoad(table_id, filled[number])
        return work

    @property
    def done(self) -> bool:
        return not (self.all_databases or self.lists or self.tables or self.loads)

    @property
    def tables_left(self) -> int:
        return len(self.tables) + len(self.loads)

    def add(self, keys: Iterable[TableKey]) -> None:
        """Queues tables. A load in chunks of one of them begins again."""
        for key in keys:
            self.loads.pop(key, None)
            if key not in self.tables:
                self.tables[key] = None

    def discard(self, key: TableKey) -> None:
        """The table was read, or is gone."""
        self.tables.pop(key, None)
        self.loads.pop(key, None)
        self.refused.pop(key, None)
        self.unfit.pop(key, None)

    def discard_database(self, database: DatabaseKey) -> None:
        """The database is gone, with all that it had."""
        self.lists.pop(database, None)
        for queue in (self.tables, self.loads, self.refused, self.unfit):
            for key in [key for key in queue if key[:2] == database]:
                self.discard(key)

    def next_tables(self, limit: int) -> list[TableKey]:
        """Up to `limit` queued tables, which stay queued."""
        return list(islice(self.tables, limit))

    def refuse(self, key: TableKey) -> None:
        """There is no room for this table."""
        self.discard(key)
        self.refused[key] = None

    def wanted(self, keys: Iterable[TableKey]) -> None:
        """Tables that had no room are to be loaded."""
        for key in keys:
            self.refused.pop(key, None)
            self.add([key])

    def try_refused(self) -> None:
        """There is room again."""
        again, self.refused = self.refused, {}
        self.add(again)
