"""Large requests are looked at in slices, and what has too many parts is not looked into."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.cache import targets as target
from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.cache.streams import SEARCHED_NS
from hms_cache_proxy.methods import large_requests
from hms_cache_proxy.methods.decision import ClientCall, Decision, Forward, Serve, Work
from hms_cache_proxy.methods.effects import FencedWrite, Lock
from hms_cache_proxy.methods.method_plan import EVERYTHING, plan
from hms_cache_proxy.methods.partial_decode import decode_beginning
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, TABLE, TABLE_ID, days
from tests.chance import chance
from tests.methods.warm import TARGET, Bench, opened
from tests.testbed.raw import encode_call

PARTS = days(5000)
NAMES = [part.name.decode() for part in PARTS]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory: Path = tmp_path_factory.mktemp("large")
    with opened(directory) as made:
        change = PartitionChange(TABLE_ID, [part.record() for part in PARTS], replace_all=True)
        made.step(Changes(cursor=11, partitions=[change]))
        yield made


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is a turn."""
    monkeypatch.setattr(large_requests, "SLICE_NS", 0)


def decided(bench: Bench, message: bytes) -> tuple[Decision, int]:
    """What is done with it, and after how many turns."""
    header = parse_header(message)
    assert isinstance(header, Header)
    decision = bench.dispatcher.decide(ClientCall.of(bench.session, header, message, time.monotonic_ns()))
    turns = 1
    while isinstance(decision, Work):
        decision = decision.step() or decision
        turns += 1
    return decision, turns


def empties(count: int, name: str = "add_partitions") -> bytes:
    """A write of so many empty structs."""
    head = encode_call(name)[:-1]
    return head + struct.pack(">Bhbi", 15, 1, 12, count) + b"\0" * (count + 1)


def targets(decision: Decision) -> tuple[bytes, ...]:
    assert isinstance(decision, Forward) and isinstance(decision.pending, FencedWrite | Lock), decision
    return decision.pending.targets


def partitions(count: int, table: bytes = TABLE[2]) -> list[Any]:
    make: Any = spec.struct("Partition")
    return [make(dbName=DATABASE[1], tableName=table, values=[b"v%d" % number]) for number in range(count)]


def test_many_partitions_are_named_in_slices(bench: Bench) -> None:
    message = encode_call("add_partitions", partitions(3000) + partitions(3, b"last"))
    decision, turns = decided(bench, message)
    assert turns > 50
    assert targets(decision) == (TARGET, TARGET.replace(TABLE[2], b"last"))


def test_many_empty_structs_take_many_turns_and_name_nothing(bench: Bench) -> None:
    decision, turns = decided(bench, empties(50_000))
    assert turns > 100 and isinstance(decision, Forward) and decision.outcome == "write"
    assert not decision.hold_bytes, "a metastore refuses it"


def test_a_list_that_is_too_long_may_name_anything(bench: Bench) -> None:
    decision, turns = decided(bench, empties(200_000))
    assert turns == 1 and targets(decision) == EVERYTHING


def test_too_many_objects_are_everything(bench: Bench) -> None:
    components = [
        spec.struct("LockComponent")(type=1, level=2, dbname=b"d", tablename=b"t%d" % number)  # type: ignore[call-arg]
        for number in range(10_001)
    ]
    request = spec.struct("LockRequest")(component=components, user=b"u", hostname=b"h")  # type: ignore[call-arg]
    decision, turns = decided(bench, encode_call("lock", request))
    assert turns > 100 and targets(decision) == EVERYTHING
    assert isinstance(decision, Forward) and isinstance(decision.pending, Lock) and decision.pending.reads


def test_too_many_partitions_are_all_of_their_table() -> None:
    """Statistics of a table with many partitions, in one call: of Hive 3.1, which logs nothing, they are reloaded."""
    found = plan(b"set_aggr_stats_for")
    assert found is not None
    new: Any = spec.struct
    described = [
        new("ColumnStatisticsDesc")(isTblLevel=False, dbName=b"d", tableName=b"t", partName=b"p=%d" % number)
        for number in range(10_001)
    ]
    every = [new("ColumnStatistics")(statsDesc=one, statsObj=[]) for one in described]
    message = encode_call("set_aggr_stats_for", new("SetPartitionsStatsRequest")(colStats=every))
    header = parse_header(message)
    assert isinstance(header, Header)
    understanding = found.understand(message, header.body)
    with pytest.raises(StopIteration) as done:
        while True:
            next(understanding)
    understood = done.value.value
    assert understood.targets == (target.table(b"hive", b"d", b"t"),)
    assert understood.silent == (target.partitions(b"hive", b"d", b"t"),)


def test_the_beginning_of_a_huge_request_is_not_walked_to_its_end() -> None:
    found = plan(b"add_partitions")
    assert found is not None
    message = empties(60_000)
    header = parse_header(message)
    assert isinstance(header, Header)
    row: Any = decode_beginning(spec.args("add_partitions"), message[header.body :])
    assert len(row.new_parts) == 1
    assert found.named(message, header.body, complete=False) == EVERYTHING


def asked(bench: Bench, names: list[str], method: str = "get_partitions_by_names") -> tuple[bytes, int]:
    decision, turns = decided(bench, encode_call(method, DATABASE[1].decode(), TABLE[2].decode(), names, seqid=9))
    assert isinstance(decision, Serve), decision
    return decision.chunks if isinstance(decision.chunks, bytes) else b"".join(decision.chunks), turns


def values(reply: bytes) -> list[bytes]:
    header = parse_header(reply)
    assert isinstance(header, Header)
    result: Any = spec.decode(spec.result("get_partitions_by_names"), reply, header.body)[0]
    return [spec.encode(partition) for partition in result.success]


@pytest.mark.parametrize("count", [1001, 3500, 4001, 5000])
def test_many_names_give_what_few_give(bench: Bench, count: int) -> None:
    few = [part for at in range(0, count, 900) for part in values(asked(bench, NAMES[at : min(at + 900, count)])[0])]
    wanted = NAMES[:count] + ["dt=none/h=1", "dt=1999-01-01/h=0"] * 2 + NAMES[:count:3]
    chance("names").shuffle(wanted)
    reply, turns = asked(bench, wanted)
    assert turns > 10
    assert values(reply) == few


def test_a_commit_between_the_slices_is_not_seen(bench: Bench) -> None:
    message = encode_call("get_partitions_by_names", DATABASE[1].decode(), TABLE[2].decode(), NAMES[:4500], seqid=9)
    header = parse_header(message)
    assert isinstance(header, Header)
    wanted = asked(bench, NAMES[:4500])[0]
    assert not bench.reader.streams.tend()
    work = bench.dispatcher.decide(ClientCall.of(bench.session, header, message, time.monotonic_ns()))
    while bench.reader.streams.waiting is False:
        assert isinstance(work, Work)
        work = work.step() or work
    bench.step(Changes(cursor=12, partitions=[PartitionChange(TABLE_ID, deletes=[PARTS[4000].name])]))
    while isinstance(work, Work):
        work = work.step() or work
    assert isinstance(work, Serve) and not isinstance(work.chunks, bytes)
    assert b"".join(work.chunks) == wanted
    assert len(values(asked(bench, NAMES[:4500])[0])) == 4499
    bench.step(Changes(cursor=13, partitions=[PartitionChange(TABLE_ID, [PARTS[4000].record()])]))


@pytest.mark.parametrize("slices", [1, 5, 8])
def test_names_that_hold_their_state_for_too_long_are_relayed(bench: Bench, slices: int) -> None:
    """While it is looked for them, and while they are joined."""
    message = encode_call("get_partitions_by_names", DATABASE[1].decode(), TABLE[2].decode(), NAMES[:2500], seqid=9)
    header = parse_header(message)
    assert isinstance(header, Header)
    work = bench.dispatcher.decide(ClientCall.of(bench.session, header, message, time.monotonic_ns()))
    for _ in range(slices):
        assert isinstance(work, Work)
        work = work.step() or work
    bench.reader.streams.tend(time.monotonic_ns() + SEARCHED_NS + 1)
    while isinstance(work, Work):
        work = work.step() or work
    assert isinstance(work, Forward) and work.reason == "cache"
