"""Searches over several turns: as of the state in which they began, given up where the metastore has to be asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.cache.streams import SEARCHED_NS
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.methods.decision import ClientCall, Forward, Serve, Work
from hms_cache_proxy.methods.readers import filter_walk, filters
from hms_cache_proxy.store.protocol import TableRecord
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, IDENTITY, TABLE, TABLE_ID, database, table
from tests.methods.test_filter_spans import records
from tests.methods.warm import Bench, opened
from tests.testbed.raw import encode_call

KEYS = ((b"day", b"string"), (b"n", b"int"))
ROWS = [(b"d%02d" % day, b"%d" % n) for day in range(40) for n in range(50)]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with opened(tmp_path) as made:
        change = PartitionChange(TABLE_ID, records(KEYS, ROWS), replace_all=True)
        made.step(Changes(cursor=11, tables={TABLE: replace(table(), partition_keys=KEYS)}, partitions=[change]))
        monkeypatch.setattr(filter_walk, "SLICE_NS", 0)
        monkeypatch.setattr(filter_walk, "_PER_LOOK", 10)
        monkeypatch.setattr(filter_walk, "PARENTS", 10)
        yield made


def request(text: str) -> bytes:
    return encode_call("get_partitions_by_filter", DATABASE[1].decode(), TABLE[2].decode(), text, -1)


def decided(bench: Bench, message: bytes) -> Serve | Forward | Work:
    header = parse_header(message)
    assert isinstance(header, Header)
    decision = bench.dispatcher.decide(ClientCall.of(bench.session, header, message, time.monotonic_ns()))
    assert isinstance(decision, Serve | Forward | Work)
    return decision


def ended(work: Serve | Forward | Work) -> tuple[Serve | Forward, int]:
    """What it came to, and in how many steps."""
    assert isinstance(work, Work)
    for steps in range(1, 1000):
        found = work.step()
        if found is not None:
            assert isinstance(found, Serve | Forward)
            return found, steps
    raise AssertionError("it does not end")


def values(served: Serve | Forward) -> list[list[bytes]]:
    assert isinstance(served, Serve)
    message = served.chunks if isinstance(served.chunks, bytes) else b"".join(served.chunks)
    header = parse_header(message)
    assert isinstance(header, Header)
    result, _ = spec.decode(spec.result("get_partitions_by_filter"), message, header.body)
    return [partition.values for partition in result.success]


def test_many_turns_and_then_it_is_kept(bench: Bench) -> None:
    message = request("n = 7")
    served, steps = ended(decided(bench, message))
    assert steps > 5
    assert values(served) == [[b"d%02d" % day, b"7"] for day in range(40)]
    assert isinstance(served, Serve) and bench.hot(message) == served.chunks
    assert isinstance(decided(bench, request("day = 'd07' and n = 7")), Serve)


def test_what_began_before_the_rules_changed_is_not_kept(bench: Bench) -> None:
    message = request("n = 7")
    work = decided(bench, message)
    bench.dispatcher.forget()
    assert values(ended(work)[0]) and bench.hot(message) is None
    served, _ = ended(decided(bench, message))
    assert isinstance(served, Serve) and bench.hot(message) == served.chunks


def test_a_commit_meanwhile_is_not_seen_and_the_answer_not_kept(bench: Bench) -> None:
    message = request("n = 7")
    work = decided(bench, message)
    more = PartitionChange(TABLE_ID, records(KEYS, [(b"d99", b"7")]), [b"day=d30/n=7"])
    bench.step(Changes(cursor=12, partitions=[more]))
    assert values(ended(work)[0]) == [[b"d%02d" % day, b"7"] for day in range(40)]
    assert bench.hot(message) is None
    assert values(ended(decided(bench, message))[0]) == [
        [b"d%02d" % day, b"7"] for day in (*range(30), *range(31, 40), 99)
    ]


def test_a_long_reply_is_of_the_same_state(bench: Bench) -> None:
    work = decided(bench, request("n != 7"))
    bench.step(Changes(cursor=12, partitions=[PartitionChange(TABLE_ID, [], [b"day=d30/n=1"])]))
    assert len(values(ended(work)[0])) == 40 * 49


def test_one_that_takes_too_much_is_relayed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_walk, "MOVES", 10)
    forward, steps = ended(decided(bench, request("n = 7")))
    assert isinstance(forward, Forward) and (forward.outcome, forward.reason) == ("miss", "filter_unsupported")
    assert forward.hold_bytes and steps > 1  # the metastore's answer is learned


def test_some_that_take_turns_for_seconds_are_all_answered(bench: Bench) -> None:
    """If each was given up after a second, many at once would all be relayed, when most of their work was done."""
    works = [decided(bench, request(f"n = {number}")) for number in range(30)]
    bench.reader.streams.tend(time.monotonic_ns() + SEARCHED_NS // 2)
    for number, work in enumerate(works):
        assert values(ended(work)[0]) == [[b"d%02d" % day, b"%d" % number] for day in range(40)]


def test_one_that_holds_its_state_for_too_long_is_relayed(bench: Bench) -> None:
    work = decided(bench, request("n = 7"))
    bench.reader.streams.tend(time.monotonic_ns() + SEARCHED_NS + 1)
    forward, _ = ended(work)
    assert isinstance(forward, Forward) and forward.reason == "cache"


def test_a_fence_that_came_meanwhile_is_heeded_when_it_is_given_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filter_walk, "MOVES", 10)
    work = decided(bench, request("n = 7"))
    bench.step(Changes(cursor=12, partitions=[PartitionChange(TABLE_ID, [], [b"day=d30/n=7"])]))
    message = encode_call("drop_partition_by_name", DATABASE[1].decode(), TABLE[2].decode(), "day=d31/n=7", False)
    write = decided(bench, message)
    assert isinstance(write, Forward)
    write.pending.sending()
    forward, _ = ended(work)
    assert isinstance(forward, Forward) and forward.reason == "fence" and not forward.hold_bytes


def replaced(bench: Bench, directory: Path) -> None:
    """The cache becomes another file with the same content, and the reader moves over to it."""
    bench.writer.close()
    bench.writer = CacheWriter.open(directory / "cache", bench.page, IDENTITY, scope="new")
    change = PartitionChange(TABLE_ID, records(KEYS, ROWS), replace_all=True)
    tables: dict[Any, TableRecord | None] = {TABLE: replace(table(), partition_keys=KEYS)}
    complete = {targets.databases(b"hive"), targets.tables(*DATABASE)}
    changes = Changes(cursor=12, databases={DATABASE: database()}, tables=tables, partitions=[change])
    changes.complete = complete
    bench.step(changes)
    bench.decide()


@pytest.mark.parametrize(
    ("text", "small"),
    [
        pytest.param("n < 7", 0, id="joined in its last turn"),
        pytest.param("n != 7", len(ROWS), id="sent in slices, all names are matched"),
    ],
)
def test_one_whose_file_is_replaced_is_relayed_and_the_next_is_answered(
    bench: Bench, tmp_path: Path, text: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "SMALL", small)
    bench.step(Changes(cursor=11, partitions=[PartitionChange(TABLE_ID, [], [b"day=d39/n=7"])]))
    message = request(text)
    served, steps = ended(decided(bench, message))
    assert isinstance(served, Serve)
    bench.dispatcher.forget()
    work = decided(bench, message)
    assert isinstance(work, Work) and [work.step() for _ in range(steps - 1)] == [None] * (steps - 1)
    replaced(bench, tmp_path)
    forward, _ = ended(work)
    assert isinstance(forward, Forward) and forward.reason == "cache"
    selected = [[day, n] for day, n in sorted(ROWS) if (int(n) < 7 if small == 0 else n != b"7")]
    assert values(ended(decided(bench, message))[0]) == selected
