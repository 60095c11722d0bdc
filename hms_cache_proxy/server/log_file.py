"""A file of lines that is rotated by size.

Job: append whole lines. When the file is full, begin a new one: FILE becomes FILE.1, FILE.1 becomes FILE.2 and so on,
and a number of them are kept. Reopen the file when another program has moved or removed it. Must not know: the lines'
contents.
Invariants: a line never follows the remains of one that was not written completely, and is never split between files.
Nothing is raised: the caller counts the lines that are lost on a full disk.
Owner: one process for each path; one call at a time, from any thread.
"""

from __future__ import annotations

import os
from pathlib import Path

FILE_MODE = 0o640  # the lines name users and objects; the group may collect them
DIRECTORY_MODE = 0o750


class LogFile:
    """Lines for one file."""

    def __init__(self, path: Path, *, max_bytes: int, files: int) -> None:
        """`files`: how many are kept, including the current one."""
        self.path = path
        self._max_bytes = max_bytes
        self._files = files
        self._fd = -1
        self._size = 0
        self._torn = False  # the file does not end with a complete line

    def write(self, data: bytes) -> tuple[int, OSError | None]:
        """Append lines, each with its line end. Returns how many were written, and the error if not all were."""
        done = 0
        try:
            self._ready(len(data))
            if self._torn:
                self._append(b"\n")
            while done < len(data):
                done += self._append(data[done:] if done else data)
        except OSError as error:
            self.close()
            return data.count(b"\n", 0, done), error
        return data.count(b"\n"), None

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, data: bytes) -> int:
        written = os.write(self._fd, data)
        self._size += written
        self._torn = data[:written][-1:] != b"\n"
        return written

    def _ready(self, coming: int) -> None:
        """Open a file with room for so many bytes."""
        if self._fd >= 0 and self._moved():
            self.close()
        if self._fd < 0:
            self._open()
        if self._size and self._size + coming > self._max_bytes:
            self.close()
            self._rotate()
            self._open()

    def _moved(self) -> bool:
        mine = os.fstat(self._fd)
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return True
        return (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino)

    def _open(self) -> None:
        self.path.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, FILE_MODE)
        self._size = os.fstat(self._fd).st_size
        self._torn = self._size > 0 and os.pread(self._fd, 1, self._size - 1) != b"\n"

    def _rotate(self) -> None:
        number = self._files
        while self._old(number).exists():  # an earlier setting kept more files
            self._old(number).unlink()
            number += 1
        for number in range(self._files - 1, 0, -1):
            if self._old(number - 1).exists():
                self._old(number - 1).replace(self._old(number))
        if self._files == 1:
            self.path.unlink()

    def _old(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path
