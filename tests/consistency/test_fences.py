"""Fences hold from before a write leaves until what it did is in the cache, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.environment import condemned
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.consistency import fence_rows, fences
from hms_cache_proxy.consistency.fence_rows import UNBOUND, Fence
from hms_cache_proxy.consistency.fences import LOCK_KEEP_NS, OVERDUE, REQUEST_TIMEOUT_NS, FenceStore
from hms_cache_proxy.consistency.mirror import FenceMirror
from hms_cache_proxy.consistency.processes import started
from tests.consistency.fence_hammer import FIRST_WRITER, STOP, target
from tests.consistency.writes import ME, A, B, follow
from tests.testbed.processes import SOON_S, wait_until

HAMMERING_S = 5 * SOON_S
"""Until enough was done, on a busy machine."""


class Recording(StatePage):
    """A page that remembers what FENCE_SEQ was set to, and can keep stores back."""

    __slots__ = ("kept", "late", "stored")

    def __init__(self, path: Path) -> None:
        super().__init__(path, create=True)
        self.stored: list[int] = []
        self.kept: list[int] = []
        self.late = False

    def __setitem__(self, slot: int, value: int) -> None:
        if slot == Slot.FENCE_SEQ:
            self.stored.append(value)
            if self.late:
                self.kept.append(value)
                return
        super().__setitem__(slot, value)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Recording]:
    made = Recording(tmp_path / "state")
    with made:
        yield made


@pytest.fixture
def store(tmp_path: Path, page: Recording) -> Iterator[FenceStore]:
    made = FenceStore.recover(tmp_path / "fences", page)
    yield made
    made.close()


@pytest.fixture
def mirror(store: FenceStore) -> FenceMirror:
    return FenceMirror(store)


@pytest.mark.parametrize("tables", [3, 30])
def test_fences_of_a_time_without_steps_become_one(
    store: FenceStore, mirror: FenceMirror, page: Recording, monkeypatch: pytest.MonkeyPatch, tables: int
) -> None:
    """The follower's database may be away for days while the metastore is written: who reads the fences reads all."""
    monkeypatch.setattr(fences, "MOST_FINITE", 20)
    names = [b"thive\0db\0t%d" % number for number in range(tables)]
    write = store.begin([A], ME)
    for number in range(20):
        store.finish(store.begin([names[number % tables]], ME))
    store.expire(0)
    assert len(store.standing()) == 21
    for name in names:
        store.pending_tickets()  # a step that fails
        store.finish(store.begin([name], ME))
    lock = store.fence_now([B])
    change = page[Slot.FENCE_SEQ]
    store.expire(0)
    assert sorted(store.standing().values()) == ["finite", "infinite"] and page[Slot.FENCE_SEQ] > change
    last, wanted = store.pending_tickets()
    assert last > lock and wanted == (set(names) if tables == 3 else {ALL})
    assert all(mirror.active([name], last - 1) for name in (B, *names)) and mirror.active([b"tx"], last - 1) is (
        tables > 3
    )
    store.done(last)
    assert mirror.active([A], last) and not any(mirror.active([name], last) for name in (B, *names))
    ticket = store.finish(write)
    assert ticket > last and follow(store) == ticket
    assert store.standing() == {}


def test_fences_of_thousands_of_partitions_become_one(
    store: FenceStore, mirror: FenceMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few hundred writes with as many partitions as one may name would fill the file, and each reader reads them."""
    monkeypatch.setattr(fences, "MOST_FINITE", 20)
    monkeypatch.setattr(fences, "MOST_FINITE_BYTES", 500)
    table, all_of_it = b"thive\0db\0t", b"phive\0db\0t"
    for write in range(3):
        store.finish(store.begin([table, *(b"%b\0p=%d" % (all_of_it, 10 * write + part) for part in range(10))], ME))
    last, _ = store.pending_tickets()
    store.expire(0)
    assert list(store.standing().values()) == ["finite"]
    merged, wanted = store.pending_tickets()
    assert merged > last and wanted == {table, all_of_it}
    assert mirror.active([table], last) and not mirror.active([b"thive\0db\0other"], last)
    store.done(merged)
    assert not mirror.active([table], merged) and store.standing() == {}


def test_a_write_of_a_table_fences_what_is_in_all_tables_of_its_database(
    store: FenceStore, mirror: FenceMirror
) -> None:
    every, one = targets.members(b"c", b"d"), targets.table(b"c", b"d", b"t")
    fence = store.begin([one], os.getpid())
    assert mirror.active([every], 1 << 62) and not mirror.active([targets.members(b"c", b"dx")], 0)
    assert not mirror.liftable([every])
    ticket = store.finish(fence)
    assert mirror.active([every], ticket - 1) and mirror.liftable([every])
    assert not mirror.active([every], ticket)


def test_a_write_from_its_leaving_to_its_reload(store: FenceStore, mirror: FenceMirror) -> None:
    before = follow(store)
    assert not mirror.active([A], before)
    fence = store.begin([A], ME)
    assert mirror.active([A], before) and mirror.active([B, A], before)
    assert not mirror.active([B], before)
    assert mirror.active([A], 1 << 62), "in flight: no ticket lifts it"
    early = follow(store)
    assert mirror.active([A], early)
    ticket = store.finish(fence)
    assert mirror.active([A], ticket - 1) and mirror.active([A], early)
    last, wanted = store.pending_tickets()
    assert (last, wanted) == (ticket, {A})
    assert mirror.active([A], early), "taken is not done"
    store.done(last)
    assert not mirror.active([A], last)
    assert (store.read()[1], store.pending_tickets()[1]) == ({}, set()), "nothing waits"


def test_a_name_that_is_longer_than_any(store: FenceStore, mirror: FenceMirror, tmp_path: Path) -> None:
    """Everything is fenced until its write is over, and no row is left behind."""
    fence = store.begin([A, b"thive\0db\0" + b"x" * 70_000], ME)
    assert mirror.active((B,), 0)
    store.finish(fence)
    assert follow(store)
    assert not mirror.active((A, B), store.pending_tickets()[0])
    assert not store.pending_tickets()[1]
    assert condemned(tmp_path / "fences") is None


def test_everything(store: FenceStore, mirror: FenceMirror) -> None:
    done = follow(store)
    fence = store.begin([ALL], ME)
    assert mirror.active([A], done) and mirror.active([], done)
    store.finish(fence)
    done = follow(store)
    assert not mirror.active([A], done)
    store.begin([A], ME)
    assert mirror.active([ALL], done), "what depends on everything is covered by any fence"


def test_an_older_snapshot_than_the_deletion_counts_as_fenced(store: FenceStore, mirror: FenceMirror) -> None:
    """Its reader may have opened it before the step that lifted the fence."""
    old = follow(store)
    store.finish(store.begin([A], ME))
    new = follow(store)
    assert store.read()[1] == {}
    assert mirror.active([A], old) and mirror.active([B], old)
    assert not mirror.active([A], new)


def test_a_granted_lock_is_a_fence_born_finite(store: FenceStore, mirror: FenceMirror) -> None:
    done = follow(store)
    ticket = store.fence_now([A])
    assert mirror.active([A], done) and not mirror.active([A], ticket)
    assert not mirror.active([A], follow(store))


def test_a_lock_asks_for_a_step_and_for_no_refetch(store: FenceStore, mirror: FenceMirror) -> None:
    """So the follower has to publish the number of a step that changed nothing."""
    done = follow(store)
    ticket = store.fence_now([A])
    assert store.pending_tickets() == (ticket, set())
    store.done(done)
    assert mirror.active([A], done)
    store.done(ticket)
    assert mirror.active([B], done), "what it lifted is newer than this state"
    assert not mirror.active([A], ticket)


def test_a_write_that_was_not_carried_out(store: FenceStore, mirror: FenceMirror) -> None:
    done = follow(store)
    store.cancel(store.begin([A], ME))
    assert not mirror.active([A], done)
    assert store.pending_tickets() == (done, set())


def test_what_a_step_can_lift(store: FenceStore, mirror: FenceMirror) -> None:
    assert mirror.liftable([A])
    first = store.begin([A], ME)
    assert not mirror.liftable([B, A]) and mirror.liftable([B]) and not mirror.liftable([ALL])
    store.fence_now([A])
    assert not mirror.liftable([A]), "two fences: the later end counts"
    store.finish(first)
    assert mirror.liftable([A]) and mirror.liftable([ALL])
    store.begin([ALL], ME)
    assert not mirror.liftable([B])


def test_a_ticket_is_shared_only_while_it_is_not_taken(store: FenceStore) -> None:
    first = store.ticket([A])
    assert store.ticket([A]) == first
    assert store.ticket([A, B]) > first
    second = store.ticket([A])
    assert second > first, "the last number that covers it"
    last, wanted = store.pending_tickets()
    assert (last, wanted) == (second, {A, B})
    third = store.ticket([A])
    assert third > last, "the step that took the others may have read the object already"
    store.done(last)
    assert store.pending_tickets() == (third, {A})
    assert store.ticket([A]) > third
    follow(store)
    assert store.pending_tickets()[1] == set()


def test_a_step_that_fails_leaves_its_tickets(store: FenceStore) -> None:
    ticket = store.ticket([A])
    assert store.pending_tickets() == store.pending_tickets() == (ticket, {A})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("bbffnttdd"), st.integers(0, 7)), max_size=40))
def test_lifted_exactly_by_a_step_that_took_its_tickets_later(
    store: FenceStore, mirror: FenceMirror, steps: list[tuple[str, int]]
) -> None:
    """Against a model with a clock: b begin, f finish, n fence_now, t the follower takes tickets, d has committed."""
    names = [b"t%d" % number for number in range(3)]
    done = follow(store)
    clock, taken_at, done_at, open_step = 0, 0, 0, None
    flying: dict[int, bytes] = {}
    finished: list[tuple[bytes, int]] = []
    try:
        for step, number in steps:
            clock += 1
            name = names[number % 3]
            if step == "b":
                flying[store.begin([name], ME)] = name
            elif step == "f" and flying:
                fence_id = list(flying)[number % len(flying)]
                finished.append((flying.pop(fence_id), clock))
                store.finish(fence_id)
            elif step == "n":
                finished.append((name, clock))
                store.fence_now([name])
            elif step == "t":
                open_step, _ = store.pending_tickets()
                taken_at = clock
            elif step == "d" and open_step is not None:
                store.done(open_step)
                done, done_at, open_step = open_step, taken_at, None
            for each in names:
                waiting = any(at > done_at for finished_name, at in finished if finished_name == each)
                assert mirror.active([each], done) == (waiting or each in flying.values())
    finally:
        for fence_id in flying:
            store.finish(fence_id)
        follow(store)


def test_unknown_outcome(store: FenceStore, mirror: FenceMirror) -> None:
    fence = store.begin([A], ME)
    store.unknown(fence, until_ns=1000)
    assert store.expire(999) == 0
    assert mirror.active([A], follow(store))
    assert store.expire(1000) == 1
    assert mirror.active([A], store.pending_tickets()[0] - 1)
    assert not mirror.active([A], follow(store))


def test_the_owner_died(store: FenceStore, mirror: FenceMirror, tmp_path: Path) -> None:
    """Its request may still be carried out: the fence stays for the longest request time, then a reload."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as owner:
        store.begin([A], owner.pid)
        assert store.expire(5) == 0
        owner.kill()
        assert wait_until(lambda: started(owner.pid) is None)
        assert store.expire(5) == 1, "also before somebody has waited for it"
    done = follow(store)
    assert mirror.active([A], done)
    assert store.expire(5 + REQUEST_TIMEOUT_NS - 1) == 0
    assert store.expire(5 + REQUEST_TIMEOUT_NS) == 1
    assert not mirror.active([A], follow(store))


def test_a_pid_that_was_used_again_is_not_the_owner(store: FenceStore) -> None:
    with store._change() as txn:
        fence_rows.add_fence(txn, Fence(UNBOUND, 0, 0, ME, 1, (A,)))
    assert store.expire(5) == 1


def test_somebody_knows_of_a_death_before_the_kernel_tells(store: FenceStore) -> None:
    store.begin([A], ME)
    assert store.expire(5, lambda pid: pid == ME) == 0
    assert store.expire(5, lambda pid: pid != ME) == 1


def test_a_reply_after_the_owner_was_taken_for_dead(store: FenceStore, mirror: FenceMirror) -> None:
    fence = store.begin([A], ME)
    store.expire(0, lambda pid: False)
    store.expire(REQUEST_TIMEOUT_NS)
    done = follow(store)
    assert not mirror.active([A], done)
    ticket = store.finish(fence)
    assert mirror.active([B], done), "nobody knows its targets any more: everything"
    assert store.pending_tickets() == (ticket, {ALL})


def test_locks(store: FenceStore) -> None:
    assert store.lock_targets(-5) is None
    store.remember_lock(-5, [A, B])
    assert store.lock_targets(-5) == (A, B)
    store.forget_lock(-5)
    assert store.lock_targets(-5) is None
    store.forget_lock(-5)
    store.remember_lock(6, [A])
    now_ns = time.monotonic_ns()
    store.expire(now_ns + LOCK_KEEP_NS // 2)
    assert store.lock_targets(6) == (A,)
    store.expire(now_ns + LOCK_KEEP_NS + 1)
    assert store.lock_targets(6) is None


def test_locks_that_nobody_releases_by_name(store: FenceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction's end releases its locks, and no call names them. The follower reads all that are known once a
    second, and they are kept for a day."""
    monkeypatch.setattr(fences, "MOST_LOCKS", 20)
    for number in range(25):
        store.remember_lock(1000 - number, [A])
    store.expire(time.monotonic_ns())
    known = [number for number in range(25) if store.lock_targets(1000 - number) is not None]
    assert known == list(range(5, 25)), "the last ones"


def test_tickets_are_above_those_that_the_cache_remembers(store: FenceStore, mirror: FenceMirror) -> None:
    remembered = follow(store) + 1000
    store.number_after(remembered)
    fence = store.begin([A], ME)
    assert store.finish(fence) > remembered
    assert mirror.active([A], remembered)


# FENCE_SEQ


def test_no_number_is_stored_twice(page: Recording, tmp_path: Path) -> None:
    """Also when a transaction turns out to change nothing."""
    store = FenceStore.recover(tmp_path / "fences", page)
    for number in range(30):
        fence = store.begin([A], ME)
        store.expire(number)
        store.expire(number, lambda pid: False)
        store.unknown(fence, number)
        store.expire(number)
        store.done(store.pending_tickets()[0])
        store.done(store.pending_tickets()[0])
        store.number_after(number)
        store.ticket([A])
        store.finish(store.begin([B], ME))
        store.fence_now([A])
        if number % 10 == 0:
            store.close()
            store = FenceStore(tmp_path / "fences", page)
            store.begin([A], ME)
    assert len(page.stored) == len(set(page.stored)) > 100
    store.close()


def test_stores_that_come_late_and_in_another_order(store: FenceStore, page: Recording, mirror: FenceMirror) -> None:
    """Two processes have committed; the second stores first, a mirror looks, then the first one stores."""
    done = follow(store)
    page.late = True
    store.begin([A], ME)
    store.begin([B], ME)
    first, second = page.kept
    page.late = False
    super(Recording, page).__setitem__(Slot.FENCE_SEQ, second)
    assert mirror.active([A], done) and mirror.active([B], done)
    super(Recording, page).__setitem__(Slot.FENCE_SEQ, first)
    assert mirror.active([A], done) and mirror.active([B], done)
    store.begin([b"tc"], ME)
    assert mirror.active([b"tc"], done)


def test_a_store_that_comes_so_late_that_it_hides_a_newer_one(
    store: FenceStore, page: Recording, mirror: FenceMirror
) -> None:
    done = follow(store)
    page.late = True
    store.begin([A], ME)
    page.late = False
    store.begin([B], ME)
    assert mirror.active([A], done) and mirror.active([B], done)
    store.begin([b"tc"], ME)
    super(Recording, page).__setitem__(Slot.FENCE_SEQ, page.kept[0])
    assert mirror.active([b"tc"], done)


def test_a_mirror_that_looked_between_commit_and_store_looks_again(
    store: FenceStore, page: Recording, mirror: FenceMirror
) -> None:
    done = follow(store)
    store.begin([A], ME)
    assert mirror.active([A], done)
    page.late = True
    store.begin([B], ME)
    late = page.kept.pop()
    page.late = False
    assert not mirror.active([B], done), "that call has not returned"
    super(Recording, page).__setitem__(Slot.FENCE_SEQ, late)
    assert mirror.active([B], done)


def test_processes_hammering(tmp_path: Path) -> None:
    """Once `begin` has returned in any process, no mirror anywhere says that its target is free."""
    writers = 3
    with StatePage(tmp_path / "state", create=True) as page, StatePage(tmp_path / "said", create=True) as said:
        store = FenceStore.recover(tmp_path / "fences", page)
        mirror = FenceMirror(store)
        program = [sys.executable, "-m", "tests.consistency.fence_hammer", str(tmp_path)]
        crew = [subprocess.Popen([*program, "writer", str(number)]) for number in range(writers)]
        crew.append(subprocess.Popen([*program, "follower"]))
        seen, checked = [0] * writers, 0
        deadline = time.monotonic() + HAMMERING_S
        try:
            while (min(seen) < 300 or checked < 1000) and time.monotonic() < deadline:
                for number in range(writers):
                    slot = FIRST_WRITER + number
                    before, done = said[slot], page[Slot.DONE_TICKET]
                    active = mirror.active([target(number)], done)
                    seen[number] = said[slot]
                    if before % 2 and before == seen[number]:
                        checked += 1
                        assert active
        finally:
            said[STOP] = 1
            codes = [process.wait(timeout=SOON_S) for process in crew]
        assert codes == [0] * len(crew)
        assert min(seen) >= 300 and checked >= 1000
        done = follow(store)
        assert not any(mirror.active([target(number)], done) for number in range(writers))
        assert (store.read()[1], store.pending_tickets()[1]) == ({}, set()), "nothing waits"
        store.close()


def test_a_fence_that_nobody_ends_does_not_stay(store: FenceStore, mirror: FenceMirror) -> None:
    """Its owner lives, but has forgotten it."""
    done = follow(store)
    fence = store.begin([A], ME)
    assert store.expire(time.monotonic_ns() + OVERDUE * REQUEST_TIMEOUT_NS - REQUEST_TIMEOUT_NS // 10) == 0, (
        "a metastore may work so long on it"
    )
    assert store.standing() == {fence: "infinite"}
    assert store.expire(time.monotonic_ns() + OVERDUE * REQUEST_TIMEOUT_NS) == 1
    assert store.standing() == {fence: "finite"}
    assert mirror.active([A], done)
    last, wanted = store.pending_tickets()
    assert wanted == {A}
    store.done(last)
    assert not mirror.active([A], last)
    assert mirror.active([B], store.finish(fence) - 1), "ended after all: nobody knows any more what it was"
