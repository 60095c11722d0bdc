"""The short way answers while nothing has changed, and stops at once when something has: a real cache, fences, page."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import MODE_RELAY_ONLY, MODE_SERVE, Slot, StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config import Config
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.floors import Floors
from hms_cache_proxy.methods.decision import Serve, Session
from hms_cache_proxy.methods.dispatch import Dispatcher
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, IDENTITY, TABLE, database, table
from tests.testbed.raw import encode_call

TARGET = targets.table(*TABLE)


def request(seqid: int = 7) -> bytes:
    return encode_call("get_table", DATABASE[1].decode(), TABLE[2].decode(), seqid=seqid)


@dataclass
class Bench:
    """A cache with one table, its fences, and a dispatcher."""

    page: StatePage
    writer: CacheWriter
    reader: CacheReader
    fences: FenceStore
    dispatcher: Dispatcher
    session: Session = field(default_factory=Session)
    cursor: int = 10

    def step(self, changes: Changes | None = None, *, tickets: bool = True) -> None:
        """What the follower does: take tickets, commit, publish."""
        began_ns = time.monotonic_ns()
        last, _ = self.fences.pending_tickets()
        if changes is not None or last > self.writer.meta.done_ticket:
            new = changes or Changes(cursor=self.cursor)
            self.cursor = new.cursor
            if tickets:
                new.done_ticket = last
            self.writer.commit(new)
        self.page[Slot.BEGAN_NS] = began_ns
        if tickets:
            self.fences.done(last)

    def hot(self, message: bytes | None = None) -> bytes | None:
        return self.dispatcher.hot(self.session, message or request(), time.monotonic_ns())

    def decide(self, message: bytes | None = None, session: Session | None = None) -> bytes:
        """The long way, which must answer from the cache."""
        whole = message or request()
        header = parse_header(whole)
        assert isinstance(header, Header)
        decision = self.dispatcher.decide(session or self.session, header, whole, time.monotonic_ns())
        assert isinstance(decision, Serve) and isinstance(decision.chunks, bytes), decision
        return decision.chunks


def _bench(tmp_path: Path, **settings: object) -> Iterator[Bench]:
    config = Config.model_validate({"data_dir": str(tmp_path), "upstream": "thrift://127.0.0.1:1", **settings})
    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        reader = CacheReader(tmp_path / "cache", page)
        fences = FenceStore(tmp_path / "fences", page)
        dispatcher = Dispatcher(config, reader, fences, page, WorkerMetrics(), lambda: None)
        bench = Bench(page, writer, reader, fences, dispatcher)
        complete = {targets.databases(b"hive"), targets.tables(*DATABASE)}
        bench.step(Changes(cursor=10, databases={DATABASE: database()}, tables={TABLE: table()}, complete=complete))
        page[Slot.SERVE_MODE] = MODE_SERVE
        yield bench
        fences.close()
        reader.close()
        writer.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield from _bench(tmp_path)


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


def test_a_fence_on_something_else_does_not(warm: Bench) -> None:
    expected = warm.hot()
    warm.fences.begin([targets.table(b"hive", b"sales", b"other")], os.getpid())
    assert warm.hot() == expected
    warm.fences.begin([targets.ALL], os.getpid())
    assert warm.hot() is None


def test_old_confirmations_stop_it(warm: Bench) -> None:
    warm.page[Slot.BEGAN_NS] = time.monotonic_ns() - 11 * 10**9
    assert warm.hot() is None
    assert warm.dispatcher.hot(warm.session, request(), time.monotonic_ns() - 2 * 10**9) is not None
    assert warm.hot() is None
    warm.step()
    assert warm.hot() is not None


@pytest.mark.parametrize(
    ("slot", "value"),
    [(Slot.SERVE_MODE, MODE_RELAY_ONLY), (Slot.BEGAN_NS, 0), (Slot.FLOOR_EVENT, 11), (Slot.CURSOR, 0)],
)
def test_the_pages_words_stop_it(warm: Bench, slot: Slot, value: int) -> None:
    before = warm.page[slot]
    if slot is Slot.CURSOR:
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
    assert warm.dispatcher.hot(Session(), request(), time.monotonic_ns()) is not None
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
    warm.dispatcher.authorize("relay")
    assert warm.hot() is None
    warm.dispatcher.authorize("none")
    assert warm.hot() is None  # what was kept under other rules is gone
    warm.decide()
    assert warm.hot() is not None


def test_strict_answers_nothing_by_an_earlier_confirmation(tmp_path: Path) -> None:
    for bench in _bench(tmp_path, consistency="strict"):
        arrived_ns = time.monotonic_ns()
        bench.step()
        whole, header = request(), parse_header(request())
        assert isinstance(header, Header)
        assert isinstance(bench.dispatcher.decide(bench.session, header, whole, arrived_ns), Serve)
        assert bench.dispatcher.hot(bench.session, whole, arrived_ns) is not None
        assert bench.hot() is None


def test_eventual_needs_only_a_cache_that_serves(tmp_path: Path) -> None:
    for bench in _bench(tmp_path, consistency="eventual"):
        bench.decide()
        floors = bench.session.floors = Floors()
        floors.lift([TARGET], time.monotonic_ns())
        bench.fences.begin([TARGET], os.getpid())
        bench.page[Slot.BEGAN_NS] = 1
        assert bench.hot() is not None
        bench.page[Slot.SERVE_MODE] = MODE_RELAY_ONLY
        assert bench.hot() is None
