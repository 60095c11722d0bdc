"""Kept replies: valid exactly while their dependencies are what they were, and bounded."""

from __future__ import annotations

import time

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.replies import (
    ASKED_ONCE,
    ENTRY_OVERHEAD_BYTES,
    LARGE_BYTES,
    ReplyCache,
    ReplyEntry,
    versions_of,
)
from hms_cache_proxy.cache.state import Slot
from tests.cache.conftest import Shelf
from tests.cache.records import DATABASE, TABLE, days
from tests.testbed.slept import after_sleep

MINE, OTHER = targets.table(*TABLE), targets.table(*DATABASE, b"other")
KEY = b"get_table orders"


def assembled(shelf: Shelf, *depends: bytes, body: bytes = b"reply") -> ReplyEntry:
    with shelf.reader.snapshot() as snapshot:
        return ReplyEntry(body, depends, versions_of(snapshot, depends), seq=snapshot.seq)


def test_valid_until_a_dependency_is_touched(shelf: Shelf) -> None:
    shelf.fill(days(3))
    cache = ReplyCache(shelf.reader, 1 << 20)
    cache.put(KEY, assembled(shelf, MINE))
    assert cache.get(KEY) is not None
    shelf.writer.commit(Changes(cursor=11, touched={OTHER}))
    assert cache.get(KEY) is None, "another commit: look first"
    with shelf.reader.snapshot() as snapshot:
        assert cache.revalidate(KEY, snapshot, 0) is None, "began_ns 0: the follower has confirmed nothing"
        assert cache.revalidate(KEY, snapshot, 1) is not None
    assert cache.get(KEY) is not None
    shelf.writer.commit(Changes(cursor=12, touched={MINE}))
    with shelf.reader.snapshot() as snapshot:
        assert cache.revalidate(KEY, snapshot, 1) is None
    assert len(cache) == 0 == cache.size_bytes


def test_a_reset_ends_all(shelf: Shelf) -> None:
    shelf.fill(days(3))
    cache = ReplyCache(shelf.reader, 1 << 20)
    cache.put(KEY, assembled(shelf, MINE))
    shelf.writer.commit(Changes(cursor=1, reset="gap"))
    with shelf.reader.snapshot() as snapshot:
        assert cache.revalidate(KEY, snapshot, 1) is None


def test_a_learned_reply_waits_for_a_step_that_began_after_it_arrived(shelf: Shelf) -> None:
    shelf.fill(days(3))
    cache = ReplyCache(shelf.reader, 1 << 20)
    with shelf.reader.snapshot() as snapshot:
        before = versions_of(snapshot, (MINE,))
    arrived = time.monotonic_ns()
    cache.put(KEY, ReplyEntry(b"learned", (MINE,), before, learned_ns=arrived))
    assert cache.get(KEY) is None
    for began, usable in ((arrived - 1, False), (arrived, False), (arrived + 1, True)):
        shelf.writer.commit(Changes(cursor=11))
        with shelf.reader.snapshot() as snapshot:
            assert (cache.revalidate(KEY, snapshot, began) is not None) == usable
    assert cache.get(KEY) is not None


def test_a_change_while_learning_is_noticed(shelf: Shelf) -> None:
    """The versions are from before the request left; what happened since is not in the reply for certain."""
    shelf.fill(days(3))
    cache = ReplyCache(shelf.reader, 1 << 20)
    with shelf.reader.snapshot() as snapshot:
        before = versions_of(snapshot, (MINE,))
    shelf.writer.commit(Changes(cursor=11, touched={MINE}))
    cache.put(KEY, ReplyEntry(b"learned", (MINE,), before, learned_ns=5))
    with shelf.reader.snapshot() as snapshot:
        assert cache.revalidate(KEY, snapshot, 6) is None
    assert cache.peek(KEY) is None


def test_a_reader_does_not_go_back_to_what_the_page_still_says(shelf: Shelf) -> None:
    """The writer has committed and not yet published: a snapshot showed it, so an older kept reply is not valid."""
    first = shelf.fill(days(3))
    cache = ReplyCache(shelf.reader, 1 << 20)
    cache.put(KEY, assembled(shelf, MINE))
    shelf.writer.commit(Changes(cursor=11, touched={MINE}))
    shelf.page[Slot.CACHE_SEQ] = first
    assert cache.get(KEY) is not None, "nothing newer has been shown"
    with shelf.reader.snapshot():
        pass
    assert cache.get(KEY) is None


def test_bounded_in_bytes_and_the_oldest_go(shelf: Shelf) -> None:
    shelf.fill(days(3))
    one = 1000 + ENTRY_OVERHEAD_BYTES + 2 + len(MINE)
    cache = ReplyCache(shelf.reader, 5 * one, max_entry_bytes=2000)
    for number in range(8):
        assert cache.put(b"%02d" % number, assembled(shelf, MINE, body=b"x" * 1000))
        assert cache.get(b"00") is not None
    assert (len(cache), cache.evicted, cache.size_bytes) == (5, 3, 5 * one)
    assert [number for number in range(8) if cache.peek(b"%02d" % number)] == [0, 4, 5, 6, 7]
    assert not cache.put(b"big", assembled(shelf, MINE, body=b"x" * 2001))
    assert cache.put(b"00", assembled(shelf, MINE, body=b"y"))
    assert cache.size_bytes == 5 * one - 999
    cache.clear()
    assert (len(cache), cache.size_bytes) == (0, 0)


LARGE = b"x" * (LARGE_BYTES + 1)


def test_large_replies_that_nobody_asks_for_again_evict_nothing(shelf: Shelf) -> None:
    shelf.fill(days(3))
    cache = ReplyCache(shelf.reader, 4 << 20)
    for number in range(1000):
        assert cache.put(b"small %d" % number, assembled(shelf, MINE))
    for number in range(100):
        assert not cache.put(b"large %d" % number, assembled(shelf, MINE, body=LARGE))
    assert (len(cache), cache.evicted) == (1000, 0)
    assert cache.put(b"large 7", assembled(shelf, MINE, body=LARGE)), "it is asked for again"
    assert cache.get(b"large 7") is not None


def test_a_large_reply_that_was_kept_is_kept_again_after_a_change(shelf: Shelf) -> None:
    shelf.fill(days(3))
    cache = ReplyCache(shelf.reader, 4 << 20)
    kept = [cache.put(KEY, assembled(shelf, MINE, body=LARGE)) for _ in range(2)]
    assert kept == [False, True]
    shelf.writer.commit(Changes(cursor=11, touched={MINE}))
    assert cache.put(KEY, assembled(shelf, MINE, body=LARGE)), "in place of the one that is not valid any more"
    shelf.writer.commit(Changes(cursor=12, touched={MINE}))
    with shelf.reader.snapshot() as snapshot:
        assert cache.revalidate(KEY, snapshot, 1) is None and len(cache) == 0
    assert cache.put(KEY, assembled(shelf, MINE, body=LARGE)), "it was dropped, not forgotten"


def test_a_large_reply_of_the_metastore_is_kept_at_once_if_there_is_room(shelf: Shelf) -> None:
    shelf.fill(days(3))
    with shelf.reader.snapshot() as snapshot:
        before = versions_of(snapshot, (MINE,))
    cache = ReplyCache(shelf.reader, 2 * len(LARGE) + 4 * ENTRY_OVERHEAD_BYTES, max_entry_bytes=len(LARGE))
    kept = [cache.put(b"%d" % at, ReplyEntry(LARGE, (MINE,), before, learned_ns=5)) for at in (1, 2, 3, 3)]
    assert kept == [True, True, False, True]
    assert (len(cache), cache.evicted) == (2, 1)


STANDS = """
from time import monotonic_ns
from hms_cache_proxy.cache.replies import UserVerdict, stand
print(stand((UserVerdict(1, monotonic_ns() + 3600 * 10**9),)))
"""


@pytest.mark.parametrize(("slept_s", "stands"), [(0, "True"), (7200, "False")])
def test_verdicts_about_users_end_while_the_machine_sleeps(slept_s: int, stands: str) -> None:
    """A verdict that was to stand for another hour when the machine fell asleep."""
    assert after_sleep(slept_s, STANDS) == stands


def test_only_the_last_large_replies_are_remembered(shelf: Shelf) -> None:
    shelf.fill(days(3))
    cache = ReplyCache(shelf.reader, 4 << 20)
    entry = assembled(shelf, MINE, body=LARGE)
    for number in range(ASKED_ONCE + 1):
        assert not cache.put(b"%d" % number, entry)
    assert not cache.put(b"0", entry) and cache.put(b"%d" % ASKED_ONCE, entry)


def test_a_learned_reply_that_was_found_valid_ends_with_the_next_change(shelf: Shelf) -> None:
    shelf.fill(days(3))
    cache = ReplyCache(shelf.reader, 1 << 20)
    with shelf.reader.snapshot() as snapshot:
        cache.put(KEY, ReplyEntry(b"learned", (MINE,), versions_of(snapshot, (MINE,)), learned_ns=5))
    for touched, valid in ((OTHER, True), (OTHER, True), (MINE, False)):
        shelf.writer.commit(Changes(cursor=11, touched={touched}))
        with shelf.reader.snapshot() as snapshot:
            assert (cache.revalidate(KEY, snapshot, 6) is not None) == valid
