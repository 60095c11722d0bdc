"""Fences that are held for peers: real records, with a follower that does tickets."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

import pytest

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.targets import ALL, UNKNOWN
from hms_cache_proxy.consistency import fences, peer_fences
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.mirror import FenceMirror
from hms_cache_proxy.consistency.notes import Note, NoteKind
from hms_cache_proxy.consistency.peer_fences import Origin, PeerFences
from hms_cache_proxy.consistency.replacement import Keeper

ME, OTHER, THIRD = b"m" * 16, b"o" * 16, b"t" * 16
A, B = b"tx\0y\0a", b"tx\0y\0b"
REQUEST_TIMEOUT_NS = 600 * 10**9


class Bench:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "fences"
        self.page = StatePage(directory / "state", create=True)
        self.store = PeerFences(self.path, self.page, ME, request_timeout_ns=REQUEST_TIMEOUT_NS)
        self.mirror = FenceMirror(self.store)
        self.done_ticket = 0

    def fenced(self, *targets: bytes) -> bool:
        return self.mirror.active(targets, self.done_ticket)

    def step(self) -> set[bytes]:
        """A step of the follower; what it reloads."""
        self.done_ticket, wanted = self.store.pending_tickets()
        self.store.done(self.done_ticket)
        return wanted


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.store.close()


def test_held_until_released_and_reloaded(bench: Bench) -> None:
    bench.store.hold(OTHER, Origin(OTHER, 7), [A])
    bench.store.hold(OTHER, Origin(OTHER, 7), [A])
    bench.step()
    assert bench.fenced(A) and not bench.fenced(B)
    bench.store.release(OTHER, Origin(OTHER, 7))
    bench.store.release(OTHER, Origin(OTHER, 7))
    assert bench.fenced(A)
    assert bench.step() == {A}
    assert not bench.fenced(A)
    assert bench.store.standing() == {}


def test_a_write_that_was_not_executed_asks_for_no_reload(bench: Bench) -> None:
    bench.store.hold(OTHER, Origin(OTHER, 7), [ALL])
    bench.store.release(OTHER, Origin(OTHER, 7), executed=False)
    assert not bench.fenced(A)
    assert bench.step() == set()


def test_notes(bench: Bench) -> None:
    """An event that a note has told of already gets none of its own; what was missed is told, too."""
    store = bench.store
    lock, event = store.note(Note(NoteKind.OWED, (A,))), store.note(Note(NoteKind.EVENT, event=9))
    assert store.note(Note(NoteKind.EVENT, event=8)) == event
    store.finish(store.begin([B], os.getpid()), missed=True)
    notes = store.notes_after(lock)
    assert [note for _, note in notes] == [Note(NoteKind.EVENT, event=9), Note(NoteKind.MISSED, (B,))]
    assert store.last_note() == notes[-1][0]
    store.drop_notes(event)
    assert store.notes_after(0) == notes[1:]
    store.drop_notes(store.last_note())
    assert store.notes_after(0) == [] and store.note(Note(NoteKind.OWED, (A,))) == notes[-1][0] + 1
    assert store.note(Note(NoteKind.EVENT, event=9)) == event
    assert store.unlogged_since(0) == (B,)


def test_what_nobody_can_be_told_of_does_not_pile_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while there is no cache: the peers' process does not know who it is, and deletes nothing."""
    monkeypatch.setattr(fences, "MOST_NOTES", 3)
    monkeypatch.setattr(fences, "MOST_UNLOGGED", 3)
    store = bench.store
    numbers = [store.note(Note(NoteKind.OWED, (A,))) for _ in range(4)]
    store.expire(0)
    together = store.notes_after(0)
    assert together == [(numbers[-1] + 1, Note(NoteKind.OWED, (ALL,)))], "whoever is asked about one is told of all"
    store.note(Note(NoteKind.EVENT, event=9))
    position = store.position()
    for _ in range(4):
        store.finish(store.begin([A], os.getpid()), missed=True)
        bench.step()
    store.expire(0)
    assert [note for _, note in store.notes_after(0)] == [Note(NoteKind.MISSED, (ALL,))]
    assert store.unlogged_since(position) == (ALL,) and store.unlogged_since(store.position() - 1) == (A,)
    assert store.note(Note(NoteKind.EVENT, event=9)) <= store.last_note(), "it is told of, too"


def test_event_ids_of_a_log_that_has_gone_back(bench: Bench) -> None:
    """In a restored database, or another one, they are lower than those that were told of before."""
    store = bench.store
    before = store.note(Note(NoteKind.EVENT, event=900))
    store.forget_events()
    after = store.note(Note(NoteKind.EVENT, event=50))
    assert store.notes_after(before) == [(after, Note(NoteKind.EVENT, event=50))]
    assert store.note(Note(NoteKind.EVENT, event=49)) == after


def test_what_is_told_to_others(bench: Bench) -> None:
    """Own writes, and those of which their own proxy has told; not what others have passed on."""
    own = bench.store.begin([A], os.getpid())
    bench.store.hold(OTHER, Origin(OTHER, 7), [B])
    bench.store.hold(OTHER, Origin(THIRD, 9), [B])
    assert sorted(bench.store.under_way()) == [(Origin(ME, own), (A,)), (Origin(OTHER, 7), (B,))]
    bench.store.finish(own)
    assert bench.store.under_way() == [(Origin(OTHER, 7), (B,))]


def test_a_replay_releases_what_it_does_not_name(bench: Bench) -> None:
    for number in (1, 2, 3):
        bench.store.hold(OTHER, Origin(OTHER, number), [A])
    bench.store.hold(THIRD, Origin(THIRD, 1), [B])
    released = bench.store.release_others(OTHER, frozenset({Origin(OTHER, 2)}))
    assert sorted(released) == [Origin(OTHER, 1), Origin(OTHER, 3)]
    bench.step()
    assert bench.fenced(A) and bench.fenced(B)
    bench.store.release_others(OTHER, frozenset())
    bench.step()
    assert not bench.fenced(A) and bench.fenced(B)


def test_a_missed_peer(bench: Bench) -> None:
    """Its fences end when no metastore can work on its writes any more, unless it tells of them again."""
    bench.store.hold(OTHER, Origin(OTHER, 1), [A])
    bench.store.hold(OTHER, Origin(OTHER, 2), [B])
    bench.store.missed(OTHER)
    bench.store.hold(OTHER, Origin(OTHER, 2), [B])
    assert bench.store.expire(time.monotonic_ns() + REQUEST_TIMEOUT_NS - REQUEST_TIMEOUT_NS // 10) == 0
    assert bench.store.expire(time.monotonic_ns() + REQUEST_TIMEOUT_NS) == 1
    assert bench.step() == {A}
    assert not bench.fenced(A) and bench.fenced(B)


def test_a_fence_of_a_connected_peer_does_not_end_by_itself(bench: Bench) -> None:
    """However long the peer's write takes: its own limit may be another one."""
    bench.store.hold(OTHER, Origin(OTHER, 1), [A])
    bench.store.hold(THIRD, Origin(THIRD, 1), [B])
    now_ns = time.monotonic_ns()
    for number in range(8):
        bench.store.keep(frozenset({OTHER}), now_ns + number * REQUEST_TIMEOUT_NS // 2)
    assert bench.store.expire(now_ns + 4 * REQUEST_TIMEOUT_NS) == 1
    assert bench.step() == {B}
    assert bench.fenced(A) and not bench.fenced(B)
    bench.store.release(OTHER, Origin(OTHER, 1))
    bench.store.keep(frozenset({OTHER}), now_ns + 5 * REQUEST_TIMEOUT_NS)
    assert bench.step() == {A} and not bench.fenced(A)


def test_a_missed_peer_and_damaged_fences(bench: Bench) -> None:
    """Which objects the peer's writes name is lost with the file. They may still be carried out, and the peer may not
    come back."""
    bench.store.hold(OTHER, Origin(OTHER, 1), [A])
    assert not bench.page[Slot.HELD_UNTIL_NS], "if it is there, it tells again"
    bench.store.missed(OTHER)
    os.truncate(bench.path / "data.mdb", 100)
    Keeper(bench.store, bench.path, request_timeout_ns=REQUEST_TIMEOUT_NS, lock=Lock(), workers=tuple).check()
    bench.step()
    assert bench.fenced(A) and bench.fenced(B)
    bench.store.expire(time.monotonic_ns() + REQUEST_TIMEOUT_NS)
    bench.step()
    assert not bench.fenced(A)


def test_they_survive_a_restart(bench: Bench) -> None:
    bench.store.hold(OTHER, Origin(OTHER, 1), [A])
    bench.store.cover(OTHER, 42)
    bench.store.close()
    bench.page[Slot.FENCES_FILE] = 0
    FenceStore.recover(bench.path, bench.page, request_timeout_ns=REQUEST_TIMEOUT_NS).close()
    bench.store = PeerFences(bench.path, bench.page, THIRD, request_timeout_ns=REQUEST_TIMEOUT_NS)
    bench.mirror = FenceMirror(bench.store)
    assert bench.fenced(A)
    assert bench.store.covered(OTHER) == 42
    bench.store.release(OTHER, Origin(OTHER, 1))
    bench.step()
    assert not bench.fenced(A)


def test_what_is_owed_waits_for_one_step_and_asks_for_no_reload(bench: Bench) -> None:
    bench.store.owe([UNKNOWN])
    assert bench.fenced(A)
    assert bench.step() == set()
    assert not bench.fenced(A)
    bench.store.reload([A])
    assert bench.fenced(A) and bench.step() == {A} and not bench.fenced(A)


def test_an_event_that_the_cache_has_not_reached(bench: Bench) -> None:
    bench.page[Slot.CURSOR] = 10
    bench.store.reached(10)
    assert not bench.fenced(A)
    bench.store.reached(11)
    assert bench.fenced(A)


def test_writes_without_an_event_are_named_to_who_was_cut_off(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    position = bench.store.position()
    bench.store.finish(bench.store.begin([A], os.getpid()), unlogged=True)
    bench.store.finish(bench.store.begin([B], os.getpid()))
    assert bench.store.unlogged_since(position) == (A,)
    assert bench.store.unlogged_since(bench.store.position()) == ()
    monkeypatch.setattr(peer_fences, "UNLOGGED_KEPT", 2)
    for _ in range(4):
        bench.step()
        bench.store.finish(bench.store.begin([B], os.getpid()), unlogged=True)
    bench.store.drop_old()
    assert bench.store.unlogged_since(position) == (ALL,), "too many to be named"
    assert bench.store.unlogged_since(bench.store.position() - 1) == (B,)
    assert bench.store.unlogged_since(0) == (B,), "as far as is known"


def test_the_last_positions_are_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_fences, "PEERS_KEPT", 2)
    for number, peer in enumerate((ME, OTHER, THIRD), 1):
        bench.store.cover(peer, number)
    assert [bench.store.covered(peer) for peer in (ME, OTHER, THIRD)] == [0, 2, 3]
