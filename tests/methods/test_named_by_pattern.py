"""get_table_objects_by_name_req with a pattern instead of names: its answer shows every table that matches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Decision, Forward
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, flat_table
from tests.methods.oracle import request
from tests.methods.structs import struct
from tests.methods.warm import TARGET, Bench, opened
from tests.server.scripted import Call

METHOD = "get_table_objects_by_name_req"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as made:
        yield made


def asked(**fields: object) -> bytes:
    asks = struct("GetTablesRequest", dbName=DATABASE[1], tablesPattern=b"*", **fields)
    return request(METHOD, {"req": asks})


def decided(bench: Bench, session: ClientSession, message: bytes) -> Decision:
    header = parse_header(message)
    assert isinstance(header, Header)
    return bench.dispatcher.decide(ClientCall.of(session, header, message, time.monotonic_ns()))


def answered(bench: Bench, session: ClientSession, message: bytes) -> None:
    """The metastore is asked, and says that there are none."""
    decision = decided(bench, session, message)
    assert isinstance(decision, Forward) and decision.reason == "arguments", decision
    result = spec.result(METHOD)(success=struct("GetTablesResult", tables=[]))  # type: ignore[call-arg]
    reply = Call(message).reply(spec.encode(result))
    decision.pending.sending()
    decision.pending.reply_began(session, time.monotonic_ns())
    decision.pending.reply_done(session, reply if decision.hold_bytes else None, time.monotonic_ns())


@pytest.mark.parametrize("names", [None, []])
def test_a_new_table_is_in_the_next_answer(bench: Bench, names: list[bytes] | None) -> None:
    """So the answer is not kept: a table of any name may match."""
    message = asked(tblNames=names)
    answered(bench, ClientSession(), message)
    bench.step(Changes(cursor=11, tables={(*DATABASE, b"returns"): flat_table(b"returns", 78)}))
    bench.step()
    assert isinstance(decided(bench, ClientSession(), message), Forward)


def test_what_it_shows_is_a_floor(bench: Bench) -> None:
    session = ClientSession()
    answered(bench, session, asked())
    assert session.floors is not None and session.floors.block([TARGET], session.floors.highest_ns)
