"""Playbooks: requests in their order, modes, limits of time, leaving and draining."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from hms_cache_proxy.methods.decision import Forward, Serve, Wait, Work
from hms_cache_proxy.server.client_states import HotPathUse
from hms_cache_proxy.server.commands import (
    Again,
    Await,
    Close,
    CloseUpstream,
    Command,
    Observe,
    OpenUpstream,
    Send,
    SendUpstream,
    SetReading,
    Why,
)
from hms_cache_proxy.server.connection import PIPELINE_BYTES
from hms_cache_proxy.server.inbox import WINDOW_BYTES
from tests.server.playbook import (
    READ,
    RELAY,
    REPLY,
    SECOND,
    Playbook,
    framed,
    kinds,
    over,
    reply_to,
    sent,
)
from tests.testbed.raw import encode_call


def test_a_relayed_call() -> None:
    book = Playbook()
    assert kinds(book.received(READ)) == [OpenUpstream]
    assert book.dispatcher.hooks == []
    assert book.opened() == [SendUpstream(READ)]
    assert book.dispatcher.hooks == [("sending",)]
    assert book.upstream(REPLY) == [Send(REPLY), over("get_all_databases", "relay", "", len(REPLY))]
    assert book.dispatcher.hooks == [("sending",), ("began",), ("done", None)]
    assert book.core.mode == HotPathUse.HOT
    assert book.received(READ) == [SendUpstream(READ)]


def test_the_mode_is_hot_only_when_nothing_is_pending() -> None:
    book = Playbook()
    assert book.core.mode == HotPathUse.GENERAL
    book.dispatcher.decision = Serve(b"answer", "get_table")
    assert book.received(READ)[0] == Send(b"answer")
    assert book.core.mode == HotPathUse.HOT
    book.received(READ[:5])
    assert book.core.mode == HotPathUse.GENERAL
    book.received(READ[5:])
    assert book.core.mode == HotPathUse.HOT
    book.core.client_blocked()
    assert book.core.mode == HotPathUse.GENERAL
    book.core.client_writable(book.now)
    assert book.core.mode == HotPathUse.HOT
    book.core.drain(book.now)
    assert book.core.mode == HotPathUse.GENERAL


def test_a_framed_connection_is_hot_too_and_its_replies_are_framed() -> None:
    book = Playbook()
    book.dispatcher.decision = Serve(b"answer", "get_table")
    assert sent(book.received(framed(READ))) == framed(b"answer")
    assert book.core.mode == HotPathUse.HOT_FRAMED
    assert book.dispatcher.seen == [READ]


@pytest.mark.parametrize("wrap", [bytes, framed], ids=["unframed", "framed"])
def test_requests_wait_for_the_reply_of_the_one_before(wrap: type[bytes]) -> None:
    book = Playbook()
    requests = [encode_call("get_all_databases", seqid=seqid) for seqid in range(3)]
    book.received(b"".join(wrap(one) for one in requests))
    assert book.opened() == [SendUpstream(requests[0])]
    commands = book.upstream(reply_to(requests[0]))
    assert sent(commands) == wrap(reply_to(requests[0]))
    assert commands[-1] == SendUpstream(requests[1])
    commands = book.upstream(reply_to(requests[1]))
    assert commands[-1] == SendUpstream(requests[2])
    assert sent(book.upstream(reply_to(requests[2]))) == wrap(reply_to(requests[2]))


def test_a_client_that_pipelines_too_much_is_not_read_from() -> None:
    book = Playbook()
    book.relaying()
    flood = encode_call("get_database", "x" * 100_000, seqid=1)
    assert book.received(flood) == []
    assert book.received(flood) == []
    assert book.received(flood) == [SetReading(False)]
    assert book.upstream(REPLY)[-2:] == [SendUpstream(flood), SetReading(True)]  # two of the three still wait


def test_a_client_that_asks_faster_than_it_is_answered_is_not_read_from() -> None:
    """Although it reads its answers."""
    book = Playbook()
    book.dispatcher.decision = Serve(b"x", "get_table")
    number = 2 * PIPELINE_BYTES // len(READ)
    commands = book.received(READ * number)
    assert SetReading(False) in commands
    answered = kinds(commands).count(Send)
    while SetReading(True) not in commands:
        assert Again() in commands, "the next turn goes on"
        commands = book.core.turn(book.now)
        answered += kinds(commands).count(Send)
    assert 0 < (number - answered) * len(READ) <= PIPELINE_BYTES


def test_other_connections_come_between_many_hits_of_one_packet() -> None:
    book = Playbook()
    book.dispatcher.decision = Serve(b"x", "get_table")
    commands = book.received(READ * 70)
    assert kinds(commands).count(Send) == 32
    assert kinds(commands)[-1] in (Again, SetReading)
    assert kinds(book.core.turn(book.now)).count(Send) == 32
    assert kinds(book.core.turn(book.now)).count(Send) == 6
    assert book.core.mode == HotPathUse.HOT


def test_an_idle_client() -> None:
    book = Playbook()
    book.now += 59 * SECOND
    assert book.core.expire(book.now) == []
    book.now += 2 * SECOND
    (close,) = book.core.expire(book.now)
    assert isinstance(close, Close) and close.why is Why.IDLE


def test_drain() -> None:
    idle = Playbook()
    assert idle.core.drain(idle.now) == [Close(Why.FINISHED)]
    busy = Playbook()
    busy.relaying()
    assert busy.core.drain(busy.now) == []
    assert kinds(busy.upstream(REPLY)) == [Send, Observe, CloseUpstream, Close]
    halfway = Playbook()
    halfway.received(READ[:10])
    assert halfway.core.drain(halfway.now) == []
    halfway.dispatcher.decision = Serve(b"x", "get_table")
    assert kinds(halfway.received(READ[10:])) == [Send, Observe, Close]


def test_a_oneway_call_has_an_unknown_outcome_and_no_reply() -> None:
    book = Playbook()
    book.relaying()
    book.upstream(REPLY)
    book.dispatcher.hooks.clear()
    assert kinds(book.received(encode_call("shutdown", oneway=True))) == [SendUpstream, Observe]
    assert book.dispatcher.hooks == [("sending",), ("failed", True)]
    assert book.received(READ) == [SendUpstream(READ)]


def test_an_unknown_oneway_call_leaves_its_connection_behind() -> None:
    book = Playbook()
    unknown = READ.replace(b"get_all_databases", b"get_all_databasez")
    book.relaying()
    book.upstream(REPLY)
    commands = book.received(unknown[:3] + b"\4" + unknown[4:])
    assert kinds(commands) == [SendUpstream, CloseUpstream, Observe]


@pytest.mark.parametrize("name", [b"shutdown", b"shutdowm"])
def test_a_large_oneway_call_is_sent_whole(name: bytes) -> None:
    """A metastore reads half a message until its end comes, and the next call with it. An unknown method is sent whole,
    too, before its connection is left behind."""
    book = Playbook()
    book.relaying()
    book.upstream(REPLY)
    size = WINDOW_BYTES + 1
    field = struct.pack(">Bhi", 11, 1, size) + b"x" * size
    large = encode_call("shutdown", oneway=True)[:-1].replace(b"shutdown", name) + field + b"\0"
    told: list[Command] = []
    for at in range(0, len(large), 1 << 16):
        told += book.received(large[at : at + (1 << 16)])
    told += book.received(READ)
    assert kinds(told) == [SendUpstream, Again], "the next call waits"
    assert book.core.upstream_blocked() == [] and book.core.turn(book.now) == []
    commands = book.core.upstream_writable(book.now)
    while Again in kinds(commands):
        told += commands
        commands = book.core.turn(book.now)
    told += commands
    data = b"".join(one.data for one in told if isinstance(one, SendUpstream))
    if name == b"shutdown":
        assert kinds(commands) == [SendUpstream, Observe, SendUpstream] and data == large + READ
    else:
        assert kinds(commands) == [SendUpstream, CloseUpstream, Observe, OpenUpstream] and data == large
    assert book.dispatcher.hooks.count(("failed", True)) == 1


def test_after_close_no_command_follows() -> None:
    book = Playbook()
    (close,) = book.received(b"GET / HTTP/1.1\r\n")
    assert isinstance(close, Close) and close.why is Why.TRANSPORT and close.key == "http"
    assert book.received(READ) == []
    assert book.core.turn(book.now) == []
    assert book.core.expire(book.now + 1000 * SECOND) == []
    assert book.core.gone(book.now) == []


def test_a_request_waits_for_the_cache() -> None:
    """Wait: asked again when the cache has moved, without patience at the end; later requests keep their order."""
    play = Playbook()
    play.dispatcher.decision = Wait(seen=7, until_ns=play.now + SECOND)
    assert kinds(play.received(READ)) == [Await]
    assert play.received(READ) == []
    play.now += SECOND // 2
    assert kinds(play.core.moved(play.now)) == [Await]
    play.now += SECOND
    play.dispatcher.decision = Serve(b"answer", "get_table")
    assert [one.data for one in play.core.moved(play.now) if isinstance(one, Send)] == [b"answer", b"answer"]
    assert play.dispatcher.patience == [True, True, False, True]


def test_a_client_that_leaves_while_it_waits() -> None:
    play = Playbook()
    play.dispatcher.decision = Wait(seen=7, until_ns=play.now + SECOND)
    play.received(READ)
    play.core.gone(play.now)
    assert play.core.moved(play.now) == [] and play.core.closed


def test_an_answer_that_is_looked_for_in_slices() -> None:
    """Work: one step with each turn; a request that comes meanwhile waits for its reply."""
    play = Playbook()
    steps: list[Serve | Forward | None] = [None, None, Serve(b"answer", "get_partitions_by_filter")]
    play.dispatcher.decision = Work(lambda: steps.pop(0))
    assert kinds(play.received(READ)) == [Again] and len(steps) == 3
    assert play.received(READ) == []
    assert kinds(play.core.turn(play.now)) == [Again] and kinds(play.core.turn(play.now)) == [Again]
    play.dispatcher.decision = Serve(b"next", "get_table")
    assert [one.data for one in play.core.turn(play.now) if isinstance(one, Send)] == [b"answer", b"next"]


def test_what_cannot_be_found_here_is_relayed() -> None:
    play = Playbook()
    steps: list[Serve | Forward | None] = [None, Forward("get_partitions_by_filter", "miss")]
    play.dispatcher.decision = Work(lambda: steps.pop(0))
    play.received(READ)
    play.core.turn(play.now)
    assert OpenUpstream in kinds(play.core.turn(play.now))
    assert SendUpstream in kinds(play.opened())


def test_a_client_that_leaves_while_its_answer_is_looked_for() -> None:
    play = Playbook()
    dropped: list[bool] = []

    def search() -> Iterator[None]:
        try:
            while True:
                yield
        finally:
            dropped.append(True)

    work = search()
    play.dispatcher.decision = Work(work.__next__)
    del work
    play.received(READ)
    play.core.turn(play.now)
    play.dispatcher.decision = RELAY
    play.core.gone(play.now)
    assert play.core.turn(play.now) == [] and play.core.closed and dropped
