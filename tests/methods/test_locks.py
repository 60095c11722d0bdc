"""What a granted lock guarantees, and to whom."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hive_metastore.ttypes import LockComponent, LockLevel, LockRequest, LockType

from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Forward
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, MessageType, message_header, parse_header
from tests.cache.records import DATABASE, TABLE
from tests.methods.warm import Bench, opened, request
from tests.testbed.raw import encode_call

GRANTED, WAITING = 1, 2
READ, WRITE, EXCLUSIVE = LockType.SHARED_READ, LockType.SHARED_WRITE, LockType.EXCLUSIVE


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as made:
        yield made


def lock(bench: Bench, session: ClientSession, *types: int, state: int = GRANTED) -> None:
    """The session asks for such locks on the table, and the metastore answers."""
    database, table = DATABASE[1].decode(), TABLE[2].decode()
    components = [LockComponent(kind, LockLevel.TABLE, database, table) for kind in types]
    message = encode_call("lock", LockRequest(components, user="u", hostname="h"))
    header = parse_header(message)
    assert isinstance(header, Header)
    forward = bench.dispatcher.decide(ClientCall.of(session, header, message, time.monotonic_ns()))
    assert isinstance(forward, Forward)
    forward.pending.sending()
    response = spec.result("lock")(success=spec.struct("LockResponse")(lockid=5, state=state))
    reply = message_header(b"lock", MessageType.REPLY, header.seqid) + spec.encode(response)
    forward.pending.reply_began(session, time.monotonic_ns())
    forward.pending.reply_done(session, reply, time.monotonic_ns())


def served(bench: Bench, session: ClientSession) -> bool:
    return bench.dispatcher.hot(session, request(), time.monotonic_ns()) is not None


def test_a_shared_lock_is_a_floor_of_its_connection_and_nobody_elses(bench: Bench) -> None:
    mine, other = ClientSession(), ClientSession()
    bench.decide()
    assert served(bench, mine) and served(bench, other)
    for _ in range(20):
        lock(bench, mine, READ, READ)
        assert served(bench, other) and not served(bench, mine)
        assert bench.fences.standing() == {}
    bench.step()
    assert served(bench, mine)


@pytest.mark.parametrize("types", [(WRITE,), (EXCLUSIVE,), (READ, EXCLUSIVE), (4,), ()])
def test_any_other_lock_is_a_fence_for_everybody(bench: Bench, types: tuple[int, ...]) -> None:
    bench.decide()
    lock(bench, ClientSession(), *types)
    assert types == () or not served(bench, ClientSession())
    assert len(bench.fences.standing()) == 1
    bench.step()
    assert served(bench, ClientSession())


def test_a_shared_lock_that_has_to_wait_is_remembered(bench: Bench) -> None:
    mine = ClientSession()
    bench.decide()
    lock(bench, mine, READ, state=WAITING)
    assert served(bench, mine) and bench.fences.lock_targets(5) is not None
