"""A worker wakes the follower, and hears of the end of the step that it has asked for."""

from __future__ import annotations

import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.config import Config, load, paths
from hms_cache_proxy.follower.runner import WakeListener
from hms_cache_proxy.server.waker import Waker


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load(cli={"data_dir": str(tmp_path)})


@pytest.fixture
def wakes(config: Config) -> Iterator[WakeListener]:
    """It takes SIGTERM for itself, as it does in a follower's process."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        with WakeListener(config) as made:
            yield made
    finally:
        signal.signal(signal.SIGTERM, before)


def heard(waker: Waker) -> bool:
    ready, _, _ = select.select([waker.fileno()], [], [], 0)
    waker.heard()
    return bool(ready)


def test_who_asked_is_told_once(config: Config, wakes: WakeListener) -> None:
    first, second = (Waker(paths.follower_socket(config), paths.worker_socket(config, index)) for index in range(2))
    for _ in range(3):
        first.wake()
    assert wakes.wait(1) and not heard(first)
    wakes.answer()
    assert heard(first) and not heard(second)
    wakes.answer()
    assert not heard(first)
    first.close()
    second.close()
    assert not paths.worker_socket(config, 0).exists()


def test_a_request_during_a_step_is_answered_after_the_next_one(config: Config, wakes: WakeListener) -> None:
    waker = Waker(paths.follower_socket(config), paths.worker_socket(config, 0))
    waker.wake()
    wakes.answer()
    assert not heard(waker)
    wakes.drain()
    wakes.answer()
    assert heard(waker)
    waker.close()


def test_nobody_is_disturbed(config: Config, wakes: WakeListener) -> None:
    """The follower's own threads get no answer; a worker without a place for one, or that has ended, does no harm."""
    wakes.ring()
    assert wakes.wait(1)
    wakes.answer()
    assert not wakes.wait(0)
    nowhere = Waker(paths.follower_socket(config), Path(config.data_dir) / "absent" / "worker.sock")
    ended = Waker(paths.follower_socket(config), paths.worker_socket(config, 1))
    for waker in (nowhere, ended):
        waker.wake()
    ended.close()
    assert wakes.wait(1)
    wakes.answer()
    nowhere.close()
