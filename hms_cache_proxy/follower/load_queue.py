"""What is still to be loaded: lists of tables, tables, and partitions of tables too large for one commit.

Job: the queue that prewarm, repair and large tables share. It is not written anywhere: `LoadQueue.missing`
finds it again from what the cache has not loaded, so a killed or failed step loses nothing; loads in chunks go on where
they were, unless the process is another one.
Must not know the store, clocks or sockets.

Invariants: a table that is queued is not loaded in the cache, hence not served; whatever is done about a
table in a step (refetched, dropped) takes it out of the queue or leaves it in, never in between.

Owner: the follower's process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.inventory import Inventory
from hms_cache_proxy.store.protocol import DatabaseKey, TableKey

LOADING = "loading"
FULL = "full"
EXCLUDED = "excluded"
UNFIT = "unfit"
LEFT_OUT = frozenset({EXCLUDED, UNFIT})
"""Reasons for which a table, or its partitions, are not loaded though there is room; the gate tells them."""


@dataclass(frozen=True, slots=True)
class ChunkedLoad:
    """A table whose partitions are loaded in chunks: those up to `after` are in its new partition set. `cost`: how much
    more one of them takes than one without column statistics; None: it is not known yet."""

    table_id: int
    after: bytes | None
    cost: float | None = None


class LoadQueue:
    """The queue. Tables of one database are taken together; a list comes before the tables that it names."""

    def __init__(self, *, all_databases: bool) -> None:
        self.all_databases = all_databases
        self.lists: dict[DatabaseKey, None] = {}
        self.tables: dict[TableKey, None] = {}
        self.loads: dict[TableKey, ChunkedLoad] = {}
        self.refused: dict[TableKey, None] = {}
        """Tables that had no room; tried again when there is some."""

    @staticmethod
    def missing(cached: Inventory, filled: Mapping[int, bytes]) -> LoadQueue:
        """What a cache has not loaded: after a start, and after a failure, when it is not known what was done.
        `filled`: how far sets have come that chunks are filling. What they have is as of the cursor; loads go on there.
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
        """Queue tables; a chunked load of one of them ends here and begins again."""
        for key in keys:
            self.loads.pop(key, None)
            if key not in self.tables:
                self.tables[key] = None

    def discard(self, key: TableKey) -> None:
        """The table was read, or is gone."""
        self.tables.pop(key, None)
        self.loads.pop(key, None)
        self.refused.pop(key, None)

    def discard_database(self, database: DatabaseKey) -> None:
        """The database is gone, and all that it had."""
        self.lists.pop(database, None)
        for queue in (self.tables, self.loads, self.refused):
            for key in [key for key in queue if key[:2] == database]:
                self.discard(key)

    def next_tables(self, limit: int) -> list[TableKey]:
        """Up to `limit` queued tables of one database, which stay queued."""
        chosen: list[TableKey] = []
        for key in self.tables:
            if chosen and key[:2] != chosen[0][:2] or len(chosen) == limit:
                break
            chosen.append(key)
        return chosen

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
