"""New connections on the socket that workers share: who takes one, and when."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import monotonic_ns
from typing import Any, cast

import pytest
import uvloop
from structlog.testing import CapturingLogger

from hms_cache_proxy.cache.state import FIRST_BEAT, FIRST_CONNECTIONS, StatePage
from hms_cache_proxy.config import Address
from hms_cache_proxy.processes import ports
from hms_cache_proxy.server.acceptor import LONGEST_S, Acceptor
from hms_cache_proxy.server.worker_states import Member
from tests.testbed.processes import SOON_S


class Telling(asyncio.Protocol):
    """Tells a client who has it."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._member.count(1)
        cast(asyncio.Transport, transport).write(b"%d" % self._member.number)  # uvloop has classes of its own

    def connection_lost(self, error: Exception | None) -> None:
        self._member.count(-1)


class Bench:
    """Two workers' parts in one loop. However busy the machine is, each shows signs of life."""

    def __init__(self, page: StatePage, listener: socket.socket) -> None:
        self.page, self.listener = page, listener
        self.members = [Member(page, number, 2, monotonic_ns() // 2) for number in range(2)]
        self.tasks: set[asyncio.Task[None]] = set()
        for member in self.members:
            member.beat()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def telling(self, member: Member) -> Callable[[socket.socket], Coroutine[Any, Any, None]]:
        """What begins a connection that this member takes."""

        async def begin(taken: socket.socket) -> None:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: Telling(member), taken)

        return begin

    @asynccontextmanager
    async def accepting(self, *numbers: int) -> AsyncIterator[None]:
        acceptors = [
            Acceptor(self.listener.dup(), member, self.telling(member), self.spawn)
            for member in self.members
            if member.number in numbers
        ]
        for acceptor in acceptors:
            acceptor.start()
        yield
        for acceptor in acceptors:
            acceptor.close()

    async def who(self) -> bytes:
        """Takes a new connection? It ends at once."""
        reader, writer = await asyncio.open_connection(*self.listener.getsockname())
        try:
            return await asyncio.wait_for(reader.read(1), SOON_S)
        finally:
            writer.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with StatePage(tmp_path / "state", create=True) as page, ports.shared(Address("127.0.0.1", 0)) as listener:
        yield Bench(page, listener)


@pytest.mark.parametrize("fewest", [0, 1])
def test_the_one_with_the_fewest_takes_it(bench: Bench, fewest: int) -> None:
    async def run() -> None:
        bench.page[FIRST_CONNECTIONS + 1 - fewest] = 10
        async with bench.accepting(0, 1):
            for _ in range(5):
                bench.members[fewest].beat()
                assert await bench.who() == b"%d" % fewest

    uvloop.run(run())


def test_another_takes_it_if_that_one_does_not_come(bench: Bench) -> None:
    async def run() -> float:
        bench.page[FIRST_CONNECTIONS] = 10
        loop = asyncio.get_running_loop()
        async with bench.accepting(0):
            began = loop.time()
            assert await bench.who() == b"0"
            return loop.time() - began

    assert uvloop.run(run()) > 0.9 * LONGEST_S


def test_excess_is_a_share_of_the_own(bench: Bench) -> None:
    bench.page[FIRST_CONNECTIONS], bench.page[FIRST_CONNECTIONS + 1] = 20, 15
    zero, one = bench.members
    assert (zero.excess(0), one.excess(0)) == (0.25, 0)
    assert one.excess(5) == 0 and one.excess(15) == 10 / 30
    assert zero.total() == 35


def test_nobody_waits_for_one_that_shows_no_life(bench: Bench) -> None:
    bench.page[FIRST_CONNECTIONS] = 10
    zero = bench.members[0]
    assert zero.excess(0) == 1
    bench.page[FIRST_BEAT + 1] = 1  # at boot
    assert zero.excess(0) == 0
    bench.page[FIRST_BEAT] = 0
    assert zero.excess(0) == 0, "nor for itself"


def test_nobody_waits_for_one_that_does_not_accept_just_after_a_boot(bench: Bench) -> None:
    bench.members[0].silent_ns = monotonic_ns() + 10**12
    bench.page[FIRST_CONNECTIONS] = 10
    bench.page[FIRST_BEAT + 1] = 0
    assert bench.members[0].excess(0) == 0


def test_a_successor_begins_at_none(bench: Bench) -> None:
    bench.members[1].count(7)
    Member(bench.page, 1, 2)
    assert bench.page[FIRST_CONNECTIONS + 1] == bench.page[FIRST_BEAT + 1] == 0


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What the acceptor has logged. (What is printed depends on the tests that ran before in this process.)"""
    logger = CapturingLogger()
    monkeypatch.setattr("hms_cache_proxy.server.acceptor.log", logger)
    return lambda: [call.args[0] for call in logger.calls]


def test_one_without_descriptors_tries_again(bench: Bench, said: Callable[[], list[str]]) -> None:
    async def run() -> None:
        async with bench.accepting(0):
            with socket.create_connection(bench.listener.getsockname()) as client:
                client.setblocking(False)
                with no_more_descriptors():
                    async with asyncio.timeout(SOON_S):
                        while "cannot accept" not in said():
                            await asyncio.sleep(0.01)
                answer = asyncio.get_running_loop().sock_recv(client, 1)
                assert await asyncio.wait_for(answer, SOON_S) == b"0"

    uvloop.run(run())


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """This process can open nothing, also if something is closed meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_ends_when_the_supervisor_ends_the_listening(bench: Bench, said: Callable[[], list[str]]) -> None:
    async def run() -> None:
        async with bench.accepting(0, 1):
            address = bench.listener.getsockname()
            bench.listener.shutdown(socket.SHUT_RD)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*address)
            await asyncio.sleep(0.01)

    uvloop.run(run())
    assert said() == []
