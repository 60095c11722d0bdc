"""When each table was last read: one file of u32 seconds that every worker writes and the follower reads.

Layout: SLOTS native-endian u32; Unix seconds, 0 for never. A table's slot is given by the CRC of its target. If two
tables share a slot, both count as used when either is; this only makes eviction less accurate. Any process stores and
loads a slot as one aligned word, without a lock.

Workers mark a table when a reply is built or found valid again, not with every answer (methods/hot.py). The file is
kept across restarts. All its blocks are written when it is created, because a mark on a full disk would otherwise kill
the process. If the file cannot be created, marks stay in each process, and the follower does not see them.

Must not know: what is done with it. Owner: any process.
"""

from __future__ import annotations

import mmap
import os
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hms_cache_proxy.cache.targets import Target

SLOTS: Final = 1 << 17
AHEAD_S: Final = 60
"""A mark that is further ahead was made before the clock was set back."""
_BYTES: Final = 4 * SLOTS
_MASK: Final = SLOTS - 1
_TABLE: Final = b"t"[0]


class LastUsed:
    """The mapped file; without a path, memory of this process."""

    __slots__ = ("_map", "_slots")

    def __init__(self, path: Path | None = None) -> None:
        self._map = _mapped(path)
        self._slots = memoryview(self._map).cast("I")

    def mark(self, depends: Iterable[Target]) -> None:
        """Marks the tables among these targets as read now."""
        now_s = int(time.time())
        for target in depends:
            if target[0] == _TABLE:
                self._slots[zlib.crc32(target) & _MASK] = now_s

    def used_s(self, target: Target) -> int:
        """When a table was last read, in Unix seconds; 0 for never, or for a time that is AHEAD_S or more to come."""
        used_s = self._slots[zlib.crc32(target) & _MASK]
        return used_s if used_s < time.time() + AHEAD_S else 0

    def close(self) -> None:
        """Unmaps the file."""
        self._slots.release()
        self._map.close()


def _mapped(path: Path | None) -> mmap.mmap:
    if path is None:
        return mmap.mmap(-1, _BYTES)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size != _BYTES:  # new, or of another layout
                os.pwrite(descriptor, bytes(_BYTES), 0)
                os.ftruncate(descriptor, _BYTES)
            return mmap.mmap(descriptor, _BYTES)
        finally:
            os.close(descriptor)
    except OSError:
        return mmap.mmap(-1, _BYTES)
