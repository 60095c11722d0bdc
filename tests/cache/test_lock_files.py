"""LMDB's lock files have all their room from the beginning: a process that takes a reader's slot in one writes to it
through memory, and would die of a full disk there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hms_cache_proxy.cache.environment import attach, open_for_writing
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import load
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.processes import started


def cache(path: Path) -> None:
    open_for_writing(path, 1 << 24).detach(writer=True)


def cache_read_only(path: Path) -> None:
    cache(path)
    (path / "lock.mdb").unlink()
    attach(path).detach()


def fences(path: Path) -> None:
    with StatePage(path.with_name("state"), create=True) as page:
        FenceStore.recover(path, page).close()


def ttl(path: Path) -> None:
    TtlCache.create(path, bounds_of(load(cli={"store": "none"}).ttl), started).close()


@pytest.mark.parametrize("opened", [cache, cache_read_only, fences, ttl])
def test_it_has_its_blocks(opened: Callable[[Path], None], tmp_path: Path) -> None:
    opened(tmp_path / "environment")
    found = (tmp_path / "environment" / "lock.mdb").stat()
    assert found.st_size > 1024 * 32, "a slot for each reader"
    assert found.st_blocks * 512 >= found.st_size


IS_FREE = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
"""


@pytest.mark.parametrize("kind", ["cache", "fences", "ttl"])
def test_an_environment_in_use_is_not_taken_for_unused(kind: str, tmp_path: Path) -> None:
    """LMDB locks the first byte while an environment is open; a process that gets this lock resets the slots of all."""
    path = tmp_path / "environment"

    def is_locked() -> bool:
        command = [sys.executable, "-c", IS_FREE, str(path / "lock.mdb")]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert told.returncode == 0 or "BlockingIOError" in told.stderr, told.stderr
        return told.returncode != 0

    if kind == "cache":
        environment = open_for_writing(path, 1 << 24)
        assert is_locked()
        environment.detach(writer=True)
    elif kind == "ttl":
        entries = TtlCache.create(path, bounds_of(load(cli={"store": "none"}).ttl), started)
        assert is_locked()
        entries.close()
    else:
        with StatePage(path.with_name("state"), create=True) as page:
            store = FenceStore.recover(path, page)
            assert is_locked()
            store.close()
    assert not is_locked()
