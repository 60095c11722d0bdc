"""A bounded queue of bytes: in memory while small, then in a temporary file while the disk has room.

Job: hold one message that is incomplete, or whose receiver is slow. It is written first and read afterwards; `rewind`
begins again. Must not know: messages, sockets.
Invariants: at most `memory_bytes` are in memory, plus what does not fit on a full disk, within the worker's budget for
memory. The file has no name, so nothing is left after a crash. LimitError is raised beyond `limit` bytes, beyond the
worker's budget for files and, if the disk is full, beyond the worker's budget for memory. Owner: one connection of the
worker's event loop (writes go to the kernel's page cache, so they do not normally wait for a disk).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import IO

from hms_cache_proxy.budget import Budgets, Charge
from hms_cache_proxy.errors import LimitError

MEMORY_BYTES = 1 << 20  # of one spool; a longer message moves to a file
SMALL_BYTES = 1 << 9  # smaller pieces are joined: an object takes some fifty bytes more than it holds
JOINED_BYTES = 1 << 12
SLICE_BYTES = 1 << 18  # that are read at a time: a few system calls per megabyte


@dataclass(frozen=True, slots=True)
class SpoolRoom:
    """What the spools of a worker may use."""

    directory: str | None = None  # of the files; None: the system's directory for temporary files
    budgets: Budgets = field(default_factory=Budgets)


class Spool:
    """Bytes in order. `size` have been written, `left` have not been read yet."""

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
        "_small",
        "_stored",
        "size",
    )

    def __init__(
        self, *, limit: int, limit_name: str, room: SpoolRoom, for_write: bool = False, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self.size = 0
        self._read = 0
        self._parts: list[bytes] = []  # in memory: the bytes after those in the file
        self._small = bytearray()  # in memory: small pieces behind the parts
        self._memory: bytes | None = None  # the joined parts, once reading has begun
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
        """Append. Raises LimitError if the message gets too long."""
        if self.size + len(data) > self._limit:
            raise LimitError(f"a message of more than {self._limit} bytes", limit=self._limit_name)
        self.size += len(data)
        self._memory = None
        if not self._stored and self.size <= self._memory_bytes and self._in_memory.grow(len(data)):
            self._add(data)
            return
        if self._refused:
            self._keep(data)
            return
        if not self._in_file.grow(self.size - self._in_file.size):
            raise LimitError("no room for a spooled message: limits.spool_bytes is used up", limit="spool_bytes")
        self._store(data)

    def _add(self, data: bytes) -> None:
        """Hold these in memory."""
        if len(data) < SMALL_BYTES:
            self._small += data
            if len(self._small) < JOINED_BYTES:
                return
            data = b""
        self._join()
        if data:
            self._parts.append(data)

    def _join(self) -> None:
        """The small pieces become one part."""
        if self._small:
            self._parts.append(bytes(self._small))
            self._small.clear()

    def _store(self, data: bytes) -> None:
        """Move everything to the file, as far as there is room."""
        self._join()
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
        """Keep in memory what the disk has no room for."""
        if not self._in_memory.grow(len(data)):
            why = f"{self._refused}, and limits.memory_bytes is used up"
            raise LimitError(f"no room for a spooled message: {why}", limit="spool_bytes")
        self._add(data)

    def read(self, size: int = SLICE_BYTES) -> bytes:
        """The next bytes, b"" at the end."""
        self._join()
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
        self._small.clear()
        self._in_memory.close()
        self._in_file.close()
        self._memory = None
        if self._file is not None:
            self._file.close()
            self._file = None
