"""Large listings: one state, in slices, whatever happens meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hms_cache_proxy.cache import streams
from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.streams import NameStream, PartitionStream, encode_strings
from hms_cache_proxy.errors import CacheError
from tests.cache.conftest import Shelf
from tests.cache.records import TABLE, TABLE_ID, days, string

PARTS = days(3500)
NAMES = [part.name for part in PARTS]


def entry_in(snapshot: CacheSnapshot) -> TableEntry:
    entry = snapshot.table(*TABLE)
    assert isinstance(entry, TableEntry)
    return entry


def whole(snapshot: CacheSnapshot, names: list[bytes]) -> bytes:
    out: list[bytes] = []
    assert snapshot.join_partitions(entry_in(snapshot), names, out) == len(names)
    return b"".join(out)


@pytest.fixture
def filled(shelf: Shelf) -> Iterator[Shelf]:
    shelf.fill(PARTS)
    yield shelf


def test_slices_are_the_whole(filled: Shelf) -> None:
    with filled.reader.snapshot() as snapshot:
        entry = entry_in(snapshot)
        slices = list(snapshot.iter_partitions(entry))
        assert len(slices) == 7
        assert b"".join(slices) == whole(snapshot, NAMES)
        assert b"".join(snapshot.iter_names(entry)) == b"".join(map(string, NAMES))
        after, limit = NAMES[1200], 1500
        assert b"".join(snapshot.iter_partitions(entry, after, limit)) == whole(snapshot, NAMES[1201:2701])
        assert b"".join(snapshot.iter_names(entry, after, limit)) == encode_strings(NAMES[1201:2701])
        assert snapshot.partition_names(entry, after, limit) == NAMES[1201:2701]
        assert snapshot.partition_names(entry, b"dt=2024-01-01~", 1) == [
            next(n for n in NAMES if n > b"dt=2024-01-01~")
        ]
        assert list(snapshot.iter_partitions(entry, limit=0)) == []
        assert list(snapshot.iter_partitions(entry, NAMES[-1])) == []


@pytest.mark.parametrize("detach", [False, True])
def test_a_stream_outlives_its_snapshot_and_shows_its_state(filled: Shelf, detach: bool) -> None:
    with filled.reader.snapshot() as snapshot:
        wanted, names = whole(snapshot, NAMES), encode_strings(NAMES)
        partition_stream = snapshot.iter_partitions(entry_in(snapshot))
        name_stream = snapshot.iter_names(entry_in(snapshot))
    got, got_names = [next(partition_stream)], [next(name_stream)]
    filled.writer.commit(Changes(cursor=11, partitions=[PartitionChange(TABLE_ID, deletes=NAMES[2000:])]))
    filled.fill(days(5), cursor=12)
    filled.writer.commit(Changes(cursor=13, reset="everything else"))
    if detach:
        partition_stream.detach(streams.COPIED_BYTES)
        name_stream.detach(streams.COPIED_BYTES)
        while filled.writer.collect():
            pass
    got += partition_stream
    got_names += name_stream
    assert b"".join(got) == wanted
    assert b"".join(got_names) == names
    assert not partition_stream.holds and not name_stream.holds


def test_the_transaction_is_held_for_a_limited_time(filled: Shelf) -> None:
    with filled.reader.snapshot() as snapshot:
        wanted = whole(snapshot, NAMES)
        stream = snapshot.iter_partitions(entry_in(snapshot))
    first = next(stream)
    filled.reader.streams.tend(time.monotonic_ns())
    assert stream.holds
    overdue_ns = time.monotonic_ns() + streams.COPY_AFTER_NS
    assert filled.reader.streams.tend(overdue_ns) and stream.holds, "a slice at a time"
    parts = [first, next(stream)]
    while filled.reader.streams.tend(overdue_ns):
        pass
    assert not stream.holds
    assert b"".join([*parts, *stream]) == wanted


def test_a_stream_that_is_given_up_lets_go(filled: Shelf) -> None:
    with filled.reader.snapshot() as snapshot:
        stream = snapshot.iter_partitions(entry_in(snapshot))
    next(stream)
    assert readers(filled) == 1
    stream.close()
    assert readers(filled) == 0
    assert list(stream) == []


def test_a_stream_that_nobody_has_any_more_lets_go(filled: Shelf) -> None:
    with filled.reader.snapshot() as snapshot:
        stream = snapshot.iter_partitions(entry_in(snapshot))
    next(stream)
    assert readers(filled) == 1 and filled.reader.streams.waiting
    del stream, snapshot
    assert readers(filled) == 0
    assert not filled.reader.streams.tend(time.monotonic_ns() + streams.COPY_AFTER_NS)
    assert not filled.reader.streams.waiting


def test_a_rest_that_is_too_large_to_be_copied_is_read_at_our_pace(filled: Shelf) -> None:
    """However long the worker takes for it: that is not its client's doing."""
    with filled.reader.snapshot() as snapshot:
        wanted = whole(snapshot, NAMES)
        stream = snapshot.iter_partitions(entry_in(snapshot))
        other = snapshot.iter_partitions(entry_in(snapshot))
    filled.reader.streams.most_copied_bytes = stream.rest_bytes() // 2
    parts, now_ns = [next(stream)], time.monotonic_ns() + 3 * streams.COPY_AFTER_NS
    while filled.reader.streams.tend(now_ns):
        pass
    assert stream.holds and other.holds
    filled.writer.commit(Changes(cursor=11, partitions=[PartitionChange(TABLE_ID, deletes=NAMES[2000:])]))
    for part in stream:
        parts.append(part)
        now_ns += streams.LOOK_NS
        while filled.reader.streams.tend(now_ns):
            pass
    assert b"".join(parts) == wanted
    filled.reader.streams.tend(now_ns + streams.HELD_AT_MOST_NS)
    with pytest.raises(CacheError, match="600 s"):
        next(other)
    assert readers(filled) == 0


def test_all_copies_together_have_a_bound(filled: Shelf) -> None:
    with filled.reader.snapshot() as snapshot:
        both = [snapshot.iter_partitions(entry_in(snapshot)) for _ in range(2)]
    rest = both[0].rest_bytes()
    filled.reader.streams.most_copied_bytes = rest + rest // 2
    now_ns = time.monotonic_ns() + streams.COPY_AFTER_NS
    while filled.reader.streams.tend(now_ns):
        pass
    assert [stream.holds for stream in both] == [False, True]
    both[0].close()
    now_ns += streams.LOOK_NS
    while filled.reader.streams.tend(now_ns):
        pass
    assert not both[1].holds


def test_a_rest_that_is_too_large_breaks_when_its_file_is_closed(filled: Shelf) -> None:
    filled.reader.streams.most_copied_bytes = 100_000
    with filled.reader.snapshot() as snapshot:
        stream = snapshot.iter_partitions(entry_in(snapshot))
    next(stream)
    filled.reopen(scope="another")
    assert not stream.holds
    with pytest.raises(CacheError, match="100000 bytes"):
        next(stream)


def test_a_rebuilt_cache_does_not_break_a_stream(filled: Shelf) -> None:
    with filled.reader.snapshot() as snapshot:
        wanted = whole(snapshot, NAMES)
        stream = snapshot.iter_partitions(entry_in(snapshot))
    first = next(stream)
    filled.reopen(scope="another")
    assert first + b"".join(stream) == wanted


def readers(shelf: Shelf) -> int:
    """Snapshots that are open in this process, as LMDB lists them."""
    text = shelf.writer._environment.env.readers()
    return sum(1 for line in text.splitlines()[1:] if not line.rstrip().endswith("-"))


def test_one_step_is_short(filled: Shelf) -> None:
    """The loop is not held; generous, as the machine may be busy: the goal is 1 ms."""
    for kind in (PartitionStream, NameStream):
        best = []
        for _ in range(5):
            with filled.reader.snapshot() as snapshot:
                entry = entry_in(snapshot)
                stream = snapshot.iter_partitions(entry) if kind is PartitionStream else snapshot.iter_names(entry)
                while True:
                    began = time.perf_counter()
                    if next(stream, None) is None:
                        break
                    best.append(time.perf_counter() - began)
        assert min(best) < 0.004


@pytest.mark.parametrize("lengths", [(), (0,), (5, 5, 5), (0, 0), (0, 1, 1023), (1, 1023, 1024, 70_000), (2000, 2000)])
def test_strings_of_any_length(lengths: tuple[int, ...]) -> None:
    strings = [bytes([65 + at]) * length for at, length in enumerate(lengths)]
    assert encode_strings(strings) == b"".join(map(string, strings))


def test_a_walk_outlives_its_snapshot_and_ends_when_it_is_overdue(filled: Shelf) -> None:
    with filled.reader.snapshot() as snapshot:
        walk = snapshot.walk(entry_in(snapshot))
        chosen = snapshot.iter_chosen(entry_in(snapshot), NAMES[5:3000:2])
        expected = whole(snapshot, NAMES[5:3000:2])
    filled.writer.commit(Changes(cursor=11, partitions=[PartitionChange(TABLE_ID, [], NAMES[:100])]))
    assert [walk.at(b""), walk.next(), walk.at(NAMES[70] + b"a")] == [NAMES[0], NAMES[1], NAMES[71]]
    assert walk.run(2) == NAMES[71:73] and walk.at(NAMES[-1] + b"a") is None
    assert walk.listing(NAMES[7], 2) == NAMES[8:10]
    first = next(chosen)
    while filled.reader.streams.tend(time.monotonic_ns() + streams.SEARCHED_NS + 1):
        pass
    assert first + b"".join(chosen) == expected
    with pytest.raises(CacheError):
        walk.at(b"")
    assert not walk.holds and not filled.reader.streams.waiting
    walk.close()
