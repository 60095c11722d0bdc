"""When TTL mode or the cache that follows the log takes over, no connection is shown less than it has seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

import pytest

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.cache.state import MODE_RELAY_ONLY, MODE_SERVE, Slot
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import load
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Forward, Serve, Work
from hms_cache_proxy.methods.dispatch import CacheDispatcher, SharedState, WorkerLinks
from hms_cache_proxy.methods.ttl.dispatcher import LoadingDispatcher
from hms_cache_proxy.methods.ttl.switch import Switch
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.follower.stepping import DATABASE, Catalog, Stepping
from tests.ttl.bench import call


@dataclass
class Both:
    """A worker that has both dispatchers, the metastore, and a follower that steps when it is told to."""

    catalog: Catalog
    followed: Stepping
    switch: Switch

    def serve(self, *, by_time: bool) -> None:
        """From now on, TTL mode is in charge, or the cache that follows the log."""
        page = self.followed.page
        page[Slot.MODE_REASON] = ModeReason.NO_LOG if by_time else ModeReason.SERVING
        page[Slot.SERVE_MODE] = MODE_RELAY_ONLY if by_time else MODE_SERVE

    def alter(self, owner: bytes) -> None:
        """Somebody else gives the table another owner, past the proxy."""
        table = self.catalog.call("get_table", dbname=DATABASE, tbl_name=b"t")
        table.owner = owner
        self.catalog.call("alter_table", dbname=DATABASE, tbl_name=b"t", new_tbl=table)

    def ask(self, session: ClientSession, method: str, **arguments: object) -> tuple[object, str]:
        """The value, and who gave it: the cache (hot, hit), or the reason for which the metastore did."""
        header, message = call(method, **arguments)
        hot = self.switch.hot(session, message, monotonic_ns())
        if hot is not None:
            return _value(method, hot), "hot"
        decision = self.switch.decide(ClientCall.of(session, header, message, monotonic_ns()))
        while isinstance(decision, Work):
            decision = decision.step() or decision
        if isinstance(decision, Serve):
            chunks = decision.chunks
            whole = chunks if isinstance(chunks, bytes) else b"".join(chunks)
            return _value(method, whole), "hit"
        assert isinstance(decision, Forward)
        return _value(method, self._forward(session, message, decision)), decision.reason

    def _forward(self, session: ClientSession, message: bytes, forward: Forward) -> bytes:
        pending, question = forward.pending, forward.ask
        pending.sending()
        while question is not None:
            step = pending.answered(self.catalog.reply(question.message))
            if isinstance(step, bytes):
                return step
            question = step
        whole = self.catalog.reply(message)
        pending.reply_began(session, monotonic_ns())
        pending.reply_done(session, whole if forward.hold_bytes else None, monotonic_ns())
        return whole

    def owner(self, session: ClientSession) -> tuple[bytes, str]:
        """The table's owner, and who says so."""
        table, by = self.ask(session, "get_table", dbname=DATABASE, tbl_name=b"t")
        return table.owner, by  # type: ignore[attr-defined]  # a struct


def _value(method: str, reply: bytes) -> object:
    header = parse_header(reply)
    assert isinstance(header, Header)
    return spec.decode(spec.result(method), reply, header.body)[0].success


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    """The table's owner is `old`, the cache has it, and TTL mode is in charge."""
    config = load(cli={"store_url": "sqlite:///unused", "upstream": "thrift://127.0.0.1:1", "ttl.enabled": True})
    with Catalog(tmp_path) as catalog, Stepping(tmp_path / "data", catalog) as followed:
        catalog.table(b"t", partitioned=False)
        cache, metrics = TtlCache.create(tmp_path / "ttl", bounds_of(config.ttl), started), WorkerMetrics()
        suspension = Suspension(followed.page)
        state = SharedState(followed.page, followed.reader, followed.fences, suspension)
        following = CacheDispatcher(config, state, metrics, WorkerLinks(lambda: None))
        loading = LoadingDispatcher(config, cache, metrics, lambda: None, suspension)
        made = Both(catalog, followed, Switch(following, loading, followed.page))
        made.alter(b"old")
        followed.settle()
        made.serve(by_time=True)
        yield made
        suspension.close()
        cache.close()


@pytest.mark.parametrize("loaded_by_another", [False, True])
def test_what_ttl_mode_has_shown_a_connection_is_a_floor(both: Both, loaded_by_another: bool) -> None:
    """TTL mode answers until the cache serves, so it shows what the last step cannot have seen."""
    both.alter(b"new")
    if loaded_by_another:
        assert both.owner(ClientSession()) == (b"new", "not_loaded")
    client = ClientSession()
    assert both.owner(client) == (b"new", "hit" if loaded_by_another else "not_loaded")
    both.serve(by_time=False)
    assert both.owner(client) == (b"new", "floor")
    both.followed.settle()
    assert both.owner(client) == (b"new", "hit")


def test_a_reply_that_arrives_after_the_hand_over_is_a_floor(both: Both) -> None:
    client = ClientSession()
    header, message = call("get_table", dbname=DATABASE, tbl_name=b"t")
    decision = both.switch.decide(ClientCall.of(client, header, message, monotonic_ns()))
    while isinstance(decision, Work):
        decision = decision.step() or decision
    assert isinstance(decision, Forward)
    both.alter(b"new")
    both.serve(by_time=False)
    both._forward(client, message, decision)
    assert both.owner(client) == (b"new", "floor")


def test_an_event_that_a_client_has_read_in_ttl_mode_is_awaited_by_all(both: Both) -> None:
    both.alter(b"new")
    both.ask(ClientSession(), "get_current_notificationEventId")
    both.serve(by_time=False)
    other = ClientSession()
    assert both.owner(other) == (b"new", "fence")
    both.followed.settle()
    assert both.owner(other) == (b"new", "hit")


def test_ttl_mode_shows_nothing_that_it_loaded_before_the_log_was_followed(both: Both) -> None:
    client = ClientSession()
    assert both.owner(client) == (b"old", "not_loaded")
    both.serve(by_time=False)
    both.alter(b"new")
    both.followed.settle()
    assert both.owner(client) == (b"new", "hit")
    both.serve(by_time=True)
    assert both.owner(client) == (b"new", "not_loaded")
    assert both.owner(client) == (b"new", "hit")
