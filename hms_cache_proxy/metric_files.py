"""The files that hold the processes' counts, in the format of prometheus_client's multiprocess mode.

Job: reserve a process's files, read one, add all of them up. Must not know: which metrics there are.

The files are memory-mapped, so their disk space is reserved in advance (`RESERVED`): on a full disk, a store to a page
without space would kill the process with SIGBUS. A file that is damaged is left out of the sums, and counted, until its
process is started again.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from hms_cache_proxy.errors import ProxyError

RESERVED = {"counter": 1 << 20, "gauge_livesum": 1 << 16, "gauge_mostrecent": 1 << 16, "histogram": 6 << 20}
"""Bytes of each file of a process: more than all labels take (a histogram takes 6 kB per method and outcome)."""
_NO_VALUES = struct.pack("i", 8)  # a file begins with the number of bytes in use, including these
_DAMAGE = (RuntimeError, struct.error, ValueError, LookupError, TypeError, AttributeError)
"""What prometheus_client raises for bytes that are no file of metrics, or for keys that are none."""


def begin_anew(directory: Path) -> None:
    """Make the directory, without the files of the previous run."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in directory.glob("*.db"):
        file.unlink()


def reserve(directory: Path, role: str) -> None:
    """Make the files of a process. A damaged one is replaced. ProxyError if the disk has no room for them."""
    for kind, size in RESERVED.items():
        path = directory / f"{kind}_{role}.db"
        try:
            if path.exists() and path.stat().st_size and not _is_sound(str(path)):
                path.unlink()
            with path.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise ProxyError(f"{path}: cannot reserve {size} bytes: {error.strerror}") from error


def empty_live_gauges(directory: Path, role: str) -> None:
    """The process has ended. The file stays, because on a full disk it could not be created again."""
    live = directory / f"gauge_livesum_{role}.db"
    with contextlib.suppress(FileNotFoundError), live.open("r+b") as file:
        file.write(_NO_VALUES)


def stored_values(file: Path) -> list[tuple[str, float]] | None:
    """Keys and values in a file; None if it is damaged. OSError if it cannot be read."""
    try:
        return [(key, value) for key, value, *_ in MmapedDict.read_all_values_from_file(file)]  # type: ignore[no-untyped-call]
    except (RuntimeError, struct.error, UnicodeDecodeError):
        return None


class ChildrenCollector(Collector):
    """The sums over all files that are not damaged. `damaged`: how many were, when they were last added up."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.damaged = 0

    def collect(self) -> Iterator[Metric]:
        files = sorted(map(str, self._directory.glob("*.db")))
        sound = files
        try:
            found = _added_up(files)
        except _DAMAGE:
            sound = [file for file in files if _is_sound(file)]
            found = _added_up(sound)
        self.damaged = len(files) - len(sound)
        yield from found


def _added_up(files: list[str]) -> list[Metric]:
    return list(MultiProcessCollector.merge(files))  # type: ignore[no-untyped-call]


def _is_sound(file: str) -> bool:
    try:
        _added_up([file])
    except _DAMAGE:
        return False
    return True
