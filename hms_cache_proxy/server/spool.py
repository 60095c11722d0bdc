"""A bounded queue of bytes: in memory while small, then in a temporary file, as far as the disk takes it.

Job: hold one message that is not whole yet, or whose receiver is slow. Written first, read afterwards; `rewind` reads
it again. Must not know messages or sockets.
Invariants: memory is at most `memory_bytes`, and what a full disk has no room for, and none beyond the worker's budget
for memory; the file has no name, so nothing is left after a crash; more than `limit` bytes raise LimitError, and so do
the worker's budget for files, and that for memory where the disk is full. Owner: one connection of the worker's event
loop (the file's pages are the kernel's page cache, so a write does not wait for a disk in general).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import IO

from hms_cache_proxy.budget import Budgets, Charge
from hms_cache_proxy.errors import LimitError

MEMORY_BYTES = 1 << 20  # of one spool; a message beyond it moves to a file
SLICE_BYTES = 1 << 18  # what is taken out at a time: a few system calls per megabyte


@dataclass(frozen=True, slots=True)
class SpoolRoom:
    """What the spools of a worker may use."""

    directory: str | None = None  # where files are; None: the system's place for temporary files
    budgets: Budgets = field(default_factory=Budgets)


class Spool:
    """Bytes in order. `size` is what was written, `left` what was not read yet."""

    __slots__ = (
        "_directory",
        "_file",
        "_in_file",
        "_in_memory",
        "_limit",
        "_limit_name",
        "_memory",
        "_memory_bytes",
        "_parts",
        "_read",
        "_refused",
        "_stored",
        "size",
    )

    def __init__(
        self, *, limit: int, limit_name: str, room: SpoolRoom, for_write: bool = False, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self.size = 0
        self._read = 0
        self._parts: list[bytes] = []  # in memory: what follows the file's bytes
        self._memory: bytes | None = None  # the parts joined, once reading began
        self._file: IO[bytes] | None = None
        self._stored = 0  # bytes in the file
        self._refused = ""  # why the file takes no more
        self._limit = limit
        self._limit_name = limit_name
        self._memory_bytes = memory_bytes
        self._directory = room.directory
        self._in_memory = Charge(room.budgets.memory, for_write=for_write)
        self._in_file = Charge(room.budgets.spool, for_write=for_write)

    @property
    def left(self) -> int:
        return self.size - self._read

    def write(self, data: bytes) -> None:
        """Append; LimitError if the message gets too long."""
        if self.size + len(data) > self._limit:
            raise LimitError(
                f"a message of more than {self._limit} bytes",
                limit=self._limit_name,
                size=self.size + len(data),
            )
        self.size += len(data)
        self._memory = None
        if not self._stored and self.size <= self._memory_bytes and self._in_memory.grow(len(data)):
            self._parts.append(data)
            return
        if self._refused:
            self._keep(data)
            return
        if not self._in_file.grow(self.size - self._in_file.size):
            raise LimitError(
                "no room for a spooled message: limits.spool_bytes is used up", limit="spool_bytes", size=self.size
            )
        self._store(data)

    def _store(self, data: bytes) -> None:
        """Move everything to the file, as far as it takes it."""
        left = memoryview(b"".join((*self._parts, data)) if self._parts else data)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="spool-", dir=self._directory, buffering=0)
            self._file.seek(self._stored)
            while left:
                written = self._file.write(left)
                self._stored += written
                left = left[written:]
        except OSError as error:
            self._refused = error.strerror or str(error)
        self._parts.clear()
        self._in_memory.close()
        if left:
            self._in_file.close()
            self._in_file.grow(self._stored)
            self._keep(bytes(left))

    def _keep(self, data: bytes) -> None:
        """What the disk has no room for."""
        if not self._in_memory.grow(len(data)):
            why = f"{self._refused}, and limits.memory_bytes is used up"
            raise LimitError(f"no room for a spooled message: {why}", limit="spool_bytes", size=self.size)
        self._parts.append(data)

    def read(self, size: int = SLICE_BYTES) -> bytes:
        """The next bytes, b"" at the end."""
        data = b""
        if self._read < self._stored:
            assert self._file is not None
            self._file.seek(self._read)
            data = self._file.read(min(size, self._stored - self._read))
            self._read += len(data)
        if len(data) < size and self._parts:
            if self._memory is None:
                self._memory = b"".join(self._parts)
            at = self._read - self._stored
            whole = at == 0 and size - len(data) >= len(self._memory)
            rest = self._memory if whole else self._memory[at : at + size - len(data)]
            self._read += len(rest)
            data = data + rest if data else rest
        return data

    def rewind(self) -> None:
        """Read from the start again."""
        self._read = 0

    def close(self) -> None:
        """Free the memory and the file."""
        self._parts.clear()
        self._in_memory.close()
        self._in_file.close()
        self._memory = None
        if self._file is not None:
            self._file.close()
            self._file = None
