"""A process that is killed while it reads fences, or entries of TTL mode, does not make their files grow."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config.ttl import TtlSection
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.processes import started

A = b"thive\0db\0a"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FenceStore]:
    with StatePage(tmp_path / "state", create=True) as page:
        made = FenceStore.recover(tmp_path / "fences", page)
        yield made
        made.close()


def kill_a_reader_of(path: Path) -> None:
    """A process dies while it reads."""
    program = [sys.executable, "-m", "tests.consistency.killed_reader", str(path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == b"reads\n"
        reader.kill()


def test_a_killed_reader_of_fences(tmp_path: Path, store: FenceStore) -> None:
    kill_a_reader_of(tmp_path / "fences")

    def pages() -> int:
        for _ in range(200):
            store.cancel(store.begin([A], os.getpid()))
        used: int = store._env.info()["last_pgno"]
        return used

    assert pages() > 200, "nothing is freed that it may still read"
    store.expire(time.monotonic_ns())
    used = pages()
    assert pages() == used


def test_a_killed_reader_of_ttl_mode(tmp_path: Path) -> None:
    cache = TtlCache.create(tmp_path / "ttl", bounds_of(TtlSection()), started)
    kill_a_reader_of(tmp_path / "ttl")

    def pages() -> int:
        for _ in range(100):
            cache.invalidate([A])
        used: int = cache._env.info()["last_pgno"]
        return used

    assert pages() > 100
    cache.forget_dead_readers()
    used = pages()
    assert pages() == used
    cache.close()
