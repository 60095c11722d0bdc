"""A cache's file that has become much longer than what it holds is copied at a start, without its free pages.

LMDB gives no page back to the file system: what leaves makes free pages, which later commits use, so the file stays
as long as the cache ever was. While a proxy runs that is right: room that was needed is needed again, and a copy would
have to stop the writer. When the follower opens the cache nothing is served yet.

    cache --copy--> cache.compact       then cache -> cache.long, cache.compact -> cache, and cache.long goes

A new directory, as its lock file must not be that of another file. Who dies between the two renames leaves no cache,
and all is loaded again; else what is left over goes at the next start. Readers follow by the inode on the state page.

Must not know: rows. Owner: the follower, before its first commit.
"""

from __future__ import annotations

import os
import shutil
from typing import Final

import lmdb

from hms_cache_proxy.cache import environment as files
from hms_cache_proxy.cache.environment import Environment

WASTED_BYTES: Final = 16 << 20  # free pages that are worth a copy, if they are half of the file
COPIED_BYTES: Final = 4 << 30  # more than that takes too long for a start


def compacted(environment: Environment, map_size: int) -> Environment:
    """The environment, or another one in its place with the same rows in a shorter file."""
    path = environment.path
    beside, long = (path.with_name(f"{path.name}.{what}") for what in ("compact", "long"))
    for left_over in (beside, long):
        if left_over.exists():
            shutil.rmtree(left_over)
    if environment.users > 1 or not _wasteful(environment):
        return environment
    beside.mkdir(mode=0o700)
    try:
        environment.env.copy(str(beside), compact=True)
    except lmdb.Error:  # no room for it, mostly: a longer file is no harm
        shutil.rmtree(beside)
        return environment
    os.chmod(beside / "data.mdb", 0o600)
    environment.detach(writer=True)
    os.rename(path, long)
    os.rename(beside, path)
    shutil.rmtree(long)
    return files.open_for_writing(path, map_size)


def _wasteful(environment: Environment) -> bool:
    """Are there many free pages?"""
    used = files.used_bytes(environment)
    free = (environment.env.info()["last_pgno"] + 1) * environment.env.stat()["psize"] - used
    return free > max(WASTED_BYTES, used) and used <= COPIED_BYTES
