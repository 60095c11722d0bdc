"""The word that stops all hits: something that was written through this proxy cannot be recorded yet.

Job: each worker says how many of its writes and locks it cannot record (a full disk); while any number is not 0, the
page's UNFENCED is odd and no worker of the proxy answers from a cache. The page lies in memory and was written as a
whole when it was created, so this needs no room on any disk. Must not know what was not recorded.

Invariants
- A worker says so before the write leaves, or before the reply is passed on.
- UNFENCED only grows: to a hit that found it even and finds the same value again, everything was recorded meanwhile.
- A worker that died with writes unrecorded has left their number to its successor (`left`): until that has recorded
  that anything may have been written, the word stays odd. If the whole proxy dies, the next start finds it (`left_on`).
Owner: the workers, who exclude each other by a lock on the page's file; the kernel frees it when its holder dies.
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
    """What one worker says."""

    __slots__ = ("_file", "_own", "_unrecorded", "_words", "left")

    def __init__(self, page: StatePage, worker: int = 0) -> None:
        """`worker`: its number, that of its predecessor if that has died."""
        self._words = page.words
        self._file = os.open(page.path, os.O_RDONLY | os.O_CLOEXEC)
        self._own = FIRST_UNRECORDED + worker
        self._unrecorded: dict[str, int] = {}
        self.left = bool(self._words[self._own])
        """A predecessor died with writes unrecorded."""

    @property
    def active(self) -> bool:
        """Nothing may be answered from a cache."""
        return bool(self._words[Slot.UNFENCED] & 1)

    def report(self, file: str, number: int) -> None:
        """This many writes cannot be recorded in this file; 0: all are recorded."""
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
        """Release the file; the number of unrecorded writes stays on the page."""
        os.close(self._file)


def left_on(path: Path) -> bool:
    """Whether writes were unrecorded when the proxy that had this page ended."""
    try:
        with StatePage(path) as page:
            return bool(page[Slot.UNFENCED] & 1)
    except CacheError:
        return False
