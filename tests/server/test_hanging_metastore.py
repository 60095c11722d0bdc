"""The only metastore hangs: who waits for it, and for how long."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace

import pytest

from hms_cache_proxy.server.commands import CloseUpstream, Command, OpenUpstream, SendUpstream, UpstreamTrouble
from hms_cache_proxy.upstream.endpoints import Endpoint, Endpoints
from hms_cache_proxy.upstream.prober import Prober, probe
from hms_cache_proxy.upstream.silence import SILENT_NS
from tests.server.playbook import READ, RELAY, REPLY, SECOND, Playbook, exception_in, kinds, reply_to
from tests.server.scripted import ScriptedMetastore
from tests.testbed.processes import SOON_S
from tests.testbed.raw import encode_call

WAITS_S = SILENT_NS // SECOND
LOGIN = encode_call("set_ugi", "alice", ["g"], seqid=1)


def asking(*, retry: bool = True, request: bytes = READ) -> Playbook:
    """A call is out at a metastore that may take ten minutes."""
    book = Playbook(upstreams=1, request_s=600)
    book.dispatcher.decision = replace(RELAY, retry=retry)
    book.relaying(request)
    return book


def found_hanging(book: Playbook) -> Endpoint:
    """A probe has had no answer."""
    (endpoint,) = book.endpoints.all
    book.endpoints.refused(endpoint, "no answer to a probe", hangs=True)
    return endpoint


def after(book: Playbook, seconds: float) -> list[Command]:
    """Time goes on."""
    book.now += int(seconds * SECOND)
    return book.core.expire(book.now)


def test_a_read_is_given_up_when_nobody_has_heard_anything_of_the_metastore_since_it_was_sent() -> None:
    book = asking()
    after(book, 3)
    found_hanging(book)
    assert after(book, WAITS_S - 4) == []
    commands = after(book, 2)
    assert kinds(commands)[:2] == [UpstreamTrouble, CloseUpstream]
    assert b"hangs: no answer to a probe" in exception_in(commands)
    assert book.dispatcher.hooks == [("sending",), ("failed", True)]
    assert not book.core.closed
    book.endpoints.answered(book.endpoints.all[0])
    assert kinds(book.received(READ)) == [OpenUpstream], "the client goes on"


def test_a_long_call_at_a_metastore_that_answers_probes_is_never_cut() -> None:
    book = asking()
    endpoint = found_hanging(book)
    book.now += SECOND
    endpoint.heard_ns = book.now  # a probe was answered, or somebody else's call
    book.endpoints.answered(endpoint)
    found_hanging(book)  # ... and the next one not: all threads of the metastore are taken
    assert after(book, 500) == []
    commands = after(book, 200)
    assert b"did not answer" in exception_in(commands), "the request time is over"


@pytest.mark.parametrize("problem", ["refused", "well"])
def test_only_a_metastore_that_hangs_is_given_up(problem: str) -> None:
    """One that takes no connections may be about to end, with this call still under way."""
    book = asking()
    if problem == "refused":
        found_hanging(book)
        book.endpoints.refused(book.endpoints.all[0], "Connection refused")
    assert after(book, 590) == []


def test_a_write_that_has_left_is_never_cut() -> None:
    book = asking(retry=False)
    found_hanging(book)
    assert after(book, 590) == []
    assert exception_in(after(book, 20))
    assert book.dispatcher.hooks == [("sending",), ("failed", True)]


def test_a_reply_that_has_begun_is_waited_for() -> None:
    book = asking()
    book.upstream(REPLY[:5])
    found_hanging(book)
    assert after(book, 590) == []


@pytest.mark.parametrize("retry", [True, False])
def test_what_has_not_left_is_given_up_whatever_it_is(retry: bool) -> None:
    """The session calls of a new connection have no answer; the client learns that its call was not made."""
    book = asking(request=LOGIN)
    book.dispatcher.decision = replace(RELAY, replay=True)
    book = Playbook(upstreams=1, request_s=600)
    book.dispatcher.decision = replace(RELAY, replay=True)
    book.relaying(LOGIN)
    book.upstream(reply_to(LOGIN))
    book.core.upstream_lost("closed", book.now)
    book.dispatcher.decision = replace(RELAY, retry=retry)
    book.received(READ)
    assert book.opened() == [SendUpstream(LOGIN)]
    book.dispatcher.hooks.clear()
    found_hanging(book)
    assert after(book, WAITS_S - 1) == []
    assert b"hangs" in exception_in(after(book, 2))
    assert book.dispatcher.hooks == [("failed", False)]


def test_bytes_of_any_connection_are_a_sign_of_life() -> None:
    book = asking()
    (endpoint,) = book.endpoints.all
    assert endpoint.heard_ns == 0
    book.now += SECOND
    book.upstream(REPLY)
    assert endpoint.heard_ns == book.now


def test_a_probe_tells_a_metastore_that_hangs_from_one_that_is_gone() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address: tuple[str, int] = listener.getsockname()
        hanging = asyncio.run(probe(Endpoint(*address)))
    assert (hanging.hangs, hanging.silent) == (True, False)
    gone = asyncio.run(probe(Endpoint(*address)))
    assert gone.problem and not gone.hangs


def test_an_answered_probe_is_a_sign_of_life() -> None:
    async def watched(endpoints: Endpoints) -> None:
        async with asyncio.timeout(SOON_S):
            prober = asyncio.create_task(Prober(endpoints, lambda uri, sick: None).watch(endpoints.all[0]))
            endpoints.suspect(endpoints.all[0])
            while not endpoints.all[0].heard_ns:
                await asyncio.sleep(0.01)
            prober.cancel()

    before = time.monotonic_ns()
    with ScriptedMetastore() as metastore:
        endpoints = Endpoints([metastore.address])
        asyncio.run(watched(endpoints))
    assert before < endpoints.all[0].heard_ns <= time.monotonic_ns()
