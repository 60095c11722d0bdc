"""Holds: writes in TTL mode that a metastore may be executing.

    holds      hash of a target (16 bytes), u64 id    until when (ns)

Job: read and write the rows, say which loads they keep from being published, and take over those of the proxy's last
run: a metastore may still execute what was sent to it then. The old rows are used if the machine has not been restarted
since, because the kernel then still has everything that was written; otherwise it is not known what was sent. The
functions work in a transaction of the cache that the caller has begun (ttl.py). Must not know: entries, the clock.
Owner: every worker; the first process of a start reads what was left.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import lmdb

from hms_cache_proxy.cache.environment import boot_id, check_length, translated
from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.cache.ttl_layout import NUMBER
from hms_cache_proxy.errors import CacheError

HOLDS: Final = 1000
"""Beyond this number, holds that no load needs any more are deleted with each write."""
_HASH_BYTES: Final = 16
_BOOT: Final = "boot"
"""The file with the machine's boot id."""


def add_hold(txn: Any, holds: Any, targets: Sequence[Target], number: int, until_ns: int) -> tuple[bytes, ...]:
    """Holds these targets, under a number that no other hold has. Returns the keys."""
    keys = tuple(_hash(target) + NUMBER.pack(number) for target in targets)
    for key in keys:
        txn.put(key, NUMBER.pack(until_ns), db=holds)
    return keys


def forget_holds(txn: Any, holds: Any, before_ns: int) -> None:
    """If there are many, deletes those whose time was over at `before_ns`: their writes never reported an end, and all
    loads that began in their time have ended."""
    if txn.stat(holds)["entries"] < HOLDS:
        return
    with txn.cursor(holds) as cursor:
        there = cursor.first()
        while there:
            over = NUMBER.unpack(cursor.value())[0] <= before_ns
            there = cursor.delete() and bool(cursor.key()) if over else cursor.next()


def is_held(txn: Any, holds: Any, depends: tuple[Target, ...], began_ns: int) -> bool:
    """May a write of one of these have been executed after a load had begun at `began_ns`?"""
    if not txn.stat(holds)["entries"]:
        return False
    with txn.cursor(holds) as cursor:
        prefixes = [b""] if ALL in depends else [_hash(target) for target in (ALL, *depends)]
        for prefix in prefixes:
            found = cursor.set_range(prefix)
            while found and cursor.key().startswith(prefix):
                if NUMBER.unpack(cursor.value())[0] > began_ns:
                    return True
                found = cursor.next()
    return False


def left_holds(path: Path, holds: bytes, now_ns: int) -> dict[bytes, int] | None:
    """What the last run still holds in the environment at a path, which no process has open: hashes of targets, and
    until when. None if that is unknown."""
    if not path.exists():
        return {}
    try:
        boot = (path / _BOOT).read_text(encoding="ascii")
        if not boot or boot != boot_id():
            return None
        with translated(path), lmdb.open(str(path), readonly=True, lock=False, max_dbs=1) as env:
            check_length(env, path)
            database = env.open_db(holds, create=False)
            left: dict[bytes, int] = {}
            with env.begin(database) as txn, txn.cursor() as cursor:
                for key, row in cursor:
                    target = key[:_HASH_BYTES]
                    left[target] = max(left.get(target, 0), NUMBER.unpack(row)[0])
            return {target: until_ns for target, until_ns in left.items() if until_ns > now_ns}
    except (CacheError, OSError):
        return None


def keep_holds(txn: Any, holds: Any, left: Mapping[bytes, int], number: int, until_ns: int) -> None:
    """Holds what was left, under a number that no other hold has. No request that was sent then is executed after
    `until_ns`."""
    for target, held_ns in left.items():
        txn.put(target + NUMBER.pack(number), NUMBER.pack(min(held_ns, until_ns)), db=holds)


def emptied(path: Path) -> None:
    """Deletes what is at this path, but not the directory itself: without a boot id in it, it is not known what is held
    until `note_boot`, however often a start is interrupted."""
    (path / _BOOT).unlink(missing_ok=True)
    for file in path.iterdir():
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink()


def note_boot(path: Path) -> None:
    """The environment at this path is of this run of the machine, and has all that is held. Raises CacheError."""
    with translated(path):
        (path / _BOOT).write_text(boot_id(), encoding="ascii")


def _hash(target: Target) -> bytes:
    return blake2b(target, digest_size=_HASH_BYTES).digest()
