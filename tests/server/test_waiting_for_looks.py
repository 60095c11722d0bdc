"""A connection whose request is recognized by its bytes waits for a look without reading it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.methods import patience
from hms_cache_proxy.server.client_states import HotPathUse, WaitingForLook, WaitingForStep
from hms_cache_proxy.server.commands import Await, Close, Command, OpenUpstream, Send, Why
from hms_cache_proxy.server.connection import ClientConnection
from hms_cache_proxy.server.connection_settings import ConnectionSettings
from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.wire.message import MessageLimits
from tests.methods.warm import Bench, opened, request

TOO_LATE_NS = 10**13


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    for name in ("SHORT_NS", "LONG_NS"):
        monkeypatch.setattr(patience, name, TOO_LATE_NS // 10)


class Line:
    """One connection, asked as the driver does: a chunk goes to the hot path first."""

    def __init__(self, bench: Bench) -> None:
        config = load(cli={"upstream": "thrift://127.0.0.1:1"})
        limits = MessageLimits(message_bytes=1 << 20, string_bytes=1 << 20)
        settings = ConnectionSettings(limits, idle_timeout_ns=0, request_timeout_ns=10**12)
        self.bench = bench
        self.core = ClientConnection(
            dispatcher=bench.dispatcher, endpoints=Endpoints(config.upstream), settings=settings, peer="", now_ns=0
        )
        self.answer_first()

    def answer_first(self) -> None:
        """The first request shows the transport; its reply is kept."""
        assert isinstance(self.sent()[0], Await) and isinstance(self.core._state, WaitingForStep)
        self.bench.step()
        assert seqids(self.moved()) == [7] and self.core.mode is HotPathUse.HOT

    def sent(self, seqid: int = 7, more: bytes = b"") -> list[Command]:
        data, now_ns = request(seqid) + more, time.monotonic_ns()
        cold = self.core.mode is not HotPathUse.GENERAL
        if cold:
            if self.bench.dispatcher.hot(self.core.session, data, now_ns) is not None:
                raise AssertionError("answered without a look")
            wait = self.core.wait_for_look(data, now_ns)
            if wait is not None:
                return [Await(wait)]
        return self.core.received(data, now_ns, cold=cold)

    def moved(self, after_ns: int = 0) -> list[Command]:
        reply = self.core.looked()
        return [Send(reply)] if reply is not None else self.core.moved(time.monotonic_ns() + after_ns)


def seqids(commands: list[Command]) -> list[int]:
    replies = [one.data for one in commands if isinstance(one, Send)]
    return [int.from_bytes(reply[8 + reply[7] :][:4], "big") for reply in replies]


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with opened(tmp_path, consistency="strict") as bench:
        yield Line(bench)


def test_answered_after_a_look(line: Line) -> None:
    (waits,) = line.sent(8)
    assert isinstance(waits, Await) and waits.wait.told and isinstance(line.core._state, WaitingForLook)
    again = line.moved()
    assert [type(one) for one in again] == [Await], "there was no look"
    line.bench.step()
    assert seqids(line.moved()) == [8] and line.core.mode is HotPathUse.HOT
    line.sent(9)
    line.bench.step()
    assert seqids(line.moved()) == [9]


def test_requests_that_come_meanwhile_keep_their_order(line: Line) -> None:
    line.sent(8)
    assert line.core.received(request(9)[:20], time.monotonic_ns()) == []
    assert line.core.received(request(9)[20:] + request(10), time.monotonic_ns()) == []
    line.bench.step()
    first = line.moved()
    assert seqids(first) == [8] and isinstance(first[-1], Await)
    line.bench.step()
    assert seqids(line.moved()) == [9]
    line.bench.step()
    assert seqids(line.moved()) == [10]


def test_relayed_after_waiting_in_vain(line: Line) -> None:
    line.sent(8)
    (relayed,) = line.moved(after_ns=TOO_LATE_NS)
    assert isinstance(relayed, OpenUpstream)


def test_the_others_are_relayed_at_once(line: Line) -> None:
    line.sent(8)
    line.moved(after_ns=TOO_LATE_NS)
    session, dispatcher = line.core.session, line.bench.dispatcher
    assert dispatcher.hot_wait(session, request(9), time.monotonic_ns()) is None
    line.bench.step()
    assert dispatcher.hot_wait(session, request(9), time.monotonic_ns()) is not None


def test_the_end_of_a_connection(line: Line) -> None:
    line.sent(8)
    assert line.core.drain(time.monotonic_ns()) == []
    line.bench.step()
    commands = line.moved()
    assert seqids(commands) == [8]
    assert isinstance(commands[-1], Close) and commands[-1].why is Why.FINISHED


def test_a_client_that_leaves(line: Line) -> None:
    line.sent(8)
    line.core.gone(time.monotonic_ns())
    line.bench.step()
    assert line.moved() == [] and line.core.closed


def test_a_change_meanwhile(line: Line) -> None:
    """What the hot path no longer knows takes the full path, with the time at which it arrived."""
    line.sent(8)
    line.bench.dispatcher.forget()
    line.bench.step()
    assert seqids(line.moved()) == [8]
