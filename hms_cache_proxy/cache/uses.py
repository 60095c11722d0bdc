"""When each table was last asked for: one file of u32 seconds that every worker marks and the follower reads.

Layout: SLOTS native-endian u32, Unix seconds, 0 for never; a table's slot is the CRC of its target. Two tables that
share a slot look used when either is, which costs the eviction some accuracy and nothing else. A slot is stored and
loaded as one aligned word, by any process, without a lock: the last of two marks wins, and they differ by nothing.

Workers mark where a reply is built or found good once more, not with every answer (methods/hot.py). The file outlives
a start. Its blocks are written when it is made, as a full disk would otherwise kill whoever marks; where it cannot be
made, marks are a process's own, and evictions know of no use.

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
_BYTES: Final = 4 * SLOTS
_MASK: Final = SLOTS - 1
_TABLE: Final = b"t"[0]


class Uses:
    """The file, mapped; without a path, memory of this process."""

    __slots__ = ("_map", "_slots")

    def __init__(self, path: Path | None = None) -> None:
        self._map = _mapped(path)
        self._slots = memoryview(self._map).cast("I")

    def mark(self, depends: Iterable[Target]) -> None:
        """The tables among these targets are asked for now."""
        now_s = int(time.time())
        for target in depends:
            if target[0] == _TABLE:
                self._slots[zlib.crc32(target) & _MASK] = now_s

    def used_s(self, target: Target) -> int:
        """When a table was last asked for, in Unix seconds; 0 for never."""
        return self._slots[zlib.crc32(target) & _MASK]

    def close(self) -> None:
        """Unmap it."""
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
