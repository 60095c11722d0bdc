"""Decides whether an existing cache file is used again, and prepares a file for writing.

Job: open the file, and decide whether it is trusted (cache/environment.py has the rule) and belongs to this store and
scope; write what a new file needs; forget loads that were not finished. An error that shows damage becomes a
CacheError, and the file is rebuilt at the next open. Must not know: what a commit does. Owner: the follower
(CacheWriter).
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from struct import error as StructError
from typing import Any, Final

import lmdb

from hms_cache_proxy.cache import environment as files
from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.environment import Environment
from hms_cache_proxy.cache.identity import mismatch
from hms_cache_proxy.cache.layout import Meta
from hms_cache_proxy.cache.sets import SetRow
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.errors import CacheError

_DAMAGE: Final = (lmdb.CorruptedError, lmdb.PageNotFoundError, StructError)


def open_trusted(path: Path, map_size: int, wanted: bytes) -> tuple[Environment | None, str | None]:
    """The environment if it may be used (or is new), else the reason why not. `map_size`: bytes; `wanted`: the identity
    row that the file must have. Raises CacheError if that cannot be found out now."""
    reason = files.condemned(path)
    if reason is not None:
        return None, reason
    try:
        environment = files.open_for_writing(path, map_size)
    except files.DamagedFile as error:
        return None, str(error)
    try:
        reason = _distrust(environment, wanted)
    except _DAMAGE as error:
        reason = f"it is damaged: {error}"
    except BaseException:
        environment.detach(writer=True)
        raise
    if reason is None:
        return environment, None
    environment.detach(writer=True)
    return None, reason


def failure(path: Path, error: lmdb.Error | StructError) -> CacheError:
    """What to raise for an error of LMDB, or for a row that cannot be read. A damaged cache is condemned, so that the
    next open rebuilds it."""
    if isinstance(error, _DAMAGE):
        files.condemn(path, f"it is damaged: {error}")
        return CacheError(f"the cache is damaged: {error}")
    full = "; its disk is full" if files.disk_full(path) else ""
    return CacheError(f"the cache cannot be written: {error}{full}")


def _distrust(environment: Environment, wanted: bytes) -> str | None:
    """Why the file must not be used; None if it may be used, or is new."""
    vouched = files.take_clean_marker(environment.path)
    with environment.env.begin() as txn:
        found = txn.get(layout.IDENTITY_KEY, db=environment.meta)
        if found is None:
            return None
        boot = (txn.get(layout.BOOT_KEY, db=environment.meta) or b"").decode()
        if vouched != txn.id() and (not boot or boot != files.boot_id()):
            return "the machine went down while it was open, so what reached the disk is unknown"
        difference = mismatch(found, wanted)
        if difference is not None:
            return difference
        try:
            Meta.unpack(txn.get(layout.META_KEY, db=environment.meta))
        except CacheError as error:
            return str(error)
    return None


def initialise(environment: Environment, wanted: bytes, page: StatePage) -> None:
    """Records the current boot of the machine; gives a new file its first meta record.

    The sequence numbers of a new file are greater than those of any earlier file, so no kept reply is valid for it by
    chance.
    """
    with environment.env.begin(write=True) as txn:
        txn.put(layout.BOOT_KEY, files.boot_id().encode(), db=environment.meta)
        if txn.get(layout.IDENTITY_KEY, db=environment.meta) is None:
            seq = max(page[Slot.CACHE_SEQ] + 1, time.time_ns() // 1000)
            meta = Meta(generation=page[Slot.GENERATION] + 1, seq=seq, floor_version=seq)
            txn.put(layout.META_KEY, meta.pack(), db=environment.meta)
            txn.put(layout.IDENTITY_KEY, wanted, db=environment.meta)


def forget_loads(environment: Environment, txn: Any, meta: Meta) -> None:
    """Forgets loads in chunks that the last writer did not finish."""
    prefix, unfinished = (layout.objects_prefix(meta.generation, tag) for tag in (b"s", b"x"))
    for key, _ in layout.names_under(txn, environment.objects, unfinished, b""):
        found = SetRow.unpack(txn.get(prefix + key, db=environment.objects))
        if found.loading:
            if found.loaded:
                txn.delete(unfinished + key, db=environment.objects)
            txn.put(layout.SET.pack(found.loading), b"", db=environment.garbage)
            txn.put(prefix + key, replace(found, loading=0).pack(), db=environment.objects)
