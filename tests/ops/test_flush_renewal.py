"""A flush and the renewal of TTL mode's cache after damage, in two threads of one process (status/flush.py)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.status.flush import Flusher


def test_the_cache_is_not_closed_under_a_flush(tmp_path: Path) -> None:
    """The flush waits for the write of a worker, here of another thread."""
    config = Config(data_dir=str(tmp_path), store="none")
    with StatePage(paths.state(config), create=True) as page, ThreadPoolExecutor(2) as threads:
        cache = TtlCache.create(paths.ttl(config), bounds_of(config.ttl), started)
        flusher = Flusher(config, page, None, cache)
        with cache._env.begin(write=True):
            flush = threads.submit(flusher.flush, "hive", "d", "t", "dt=1")
            time.sleep(0.2)
            renewal = threads.submit(flusher.renew)
            time.sleep(0.2)
            assert not flush.done() and not renewal.done()
        renewal.result()
        assert flush.result()["done"]
        with cache.snapshot() as snapshot:
            assert snapshot.seq == 2, "what was flushed before the renewal stays flushed"
        assert cache.lock.damage() is None
        cache.close()
