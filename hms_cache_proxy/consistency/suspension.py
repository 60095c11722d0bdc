"""Stops all hits while a write through this proxy cannot be recorded, by a word on the state page.

Job: each worker reports how many of its writes and locks it cannot record (a full disk). While any number is not 0,
UNFENCED on the state page is odd, and no worker answers from a cache. The page is mapped memory that was fully written
when it was created, so this needs no room on a disk. Must not know what was not recorded.

Invariants
- A worker reports before the write is sent, or before the reply is passed on.
- UNFENCED only grows. So if a hit finds the same even value before and after, everything was recorded in between.
- If a worker dies with unrecorded writes, its successor finds their number (`left`). The word stays odd until the
  successor has recorded that anything may have been written. If the whole proxy dies, the next start finds the word
  (`left_on`). Owner: the workers, which exclude each other by a lock on the page's file. The kernel releases the lock
  when its holder dies.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from hms_cache_proxy.cache.state import FIRST_UNRECORDED, MAX_WORKERS, Slot, StatePage
from hms_cache_proxy.errors import CacheError

_ALL: Final = slice(FIRST_UNRECORDED, FIRST_UNRECORDED + MAX_WORKERS)


class Suspension:
    """The reports of one worker."""

    __slots__ = ("_file", "_own", "_unrecorded", "_words", "left")

    def __init__(self, page: StatePage, worker: int = 0) -> None:
        """`worker`: its number, which is that of its predecessor if that has died."""
        self._words = page.words
        self._file = os.open(page.path, os.O_RDONLY | os.O_CLOEXEC)
        self._own = FIRST_UNRECORDED + worker
        self._unrecorded: dict[str, int] = {}
        self.left = bool(self._words[self._own])
        """A predecessor died with unrecorded writes."""

    @property
    def active(self) -> bool:
        """Whether nothing may be answered from a cache."""
        return bool(self._words[Slot.UNFENCED] & 1)

    def report(self, file: str, number: int) -> None:
        """Reports that `number` writes cannot be recorded in this file; 0: all are recorded."""
        self._unrecorded[file] = number
        words = self._words
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            words[self._own] = sum(self._unrecorded.values())
            if any(words[_ALL]) != self.active:
                words[Slot.UNFENCED] += 1
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Closes the file. The number of unrecorded writes stays on the page."""
        os.close(self._file)


def left_on(path: Path) -> bool:
    """Whether there were unrecorded writes when the proxy with this page ended."""
    try:
        with StatePage(path) as page:
            return bool(page[Slot.UNFENCED] & 1)
    except CacheError:
        return False
