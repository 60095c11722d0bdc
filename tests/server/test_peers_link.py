"""A worker's requests to the peers' process: what waits for its answer, and what the state page decides."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns

import pytest

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.peers.requests import ANSWER, PeerAsk, PeerRequest
from hms_cache_proxy.server.peers_link import PeersLink
from tests.testbed.processes import SOON_S

WRITE = PeerRequest(PeerAsk.WRITE, 5, (b"tx",))
UNFENCED = PeerRequest(PeerAsk.WRITE, 0, (b"tx",))
NOTED, UNNOTED = PeerRequest(PeerAsk.NOTED, 5), PeerRequest(PeerAsk.NOTED)
GIVEN_S = 0.3


def from_now(seconds: float) -> int:
    return clock_gettime_ns(CLOCK_BOOTTIME) + int(seconds * 1e9)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[StatePage]:
    with StatePage(tmp_path / "state", create=True) as made:
        made[Slot.PEERS_SETTLED] = 1
        made[Slot.GIVEN_UNTIL_NS] = from_now(GIVEN_S)
        yield made


async def leases_go_on(page: StatePage) -> None:
    """As while all is well: leases are given again and again."""
    while True:
        page[Slot.GIVEN_UNTIL_NS] = from_now(60)
        await asyncio.sleep(0.01)


async def when_it_left(page: StatePage, path: Path, request: PeerRequest, *, limit_s: float = SOON_S) -> float | None:
    """How many seconds after it was asked; None: it waits for longer than this. A process listens at `path`, and never
    answers; leases go on."""
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(asyncio.Protocol, str(path))
    link = PeersLink(path, page, write_age_ns=10**18)
    left: asyncio.Future[None] = loop.create_future()
    began = loop.time()
    page[Slot.GIVEN_UNTIL_NS] = from_now(GIVEN_S)
    link.ask(request, lambda: left.set_result(None))
    tasks = [loop.create_task(link.run()), loop.create_task(leases_go_on(page))]
    try:
        await asyncio.wait_for(left, limit_s)
        return loop.time() - began
    except TimeoutError:
        return None
    finally:
        for task in tasks:
            task.cancel()
        assert link._transport is not None
        link._transport.abort()
        server.close()
        await asyncio.sleep(0.05)  # both ends see it


@pytest.mark.parametrize("request_", [WRITE, UNFENCED, NOTED, UNNOTED], ids=["fenced", "unfenced", "noted", "unnoted"])
def test_a_question_waits_for_leases_that_were_given_before_it(
    page: StatePage, tmp_path: Path, request_: PeerRequest
) -> None:
    """... and not for those that are given later: their holders are told of its fence or note first."""
    left_s = asyncio.run(when_it_left(page, tmp_path / "peers.sock", request_))
    assert left_s is not None and left_s >= GIVEN_S


def test_which_writes_have_left_by_the_page(page: StatePage, tmp_path: Path) -> None:
    """Peers may not have been told of their fences."""
    link = PeersLink(tmp_path / "peers.sock", page, write_age_ns=10**18)
    page[Slot.GIVEN_UNTIL_NS] = from_now(60)
    link.ask(replace(WRITE, number=6), lambda: None)
    page[Slot.GIVEN_UNTIL_NS] = 0
    for request in (WRITE, NOTED):
        link.ask(request, lambda: None)
    link.check()
    link.data_received(ANSWER.pack(1))
    assert [link.alone(number) for number in (6, WRITE.number, WRITE.number)] == [False, True, False]


def test_nothing_leaves_before_this_proxy_is_settled(page: StatePage, tmp_path: Path) -> None:
    page[Slot.PEERS_SETTLED] = 0
    page[Slot.PEERS_STARTED_NS] = from_now(0)
    assert asyncio.run(when_it_left(page, tmp_path / "peers.sock", WRITE, limit_s=2 * GIVEN_S)) is None
