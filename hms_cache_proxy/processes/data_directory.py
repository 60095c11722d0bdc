"""The data directory: who may use it and whether its file system can hold a memory-mapped cache.

    data-dir/            mode 0700
      lock               locked (exclusive flock) while a supervisor runs; contains its pid as text
      state              the state page (cache/state.py)
      cache/             the shared cache (LMDB); cache.bad-<timestamp> is the last one that was moved aside
      uses               when each table was last used (cache/last_used.py)
      fences/            the fences environment (consistency/fences.py), fences.bad-<timestamp> likewise

Job: claim the directory for one proxy, and refuse file systems on which LMDB does not work. The kernel releases the
flock when its holder ends in any way. Children of the supervisor do not lock: they inherit the lock.
Must not know: what is in the files. Owner: the supervisor.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final

from hms_cache_proxy.errors import CacheError

NETWORK_FILE_SYSTEMS: Final = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFE534D42: "SMB 2",
    0xFF534D42: "CIFS",
    0x01021997: "9P",
    0x00C36400: "Ceph",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x19830326: "BeeGFS",
    0x7461636F: "OCFS2",
    0x01161970: "GFS2",
    0x73757245: "Coda",
}
"""statfs magic numbers of file systems that several machines may share (linux/magic.h)."""

FUSE: Final = 0x65735546
LOCAL_FUSE: Final = ("fuseblk", "fuse.fuse-overlayfs", "fuse.mergerfs", "fuse.lxcfs")
"""FUSE file systems that are known to be local; all others (sshfs, s3fs, GlusterFS ...) count as remote."""


SOCKET_BYTES: Final = 107
"""Of a socket's path (sun_path, unix(7))."""


class DirectoryInUse(CacheError):
    """Another proxy holds the data directory."""


class DataDir:
    """A claimed data directory; a context manager that releases the claim."""

    def __init__(self, path: Path | str) -> None:
        """Create the directory if needed and claim it. Raises CacheError, which says what is wrong and who holds it."""
        self.path = Path(path).absolute()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self.path, 0o700)
        except OSError as error:
            raise _unusable(self.path, error) from error
        refuse_network_file_system(self.path)
        self._descriptor = _claim(self.path / "lock")

    def fileno(self) -> int:
        """The lock's descriptor; a child that inherits it keeps the claim until it has ended too."""
        return self._descriptor

    def close(self) -> None:
        """Release the directory."""
        os.close(self._descriptor)

    def __enter__(self) -> DataDir:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def refuse_long_paths(sockets: Iterable[Path]) -> None:
    """CacheError if the path of one of these sockets is longer than the system allows."""
    for path in sockets:
        excess = len(os.fsencode(path)) - SOCKET_BYTES
        if excess > 0:
            raise CacheError(f"data directory {path.parent}: its path is {excess} bytes too long for the sockets in it")


def _unusable(path: Path, error: OSError) -> CacheError:
    if error.errno == errno.EPERM:  # of chmod
        return CacheError(
            f"data directory {path}: it belongs to another account, so the one with user id {os.geteuid()} cannot keep"
            " others out; set data_dir (--data-dir) to a directory that does not exist yet, such as one in it"
        )
    return CacheError(
        f"data directory {path}: {error.strerror}; data_dir (--data-dir) must be a directory that the account with user"
        f" id {os.geteuid()} can create or write to"
    )


def _claim(lock: Path) -> int:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(lock.parent, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise DirectoryInUse(
            f"data directory {lock.parent} is in use by process {holder}; "
            "give each proxy its own data_dir, or stop that process"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def refuse_network_file_system(path: Path) -> None:
    """Raise CacheError if `path` is on a network file system."""
    name = network_file_system(_statfs_magic(path), lambda: _mounted_type(path))
    if name is not None:
        raise CacheError(
            f"data directory {path} is on a network file system ({name}); a memory-mapped cache needs a local disk: "
            "set data_dir to a local directory (the cache can be rebuilt, it needs no backup)"
        )


def network_file_system(magic: int | None, mounted_type: object) -> str | None:
    """The name of the network file system with this statfs magic; None if it is a local one.

    `mounted_type()` returns the type in the mount table; it is only called for FUSE, which can be either.
    """
    if magic is None:
        return None
    if magic == FUSE:
        kind = mounted_type() if callable(mounted_type) else None
        return None if kind in LOCAL_FUSE else str(kind or "FUSE")
    return NETWORK_FILE_SYSTEMS.get(magic)


def _statfs_magic(path: Path) -> int | None:
    """f_type of statfs(2), the first word of the structure on Linux; None on other systems."""
    if os.uname().sysname != "Linux":
        return None
    library = ctypes.CDLL(ctypes.util.find_library("c") or "libc.so.6", use_errno=True)
    answer = (ctypes.c_long * 64)()
    if library.statfs(os.fsencode(path), ctypes.byref(answer)) != 0:
        raise CacheError(f"statfs of {path}: {os.strerror(ctypes.get_errno())}")
    return answer[0] & 0xFFFFFFFF


def _mounted_type(path: Path) -> str | None:
    """The file system type in /proc/self/mountinfo for the device of `path`."""
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            left, _, right = line.partition(" - ")
            if left.split()[2] == wanted:
                return right.split()[0]
    return None
