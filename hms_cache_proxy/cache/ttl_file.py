"""Opens the LMDB environment of TTL mode. Must not know what its rows mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lmdb

from hms_cache_proxy.cache.environment import reserve_readers, translated
from hms_cache_proxy.cache.lock_file import MAX_READERS, LockFile


def open_ttl(path: Path, map_size: int, databases: Sequence[bytes]) -> tuple[Any, dict[bytes, Any], LockFile]:
    """The environment, which is created if it does not exist, its databases by name, and its lock file. Raises
    CacheError."""
    path.mkdir(mode=0o700, exist_ok=True)
    with translated(path):
        env = lmdb.open(
            str(path),
            map_size=map_size,
            mode=0o600,
            sync=False,
            max_dbs=len(databases),
            max_readers=MAX_READERS,
            max_spare_txns=4,
        )
        reserve_readers(path)
        return env, {name: env.open_db(name) for name in databases}, LockFile(path)
