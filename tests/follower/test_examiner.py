"""What the examination of the metastores finds counts from one moment on, for everything that is decided by it."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.follower.examiner import Examiner
from hms_cache_proxy.follower.runner import WakeListener


def test_a_verdict_counts_once_it_is_taken() -> None:
    """Else the follower could serve by a verdict whose word on the metastores' settings it has not passed on yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # nobody listens there
        told = threading.Event()
        examiner = Examiner(load(cli={"upstream": f"thrift://127.0.0.1:{port}"}), told.set)
        examiner.database_uuid("of some database")
        examiner.ensure()
        assert told.wait(30) and examiner.verdict is None
        taken = examiner.take()
        assert taken is not None
        assert examiner.verdict is taken and taken.unreachable
        assert examiner.take() is None
        examiner.stop()


@pytest.fixture
def wakes(tmp_path: Path) -> Iterator[WakeListener]:
    """It takes SIGTERM for itself, as it does in a follower's process."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        with WakeListener(load(cli={"data_dir": str(tmp_path)})) as made:
            yield made
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_verdict_ends_the_pause(wakes: WakeListener) -> None:
    """The first one is what a follower waits for before it reads anything."""
    assert not wakes.wait(0.0)
    ringing = threading.Thread(target=wakes.ring)
    ringing.start()
    assert wakes.wait(30.0)
    ringing.join()
    assert not wakes.wait(0.0)
