"""Writes whose fences cannot be written: nothing fails, nothing is served meanwhile, and it ends by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hms_cache_proxy.cache.state import FIRST_UNRECORDED, Slot, StatePage
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.consistency.fence_rows import MAP_BYTES
from hms_cache_proxy.consistency.fences import REQUEST_TIMEOUT_NS, FenceStore
from hms_cache_proxy.consistency.guards import MOST_TARGETS, Guard, Guards, WriteEnding
from hms_cache_proxy.consistency.suspension import Suspension, left_on
from hms_cache_proxy.methods.effects import FenceBarrier

A, B = b"thive\0db\0a", b"thive\0db\0b"
PAGE_BYTES = 4096


@dataclass
class Bench:
    """Fences and the guards of worker 0."""

    page: StatePage
    store: FenceStore
    guards: Guards

    def worker(self, number: int) -> Guards:
        """The guards of another worker, or of the successor of one."""
        return Guards(FenceBarrier(self.store, REQUEST_TIMEOUT_NS), Suspension(self.page, number), "fences")

    @property
    def stopped(self) -> bool:
        return bool(self.page[Slot.UNFENCED] & 1)

    def fenced(self) -> set[bytes]:
        return set(self.store.read()[1])

    @contextmanager
    def full(self) -> Iterator[None]:
        """LMDB has no room for another page."""
        self.store._env.set_mapsize((self.store._env.info()["last_pgno"] + 1) * PAGE_BYTES)
        yield
        self.store._env.set_mapsize(MAP_BYTES)

    def begin_in_vain(self, guards: Guards, targets: tuple[bytes, ...] = (A,)) -> Guard:
        """A write that finds no room: freed pages are used up first."""
        for _ in range(1000):
            guard = guards.begin(targets)
            if guard.record_id is None:
                return guard
        raise AssertionError("there is room")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with StatePage(tmp_path / "state", create=True) as page:
        store = FenceStore.recover(tmp_path / "fences", page)
        made = Bench(page, store, Guards(FenceBarrier(store, REQUEST_TIMEOUT_NS), Suspension(page), "fences"))
        yield made
        store.close()


def test_with_room(bench: Bench) -> None:
    for ending in WriteEnding:
        guard = bench.guards.begin([A])
        assert bench.fenced() == {A}
        bench.guards.end(guard, ending)
        assert bench.fenced() == (set() if ending is WriteEnding.CANCELLED else {A})
        bench.store.expire(1 << 62)
        bench.store.done(bench.store.pending_tickets()[0])
    assert not bench.stopped and not bench.page[Slot.UNFENCED]


@pytest.mark.parametrize("ending", WriteEnding)
def test_a_write_without_room_stops_all_hits_until_it_is_recorded(bench: Bench, ending: WriteEnding) -> None:
    with bench.full():
        guard = bench.begin_in_vain(bench.guards)
        assert bench.stopped, "before the write leaves"
        bench.guards.settle()
        assert bench.stopped
        bench.guards.end(guard, ending)
        assert bench.stopped == (ending is not WriteEnding.CANCELLED)
    bench.guards.settle()
    assert not bench.stopped
    finished = ending in (WriteEnding.FINISHED, WriteEnding.UNLOGGED, WriteEnding.MISSED)
    expected = {"finite"} if finished else {"unknown"} if ending is WriteEnding.UNKNOWN else set()
    assert set(bench.store.standing().values()) - {"infinite"} == expected
    if finished:
        assert A in bench.store.pending_tickets()[1], "what it touched is read again"


def test_a_write_in_flight_is_fenced_as_soon_as_there_is_room(bench: Bench) -> None:
    with bench.full():
        guard = bench.begin_in_vain(bench.guards)
    bench.guards.settle()
    assert not bench.stopped and A in bench.fenced() and guard.record_id is not None
    bench.guards.end(guard, WriteEnding.CANCELLED)
    assert guard.record_id not in bench.store.standing()


def test_an_ending_without_room(bench: Bench) -> None:
    guards = [bench.guards.begin([b"t%d" % number + b"x" * 400]) for number in range(200)]
    with bench.full():
        for guard in guards:
            bench.guards.end(guard, WriteEnding.FINISHED)
        assert bench.stopped
    bench.guards.settle()
    assert not bench.stopped
    assert set(bench.store.standing().values()) == {"finite"}
    bench.store.done(bench.store.pending_tickets()[0])
    assert not bench.fenced()


def test_locks_and_reads_that_cannot_be_recorded(bench: Bench) -> None:
    with bench.full():
        bench.begin_in_vain(bench.guards, (B,))
        bench.guards.missed([A])
        for number in range(MOST_TARGETS + 1):
            bench.guards.missed([b"t%d" % number])
    assert bench.stopped
    bench.guards.settle()
    assert not bench.stopped
    assert bench.store.pending_tickets()[1] >= {ALL}, "too many to be named"


def test_every_worker_has_to_have_recorded_what_it_owes(bench: Bench) -> None:
    other = bench.worker(1)
    with bench.full():
        bench.begin_in_vain(bench.guards)
        bench.begin_in_vain(other, (B,))
    bench.guards.settle()
    assert bench.stopped
    other.settle()
    assert not bench.stopped and bench.fenced() >= {A, B}


def test_what_a_dead_worker_left_unrecorded_is_recorded_by_its_successor(bench: Bench) -> None:
    died = bench.worker(1)
    with bench.full():
        bench.begin_in_vain(died)
        successor = bench.worker(1)
        successor.settle()
        assert bench.stopped
    successor.settle()
    assert not bench.stopped and ALL in bench.fenced(), "nobody knows what it wrote"
    assert "unknown" in bench.store.standing().values()


def test_the_word_never_returns_to_what_it_was(bench: Bench) -> None:
    suspension = Suspension(bench.page, 3)
    seen = []
    for number in (1, 2, 0, 0, 1, 0):
        suspension.report("fences", number)
        seen.append(bench.page[Slot.UNFENCED])
    assert seen == [1, 1, 2, 2, 3, 4]
    suspension.report("fences", 1)
    suspension.report("ttl", 1)
    suspension.report("fences", 0)
    assert bench.stopped and bench.page[FIRST_UNRECORDED + 3] == 1
    suspension.close()


def test_a_whole_proxy_that_died_owing_begins_with_everything_fenced(bench: Bench, tmp_path: Path) -> None:
    assert not left_on(tmp_path / "state") and not left_on(tmp_path / "none")
    with bench.full():
        bench.begin_in_vain(bench.guards)
    assert left_on(tmp_path / "state")
    bench.store.close()
    with StatePage(tmp_path / "state", create=True) as page:
        store = FenceStore.recover(tmp_path / "fences", page, unfenced=True)
        assert ALL in store.read()[1]
        store.close()
