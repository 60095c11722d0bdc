"""Decides which tables are evicted when the cache is full, and which are loaded again.

    the cache exceeds max_bytes    the least recently used tables are evicted, until the cache uses LOW of max_bytes
    a read of an evicted table     the table is loaded again: at once if there is room, else in place of tables that
                                   were not read for IDLE_S
    pinned tables                  are never evicted, and are loaded again as if they were read

Job: make these choices. A table is evicted as a whole. Replaced rows occupy room until they are collected, so nothing
is evicted before that. Must not know: how a table is evicted or loaded, the store.

Owner: the follower's process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.inventory import Inventory
from hms_cache_proxy.cache.last_used import LastUsed
from hms_cache_proxy.config.selection import Selection
from hms_cache_proxy.store.protocol import TableKey

LOW: Final = 0.95
IDLE_S: Final = 60
LOOK_S: Final = 1.0
NOBODY_S: Final = 10.0
"""Pause after a search that found no table to evict."""
LOOKED_AT_IN_1_S: Final = 50_000  # tables without room; the more there are, the rarer the looks
COMING_AT_ONCE: Final = 20
FIRST_BYTES: Final = 1 << 20
"""Room that is made for a table whose size is not known, but at most FIRST_PART of max_bytes. It doubles each time that
it was not enough."""
FIRST_PART: Final = 0.05
LARGEST: Final = 0.5
"""For a table that needs more than this part of max_bytes, no others are evicted."""
MOST_NEEDS: Final = 10_000
"""Sizes that are remembered besides those of tables without room: of tables that are loaded again, or are gone."""


class Leaving(NamedTuple):
    """A table to evict, and about how many bytes it takes."""

    key: TableKey
    entry: TableEntry
    size: int


class Used(NamedTuple):
    """The size of the cache. `garbage`: some of it is still to be collected."""

    used: int
    each_partition: float
    garbage: bool


class Pause(NamedTuple):
    """A time in which nothing is searched for. It ends at once if the clock is set back."""

    began_s: float = 0.0
    length_s: float = 0.0

    def lasts(self, now_s: float) -> bool:
        """Has it not ended?"""
        return 0 <= now_s - self.began_s < self.length_s


class Eviction:
    """Chooses tables. Remembers since when tables have no room, and how much room was not enough for them."""

    def __init__(self, most: int, pin: Sequence[str], uses: LastUsed) -> None:
        self._most = most
        self._pinned = Selection(pin, ()) if pin else None
        self._uses = uses
        self._since_s: dict[TableKey, int] = {}
        self._needs: dict[TableKey, int] = {}
        self._looked = self._found_nobody = Pause()

    def pinned(self, key: TableKey) -> bool:
        """Is it a table that is never evicted?"""
        return self._pinned is not None and self._pinned.admits(key[1], key[2])

    def leaving(self, cached: Inventory, used: Used, staying: Collection[TableKey], now_s: float) -> list[Leaving]:
        """The tables to evict because the cache is too large."""
        if used.garbage or used.used <= self._most or self._found_nobody.lasts(now_s):
            return []
        found = self._oldest(cached, used, self._ages(cached, staying), used.used - int(LOW * self._most))
        if not found:
            self._found_nobody = Pause(now_s, NOBODY_S)
        return found

    def coming(
        self, cached: Inventory, used: Used, refused: Collection[TableKey], now_s: float
    ) -> tuple[list[TableKey], list[Leaving]]:
        """Tables without room that were read and may be loaded now, and the tables to evict for them first."""
        if used.garbage or used.used >= self._most or self._looked.lasts(now_s):
            return [], []
        self._looked = Pause(now_s, LOOK_S + len(refused) / LOOKED_AT_IN_1_S)
        if len(self._needs) > len(refused) + MOST_NEEDS:
            self._needs = {key: need for key, need in self._needs.items() if key in refused}
        wanted = sorted(self._asked_for(refused, int(now_s)), reverse=True)[:COMING_AT_ONCE]
        ages = self._ages(cached, ()) if wanted else iter(())
        coming: list[TableKey] = []
        left: list[Leaving] = []
        free = int(LOW * self._most) - used.used
        for asked_s, key in wanted:
            need = self._needs.get(key, min(FIRST_BYTES, int(FIRST_PART * self._most)))
            if need > free:
                if need > LARGEST * self._most:
                    continue
                missing = need - max(free, 0)
                some = self._oldest(cached, used, ages, missing, min(asked_s, int(now_s) - IDLE_S))
                if sum(one.size for one in some) < missing:
                    break
                left += some
                free += sum(one.size for one in some)
            free -= need
            self._needs[key] = 2 * need
            coming.append(key)
        return coming, left

    def _asked_for(self, refused: Collection[TableKey], now_s: int) -> list[tuple[int, TableKey]]:
        """Those that were read since they had no room, and when."""
        self._since_s = {key: min(self._since_s.get(key, now_s), now_s) for key in refused}
        found: list[tuple[int, TableKey]] = []
        for key, since_s in self._since_s.items():
            used_s = now_s if self.pinned(key) else self._uses.used_s(targets.table(*key))
            if used_s > since_s or self.pinned(key):
                found.append((used_s, key))
        return found

    def _ages(self, cached: Inventory, staying: Collection[TableKey]) -> Iterator[tuple[int, TableKey]]:
        """Loaded tables and when they were last read, the least recent first."""
        known = cached.loaded()
        return iter(sorted((self._uses.used_s(targets.table(*key)), key) for key in known if key not in staying))

    def _oldest(
        self, cached: Inventory, used: Used, ages: Iterator[tuple[int, TableKey]], wanted: int, before_s: int = 1 << 62
    ) -> list[Leaving]:
        """The next tables of `ages`, last read before `before_s`, until they take `wanted` bytes."""
        found: list[Leaving] = []
        for used_s, key in ages:
            if used_s >= before_s:
                break
            entry = cached.table(key)
            if entry is None or entry.body is None or self.pinned(key):
                continue
            size = 2 * len(entry.body) + 512 + int(entry.partition_count * used.each_partition)
            found.append(Leaving(key, entry, size))
            self._needs[key] = size
            wanted -= size
            if wanted <= 0:
                break
        return found
