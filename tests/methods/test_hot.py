"""The short way answers while nothing has changed, and stops at once when something has: a real cache, fences, page."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.last_used import SLOTS
from hms_cache_proxy.cache.replies import HitLabel
from hms_cache_proxy.cache.state import MODE_RELAY_ONLY, Slot
from hms_cache_proxy.consistency.floors import Floors
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.methods import patience
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Decision, Forward, Serve, Wait
from hms_cache_proxy.methods.hot import AWAKE_NS, MARKED_NS, SAMPLED_EVERY
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, TABLE
from tests.methods.warm import TARGET, Bench, Listening, opened, request
from tests.testbed.raw import encode_call

SHORT_NS = 200_000_000


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as bench:
        yield bench


@pytest.fixture
def warm(bench: Bench) -> Bench:
    """After the long way has answered once."""
    expected = bench.decide()
    assert bench.hot() == expected
    return bench


def test_nothing_is_known_before_the_long_way_has_answered(bench: Bench) -> None:
    assert bench.hot() is None


def test_the_reply_carries_the_seqid_of_each_request(warm: Bench) -> None:
    for seqid in (0, 1, -1, 2**31 - 1):
        assert warm.hot(request(seqid)) == warm.decide(request(seqid))
    assert warm.hot(request()[:-1]) is None
    assert warm.hot(request() + b"\0") is None
    assert warm.hot(request() + request()) is None
    assert warm.hot(b"\x80\x01") is None


def test_a_step_without_changes_changes_nothing(warm: Bench) -> None:
    expected = warm.hot()
    for _ in range(3):
        warm.step()
        assert warm.hot() == expected


def test_a_change_of_the_table_ends_it(warm: Bench) -> None:
    warm.step(Changes(cursor=11, tables={TABLE: None}, touched={TARGET}))
    assert warm.hot() is None


def test_a_change_of_something_else_does_not(warm: Bench) -> None:
    expected = warm.hot()
    warm.step(Changes(cursor=11, touched={targets.table(b"hive", b"sales", b"other")}))
    assert warm.hot() == expected
    assert warm.hot() == expected


def test_a_fence_stops_it_until_the_follower_has_done_its_ticket(warm: Bench) -> None:
    expected = warm.hot()
    fence = warm.fences.begin([TARGET], os.getpid())
    assert warm.hot() is None
    warm.step()
    assert warm.hot() is None
    warm.fences.finish(fence)
    assert warm.hot() is None
    warm.step()
    assert warm.hot() == expected


def test_a_write_that_cannot_be_fenced_stops_it_until_it_is(warm: Bench) -> None:
    expected = warm.hot()
    suspension = Suspension(warm.page, 1)
    suspension.report("fences", 1)
    assert warm.hot() is None
    suspension.report("fences", 0)
    assert warm.hot() == expected
    suspension.close()


def test_a_fence_on_something_else_does_not(warm: Bench) -> None:
    expected = warm.hot()
    warm.fences.begin([targets.table(b"hive", b"sales", b"other")], os.getpid())
    assert warm.hot() == expected
    warm.fences.begin([targets.ALL], os.getpid())
    assert warm.hot() is None


def test_old_confirmations_stop_it(tmp_path: Path) -> None:
    with opened(tmp_path, max_unconfirmed_ms=10_000) as bench:
        bench.decide()
        bench.page[Slot.BEGAN_NS] = time.monotonic_ns() - 11 * 10**9
        assert bench.hot() is None
        assert bench.dispatcher.hot(bench.session, request(), time.monotonic_ns() - 2 * 10**9) is not None
        assert bench.hot() is None
        bench.step()
        assert bench.hot() is not None


def test_a_machine_that_slept_stops_it(tmp_path: Path) -> None:
    with opened(tmp_path, max_unconfirmed_ms=60_000) as bench:
        expected = bench.decide()
        for slept_s, answer in ((0, expected), (120, None), (30, expected)):
            bench.page[Slot.BEGAN_BOOT_NS] = boottime_ns() - slept_s * 10**9
            time.sleep(2 * AWAKE_NS / 1e9)
            assert [bench.hot(), bench.hot()] == [answer, answer]


@pytest.mark.parametrize(
    ("slot", "value"),
    [(Slot.SERVE_MODE, MODE_RELAY_ONLY), (Slot.BEGAN_NS, 0), (Slot.UNFENCED, 1), (Slot.CURSOR, 0)],
)
def test_the_pages_words_stop_it(warm: Bench, slot: int, value: int) -> None:
    before = warm.page[slot]
    if slot == Slot.CURSOR:
        warm.page[Slot.START_EVENT] = 10
    warm.page[slot] = value
    assert warm.hot() is None
    warm.page[slot] = before
    assert warm.hot() is not None


def test_floors_of_the_connection_stop_it_and_no_other_connection(warm: Bench) -> None:
    floors = warm.session.floors = Floors()
    assert warm.hot() is not None
    floors.lift([TARGET], time.monotonic_ns())
    assert warm.hot() is None
    assert warm.dispatcher.hot(ClientSession(), request(), time.monotonic_ns()) is not None
    warm.step()
    assert warm.hot() is not None


def test_a_newer_snapshot_of_this_worker_stops_what_is_older(warm: Bench) -> None:
    """A commit that is not on the page yet has been shown to somebody: nobody may be shown less."""
    before = {slot: warm.page[slot] for slot in (Slot.CACHE_SEQ, Slot.GENERATION, Slot.CURSOR, Slot.DONE_TICKET)}
    warm.writer.commit(Changes(cursor=11, tables={TABLE: None}, touched={TARGET}))
    for slot, value in before.items():
        warm.page[slot] = value
    assert warm.hot() is not None
    with warm.reader.snapshot() as snapshot:
        assert snapshot.meta.cursor == 11
    assert warm.hot() is None


def test_set_meta_conf_stops_it_for_that_connection(warm: Bench) -> None:
    warm.session.relay_for_good = True
    assert warm.hot() is None


def test_new_rules_stop_it(warm: Bench) -> None:
    warm.dispatcher.forget()
    assert warm.hot() is None  # what was kept under other rules is gone
    warm.decide()
    assert warm.hot() is not None


def test_nobody_gets_what_everybody_must_ask_for(tmp_path: Path) -> None:
    with opened(tmp_path, authorization="relay") as bench:
        assert bench.hot() is None
        asked = _asked(bench, time.monotonic_ns())
        assert isinstance(asked, Forward) and asked.reason == "authorization"


def test_strict_answers_nothing_by_an_earlier_confirmation(tmp_path: Path) -> None:
    with opened(tmp_path, consistency="strict") as bench:
        arrived_ns = time.monotonic_ns()
        bench.step()
        whole, header = request(), parse_header(request())
        assert isinstance(header, Header)
        assert isinstance(bench.dispatcher.decide(ClientCall.of(bench.session, header, whole, arrived_ns)), Serve)
        assert bench.dispatcher.hot(bench.session, whole, arrived_ns) is not None
        assert bench.hot() is None


def test_strict_reads_share_a_look(tmp_path: Path) -> None:
    """Reads that arrive before a look begins share it; those that arrive meanwhile share the next one."""
    with opened(tmp_path, consistency="strict") as bench:
        early, late = ([time.monotonic_ns() for _ in range(64)] for _ in range(2))
        assert all(isinstance(_asked(bench, arrived_ns), Wait) for arrived_ns in early)
        assert len(bench.woken) == 1
        began_ns = bench.page[Slot.LOOKING_NS] = time.monotonic_ns()
        during = [time.monotonic_ns() for _ in range(64)]
        assert all(isinstance(_asked(bench, arrived_ns), Wait) for arrived_ns in late + during)
        assert len(bench.woken) == 2, "for those that arrived since it began"
        bench.page[Slot.BEGAN_NS] = began_ns
        assert all(isinstance(_asked(bench, arrived_ns), Serve) for arrived_ns in early + late)
        assert all(isinstance(_asked(bench, arrived_ns), Wait) for arrived_ns in during)
        assert len(bench.woken) == 2
        bench.step()
        whole = request()
        assert all(bench.dispatcher.hot(bench.session, whole, arrived_ns) is not None for arrived_ns in during)


def test_a_strict_read_that_waited_in_vain_is_relayed(tmp_path: Path) -> None:
    """... and the next ones at once, until there is a look again."""
    with opened(tmp_path, consistency="strict") as bench:
        arrived_ns = time.monotonic_ns()
        assert isinstance(_asked(bench, arrived_ns), Wait)
        relayed = _asked(bench, arrived_ns, patient=False)
        assert isinstance(relayed, Forward) and (relayed.outcome, relayed.reason) == ("miss", "strict")
        assert isinstance(_asked(bench, time.monotonic_ns()), Forward)
        bench.step()
        assert isinstance(_asked(bench, time.monotonic_ns()), Wait)


def test_a_connection_that_is_relayed_again_and_again_waits_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each relayed reply sets a floor. If steps take 60 ms, only a read that waits for two of them is a hit."""
    monkeypatch.setattr(patience, "LATELY_NS", 10**12)  # however busy the machine is
    with opened(tmp_path) as bench:
        waits = []
        for _ in range(2):
            arrived_ns = time.monotonic_ns()
            bench.session.floors = Floors()
            bench.session.floors.lift([targets.ALL], arrived_ns)
            wait = _asked(bench, arrived_ns)
            assert isinstance(wait, Wait)
            waits.append(wait.until_ns - arrived_ns)
            assert isinstance(_asked(bench, arrived_ns, patient=False), Forward)
        assert waits == [patience.SHORT_NS, patience.LONG_NS]
        long_ago_ns = time.monotonic_ns() - patience.LONG_NS
        assert isinstance(_asked(bench, long_ago_ns, patient=False), Forward), "in vain"
        assert isinstance(_asked(bench, time.monotonic_ns()), Forward), "not for so long again soon"
        bench.step()
        assert bench.session.floors is not None
        bench.session.floors.lift([targets.ALL], time.monotonic_ns())
        wait = _asked(bench, time.monotonic_ns())
        assert isinstance(wait, Wait) and wait.until_ns - time.monotonic_ns() <= patience.SHORT_NS
        bench.step()
        assert isinstance(_asked(bench, time.monotonic_ns()), Serve)


def test_strict_keeps_the_metastores_replies_for_later_looks(tmp_path: Path) -> None:
    """A read that only a kept reply can answer is relayed the first time; later it needs no more than a look."""
    message = encode_call("get_materialized_views_for_rewriting", DATABASE[1].decode(), seqid=7)
    with opened(tmp_path, consistency="strict") as bench:
        forward = _asked(bench, time.monotonic_ns(), message)
        assert isinstance(forward, Forward) and forward.hold_bytes
        forward.pending.sending()
        forward.pending.reply_began(bench.session, time.monotonic_ns())
        reply = message[:3] + b"\2" + message[4 : message.index(b"rewriting") + 13] + b"\x0f\0\0\x0b\0\0\0\0\0"
        forward.pending.reply_done(bench.session, reply, time.monotonic_ns())
        arrived_ns = time.monotonic_ns()
        assert isinstance(_asked(bench, arrived_ns, message), Wait)
        bench.step()
        served = _asked(bench, arrived_ns, message)
        assert isinstance(served, Serve) and served.chunks == reply


def _asked(bench: Bench, arrived_ns: int, message: bytes | None = None, *, patient: bool = True) -> Decision:
    whole = message or request()
    header = parse_header(whole)
    assert isinstance(header, Header)
    return bench.dispatcher.decide(ClientCall.of(bench.session, header, whole, arrived_ns, patient=patient))


def test_eventual_needs_only_a_cache_that_serves_and_is_followed(tmp_path: Path) -> None:
    with opened(tmp_path, consistency="eventual", max_unconfirmed_ms=10_000) as bench:
        bench.decide()
        floors = bench.session.floors = Floors()
        floors.lift([TARGET], time.monotonic_ns())
        bench.fences.begin([TARGET], os.getpid())
        confirmed_ns = bench.page[Slot.BEGAN_NS] = time.monotonic_ns() - 5 * 10**9
        assert bench.hot() is not None
        assert bench.dispatcher.hot(bench.session, request(), confirmed_ns + 11 * 10**9) is None
        bench.page[Slot.BEGAN_NS] = time.monotonic_ns() - 11 * 10**9
        assert bench.hot() is None, "the follower is stuck"
        bench.page[Slot.BEGAN_NS] = time.monotonic_ns()
        assert bench.hot() is not None
        bench.page[Slot.SERVE_MODE] = MODE_RELAY_ONLY
        assert bench.hot() is None


@pytest.mark.parametrize("number", [1, 2])
def test_answers_are_told_and_counted_all_the_same(tmp_path: Path, number: int) -> None:
    """Also if several are told."""
    heard: list[tuple[object, ...]] = []
    with opened(tmp_path, Listening(told=(lambda *answer: heard.append(answer),) * number)) as warm:
        warm.decide()
        counts = warm.metrics.slot("get_table", "hit")
        before = sum(counts.buckets) + counts.quick
        expected = warm.hot()
        assert expected is not None and warm.hot(request()[:-1]) is None
        assert sum(counts.buckets) + counts.quick == before + 1
    assert heard == heard[:1] * number
    arrived_ns, took_ns, reply, session, message, label = heard[0]
    assert isinstance(arrived_ns, int) and isinstance(took_ns, int) and isinstance(label, HitLabel)
    assert 0 < took_ns < time.monotonic_ns() - arrived_ns + 1
    assert (reply, session, message) == (expected, warm.session, request())
    assert (label.method, label.reason) == ("get_table", "")


@pytest.mark.parametrize("took_ns", [0, 10**9])
def test_samples_are_chosen_by_the_clock_however_long_an_answer_takes(warm: Bench, took_ns: int) -> None:
    samples = warm.samples
    samples.clear()
    began_ns = (time.monotonic_ns() - took_ns) >> 10 << 10  # 16 moments of 64 ns each
    answers = [warm.dispatcher.hot(warm.session, request(), began_ns + moment * 64) for moment in range(32)]
    assert None not in answers
    assert len(samples) == len(answers) // SAMPLED_EVERY


def test_tables_that_are_asked_for_are_marked_now_and_then(tmp_path: Path) -> None:
    """By the long way each time, by the short one at the first answer after a step when MARKED_NS have passed."""
    with opened(tmp_path) as bench:

        def marked(later_ns: int) -> bool:
            with (tmp_path / "uses").open("r+b") as file:
                file.write(bytes(4 * SLOTS))
            assert bench.dispatcher.hot(bench.session, request(), time.monotonic_ns() + later_ns) is not None
            return bench.reader.uses.used_s(TARGET) > 0

        bench.decide()
        assert bench.reader.uses.used_s(TARGET) > 0
        assert bench.reader.uses.used_s(targets.table(b"hive", b"sales", b"other")) == 0
        assert marked(0), "the first one"
        assert not marked(2 * MARKED_NS), "nothing is published"
        bench.step()
        assert not marked(0)
        bench.step()
        assert marked(2 * MARKED_NS)
        assert not marked(2 * MARKED_NS)


def test_a_read_of_what_is_not_loaded_is_marked(tmp_path: Path) -> None:
    """So that it may come back."""
    with opened(tmp_path) as bench:
        message = encode_call("get_table", "sales", "gone", seqid=1)
        header = parse_header(message)
        assert isinstance(header, Header)
        bench.dispatcher.decide(ClientCall.of(bench.session, header, message, time.monotonic_ns()))
        assert bench.reader.uses.used_s(targets.table(b"hive", b"sales", b"gone")) > 0


def test_a_lease_that_has_run_out(tmp_path: Path) -> None:
    """Whatever else stays the same."""
    peers = {"peers": "127.0.0.1:1", "peer_listen": "127.0.0.1:1"}
    with opened(tmp_path, **peers) as bench:
        bench.page[Slot.LEASE_UNTIL_NS] = boottime_ns() + 600 * SHORT_NS
        expected = bench.decide()
        assert bench.hot() == expected
        until_ns = bench.page[Slot.LEASE_UNTIL_NS] = boottime_ns() + SHORT_NS  # renewed, for a shorter time
        while boottime_ns() < until_ns:
            assert bench.hot() == expected or boottime_ns() >= until_ns
        assert bench.hot() is None
        bench.page[Slot.LEASE_UNTIL_NS] = boottime_ns() + 600 * SHORT_NS
        assert bench.hot() == expected
        bench.page[Slot.LEASE_UNTIL_NS] = 0  # dropped
        assert bench.hot() is None


def test_without_a_lease_a_read_that_has_waited_for_a_look_is_hot(tmp_path: Path) -> None:
    with opened(tmp_path, peers="127.0.0.1:1", peer_listen="127.0.0.1:1") as bench:
        whole, arrived_ns = request(), time.monotonic_ns()
        header = parse_header(whole)
        assert isinstance(header, Header)
        assert isinstance(
            bench.dispatcher.decide(ClientCall.of(bench.session, header, whole, arrived_ns, patient=True)), Wait
        )
        bench.step()
        assert isinstance(bench.dispatcher.decide(ClientCall.of(bench.session, header, whole, arrived_ns)), Serve)
        assert bench.dispatcher.hot(bench.session, whole, arrived_ns) is not None
        assert bench.hot() is None, "this one has arrived later"
