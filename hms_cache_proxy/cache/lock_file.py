"""Checks whether the lock file of an LMDB environment is still the one with which it was opened.

LMDB maps `lock.mdb` into each process that has the environment open. It has the slots of the readers and the mutex of
the writers, and LMDB does not look at the file again. If it is cut off, each access kills the process (SIGBUS), even a
close, and no further process can open the environment (EINVAL). If it is removed, the next process makes another one,
and the two groups of processes do not know of each other's readers and writers.

Job: find both cases, and restore the length of a file that was cut off, so that processes can close it. Must not open
the file (`environment.reserve_readers` says why). If bytes inside the file are overwritten, this is not noticed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Final

MAX_READERS: Final = 1024  # one slot for each process with an open snapshot, and for each stream of a large reply
SLOT_BYTES: Final = 64
LENGTH_BYTES: Final = MAX_READERS * SLOT_BYTES
"""No lock file with MAX_READERS slots is shorter."""
HEADER_BYTES: Final = 4096  # room for what LMDB has before the slots, about 200 bytes


class LockFile:
    """That of an environment which this process has just opened. Raises OSError if it is gone already."""

    def __init__(self, path: Path) -> None:
        self._file = str(path / "lock.mdb")
        found = os.stat(self._file)
        self._inode, self._length = found.st_ino, found.st_size

    def damage(self) -> str | None:
        """What has happened to it; None if it is as it was (1 us)."""
        try:
            found = os.stat(self._file)
        except OSError as error:
            return f"its lock file cannot be found: {error.strerror}"
        if found.st_ino != self._inode:
            return "another lock file is in the place of its own"
        if found.st_size < self._length:
            return "its lock file has been cut off"
        return None


def is_cut_off(path: Path) -> bool:
    """Whether the lock file of an environment that LMDB cannot open is too short for its slots."""
    try:
        found = os.stat(path / "lock.mdb")
    except OSError:
        return False
    return S_ISREG(found.st_mode) and found.st_size < LENGTH_BYTES


def lengthen_lock(path: Path) -> None:
    """Lets those who have the lock file mapped close it. Its slots are empty then: the environment must not be used
    again."""
    with suppress(OSError):  # it is gone: then those who have it mapped still have all of it
        if is_cut_off(path):
            os.truncate(path / "lock.mdb", LENGTH_BYTES + HEADER_BYTES)
