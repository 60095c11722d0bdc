"""Damaged fences are replaced while writes are under way: nothing that was fenced is served before it may be."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import lmdb
import pytest

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.consistency import lmdb_check, replacement
from hms_cache_proxy.consistency.fences import REQUEST_TIMEOUT_NS, FenceStore
from hms_cache_proxy.consistency.guards import Guards, WriteEnding
from hms_cache_proxy.consistency.mirror import FenceMirror
from hms_cache_proxy.consistency.replacement import Keeper
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.methods.effects import FenceBarrier

A, B = b"thive\0db\0a", b"thive\0db\0b"
ME = os.getpid()


@dataclass
class Bench:
    """The fences as one process has them, a worker unless a test uses them otherwise, and their follower."""

    path: Path
    page: StatePage
    store: FenceStore
    guards: Guards
    mirror: FenceMirror

    def cut_off(self) -> None:
        os.truncate(self.path / "data.mdb", 100)

    def replace(self, workers: Sequence[int] = (ME,), until_ns: int = 0) -> None:
        """What the supervisor does; not with its own store, as one process may have a file open once."""
        self.page[Slot.FENCES_DAMAGED] = self.page[Slot.FENCES_FILE]
        replacement.replace(
            self.path, self.page, workers=workers, request_timeout_ns=REQUEST_TIMEOUT_NS, until_ns=until_ns
        )

    def settle(self) -> None:
        """What a worker does every half second."""
        if self.store.renew():
            self.guards.again()
        if self.guards.settle():
            self.store.join()

    def keeper(self) -> Keeper:
        return Keeper(self.store, self.path, request_timeout_ns=REQUEST_TIMEOUT_NS, lock=Lock(), workers=lambda: ())

    def follow(self) -> set[bytes]:
        """A step of the follower; what it reloads."""
        last, wanted = self.store.pending_tickets()
        self.page[Slot.DONE_TICKET] = last
        self.store.done(last)
        return wanted

    def served(self, target: bytes) -> bool:
        if self.page[Slot.UNFENCED] & 1:
            return False
        return not self.mirror.active([target], self.page[Slot.DONE_TICKET])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with StatePage(tmp_path / "state", create=True) as page:
        store = FenceStore.recover(tmp_path / "fences", page)
        guards = Guards(FenceBarrier(store, REQUEST_TIMEOUT_NS), Suspension(page), "fences")
        made = Bench(tmp_path / "fences", page, store, guards, FenceMirror(store))
        made.follow()
        yield made
        store.close()


def test_a_write_under_way_is_recorded_in_the_new_file(bench: Bench) -> None:
    guard = bench.guards.begin([A])
    bench.follow()
    assert bench.served(B) and not bench.served(A)
    bench.cut_off()
    bench.replace()
    assert not bench.served(B), "the old file has another number"
    bench.settle()
    assert not bench.served(B), "tickets were lost"
    assert ALL in bench.follow()
    assert bench.served(B) and not bench.served(A)
    bench.guards.end(guard, WriteEnding.FINISHED)
    assert not bench.served(A)
    assert bench.follow() == {A}
    assert bench.served(A)
    assert bench.store.standing() == {}


@pytest.mark.parametrize("ending", WriteEnding)
def test_a_write_that_ends_before_its_worker_has_the_new_file(bench: Bench, ending: WriteEnding) -> None:
    guard = bench.guards.begin([A])
    bench.cut_off()
    bench.guards.end(guard, ending)
    assert not bench.served(B), "it is not recorded that it has ended"
    bench.replace()
    bench.settle()
    bench.follow()
    bench.follow()
    assert bench.served(B) and bench.served(A) == (ending is not WriteEnding.UNKNOWN)


def test_a_write_begins_while_the_file_is_damaged(bench: Bench) -> None:
    bench.cut_off()
    guard = bench.guards.begin([A])
    assert guard.record_id is None and bench.page[Slot.UNFENCED] & 1
    assert bench.page[Slot.FENCES_DAMAGED] == bench.page[Slot.FENCES_FILE]
    bench.replace()
    bench.settle()
    bench.follow()
    assert bench.served(B) and not bench.served(A)


def test_a_process_without_free_descriptors_opens_the_new_file_later(bench: Bench) -> None:
    guard = bench.guards.begin([A])
    bench.replace()
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, allowed[1]))
    try:
        with pytest.raises(CacheError, match="cannot be opened"):
            bench.settle()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
    assert not bench.served(B)
    bench.settle()
    bench.follow()
    assert bench.served(B) and not bench.served(A)
    bench.guards.end(guard, WriteEnding.FINISHED)
    bench.follow()
    assert bench.served(A)


def test_everything_is_fenced_until_each_worker_has_joined(bench: Bench) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        bench.replace(workers=[ME, other.pid])
        bench.settle()
        bench.follow()
        assert not bench.served(A), "the other worker may have a write under way"
    finally:
        other.kill()
        other.wait()
    now_ns = time.monotonic_ns()
    bench.store.expire(now_ns)
    bench.follow()
    assert not bench.served(A), "it has died: its writes may still be carried out"
    bench.store.expire(now_ns + REQUEST_TIMEOUT_NS)
    bench.follow()
    assert bench.served(A)


def test_writes_of_unknown_outcome_are_remembered_beside_the_file(bench: Bench) -> None:
    until_ns = time.monotonic_ns() + REQUEST_TIMEOUT_NS // 2
    bench.store.unknown(bench.store.begin([A], ME), until_ns)
    bench.cut_off()
    bench.keeper().check()
    bench.follow()
    assert not bench.served(B), "which object it was is not known any more"
    bench.store.expire(until_ns)
    bench.follow()
    assert bench.served(A) and bench.served(B)


@pytest.mark.parametrize("seen", [False, True])
def test_a_worker_died_and_the_file_is_damaged(bench: Bench, seen: bool) -> None:
    """`seen`: the follower has looked for fences of the dead since; then the page has what there were."""
    keeper = bench.keeper()
    keeper.died(worker=True)
    if seen:
        bench.store.expire(time.monotonic_ns())
    bench.cut_off()
    keeper.check()
    bench.follow()
    assert bench.served(A) == seen


def test_what_goes_into_a_damaged_file_does_not_count(bench: Bench) -> None:
    """A process notices damage, or has noticed it, while another one is between its look and its commit."""
    with pytest.raises(CacheError, match="replaced meanwhile"), bench.store._change() as txn:
        txn.put(b"x", b"y")
        bench.page[Slot.FENCES_DAMAGED] = bench.page[Slot.FENCES_FILE]
    bench.replace()
    bench.store.renew()
    with pytest.raises(CacheError, match="replaced meanwhile"), bench.store._reading():
        bench.replace()


def test_numbers_go_on(bench: Bench) -> None:
    for _ in range(3):
        bench.store.fence_now([A])
    change, ticket = bench.page[Slot.FENCE_SEQ], bench.store.ticket([A])
    guard = bench.store.begin([A], ME)
    bench.follow()
    bench.replace()
    assert bench.page[Slot.FENCE_SEQ] > change + (1 << 31)
    bench.settle()
    assert bench.store.ticket([A]) > ticket + (1 << 31)
    assert bench.store.begin([B], ME) > guard, "who ends the old one does not end this one"


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def zeroed(file: Path) -> None:
    length = file.stat().st_size
    os.truncate(file, 8192)
    os.truncate(file, length)


def blank(file: Path) -> None:
    """With LMDB's two meta pages, too."""
    length = file.stat().st_size
    os.truncate(file, 0)
    os.truncate(file, length)


def overwritten(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(8192)
        opened.write(os.urandom(file.stat().st_size - 8192))


@pytest.mark.parametrize("damage", [emptied, zeroed, blank, overwritten, os.unlink])
def test_damage_is_noticed_by_who_uses_the_file(bench: Bench, damage: Callable[[Path], None]) -> None:
    damage(bench.path / "data.mdb")
    with pytest.raises(CacheError, match="damaged"):
        bench.store.begin([A], ME)
    assert bench.page[Slot.FENCES_DAMAGED] == bench.page[Slot.FENCES_FILE]
    assert bench.store.lock_targets(1) is None
    assert not bench.served(A)
    bench.keeper().check()
    bench.follow()
    assert bench.served(A)
    assert bench.page[Slot.FENCES_REPLACED] == 1
    bench.keeper().check()
    assert bench.page[Slot.FENCES_REPLACED] == 1


def test_who_starts_does_not_make_a_new_file(bench: Bench) -> None:
    bench.store.close()
    (bench.path / "data.mdb").unlink()
    with pytest.raises(CacheError, match="cannot be found"):
        FenceStore(bench.path, bench.page)
    bench.replace()
    bench.store = FenceStore(bench.path, bench.page)
    bench.store.join()
    bench.follow()
    assert bench.store.standing() == {}


def test_no_room_for_a_new_file(bench: Bench) -> None:
    in_the_way = bench.path.with_name("fences.new")
    in_the_way.touch()
    keeper = bench.keeper()
    bench.cut_off()
    keeper.check()
    assert not bench.served(A) and not bench.page[Slot.FENCES_REPLACED]
    in_the_way.unlink()
    keeper.check()
    bench.follow()
    assert bench.served(A)


def test_a_proxy_that_ended_with_damaged_fences(bench: Bench) -> None:
    """The file may look well to who starts next: it has been written down that it is not."""
    bench.path.with_name("fences.new").touch()
    bench.page[Slot.FENCES_DAMAGED] = bench.page[Slot.FENCES_FILE]
    bench.keeper().check()
    bench.store.close(clean=True)
    with StatePage(bench.page.path, create=True) as page:
        bench.page, bench.store = page, FenceStore.recover(bench.path, page)
        assert [ALL] == [*bench.store.read()[1]]


@pytest.mark.parametrize("byte", [0, 10, 12])
def test_a_start_with_a_damaged_page(bench: Bench, byte: int) -> None:
    """Whichever it is: opening and reading may succeed, and a commit fail, or abort the process. `byte`: of the page's
    header, where its number is, or its kind, or the end of its table of rows."""
    for number in range(200):
        bench.store.finish(bench.store.begin([b"thive\0db\0%d" % number], ME))
    bench.follow()
    bench.store.begin([A], ME)
    bench.store.close()
    whole = (bench.path / "data.mdb").read_bytes()
    for at in range(8192, len(whole), 4096):
        if not any(whole[at : at + 4096]):
            continue
        damaged = bytearray(whole)
        damaged[at + byte] ^= 0b11  # of the kind: a leaf is a branch, and the other way round
        (bench.path / "data.mdb").write_bytes(damaged)
        with StatePage(bench.page.path, create=True) as page:
            bench.page, bench.store = page, FenceStore.recover(bench.path, page)
            bench.mirror = FenceMirror(bench.store)
            keeper = bench.keeper()
            for _ in range(3):
                try:
                    bench.store.finish(bench.store.begin([B], ME))
                    bench.store.expire(time.monotonic_ns())
                    bench.follow()
                except CacheError:
                    keeper.check()
            assert not bench.served(A), "under way when the predecessor was killed"
            bench.store.expire(time.monotonic_ns() + REQUEST_TIMEOUT_NS)
            bench.follow()
            assert bench.served(A)
            bench.store.close()


def test_a_file_that_aborts_its_process_is_found_when_a_child_has_died(bench: Bench) -> None:
    for number in range(200):
        bench.store.finish(bench.store.begin([b"thive\0db\0%d" % number], ME))
    keeper = bench.keeper()
    keeper.died(worker=False)
    keeper.check()
    assert not bench.page[Slot.FENCES_REPLACED], "it is sound"
    with (bench.path / "data.mdb").open("r+b") as file:
        for at in range(8192, len(file.read()), 4096):
            file.seek(at)
            file.write(b"\xff")
    keeper.check()
    assert not bench.page[Slot.FENCES_REPLACED], "nobody has died, and its length is the same"
    keeper.died(worker=False)
    keeper.check()
    assert bench.page[Slot.FENCES_REPLACED] == 1
    bench.follow()
    assert bench.served(A)


def test_pages_that_lead_back_to_themselves_are_damage(tmp_path: Path) -> None:
    """They would be followed for ever."""
    with lmdb.open(str(tmp_path), map_size=1 << 24) as env, env.begin(write=True) as txn:
        for number in range(2000):
            txn.put(b"%06d" % number, b"x" * 100)
    assert lmdb_check.damage(tmp_path) is None
    file = tmp_path / "data.mdb"
    whole = bytearray(file.read_bytes())
    size = lmdb_check.page_bytes(bytes(whole))
    newest = max((0, size), key=lambda at: lmdb_check.META.unpack_from(whole, at)[-1])
    records = newest + 16 + 24 + 48
    padding, flags, depth, *numbers, root = lmdb_check.TREE.unpack_from(whole, records)
    assert depth == 2
    for deep in (2, 30, 60_000):
        lmdb_check.TREE.pack_into(whole, records, padding, flags, deep, *numbers, root)
        _, _, _, lower, _ = lmdb_check.HEADER.unpack_from(whole, root * size)
        for place in range(lmdb_check.HEADER.size, lower, 2):
            at = root * size
            node = at + int.from_bytes(whole[at + place : at + place + 2], "little")
            _, _, _, key_bytes = lmdb_check.NODE.unpack_from(whole, node)
            lmdb_check.NODE.pack_into(whole, node, root, 0, 0, key_bytes)
        file.write_bytes(whole)
        problem = "is in two places" if deep <= lmdb_check.DEEPEST else "is beyond the last one, or too deep"
        assert lmdb_check.damage(tmp_path) == f"page {root} {problem}"
