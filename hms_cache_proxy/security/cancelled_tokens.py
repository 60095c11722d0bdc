"""Records which of the proxy's own tokens were cancelled, in a file of the data directory. All workers append to it and
read it.

So does the peers' process: it tells other proxies of the records, and appends the records that they tell it of.

Job: remember a cancelled token until it would have expired. Must not know: tokens, who may cancel.
Byte layout: records of 24 bytes, each the digest of an identifier (16) and its last moment in ms (8, big-endian).
Records are appended by one write, under a lock (flock on a file beside it). When the file is long, a new file without
the records of expired tokens takes its place. A reader reads the file again when it has changed; a record at the end
that a crash cut off is ignored, and overwritten.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MOST: Final = 20_000  # tokens that are cancelled and would not have expired yet
_RECORD: Final = struct.Struct("!16sQ")
RECORD_BYTES: Final = _RECORD.size


def packed(cancelled: Iterable[tuple[bytes, int]]) -> tuple[bytes, ...]:
    """The records of digests and last moments in ms."""
    return tuple(_RECORD.pack(*one) for one in cancelled)


def unpacked(records: Iterable[bytes]) -> dict[bytes, int]:
    """The reverse."""
    return dict(map(_RECORD.unpack, records))


_Stamp = tuple[int, int, int]


class CancelledTokens:
    """One per process; logins look here in several threads. What was read, and of which file, is one value: otherwise
    a thread that has read the file before a change could leave that behind as what the changed file says."""

    def __init__(self, file: Path, most: int = MOST) -> None:
        self._file, self._lock, self._most = file, file.with_name(f"{file.name}.lock"), most
        self._read: tuple[_Stamp | None, dict[bytes, int]] = (None, {})

    def __contains__(self, digest: bytes) -> bool:
        """Was it cancelled, by any worker?"""
        return digest in self._current()

    def all(self) -> Mapping[bytes, int]:
        """Digests and last moments in ms; the same object as long as the file is the same."""
        return self._current()

    def add(self, digest: bytes, latest_ms: int, now_ms: int) -> bool:
        """Cancel it. False if too many are remembered."""
        return self.add_all({digest: latest_ms}, now_ms)

    def add_all(self, cancelled: Mapping[bytes, int], now_ms: int) -> bool:
        """Cancel these. False if there is no room for all of them; then the last ones are left out."""
        with self._locked():
            there = self._current()
            new = [record for record in cancelled.items() if record[0] not in there]
            if len(there) + len(new) > self._most:
                there = self._without_expired(there, now_ms)
            fitting = new[: max(0, self._most - len(there))]
            if fitting:
                self._append(_RECORD.size * len(there), b"".join(packed(fitting)))
            return len(fitting) == len(new)

    def _append(self, at: int, data: bytes) -> None:
        with open(os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as out:
            out.seek(at)
            out.write(data)
            out.flush()
            out.truncate(at + len(data))

    def _current(self) -> dict[bytes, int]:
        """What the file says; it is read again if it has changed."""
        seen, found = self._read
        try:
            stamp = _stamp(os.stat(self._file))
            if stamp == seen:
                return found
            with open(self._file, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            self._read = None, {}
            return {}
        found = dict(_RECORD.iter_unpack(data[: len(data) - len(data) % _RECORD.size]))
        self._read = stamp, found
        return found

    def _without_expired(self, there: Mapping[bytes, int], now_ms: int) -> dict[bytes, int]:
        """Write a file without the expired ones. Returns those that are left."""
        left = [record for record in there.items() if record[1] > now_ms]
        draft = self._file.with_name(f"{self._file.name}.new")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(b"".join(packed(left)))
            out.flush()
            os.fsync(out.fileno())
        draft.replace(self._file)
        return dict(left)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._lock, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _stamp(found: os.stat_result) -> _Stamp:
    """Something that changes with the file."""
    return found.st_ino, found.st_size, found.st_mtime_ns
