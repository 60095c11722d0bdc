"""The file of the fences, as one process has it open: its transactions, damage to it, and its replacement.

**Damage.** A file that is cut off, lost or not what LMDB wrote is replaced by the supervisor while the proxy runs
(replacement.py). The process that notices this writes it to the state page, and no process touches that file again.
Each call looks at the state page and at the file's length before its transaction, because access to a page beyond the
end would be a SIGBUS. It looks at the state page again after the transaction: what was written to a file that was no
longer used does not count. Such calls raise CacheError; a mirror that cannot be read fences everything.

Job: open the file, run transactions in it, notice that it is damaged or has been replaced, open the new one. Must not
know: what a fence is for. Owner: any process, one object each.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import lmdb
import structlog

from hms_cache_proxy.cache.environment import DAMAGE, DamagedFile, mark_clean, translated
from hms_cache_proxy.cache.lock_file import LockFile, lengthen_lock
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.consistency.fence_rows import (
    FINITE,
    NUMBER,
    Fence,
    initialise,
    next_change,
    open_environment,
    take_ticket,
)
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.errors import CacheError

META_PAGES_BYTES: Final = 8192  # no file of LMDB is shorter

_FAILURES: Final = (lmdb.Error, DamagedFile, struct.error)

log = structlog.get_logger()


class FenceFile:
    """The file that is used, open in this process."""

    def __init__(self, path: Path, page: StatePage) -> None:
        """`path`: the directory of the file; `page`: has the FENCE_SEQ of its records. Raises CacheError."""
        self.page = page
        self._path = path
        self._data = str(path / "data.mdb")
        self._own = (os.getpid(), started(os.getpid()) or 0)
        self._inode = self._length = 0
        self._lock_file: LockFile | None = None
        self._joins = False
        self._open()

    def _open(self) -> None:
        """Open the file that is used; make it if none is. After a failure, `renew` tries again. Raises CacheError."""
        try:
            self._open_file(self.page[Slot.FENCES_FILE])
        except CacheError:
            self._inode = 0
            raise

    def _open_file(self, used: int) -> None:
        if used:
            self._inode, self._length = used, 0
            self._check()
        try:
            self._env = open_environment(self._path, create=not used)
        except DamagedFile as error:
            raise self._damaged(str(error)) from error
        try:
            with translated(self._path):
                found = os.stat(self._data)
                self._lock_file = LockFile(self._path)
            self._inode, self._length = found.st_ino, found.st_size
            if not used:
                self.page[Slot.FENCES_FILE] = self._inode
            with self._change() as txn:
                if txn.get(b"m") is None:
                    if used:
                        raise DamagedFile("they have no meta record")
                    initialise(txn)
                self._joins = txn.get(self._join_key) is not None
        except CacheError:
            self._env.close()
            raise

    def damage(self) -> str | None:
        """What is wrong with the file that is used, as far as can be told without reading it."""
        if self.page[Slot.FENCES_DAMAGED] == self._inode:
            return "it has been found damaged"
        try:
            found = os.stat(self._data)
        except OSError as error:
            return f"it cannot be found: {error.strerror}"
        if found.st_ino != self._inode:
            return "another file is in its place"
        if found.st_size < max(self._length, META_PAGES_BYTES):
            return "it has been cut off"
        self._length = found.st_size
        return None if self._lock_file is None else self._lock_file.damage()

    def renew(self) -> bool:
        """Open the file that is used now, if it is another one; then True, and nothing of this process is recorded in
        it. Raises CacheError if that cannot be opened yet."""
        if self.page[Slot.FENCES_FILE] == self._inode:
            return False
        self._env.close()
        self._inode, self._lock_file = 0, None
        self._open()
        return True

    def join(self) -> None:
        """Everything of this process is recorded in a file that is in the place of a damaged one: from now on, nothing
        else needs to be fenced for it."""
        if not self._joins:
            return
        with self._change() as txn:
            row = txn.pop(self._join_key)
            fence = None if row is None else txn.get(b"f" + row)
            if row is not None and fence is not None:
                joining = Fence.unpack(fence)
                if joining.start == self._own[1]:
                    ticket = take_ticket(txn, ())
                    txn.put(b"f" + row, replace(joining, state=FINITE, ticket=ticket).pack())
        self._joins = False

    @property
    def _join_key(self) -> bytes:
        return b"j" + NUMBER.pack(self._own[0])

    def _check(self) -> None:
        """Raise CacheError unless the file may be touched."""
        if self.page[Slot.FENCES_FILE] != self._inode:
            raise CacheError("the fences have been replaced")
        reason = self.damage()
        if reason is not None:
            raise self._damaged(reason)

    def _damaged(self, reason: str) -> DamagedFile:
        if self.page[Slot.FENCES_DAMAGED] != self._inode:
            log.error("the fences are damaged", file=self._data, reason=reason)
            self.page[Slot.FENCES_DAMAGED] = self._inode
        lengthen_lock(self._path)
        return DamagedFile(f"the fences are damaged: {reason}")

    def _failed(self, what: str, error: Exception) -> CacheError:
        if isinstance(error, (*DAMAGE, DamagedFile, struct.error)):
            return self._damaged(str(error))
        return CacheError(f"the fences cannot be {what}: {error}")

    def _still_used(self) -> None:
        """Raise CacheError if the file was no longer used when the transaction ended."""
        if self.page[Slot.FENCES_FILE] != self._inode or self.page[Slot.FENCES_DAMAGED] == self._inode:
            raise CacheError("the fences have been replaced meanwhile")

    def close(self, *, clean: bool = False) -> None:
        """Close; `clean` (the last process of an orderly stop) syncs and vouches for the records."""
        if clean and self.damage() is None:
            mark_clean(self._env, self._path)
        self._env.close()

    # Transactions

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """A read transaction."""
        self._check()
        try:
            with self._env.begin() as txn:
                yield txn
        except _FAILURES as error:
            raise self._failed("read", error) from error
        self._still_used()

    @contextmanager
    def _change(self, *, fences: bool = True) -> Iterator[Any]:
        """A write transaction; after its commit FENCE_SEQ gets its number, unless mirrors need not know."""
        self._check()
        try:
            with self._env.begin(write=True) as txn:
                yield txn
                number = next_change(txn) if fences else 0
        except _FAILURES as error:
            raise self._failed("written", error) from error
        if fences:
            self.page[Slot.FENCE_SEQ] = number
        self._still_used()
