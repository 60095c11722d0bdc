"""Equal reads that miss at the same time make one call, where its answer is right for all of them."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.config.protection import ProtectionSection
from hms_cache_proxy.methods import flights, misses
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Decision, Forward, Serve, Wait
from hms_cache_proxy.methods.effects import RelayedRead
from hms_cache_proxy.methods.protection import ProtectedDispatcher
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.store.protocol import TableRecord
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, TABLE, flat_table
from tests.methods.warm import Bench, opened
from tests.server.scripted import Call, ScriptedMetastore
from tests.server.test_bugs import hub_of
from tests.testbed.fault_proxy import RESET_ON_CLOSE
from tests.testbed.processes import SOON_S, wait_until
from tests.testbed.raw import encode_call

LONG_NS = 10**12
SALES = DATABASE[1].decode()


def asked(seqid: int = 5) -> bytes:
    """Learned only, never answered from objects: its order is the metastore's."""
    return encode_call("get_all_tables", SALES, seqid=seqid)


def reply(message: bytes, names: tuple[bytes, ...] = (b"orders",)) -> bytes:
    return Call(message).reply(spec.encode(spec.result("get_all_tables")(success=list(names))))


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(misses, "LONGEST_NS", LONG_NS)


@pytest.fixture(params=["session"])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    with filled(tmp_path, consistency=request.param) as made:
        yield made


@contextmanager
def filled(directory: Path, **settings: object) -> Iterator[Bench]:
    """A bench whose database has tables in an order that the metastore knows."""
    with opened(directory, **settings) as made:
        others: dict[Any, TableRecord | None] = {}
        for at, name in enumerate((b"returns", b"stock"), 78):
            others[*DATABASE, name] = flat_table(name, at)
        made.step(Changes(cursor=11, tables=others))
        yield made


def decided(
    bench: Bench, session: ClientSession, message: bytes, *, patient: bool = True, arrived_ns: int | None = None
) -> Decision:
    header = parse_header(message)
    assert isinstance(header, Header)
    now_ns = time.monotonic_ns() if arrived_ns is None else arrived_ns
    return bench.dispatcher.decide(ClientCall.of(session, header, message, now_ns, patient=patient))


def leaves(bench: Bench, arrived_ns: int | None = None) -> Forward:
    """A first read is on its way."""
    decision = decided(bench, ClientSession(), asked(), arrived_ns=arrived_ns)
    assert isinstance(decision, Forward) and decision.hold_bytes, decision
    decision.pending.sending()
    return decision


def lands(forward: Forward, answer: bytes | None) -> None:
    session = ClientSession()
    forward.pending.reply_began(session, time.monotonic_ns())
    forward.pending.reply_done(session, answer, time.monotonic_ns())


def alone(decision: Decision) -> bool:
    """It goes upstream, with nobody waiting for it."""
    return (
        isinstance(decision, Forward) and isinstance(decision.pending, RelayedRead) and decision.pending.flight is None
    )


def goes(decision: Decision) -> bool:
    return isinstance(decision, Forward)


def test_one_goes_and_the_others_have_its_answer(bench: Bench) -> None:
    forward = leaves(bench)
    sessions = [ClientSession() for _ in range(5)]
    arrived_ns = time.monotonic_ns()
    waits = [decided(bench, session, asked(9), arrived_ns=arrived_ns) for session in sessions]
    assert all(isinstance(wait, Wait) and wait.seen == bench.dispatcher.moved() for wait in waits)
    lands(forward, reply(asked()))
    assert bench.dispatcher.moved() != waits[0].seen  # type: ignore[union-attr]
    for session in sessions:
        served = decided(bench, session, asked(9), arrived_ns=arrived_ns)
        assert isinstance(served, Serve) and (served.outcome, served.reason) == ("hit", "shared")
        assert served.chunks == reply(asked(9))
    assert goes(decided(bench, ClientSession(), asked())), (
        "who comes later asks for himself: it may be older than he must see"
    )


def test_a_waiter_is_shown_nothing_older_afterwards(bench: Bench) -> None:
    forward = leaves(bench)
    session, arrived_ns = ClientSession(), time.monotonic_ns()
    assert isinstance(decided(bench, session, asked(), arrived_ns=arrived_ns), Wait)
    lands(forward, reply(asked()))
    assert isinstance(decided(bench, session, asked(), arrived_ns=arrived_ns), Serve)
    assert isinstance(forward.pending, RelayedRead) and session.floors is not None
    assert session.floors.block(forward.pending.depends, arrived_ns)


@pytest.mark.parametrize("answer", [None, "refused"])
def test_who_has_waited_in_vain_asks_alone(bench: Bench, answer: str | None) -> None:
    forward = leaves(bench)
    session, arrived_ns = ClientSession(), time.monotonic_ns()
    assert isinstance(decided(bench, session, asked(), arrived_ns=arrived_ns), Wait)
    if answer is None:
        forward.pending.failed(True)
    else:
        result = spec.result("get_all_tables")(o1=spec.struct("MetaException")(message=b"no"))  # type: ignore[call-arg]
        lands(forward, Call(asked()).reply(spec.encode(result)))
    assert alone(decided(bench, session, asked(), arrived_ns=arrived_ns))
    assert isinstance(decided(bench, ClientSession(), asked()), Forward)
    assert isinstance(decided(bench, ClientSession(), asked()), Wait), "the next ones wait for that one"


def test_a_wait_has_an_end(bench: Bench) -> None:
    leaves(bench)
    wait = decided(bench, ClientSession(), asked())
    assert isinstance(wait, Wait) and wait.until_ns <= time.monotonic_ns() + LONG_NS
    assert alone(decided(bench, ClientSession(), asked(), patient=False))


def test_nobody_joins_a_read_that_left_before_a_write_ended(bench: Bench) -> None:
    forward = leaves(bench)
    session, arrived_ns = ClientSession(), time.monotonic_ns()
    assert isinstance(decided(bench, session, asked(), arrived_ns=arrived_ns), Wait)
    message = encode_call("drop_table", SALES, TABLE[2].decode(), True)
    write = decided(bench, ClientSession(), message)
    assert isinstance(write, Forward)
    write.pending.sending()
    during = decided(bench, ClientSession(), asked(), patient=False)
    assert isinstance(during, Forward) and during.reason == "fence"
    write.pending.reply_began(ClientSession(), time.monotonic_ns())
    write.pending.reply_done(ClientSession(), Call(message).reply(b"\0"), time.monotonic_ns())
    bench.step(Changes(cursor=12, tables={TABLE: None}))
    later = decided(bench, ClientSession(), asked())
    assert goes(later), "it must see what the write did"
    lands(forward, reply(asked()))
    assert not isinstance(decided(bench, session, asked(), arrived_ns=arrived_ns), Serve), "others have changed it"


def test_nobody_joins_a_read_that_left_before_what_he_was_shown(bench: Bench) -> None:
    # Never answered from objects: learned under a floor, too.
    asks = encode_call("get_materialized_views_for_rewriting", SALES)
    forward = decided(bench, ClientSession(), asks)
    assert isinstance(forward, Forward) and isinstance(forward.pending, RelayedRead) and forward.hold_bytes
    shown = ClientSession()
    assert isinstance(decided(bench, shown, asks), Wait)
    forward.pending.shared.shown(shown, forward.pending.depends, time.monotonic_ns())
    assert goes(decided(bench, shown, asks))
    assert isinstance(decided(bench, ClientSession(), asks), Wait)


def test_who_waits_has_the_answer_although_another_read_has_left_since(bench: Bench) -> None:
    """One whose connection has been shown something in between. Else each of these would make all others wait for its
    own answer."""
    asks = encode_call("get_materialized_views_for_rewriting", SALES)
    first = decided(bench, ClientSession(), asks)
    waits, shown, arrived_ns = ClientSession(), ClientSession(), time.monotonic_ns()
    assert isinstance(decided(bench, waits, asks, arrived_ns=arrived_ns), Wait)
    assert isinstance(first, Forward) and isinstance(first.pending, RelayedRead)
    first.pending.shared.shown(shown, first.pending.depends, time.monotonic_ns())
    second = decided(bench, shown, asks)
    assert goes(second) and isinstance(decided(bench, waits, asks, arrived_ns=arrived_ns), Wait)
    answer = Call(asks).reply(spec.encode(spec.result("get_materialized_views_for_rewriting")(success=[b"mine"])))
    lands(first, answer)
    served = decided(bench, waits, asks, arrived_ns=arrived_ns)
    assert isinstance(served, Serve) and served.reason == "shared" and served.chunks == answer
    assert isinstance(decided(bench, ClientSession(), asks), Wait), "who comes later waits for the second one"
    assert isinstance(second, Forward)
    lands(second, answer)
    kept = first.pending.shared.flights._by_key
    assert [len(one) for one in kept.values()] == [1], "one answer is kept"


def test_nobody_joins_a_read_that_left_before_he_was_shown_a_table_that_it_lists(bench: Bench) -> None:
    asks = encode_call("get_materialized_views_for_rewriting", SALES)
    forward = decided(bench, ClientSession(), asks)
    assert isinstance(forward, Forward) and isinstance(forward.pending, RelayedRead)
    assert targets.members(*DATABASE) in forward.pending.depends
    shown = ClientSession()
    forward.pending.shared.shown(shown, (targets.table(*TABLE),), time.monotonic_ns())
    assert goes(decided(bench, shown, asks))


def test_without_a_lease_nobody_joins_a_read(tmp_path: Path) -> None:
    """A write through another proxy may have ended after it left, and this proxy has not been told."""
    asks = encode_call("get_materialized_views_for_rewriting", SALES)
    with filled(tmp_path, peers="127.0.0.1:1", peer_listen="127.0.0.1:1") as bench:
        assert goes(decided(bench, ClientSession(), asks))
        assert alone(decided(bench, ClientSession(), asks))
        bench.page[Slot.LEASE_UNTIL_NS] = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + LONG_NS
        assert goes(decided(bench, ClientSession(), asks))
        assert isinstance(decided(bench, ClientSession(), asks), Wait), "with one, it would have been told"


@pytest.mark.parametrize("bench", ["strict"], indirect=True)
def test_strict_reads_are_not_shared(bench: Bench) -> None:
    leaves(bench, arrived_ns=0)
    assert alone(decided(bench, ClientSession(), asked(), arrived_ns=0))


def test_answers_are_forgotten(bench: Bench) -> None:
    forward = leaves(bench)
    arrived_ns = time.monotonic_ns()
    lands(forward, reply(asked()))
    shared = bench.dispatcher._shared.flights
    shared.forget(time.monotonic_ns())
    assert shared._by_key
    shared.forget(time.monotonic_ns() + flights.KEPT_NS)
    assert not shared._by_key
    assert not isinstance(decided(bench, ClientSession(), asked(), arrived_ns=arrived_ns, patient=False), Wait)


def test_reads_without_a_place_do_not_wake_each_other(bench: Bench) -> None:
    """Else each is decided again when another has been, again and again until there is a place."""
    settings = ProtectionSection(calls_per_address=1)
    limited = ProtectedDispatcher(bench.dispatcher, settings, frozenset(), queue_ns=LONG_NS)

    def ask(number: int) -> Decision:
        message = encode_call("get_tables", SALES, f"*{number}|*s")
        header = parse_header(message)
        assert isinstance(header, Header)
        return limited.decide(
            ClientCall.of(ClientSession(peer=f"a:{number}"), header, message, time.monotonic_ns(), patient=True)
        )

    first = ask(0)
    assert isinstance(first, Forward) and first.hold_bytes, "one that others could share"
    waits = [ask(1), ask(2), ask(1)]
    assert all(isinstance(wait, Wait) and wait.seen == limited.moved() for wait in waits)
    first.pending.failed(False)
    assert isinstance(waits[0], Wait) and waits[0].seen != limited.moved(), "there is a place"


def test_who_leaves_waits_no_more(tmp_path: Path) -> None:
    """All who wait are looked at two thousand times a second."""
    hubs: list[Hub] = []
    left = threading.Event()

    def when_the_other_has_left(message: bytes, call: Call) -> Iterator[bytes]:
        assert left.wait(SOON_S) and wait_until(lambda: not hubs[0]._waiting)
        yield reply(message)

    async def two(bench: Bench) -> None:
        hub = hub_of(bench, scripted)
        hubs.append(hub)
        server = await asyncio.get_running_loop().create_server(lambda: Client(hub), "127.0.0.1", 0)
        async with server:
            reader, stays = await asyncio.open_connection(*server.sockets[0].getsockname())
            stays.write(asked())
            assert await asyncio.to_thread(wait_until, lambda: scripted.named("get_all_tables"))
            _, leaves = await asyncio.open_connection(*server.sockets[0].getsockname())
            leaves.write(asked())
            assert await asyncio.to_thread(wait_until, lambda: hub._waiting)
            leaves.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            leaves.close()  # without the reset he could still read an answer
            left.set()
            expected = reply(asked())
            assert await asyncio.wait_for(reader.readexactly(len(expected)), SOON_S) == expected
            stays.close()

    with ScriptedMetastore() as scripted, filled(tmp_path) as bench:
        scripted.answers["get_all_tables"] = when_the_other_has_left
        asyncio.run(two(bench))


def test_ten_clients_make_one_call(tmp_path: Path) -> None:
    hubs: list[Hub] = []

    def when_all_wait(message: bytes, call: Call) -> Iterator[bytes]:
        assert wait_until(lambda: len(hubs[0]._waiting) == 9)
        yield reply(message)

    async def ask_all(bench: Bench) -> list[bytes]:
        hub = hub_of(bench, scripted)
        hubs.append(hub)
        server = await asyncio.get_running_loop().create_server(lambda: Client(hub), "127.0.0.1", 0)

        async def one(seqid: int) -> bytes:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(asked(seqid))
            expected = reply(asked(seqid))
            got = await asyncio.wait_for(reader.readexactly(len(expected)), 30)
            writer.close()
            assert got == expected
            return got

        async with server:
            return await asyncio.gather(*(one(number) for number in range(10)))

    with ScriptedMetastore() as scripted, filled(tmp_path) as bench:
        scripted.answers["get_all_tables"] = when_all_wait
        assert len(asyncio.run(ask_all(bench))) == 10
        assert len(scripted.named("get_all_tables")) == 1
