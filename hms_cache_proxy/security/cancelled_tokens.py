"""Which of the proxy's own tokens were cancelled: a file in the data directory that all workers append to and read.

Job: remember a cancelled token until it would have expired. Must not know: tokens, who may cancel.
Byte layout: records of 24 bytes, each the digest of an identifier (16) and its last moment in ms (8, big-endian). A
record is appended by one write, under a lock (flock on a file beside it). When the file is long, the records of expired
tokens are left out of a new file that takes its place. A reader reads the file again when it has changed; a
cut-off record at the end, after a crash, is as if it had never been written, and is overwritten.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MOST: Final = 20_000  # tokens that are cancelled and would not have expired yet
_RECORD: Final = struct.Struct("!16sQ")


class CancelledTokens:
    """One per worker."""

    def __init__(self, file: Path, most: int = MOST) -> None:
        self._file, self._lock, self._most = file, file.with_name(f"{file.name}.lock"), most
        self._found: dict[bytes, int] = {}
        self._seen: tuple[int, int, int] | None = None  # the file as it was read last

    def __contains__(self, digest: bytes) -> bool:
        """Was it cancelled, by any worker?"""
        self._look()
        return digest in self._found

    def add(self, digest: bytes, latest_ms: int, now_ms: int) -> bool:
        """Cancel it. False if too many are remembered."""
        with self._locked():
            self._look()
            if digest in self._found:
                return True
            if len(self._found) >= self._most:
                self._leave_out(now_ms)
            if len(self._found) >= self._most:
                return False
            at = _RECORD.size * len(self._found)
            with open(os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600), "wb", buffering=0) as out:
                out.seek(at)
                out.write(_RECORD.pack(digest, latest_ms))
                out.truncate(at + _RECORD.size)
            self._look()
            return True

    def _look(self) -> None:
        """Read the file if it has changed."""
        try:
            now = os.stat(self._file)
        except FileNotFoundError:
            self._found, self._seen = {}, None
            return
        seen = now.st_ino, now.st_size, now.st_mtime_ns
        if seen == self._seen:
            return
        with open(self._file, "rb") as file:
            data = file.read()
        self._found = dict(_RECORD.iter_unpack(data[: len(data) - len(data) % _RECORD.size]))
        self._seen = seen

    def _leave_out(self, now_ms: int) -> None:
        """Write a file without the expired ones."""
        left = [record for record in self._found.items() if record[1] > now_ms]
        draft = self._file.with_name(f"{self._file.name}.new")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(b"".join(_RECORD.pack(*record) for record in left))
            out.flush()
            os.fsync(out.fileno())
        draft.replace(self._file)
        self._look()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._lock, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
