"""Compacts a cache file at a start, if most of its pages are free.

LMDB never returns pages to the file system: deleted rows leave free pages, which later commits use, so a file never
becomes shorter. While a proxy runs, this is acceptable: the room will be needed again, and a copy would stop the
writer. At the moment when the follower opens the cache, nothing is served yet, and a copy disturbs nobody.

    cache --copy--> cache.compact; then rename cache to cache.long, rename cache.compact to cache, delete cache.long

The copy has its own directory, because two data files must not share a lock file. If the process dies between the two
renames, there is no cache, and everything is loaded again. Other leftovers are deleted at the next start. Readers find
the new file by the inode on the state page. A start that finds a copy which did not end makes none: on a slow disk it
can take so long that the process is taken for one that hangs, and this would happen at each start.

Must not know: rows. Owner: the follower, before its first commit.
"""

from __future__ import annotations

import os
import shutil
from typing import Final

import lmdb

from hms_cache_proxy.cache import environment as files
from hms_cache_proxy.cache.environment import Environment

WASTED_BYTES: Final = 16 << 20  # with more in free pages, and these over half of the file, it is copied
COPIED_BYTES: Final = 4 << 30  # a larger copy takes too long for a start


def compacted(environment: Environment, map_size: int) -> Environment:
    """The environment, or one with the same rows in a shorter file."""
    path = environment.path
    beside, long = (path.with_name(f"{path.name}.{what}") for what in ("compact", "long"))
    try:
        given_up = beside.exists()
        for left_over in (beside, long):
            if left_over.exists():
                shutil.rmtree(left_over)
        if given_up or environment.users > 1 or not _wasteful(environment):
            return environment
        beside.mkdir(mode=0o700)
        environment.env.copy(str(beside), compact=True)
        os.chmod(beside / "data.mdb", 0o600)
    except (lmdb.Error, OSError):  # usually no room; the longer file does no harm
        shutil.rmtree(beside, ignore_errors=True)
        return environment
    environment.detach(writer=True)
    os.rename(path, long)
    os.rename(beside, path)
    shutil.rmtree(long)
    return files.open_for_writing(path, map_size)


def _wasteful(environment: Environment) -> bool:
    """Does the file have so many free pages that a copy is worth it?"""
    used = files.used_bytes(environment)
    free = (environment.env.info()["last_pgno"] + 1) * environment.env.stat()["psize"] - used
    return free > max(WASTED_BYTES, used) and used <= COPIED_BYTES
