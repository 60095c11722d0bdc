"""Requests for looks: one is enough for all reads that the look can serve, in every worker; none is left without."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.consistency.looks import Looks


class Follower:
    """Plays the follower: takes the requests that are queued, looks, confirms."""

    def __init__(self, page: StatePage) -> None:
        self.page = page
        self.queued = 0
        self.looks = 0

    def wake(self) -> None:
        self.queued += 1

    def begin(self) -> None:
        self.queued = 0
        self.page[Slot.LOOKING_NS] = time.monotonic_ns()
        self.looks += 1

    def end(self) -> None:
        self.page[Slot.BEGAN_NS] = self.page[Slot.LOOKING_NS]

    def asked_by(self, again_ns: int = 10**15) -> Looks:
        """A worker; no request of it counts as lost, however busy the machine is."""
        return Looks(self.page, self.wake, again_ns)

    def confirmed_since(self, moment_ns: int) -> bool:
        """May the cache answer a read of this moment?"""
        return self.page[Slot.BEGAN_NS] > moment_ns


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    with StatePage(tmp_path / "state", create=True) as page:
        yield Follower(page)


def test_one_request_for_all_reads_before_a_look(follower: Follower) -> None:
    worker = follower.asked_by()
    moments = [time.monotonic_ns() for _ in range(100)]
    for moment_ns in moments:
        worker.ask(moment_ns)
    assert follower.queued == 1
    follower.begin()
    for moment_ns in moments:
        worker.ask(moment_ns)
    assert follower.queued == 0 and not any(map(follower.confirmed_since, moments))
    follower.end()
    assert all(map(follower.confirmed_since, moments))


def test_a_read_during_a_look_asks_for_the_next_one(follower: Follower) -> None:
    worker = follower.asked_by()
    follower.begin()
    for _ in range(100):
        worker.ask(time.monotonic_ns())
    assert follower.queued == 1


def test_a_look_that_failed_is_asked_for_again(follower: Follower) -> None:
    worker = follower.asked_by()
    worker.ask(time.monotonic_ns())
    follower.begin()
    worker.ask(time.monotonic_ns())
    assert follower.queued == 1


def test_no_read_waits_for_a_look_that_nobody_has_asked_for(follower: Follower) -> None:
    """Two workers, any order of reads and looks: while a read waits, a request is queued or a look that can serve it is
    under way; and there are never more requests than workers."""
    workers = [follower.asked_by() for _ in range(2)]
    waiting: list[tuple[Looks, int]] = []
    under_way = False
    for _ in range(5_000):
        if random.random() < 0.7:
            read = random.choice(workers), time.monotonic_ns()
            read[0].ask(read[1])
            waiting.append(read)
        elif under_way:
            follower.end()
            waiting = [read for read in waiting if not follower.confirmed_since(read[1])]
            under_way = False
        elif follower.queued:
            follower.begin()
            under_way = True
        served = follower.page[Slot.LOOKING_NS] if under_way else 0
        assert follower.queued <= len(workers)
        assert follower.queued or all(served > moment_ns for _, moment_ns in waiting)


def test_a_lost_request_is_made_again(follower: Follower) -> None:
    worker = follower.asked_by(again_ns=0)
    for _ in range(2):
        worker.ask(time.monotonic_ns())
    assert follower.queued == 2
