"""Requests that name many partitions are answered in slices, each a turn of the loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hms_cache_proxy.cache.ttl import EntryKind, key_of
from hms_cache_proxy.methods import large_requests
from hms_cache_proxy.methods.decision import Decision, Forward, Wait, Work
from hms_cache_proxy.methods.ttl import switch
from hms_cache_proxy.methods.ttl.looking import AT_ONCE
from hms_cache_proxy.methods.ttl.members import flushed
from hms_cache_proxy.methods.ttl.partitions import JOINED_AT_ONCE, LIST
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.ttl.bench import call
from tests.ttl.local import LocalTtl, answering

COUNT = 1000
NAMES = [b"p=%05d" % number for number in range(COUNT)]
TABLE = {"db_name": b"d", "tbl_name": b"t"}
STEPS = COUNT // AT_ONCE


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTtl]:
    with answering(tmp_path_factory.mktemp("slices")) as made:
        made.catalog.table(b"t")
        made.catalog.add(b"t", [name[2:] for name in NAMES])
        made.ask(message("get_table", dbname=b"d", tbl_name=b"t"))
        yield made


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is a turn."""
    monkeypatch.setattr(large_requests, "SLICE_NS", 0)


def message(method: str, **arguments: Any) -> bytes:
    return call(method, **arguments)[1]


BY_NAMES = spec.struct("GetPartitionsByNamesRequest")(**TABLE, names=NAMES)
STATISTICS = spec.struct("PartitionsStatsRequest")(dbName=b"d", tblName=b"t", colNames=[b"c0"], partNames=NAMES)
QUESTIONS = {
    "names": message("get_partitions_by_names", **TABLE, names=NAMES),
    "backwards": message("get_partitions_by_names", **TABLE, names=NAMES[::-1]),
    "request": message("get_partitions_by_names_req", req=BY_NAMES),
    "statistics": message("get_partitions_statistics_req", request=STATISTICS),
    "filter": message("get_partitions_by_filter", **TABLE, filter=b"p >= '00000'", max_parts=-1),
}


def decoded(reply: bytes) -> Any:
    header = parse_header(reply)
    assert isinstance(header, Header)
    return spec.decode(spec.result(header.name.decode()), reply, header.body)[0].success


@pytest.mark.parametrize("question", QUESTIONS)
def test_hits_take_many_turns(bench: LocalTtl, question: str) -> None:
    asked = QUESTIONS[question]
    for some in (b"p=00007", b"p=00900"):
        bench.cache.invalidate(flushed((b"hive", b"d", b"t"), some))
    expected = decoded(bench.catalog.reply(asked))
    first, second = bench.ask(asked), bench.ask(asked)
    assert (first.by, second.by) == ("miss", "hit")
    assert decoded(first.reply) == decoded(second.reply) == expected
    assert len(second.turns_ns) > STEPS
    if question != "filter":  # its names are not known
        assert len(first.turns_ns) > STEPS
    if question != "statistics":
        assert len(second.turns_ns) > STEPS + COUNT // JOINED_AT_ONCE


def test_two_spellings_of_a_name_are_answered_as_a_whole(bench: LocalTtl) -> None:
    twice = message("get_partitions_by_names", **TABLE, names=[*NAMES[:200], b"P=00001"])
    first, second = bench.ask(twice), bench.ask(twice)
    assert (first.by, second.by) == ("miss", "hit")
    assert first.reply == second.reply == bench.catalog.reply(twice)


def begun(bench: LocalTtl) -> Work:
    """The request for all names, after the first turn."""
    decision = bench.begin(QUESTIONS["names"])
    assert isinstance(decision, Work)
    return decision


def finished(work: Work) -> tuple[Decision, int]:
    """What is decided, and after how many turns."""
    decision: Decision = work
    turns = 0
    while isinstance(decision, Work):
        decision = decision.step() or decision
        turns += 1
    return decision, turns


def test_a_read_waits_as_soon_as_another_load_brings_what_is_missing(bench: LocalTtl) -> None:
    bench.ask(QUESTIONS["names"])
    _, turns = finished(begun(bench))
    missing = NAMES[COUNT // 2]
    bench.cache.invalidate(flushed((b"hive", b"d", b"t"), missing))
    other = bench.cache.begin([key_of(EntryKind.PARTITION, b"", LIST, b"hive", b"d", b"t", missing)], 1, 1 << 62)
    decision, until_it_waits = finished(begun(bench))
    assert isinstance(decision, Wait) and decision.seen == bench.dispatcher.moved()
    assert until_it_waits < turns // 2
    bench.cache.release(other)
    assert decision.seen != bench.dispatcher.moved()
    decision, _ = finished(begun(bench))
    assert isinstance(decision, Forward) and decision.ask is not None
    decision.pending.failed(False)


def test_what_is_invalidated_meanwhile_is_not_found(bench: LocalTtl) -> None:
    bench.ask(QUESTIONS["names"])
    work = begun(bench)
    bench.cache.invalidate(flushed((b"hive", b"d", b"t"), NAMES[-1]))
    decision, _ = finished(work)
    assert isinstance(decision, Forward) and decision.reason == "not_loaded" and decision.ask is not None
    assert NAMES[-1] in decision.ask.message and NAMES[0] not in decision.ask.message
    decision.pending.failed(False)


def test_nothing_is_answered_that_was_found_before_a_write_could_not_be_recorded(bench: LocalTtl) -> None:
    bench.ask(QUESTIONS["names"])
    _, turns = finished(begun(bench))
    work: Decision = begun(bench)
    for _ in range(turns - 5):  # the result is being joined
        assert isinstance(work, Work)
        work = work.step() or work
    assert isinstance(work, Work)
    bench.suspension.report("ttl", 1)
    decision, _ = finished(work)
    bench.suspension.report("ttl", 0)
    assert isinstance(decision, Forward) and decision.reason == "unfenced"


def test_a_read_that_waits_after_its_slices_waits_for_either_dispatcher() -> None:
    decision = switch.with_seen(Work(lambda: Work(lambda: Wait(1, 5))), 7)
    assert isinstance(decision, Work) and finished(decision)[0] == Wait(7, 5)
