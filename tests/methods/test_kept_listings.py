"""Kept replies of listings: valid while the listing says the same, whatever else changes in the tables."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, PartitionChange, TableStub
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Decision, Forward, Serve
from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import TableKey, TableRecord
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, TABLE, TABLE_ID, days, flat_table, table
from tests.methods.warm import Bench, opened
from tests.server.scripted import Call
from tests.testbed.raw import encode_call

STOCK, RETURNS = (*DATABASE, b"stock"), (*DATABASE, b"returns")
STOCK_TARGET = targets.table(*STOCK)
SALES = DATABASE[1].decode()
NAMES = encode_call("get_all_tables", SALES)
META = encode_call("get_table_meta", SALES, "*", [])
MANAGED = encode_call("get_tables_by_type", SALES, ".*", "MANAGED_TABLE")
OWNED = encode_call("get_table_names_by_filter", SALES, 'hive_filter_field_owner__ = "o"', -1)
LISTINGS = {"get_all_tables": NAMES, "get_table_meta": META, "get_tables_by_type": MANAGED}


def said(comment: bytes = b"said") -> bytes:
    return encode.string_field(4, comment) + encode.string_field(6, b"o") + encode.i32_field(7, 1) + encode.STOP


def stock(body: bytes = b"flat body", comment: bytes = b"said") -> TableRecord:
    return replace(flat_table(b"stock", 78, body), summary=said(comment))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path, max_unconfirmed_ms=3_600_000) as made:
        tables: dict[TableKey, TableRecord | None] = {STOCK: stock(), TABLE: replace(table(), summary=said())}
        made.step(Changes(11, tables=tables, partitions=[PartitionChange(TABLE_ID, replace_all=True)]))
        yield made


def decided(bench: Bench, message: bytes) -> Decision:
    header = parse_header(message)
    assert isinstance(header, Header)
    return bench.dispatcher.decide(ClientCall.of(ClientSession(), header, message, time.monotonic_ns(), patient=False))


def leaves(bench: Bench, message: bytes) -> Forward:
    decision = decided(bench, message)
    assert isinstance(decision, Forward) and decision.hold_bytes, decision
    decision.pending.sending()
    return decision


def arrives(forward: Forward, message: bytes) -> None:
    session, name = ClientSession(), forward.label
    forward.pending.reply_began(session, time.monotonic_ns())
    reply = Call(message).reply(spec.encode(spec.result(name)(success=[])))
    forward.pending.reply_done(session, reply, time.monotonic_ns())


def kept(bench: Bench, message: bytes) -> bool:
    """Is it answered without the metastore?"""
    bench.step()
    return isinstance(decided(bench, message), Serve)


def learned(bench: Bench, message: bytes) -> None:
    arrives(leaves(bench, message), message)
    assert kept(bench, message)


def altered(cursor: int, **changed: bytes) -> Changes:
    """As an ALTER_TABLE that leaves partitions alone is followed."""
    return Changes(cursor, tables={STOCK: stock(**changed)}, touched={STOCK_TARGET})


def test_a_reply_that_was_asked_for_before_the_rules_changed_is_not_kept(bench: Bench) -> None:
    """Such as protection.refuse_reads: what is kept is given without asking again what is refused."""
    leaving = leaves(bench, NAMES)
    bench.dispatcher.forget()
    arrives(leaving, NAMES)
    assert not kept(bench, NAMES)
    learned(bench, NAMES)


@pytest.mark.parametrize("method", LISTINGS)
def test_a_listing_outlives_changes_that_it_does_not_show(bench: Bench, method: str) -> None:
    message = LISTINGS[method]
    learned(bench, message)
    bench.step(altered(12, body=b"other parameters"))
    assert kept(bench, message)
    day = PartitionChange(TABLE_ID, [part.record() for part in days(2)])
    bench.step(Changes(13, tables={TABLE: replace(table(), summary=said())}, partitions=[day]))
    assert kept(bench, message)


@pytest.mark.parametrize("method", LISTINGS)
def test_a_listing_ends_with_what_it_shows(bench: Bench, method: str) -> None:
    message = LISTINGS[method]
    for changes in (
        altered(12, comment=b"another"),
        Changes(13, tables={RETURNS: replace(flat_table(b"returns", 79), summary=said())}),
        Changes(14, tables={RETURNS: replace(flat_table(b"returns", 80), summary=said())}),
        Changes(15, tables={RETURNS: replace(flat_table(b"returns", 80), summary=said(), table_type=b"VIRTUAL_VIEW")}),
        Changes(16, tables={RETURNS: None}),
    ):
        learned(bench, message)
        bench.step(changes)
        assert not kept(bench, message), changes
    learned(bench, message)
    bench.step(Changes(17, stubs={STOCK: TableStub(78, b"MANAGED_TABLE", "full")}))
    assert not kept(bench, message)


@pytest.mark.parametrize("method", LISTINGS)
def test_what_changes_and_changes_back_meanwhile_is_noticed(bench: Bench, method: str) -> None:
    """The metastore may have answered in between, and the step sees no difference."""
    message = LISTINGS[method]
    forward = leaves(bench, message)
    events = {STOCK_TARGET, targets.tables(*DATABASE)}
    bench.step(Changes(12, tables={STOCK: stock()}, touched=events))
    arrives(forward, message)
    assert not kept(bench, message)


def test_a_table_without_a_summary_ends_a_listing(bench: Bench) -> None:
    """Over Thrift, and before Hive 4, the listing does not show what has changed."""
    bench.step(Changes(12, tables={STOCK: replace(stock(), summary=None)}))
    learned(bench, NAMES)
    bench.step(Changes(13, tables={STOCK: replace(stock(b"other"), summary=None)}))
    assert not kept(bench, NAMES)


def test_what_shows_parameters_ends_with_any_change(bench: Bench) -> None:
    learned(bench, OWNED)
    bench.step(altered(12, body=b"other parameters"))
    assert not kept(bench, OWNED)


def test_a_write_to_a_table_holds_back_what_is_said_of_it(bench: Bench) -> None:
    for message in (META, MANAGED, NAMES):
        learned(bench, message)
    fence_id = bench.fences.begin([STOCK_TARGET], 1)
    assert not kept(bench, META) and not kept(bench, MANAGED)
    assert kept(bench, NAMES)
    bench.fences.cancel(fence_id)
    assert kept(bench, META)


def test_an_answer_from_the_cache_outlives_them_too(tmp_path: Path) -> None:
    with opened(tmp_path, max_unconfirmed_ms=3_600_000, list_order="name") as bench:
        tables: dict[TableKey, TableRecord | None] = {STOCK: stock(), TABLE: replace(table(), summary=said())}
        bench.step(Changes(11, tables=tables))
        first = bench.decide(META)
        bench.step(altered(12, body=b"other parameters"))
        assert bench.hot(META) == first
        bench.step(altered(13, comment=b"another"))
        assert bench.hot(META) is None and bench.decide(META) != first
