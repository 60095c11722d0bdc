"""Changes that a row of the log tells of before they are made.

Hive 4.1 and later log the truncation of a table without partitions first, and then change the table's parameters in
another transaction of the database. A step between the two reads the table as it was, and no later row names it.

Job: remember such tables until a step has read what the row told, and say which of them a step compares with the cache:
at first every step, later one a second. Must not know: the store, the cache, clocks.

The next process finds them in the newest rows of the log (log.py). Owner: the follower's process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hms_cache_proxy.follower.affected import Announcement
from hms_cache_proxy.store.protocol import TableKey, TableRecord
from hms_cache_proxy.wire import spec

OFTEN_S: Final = 10.0
"""How long every step looks: a metastore needs milliseconds, if nobody has locked the table's rows."""
RARELY_S: Final = 1.0
LONGEST_S: Final = 600.0
"""The default of the request timeout."""


class Announced:
    """The changes that were announced and not seen yet, and since when."""

    __slots__ = ("_looked_s", "_since_s")

    def __init__(self) -> None:
        self._since_s: dict[Announcement, float] = {}
        self._looked_s = 0.0

    def due(self, now_s: float) -> list[TableKey]:
        """The tables that a step which begins now compares."""
        every = now_s - self._looked_s >= RARELY_S
        return [key for (key, _), since_s in self._since_s.items() if every or now_s - since_s < OFTEN_S]

    def seen(self, found: Mapping[TableKey, TableRecord | None]) -> None:
        """A step has compared these tables. None: it is not in the cache, and will not be."""
        self._since_s = {one: since_s for one, since_s in self._since_s.items() if not _made(one, found)}

    def stepped(self, told: Iterable[Announcement], read: Mapping[TableKey, TableRecord | None], now_s: float) -> None:
        """A step that began at `now_s` is published. `told`: what its rows announce; `read`: the tables that it has
        taken over."""
        if now_s - self._looked_s >= RARELY_S:
            self._looked_s = now_s
        known = self._since_s | dict.fromkeys(told, now_s)
        self._since_s = {one: since_s for one, since_s in known.items() if now_s - since_s < LONGEST_S}
        self.seen(read)


def _made(announced: Announcement, found: Mapping[TableKey, TableRecord | None]) -> bool:
    key, parameters = announced
    if key not in found:
        return False
    record = found[key]
    if record is None:
        return True
    table, _ = spec.decode(spec.struct("Table"), record.body, 0)
    return frozenset((table.parameters or {}).items()) == parameters
