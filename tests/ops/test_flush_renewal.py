"""Flushes and renewals of TTL mode's cache after damage, in two threads of one process (status/flush.py)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.status.flush import Flusher

RENEWALS = 100


def test_the_cache_is_not_closed_under_a_flush(tmp_path: Path) -> None:
    """A flush that met a closed cache would fail, and have changed nothing."""
    config = Config(data_dir=str(tmp_path), store="none")
    enough = Event()
    with StatePage(paths.state(config), create=True) as page, ThreadPoolExecutor(1) as threads:
        cache = TtlCache.create(paths.ttl(config), bounds_of(config.ttl), started)
        flusher = Flusher(config, page, None, cache)

        def flush() -> int:
            done = 0
            while not enough.is_set():
                done += flusher.flush("hive", "d", "t", "dt=1")["done"] is True
            return done

        flushes = threads.submit(flush)
        for _ in range(RENEWALS):
            flusher.renew()
        enough.set()
        done = flushes.result()
        with cache.snapshot() as snapshot:
            assert snapshot.seq == 1 + done > 1, "what was flushed before a renewal stays flushed"
        assert cache.lock.damage() is None
        cache.close()
