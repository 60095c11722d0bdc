"""A small file system of its own for one directory, which only processes that are started inside see.

Job: a tmpfs in a mount namespace; fill it, empty it. Needs root and `unshare`, `nsenter` of util-linux.
Must not know: whose directory it is.
Invariants: a process holds the namespace; it ends with its parent however that dies, and the mount with it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.testbed.closing import Closing

PR_SET_PDEATHSIG = 1
CHUNK = b"\0" * (1 << 20)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@functools.cache
def can_mount() -> bool:
    """May this process make a mount namespace?"""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


class SmallDisk(Closing):
    """Use as a context manager, or close()."""

    def __init__(self, directory: Path, size: int) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        mount = f"mount -t tmpfs -o size={size} tmpfs {directory} && echo mounted && exec sleep infinity"
        self._holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", mount], stdout=subprocess.PIPE, preexec_fn=_die_with_parent
        )
        assert self._holder.stdout is not None and self._holder.stdout.readline() == b"mounted\n"

    @property
    def inside(self) -> list[str]:
        """How a command line begins whose process is to see it."""
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--"]

    def outside(self, path: Path) -> Path:
        """What a path inside is called for others."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    @contextmanager
    def full(self) -> Iterator[None]:
        """Not a byte is left."""
        ballast = self.outside(self._directory / "ballast")
        try:
            with ballast.open("wb", buffering=0) as file:
                size = len(CHUNK)
                while size:
                    try:
                        file.write(CHUNK[:size])
                    except OSError:
                        size //= 2
            yield
        finally:
            ballast.unlink()

    def close(self) -> None:
        """End the namespace once nobody else is in it."""
        self._holder.kill()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()
