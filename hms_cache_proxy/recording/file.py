"""The file of a recording. It is begun or continued by one process, appended to by several, and read from its
beginning.

Job: handle locks, sizes, the end of the complete part, and the file mode. Must not know: methods, what is worth
recording.

Invariants
- Before `end` there are only complete records. `end` is moved after they are written, under an exclusive lock (flock)
  of the file, so a process that is killed while it writes leaves no partial record and no gap.
- A file that is not a recording of this version is never written. The mode is 0600 whatever the umask is.
- Reading stops at a wrong checksum or an early end of the file, and reports it (`Damage`); everything before is valid.
- The file never exceeds the limit of its writers. If the disk is full, only what does not fit is lost.
Owner: the supervisor begins it, every worker appends (each with a separate descriptor), any process reads.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.recording.format import (
    HEADER_BYTES,
    PREFIX_BYTES,
    VERSION,
    FileHeader,
    Record,
    RecordingState,
    decode,
    parse_header,
    payload_bytes,
)

MODE = 0o600
_SCAN_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Damage:
    """The end of the complete part of a recording, and what is wrong there. `lost_bytes`: bytes that are not read."""

    at: int
    lost_bytes: int
    problem: str

    def __str__(self) -> str:
        return f"{self.problem} at byte {self.at}; the {self.lost_bytes} bytes from there on are not used"


class Placed(NamedTuple):
    """A record, and the position of its result in the file."""

    record: Record
    result_at: int


class RecordingFile:
    """One open descriptor of a recording."""

    def __init__(self, path: str, key: str, flags: int) -> None:
        """Opens the file. ConfigError, which names the setting `key`, if that fails."""
        self.path = path
        self._key = key
        try:
            self._fd = os.open(path, flags | os.O_CLOEXEC, MODE)
        except OSError as error:
            raise ConfigError(f"{key}: cannot open {path}: {error.strerror}") from error

    @classmethod
    def to_read(cls, path: str) -> RecordingFile:
        """Open a recording for `replay`. ConfigError if it is not a recording."""
        file = cls(path, "replay", os.O_RDONLY)
        file.header()
        return file

    @classmethod
    def to_append(cls, path: str) -> RecordingFile:
        """Open a recording that was begun."""
        return cls(path, "record", os.O_RDWR)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def header(self) -> FileHeader:
        """The current header. ConfigError if this is not a recording that can be read."""
        try:
            found = parse_header(os.pread(self._fd, HEADER_BYTES, 0))
        except OSError as error:  # a directory, or a disk that fails
            raise ConfigError(f"{self._key}: cannot read {self.path}: {error.strerror}") from error
        if found is None:
            raise ConfigError(f"{self._key}: {self.path} is not a recording")
        if found.version != VERSION:
            problem = f"{self.path} is a recording of format {found.version}; this program has format {VERSION}"
            raise ConfigError(f"{self._key}: {problem}")
        return found

    def append(self, records: Sequence[bytes], max_bytes: int) -> int:
        """Append encoded records; returns how many were written: all, or those that keep the file within `max_bytes`,
        and then marks the file as full. OSError if the disk is full: none is then written."""
        with self._locked():
            header = self.header()
            written, size = [], 0
            for record in records:
                if header.end + size + len(record) > max_bytes:
                    break
                written.append(record)
                size += len(record)
            if len(written) < len(records):
                header = replace(header, state=RecordingState.FULL)
            self._write(b"".join(written), header.end)
            self._write(header.grown(size, len(written)).encoded(), 0)
        return len(written)

    def records(self, end: int, start: int = HEADER_BYTES) -> Iterator[Placed | Damage]:
        """The records from `start` (where a record begins) to `end` (of a header), in order. A Damage comes last."""
        with open(self._fd, "rb", buffering=_SCAN_BYTES, closefd=False) as stream:
            stream.seek(start)
            at = start
            while at < end:
                prefix = stream.read(PREFIX_BYTES)
                length = payload_bytes(prefix) if len(prefix) == PREFIX_BYTES else None
                payload = b"" if length is None else stream.read(length)
                found = None if length is None else decode(prefix, payload)
                if found is None:
                    yield self._damage(at, end)
                    return
                at += PREFIX_BYTES + len(payload)
                yield Placed(found, at - len(found.result))

    def read(self, size: int, at: int) -> bytes:
        """Bytes of the file; fewer if it has become shorter."""
        return os.pread(self._fd, size, at)

    def _damage(self, at: int, end: int) -> Damage:
        size = os.fstat(self._fd).st_size
        problem = (
            f"it ends {end - size} bytes too early: the last record is incomplete"
            if size < end
            else "a record is damaged"
        )
        return Damage(at, max(0, size - at), problem)

    def _write(self, data: bytes, at: int) -> None:
        view = memoryview(data)
        while view:
            count = os.pwrite(self._fd, view, at)
            view, at = view[count:], at + count

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    # for the first process of a start

    @classmethod
    def begin(cls, path: str, now_ms: int, until_ms: int) -> tuple[RecordingFile, Damage | None]:
        """Begin a recording, or continue one at its end; what a crash has left there is cut off, and reported.

        ConfigError if the file exists and is not a recording.
        """
        file = cls(path, "record", os.O_RDWR | os.O_CREAT)
        try:
            with file._locked():
                return file, file._begin(now_ms, until_ms)
        except OSError as error:
            file.close()
            raise ConfigError(f"record: cannot write {path}: {error.strerror}") from error
        except ConfigError:
            file.close()
            raise

    def _begin(self, now_ms: int, until_ms: int) -> Damage | None:
        size = os.fstat(self._fd).st_size
        if size == 0:
            os.fchmod(self._fd, MODE)
            self._write(FileHeader(now_ms, until_ms).encoded(), 0)
            return None
        header = self.header()
        os.fchmod(self._fd, MODE)
        end, count, damage = HEADER_BYTES, 0, None
        for found in self.records(header.end):
            if isinstance(found, Damage):
                damage = found
            else:
                end, count = found.result_at + len(found.record.result), count + 1
        if damage is None and size > end:
            damage = Damage(end, size - end, "a record was not finished")
        os.ftruncate(self._fd, end)
        renewed = replace(header, until_ms=until_ms, end=end, records=count, state=RecordingState.OPEN)
        self._write(renewed.encoded(), 0)
        return damage
