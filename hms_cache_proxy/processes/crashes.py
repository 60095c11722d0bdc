"""Has the cache rebuilt when the processes that use it crash.

LMDB follows the pages of a file as they are. A page that the disk has damaged can end the process that reads it, and
each of its successors, because nobody is left to say what is wrong with the file.

Job: count the crashes of these processes, and condemn the cache after MOST of them; whoever opens or writes it next
makes a new one. A crash with another reason (in a library that reads a client's bytes) may cost one new cache an hour:
if crashes go on after it, the file was not the reason. Must not know: what the processes do. Owner: the supervisor's
loop.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from pathlib import Path
from typing import Final

import structlog

from hms_cache_proxy.cache.environment import condemn

MOST: Final = 2
WITHIN_S: Final = 600.0
"""Earlier ones do not count."""
NOT_AGAIN_S: Final = 3600.0
"""After the cache has been condemned."""
CRASHES: Final = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL})

log = structlog.get_logger()


class Crashes:
    """Of the processes that use one cache. `cache`: its directory."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._recent: deque[float] = deque(maxlen=MOST)
        self._quiet_until_s = 0.0

    def ended(self, code: int) -> None:
        """A process has ended with this code, as asyncio tells it (minus the number of a signal)."""
        now_s = time.monotonic()
        if -code not in CRASHES or now_s < self._quiet_until_s:
            return
        self._recent.append(now_s)
        if len(self._recent) < MOST or now_s - self._recent[0] > WITHIN_S:
            return
        try:
            condemn(self._cache, f"{MOST} processes that use it have crashed")
        except OSError as error:  # nothing to rebuild, or a full disk: the next crash tries again
            log.error("the cache cannot be condemned", file=str(self._cache), error=str(error))
            return
        log.error("processes that use the cache have crashed: it is rebuilt", file=str(self._cache), crashes=MOST)
        self._recent.clear()
        self._quiet_until_s = now_s + NOT_AGAIN_S
