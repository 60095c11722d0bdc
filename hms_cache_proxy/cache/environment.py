"""Opens the cache's LMDB environment, and decides whether an existing file may be trusted.

Files in `data-dir/cache`: `data.mdb` and `lock.mdb` are LMDB's. `clean` exists only between a clean close and the next
open, and has the last transaction id. `condemned` has the reason why the cache must not be used.

**Trust.** Commits are not synced to the disk (so a commit costs microseconds). kill -9 of every process loses nothing,
because the kernel has the pages; a crash of the machine may leave any mixture of pages on the disk. So a file is used
again only if the machine has not been restarted since it was written (by the kernel's boot id), or if it was closed
cleanly: everything is synced, then the marker `clean` is written and synced. Any other file is moved aside and rebuilt.
So is a file that LMDB refuses, that is shorter than its own page count, or that belongs to another format or metastore.

Databases: `meta`, `objects`, `partitions`, `statistics`, `shared`, `versions`, `garbage` (cache/layout.py).
One process may open an LMDB file once; `attach` shares the handle within a process.
Must not know: what the rows mean. Owner: the follower opens for writing, every other process read-only.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import lmdb

from hms_cache_proxy.cache.lock_file import MAX_READERS, LockFile, is_cut_off, lengthen_lock
from hms_cache_proxy.errors import CacheError

DATABASES: Final = (b"meta", b"objects", b"partitions", b"statistics", b"shared", b"versions", b"garbage")
SPARE_TRANSACTIONS: Final = 8  # read transactions that the binding keeps for reuse, so begin() costs 0.25 us
UNBOUNDED_MAP: Final = 1 << 40  # address space only; the file grows as it is written
SPARE_BYTES: Final = 1 << 20  # kept free, without blocks on the disk, after the last page
BLOCK_BYTES: Final = 512  # the unit of st_blocks
FULL_BYTES: Final = 1 << 20  # a disk with less free space counts as full
RESERVE_BYTES: Final = 256 << 20  # room in the map above max_bytes for what must always be possible: cursor, deletions


class DamagedFile(CacheError):
    """LMDB finds that a file is damaged; it may be moved aside (unlike a file that cannot be opened)."""


DAMAGE: Final = (
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.IncompatibleError,
    lmdb.NotFoundError,
)
"""What LMDB raises for a damaged file, or one that it did not write."""


@dataclass(slots=True)
class Environment:
    """An open LMDB file and its databases."""

    env: Any  # lmdb.Environment; the binding has no types
    path: Path
    inode: int
    lock: LockFile
    writable: bool
    users: int = 1
    claimed: bool = False  # a writer of this process has it
    meta: Any = field(init=False)
    objects: Any = field(init=False)
    partitions: Any = field(init=False)
    statistics: Any = field(init=False)
    shared: Any = field(init=False)
    versions: Any = field(init=False)
    garbage: Any = field(init=False)

    def __post_init__(self) -> None:
        for name in DATABASES:
            setattr(self, name.decode(), self.env.open_db(name, create=self.writable))

    def check(self) -> None:
        """Condemns the cache and raises CacheError if something has happened to its lock file."""
        reason = self.lock.damage()
        if reason is not None:
            condemn(self.path, reason)
            lengthen_lock(self.path)
            raise CacheError(f"the cache is damaged: {reason}")

    def detach(self, *, writer: bool = False) -> None:
        """Closes the file when its last user in this process is gone."""
        self.users -= 1
        self.claimed = self.claimed and not writer
        if self.users == 0:
            del _open[self.inode]
            self.env.close()


_open: dict[int, Environment] = {}
"""The files that are open in this process, by inode."""


def attach(path: Path) -> Environment:
    """Opens the cache read-only, or shares the handle that this process has. Raises CacheError."""
    data = path / "data.mdb"
    try:
        inode = data.stat().st_ino
    except OSError as error:
        raise CacheError(f"no cache at {path}: {error.strerror}") from error
    known = _open.get(inode)
    if known is not None:
        known.users += 1
        return known
    return _enter(path, inode, writable=False, map_size=0)


def open_for_writing(path: Path, map_size: int) -> Environment:
    """Opens or creates the cache for its one writer. Raises CacheError if an existing file cannot be used."""
    path.mkdir(mode=0o700, exist_ok=True)
    data = path / "data.mdb"
    if not data.exists():
        data.touch(mode=0o600)
    inode = data.stat().st_ino
    known = _open.get(inode)
    assert known is None or (known.writable and not known.claimed), f"{path} is already open in this process"
    if known is None:
        environment = _enter(path, inode, writable=True, map_size=map_size)
    else:
        environment = known
        environment.users += 1
    environment.claimed = True
    environment.env.reader_check()
    return environment


def _enter(path: Path, inode: int, *, writable: bool, map_size: int) -> Environment:
    with translated(path):
        env = lmdb.open(
            str(path),
            map_size=map_size,
            max_dbs=len(DATABASES),
            max_readers=MAX_READERS,
            max_spare_txns=SPARE_TRANSACTIONS,
            mode=0o600,
            sync=False,
            create=writable,
            readonly=not writable,
        )
        try:
            reserve_readers(path)
            check_length(env, path)
            environment = Environment(env, path, inode, LockFile(path), writable)
            if writable:
                lengthen(env, path)
                _leave_room(environment, map_size)
            _open[inode] = environment
        except (CacheError, lmdb.Error, OSError):
            env.close()
            raise
    return environment


def _leave_room(environment: Environment, map_size: int) -> None:
    """Makes the map larger than that if the file already has more than half of it, as after max_bytes was lowered: it
    becomes smaller by commits, which need room themselves."""
    used = used_bytes(environment)
    if used > map_size // 2:
        environment.env.set_mapsize(used + map_size)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns LMDB's errors about opening a file into CacheErrors."""
    try:
        yield
    except DAMAGE as error:
        raise DamagedFile(f"LMDB refuses it: {error}") from error
    except lmdb.Error as error:
        if is_cut_off(path):
            raise DamagedFile("its lock file has been cut off") from error
        raise CacheError(f"{path} cannot be opened: {error}") from error
    except OSError as error:
        raise CacheError(f"{path} cannot be opened: {error.strerror}") from error


def reserve_readers(path: Path) -> None:
    """Reserves disk space for the slots of all readers. A process writes to its slot through mapped memory, and would
    be killed by a full disk (SIGBUS). Called whenever an environment is opened. Raises CacheError if there is no space.

    This uses LMDB's own descriptor. If this process opened the lock file a second time and closed it, the kernel would
    release LMDB's locks on it (POSIX). The next process that opens the environment would then take it for unused, and
    overwrite the slots and mutexes of all others.
    """
    lock = path / "lock.mdb"
    try:
        found = lock.stat()
        if found.st_blocks * BLOCK_BYTES < found.st_size:
            os.posix_fallocate(_descriptor_of(found), 0, found.st_size)
    except OSError as error:
        raise CacheError(f"{lock}: cannot reserve its disk space: {error.strerror}") from error


def _descriptor_of(file: os.stat_result) -> int:
    """A descriptor with which this process has the file open."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of the listing itself
            if os.path.samestat(os.fstat(int(name)), file):
                return int(name)
    raise FileNotFoundError(errno.ENOENT, "LMDB does not have it open")


def lengthen(env: Any, path: Path) -> None:
    """Makes the file (sparsely) longer than its pages. A writer calls this now and then.

    LMDB does not write a page at the end that a transaction took and gave back. So a good file can be shorter than its
    page count, and after a kill -9 at that moment it would be taken for truncated.
    """
    page_bytes = env.stat()["psize"]
    used = (env.info()["last_pgno"] + 1) * page_bytes
    data = path / "data.mdb"
    if data.stat().st_size < used + SPARE_BYTES // 2:
        os.truncate(data, used + SPARE_BYTES)


def check_length(env: Any, path: Path) -> None:
    """Refuses a truncated file before a page beyond its end is read, which would be a SIGBUS."""
    info = env.info()
    if info["last_txnid"] and (path / "data.mdb").stat().st_size < (info["last_pgno"] + 1) * env.stat()["psize"]:
        raise DamagedFile("its file is shorter than its own page count")


def used_bytes(environment: Environment) -> int:
    """The bytes of all databases; free pages do not count."""
    with environment.env.begin() as txn:
        return sum(bytes_in(txn.stat(getattr(environment, name.decode()))) for name in DATABASES)


def bytes_in(stat: dict[str, int]) -> int:
    """The bytes of one database, from LMDB's statistics."""
    return (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]) * stat["psize"]


def boot_id() -> str:
    """Identifies the current boot of this machine; empty if the system has no such id (then only cleanly closed files
    are trusted)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def mark_clean(env: Any, path: Path) -> None:
    """Syncs everything, then writes the marker. If that fails (a full disk), there is no marker, and the file is
    trusted only until the machine restarts, as after a kill."""
    marker = path / "clean"
    try:
        env.sync(True)
        descriptor = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"%d" % env.info()["last_txnid"])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync_directory(path)
    except (OSError, lmdb.Error):
        marker.unlink(missing_ok=True)


def disk_full(path: Path) -> bool:
    """Whether LMDB failed because the disk is full. (It reports EIO if a page was partly written.)"""
    return shutil.disk_usage(path).free < FULL_BYTES


def take_clean_marker(path: Path) -> int | None:
    """Removes the marker of a clean close and returns its transaction id; None if there is no marker."""
    marker = path / "clean"
    try:
        text = marker.read_bytes()
        marker.unlink()
    except FileNotFoundError:
        return None
    _sync_directory(path)
    return int(text) if text.isdigit() else None


def condemn(path: Path, reason: str) -> None:
    """Makes the next open move the cache aside. Called by a process that found it damaged."""
    (path / "condemned").write_text(reason, encoding="utf-8")


def condemned(path: Path) -> str | None:
    """Why the cache must not be used; None if it was not condemned."""
    try:
        return (path / "condemned").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def move_aside(path: Path) -> Path:
    """Renames the cache to `cache.bad-<timestamp>`, and deletes older ones. Returns the new path. Processes that still
    have it open can close it."""
    lengthen_lock(path)
    for old in path.parent.glob(path.name + ".bad-*"):
        shutil.rmtree(old)
    target = path.with_name(f"{path.name}.bad-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
    os.rename(path, target)
    return target


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
