"""Connections to metastores: idle ones are released, no more than allowed are made, calls wait for one in order."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from hms_cache_proxy.upstream.endpoints import Endpoint
from hms_cache_proxy.upstream.link import keep_alive
from hms_cache_proxy.upstream.places import ConnectionPlaces
from tests.server.conftest import Worker
from tests.server.scripted import Call, ScriptedMetastore
from tests.server.test_faults import READ, WRITE, error_of
from tests.testbed.processes import wait_until
from tests.testbed.raw import EndOfStream, encode_call


def test_an_idle_connection_is_released_and_the_session_begins_again(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, upstream_options={"idle_timeout_s": 2})
    good = scripted.answers["*"]

    def slowly(message: bytes, call: Call) -> Iterator[bytes]:
        time.sleep(3)  # a call that takes its time is not idle
        yield from good(message, call)

    scripted.answers["drop_database"] = slowly
    with worker.raw() as connection:
        connection.call(encode_call("set_ugi", "alice", ["group"], seqid=9))
        assert b"ok" in connection.call(WRITE)
        assert wait_until(lambda: worker.metric("hms_proxy_upstream_connections") == 0)
        assert b"ok" in connection.call(READ)
    calls = [(number, call.name) for number, call in scripted.calls if call.name != "getVersion"]  # of a probe
    assert [name for _, name in calls] == ["set_ugi", "drop_database", "set_ugi", "get_all_databases"]
    first, second, third, fourth = (number for number, _ in calls)
    assert first == second != third == fourth


def test_no_more_connections_are_made_than_are_allowed(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, upstream_options={"max_connections": 2, "queue_timeout_s": 60})
    good = scripted.answers["*"]
    in_flight = most = 0
    mutex = threading.Lock()

    def counted(message: bytes, call: Call) -> Iterator[bytes]:
        nonlocal in_flight, most
        with mutex:
            in_flight += 1
            most = max(most, in_flight)
        time.sleep(0.005)
        with mutex:
            in_flight -= 1
        yield from good(message, call)

    scripted.answers["get_all_databases"] = counted
    with ExitStack() as stack:
        clients = [stack.enter_context(worker.raw()) for _ in range(8)]
        for client in clients:  # one after the other: what is idle gives way
            assert b"ok" in client.call(READ)
        with ThreadPoolExecutor(len(clients)) as threads:
            replies = list(threads.map(lambda client: [client.call(READ) for _ in range(10)], clients))
    assert all(b"ok" in reply for some in replies for reply in some)
    assert most == 2
    assert wait_until(lambda: worker.metric("hms_proxy_upstream_connections") == 0)


def test_a_call_that_waits_too_long_for_a_connection_is_told_so(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, upstream_options={"max_connections": 1, "queue_timeout_s": 0.5})
    released = threading.Event()
    good = scripted.answers["*"]

    def hang(message: bytes, call: Call) -> Iterator[bytes]:
        released.wait()
        yield from good(message, call)

    scripted.answers["get_all_databases"] = hang
    with worker.raw() as first, worker.raw() as second:
        first.send(READ)
        assert wait_until(lambda: bool(scripted.named("get_all_databases")))
        assert "connections (upstream_options.max_connections) stayed busy" in error_of(second.call(WRITE)).message
        released.set()
        assert b"ok" in first.receive()
        assert b"ok" in second.call(WRITE)
    assert len(scripted.named("drop_database")) == 1
    assert worker.counted(1, "hms_proxy_requests_total", outcome="error", reason="upstream_busy")


def test_one_address_cannot_take_all_connections(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, limits={"max_connections_per_address": 2})
    with worker.raw() as first:
        with worker.raw() as second:
            assert b"ok" in first.call(READ) and b"ok" in second.call(READ)
            with worker.raw() as third, pytest.raises((EndOfStream, OSError)):
                third.call(READ)

        def again() -> bool:
            with worker.raw() as fourth:
                try:
                    return b"ok" in fourth.call(READ)
                except (EndOfStream, OSError):
                    return False

        assert wait_until(again)
    assert worker.counted(1, "hms_proxy_limits_broken_total", limit="max_connections_per_address")


def test_a_peer_whose_machine_is_gone_is_noticed_in_minutes() -> None:
    async def options() -> list[int]:
        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(served, "127.0.0.1", 0)
        async with server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            keep_alive(writer.transport)  # type: ignore[arg-type]
            connection = writer.get_extra_info("socket")
            names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            found = [connection.getsockopt(socket.IPPROTO_TCP, name) for name in names]
            writer.close()
            return found

    idle_s, interval_s, probes = asyncio.run(options())
    assert idle_s + interval_s * probes <= 120


def test_places_go_to_who_came_first() -> None:
    places: ConnectionPlaces[str] = ConnectionPlaces(2)
    one, two = Endpoint("one", 1), Endpoint("two", 2)
    assert [places.take(one, who) for who in "abcde"] == [True, True, False, False, False]
    assert places.take(two, "f")
    assert (places.wanted(one), places.wanted(two)) == (True, False)
    assert places.leave(one, "d") is None  # it waits no longer
    assert [places.leave(one, who) for who in "bca"] == ["c", "e", None]
    assert (list(places.holders(one)), places.wanted(one)) == (["e"], False)
    assert places.take(one, "g") and not places.take(one, "h")
    assert [places.leave(one, who) for who in "ehg"] == ["h", None, None]
