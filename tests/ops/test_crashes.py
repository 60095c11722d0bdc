"""A damaged page of the cache can end each process that reads it. After two crashes the cache is rebuilt."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hms_cache_proxy.cache.environment import condemned
from hms_cache_proxy.processes import crashes
from hms_cache_proxy.processes.crashes import Crashes
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient


def ended(*codes: int, cache: Path) -> str | None:
    """Why the cache must not be used, after processes have ended so."""
    found = Crashes(cache)
    for code in codes:
        found.ended(code)
    return condemned(cache)


@pytest.mark.parametrize("number", sorted(crashes.CRASHES))
def test_two_crashes_condemn_the_cache(tmp_path: Path, number: int) -> None:
    assert ended(-number, cache=tmp_path) is None
    assert ended(-number, -signal.SIGSEGV, cache=tmp_path) == "2 processes that use it have crashed"


def test_other_ends_do_not(tmp_path: Path) -> None:
    assert ended(0, 1, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGKILL, 11, 6, cache=tmp_path) is None


def test_crashes_that_are_far_apart_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crashes, "WITHIN_S", 0.0)
    assert ended(*[-signal.SIGSEGV] * 5, cache=tmp_path) is None


def test_if_crashes_go_on_the_cache_was_not_the_reason(tmp_path: Path) -> None:
    found = Crashes(tmp_path)
    for _ in range(crashes.MOST):
        found.ended(-signal.SIGSEGV)
    (tmp_path / "condemned").unlink()
    for _ in range(20):
        found.ended(-signal.SIGSEGV)
    assert condemned(tmp_path) is None


def test_a_cache_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    """An error would end the supervisor."""
    assert ended(*[-signal.SIGSEGV] * 5, cache=tmp_path / "cache") is None


@pytest.mark.parametrize("role", ["follower", "worker"])
def test_hits_come_back_from_a_new_cache(
    bed: Bed, new_proxy: Callable[..., Proxy], unique_name: str, role: str
) -> None:
    proxy = new_proxy(bed.shared("embedded"), settings={"WORKERS": "1"})
    cache = proxy.directory / "data" / "cache" / "data.mdb"
    with MetastoreClient(*proxy.address) as client:
        objects.create_database(client, unique_name)
        objects.create_table(client, objects.table(unique_name, "t"))
    damaged = cache.stat().st_ino
    for _ in range(crashes.MOST):
        running = proxy.children()[role]
        os.kill(running[0], signal.SIGSEGV)
        proxy.wait(lambda gone=running: proxy.children()[role] not in ([], gone), "its successor runs")
    proxy.wait(lambda: cache.exists() and cache.stat().st_ino != damaged, "a new file")
    with MetastoreClient(*proxy.address) as client:
        before = proxy.hits()
        proxy.wait(lambda: client.get_table(unique_name, "t") and proxy.hits() > before, "served from the cache")
    assert list((proxy.directory / "data").glob("cache.bad-*"))
    assert "have crashed: it is rebuilt" in proxy.log_tail(1000)
