"""Decides which transactional tables are reloaded because a request had another write id list than the cache.

A list can change without an event: aborted ids leave it when they are cleaned up. Because readers with old lists are
common, a table is reloaded only now and then. Must not know: requests, lists.
"""

from __future__ import annotations

import time
from typing import Final

INTERVAL_S: Final = 10.0
REMEMBERED: Final = 10_000


class WriteIdReloads:
    """When each table was last asked for, by what a read depends on. Owner: one per worker."""

    __slots__ = ("_asked_s",)

    def __init__(self) -> None:
        self._asked_s: dict[tuple[bytes, ...], float] = {}

    def due(self, depends: tuple[bytes, ...]) -> bool:
        """Whether to ask now; then not again for INTERVAL_S."""
        now_s = time.monotonic()
        if now_s - self._asked_s.get(depends, -INTERVAL_S) < INTERVAL_S:
            return False
        if len(self._asked_s) >= REMEMBERED:
            self._asked_s.clear()
        self._asked_s[depends] = now_s
        return True
