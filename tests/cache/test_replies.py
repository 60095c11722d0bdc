"""Kept replies: valid exactly while their dependencies are what they were, and bounded."""

from __future__ import annotations

import time

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.replies import ENTRY_OVERHEAD_BYTES, ReplyCache, ReplyEntry, versions_of
from hms_cache_proxy.cache.state import Slot
from tests.cache.conftest import Shelf
from tests.cache.records import DATABASE, TABLE, days

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
