"""Children that have ended: what is said of them, and what is done."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hms_cache_proxy.cache.state import Slot, boottime_ns
from hms_cache_proxy.config import load
from hms_cache_proxy.processes.children import how
from hms_cache_proxy.processes.supervisor import Sockets, Supervisor


def test_every_end_has_words() -> None:
    """An error here would end the whole proxy."""
    assert (how(0), how(3), how(-9)) == ("exit code 0", "exit code 3", "signal SIGKILL")
    assert all(how(-number) for number in range(1, signal.NSIG))
    assert how(-signal.SIGRTMIN - 1) == f"signal {signal.SIGRTMIN + 1}"


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """Of a proxy with peers, before it has started anything."""
    given = {"upstream": "thrift://127.0.0.1:1", "store": "thrift", "data_dir": str(tmp_path), "workers": 2}
    config = load(cli={**given, "peers": "127.0.0.1:1", "peer_secret": "s"})
    with socket.socket() as one, open(os.devnull, "rb") as lock:
        made = Supervisor(config, lock.fileno(), Sockets(one, [one], [one], peers=one))
        with closing(made._page):
            yield made
            assert made._fences is not None
            made._fences.close()


def test_the_next_process_does_not_begin_with_the_beat_of_its_predecessor(supervisor: Supervisor) -> None:
    """Before its first, it has as long as a start may take; with one, it would be killed for showing no other."""
    beats = {"follower": Slot.HEARTBEAT_NS, "peers": Slot.PEERS_BEAT_NS}
    for slot in beats.values():
        supervisor._page[slot] = time.monotonic_ns()
    for child in supervisor._children:
        child._died(child.name, 0)
    assert {name: supervisor._page[slot] for name, slot in beats.items()} == dict.fromkeys(beats, 0)


def test_no_lease_outlives_the_process_that_has_taken_it(supervisor: Supervisor) -> None:
    """If it has died of damaged fences, those of the peers are lost, and its successor needs a second to begin."""
    supervisor._page[Slot.LEASE_UNTIL_NS] = boottime_ns() + 10**10
    next(child for child in supervisor._children if child.name == "peers")._died("peers", 0)
    assert not supervisor._page[Slot.LEASE_UNTIL_NS]


@pytest.mark.parametrize("role", ["worker-0", "follower", "peers"])
def test_the_fences_are_examined_when_one_has_died_that_uses_them(supervisor: Supervisor, role: str) -> None:
    """LMDB aborts its process when it meets some kinds of damage."""
    page, keeper, fences = supervisor._page, supervisor._keeper, supervisor._fences
    assert keeper is not None and fences is not None
    for number in range(200):
        fences.finish(fences.begin([b"thive\0db\0%d" % number], os.getpid()))
    with (fences._path / "data.mdb").open("r+b") as file:
        length = len(file.read())
        file.seek(8192)
        file.write(b"\xff" * (length - 8192))
    keeper.check()
    assert not page[Slot.FENCES_REPLACED], "its length is the same"
    next(child for child in supervisor._children if child.name == role)._died(role, -signal.SIGABRT)
    keeper.check()
    assert page[Slot.FENCES_REPLACED] == 1
