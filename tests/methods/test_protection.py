"""A limit of `[protection]`, and the waits of the decider behind it: each is woken only by what it waits for."""

from __future__ import annotations

import gc
from time import monotonic_ns

import pytest

from hms_cache_proxy.config.protection import ProtectionSection
from hms_cache_proxy.methods.decision import BaseDecider, ClientSession, Decision, Forward, Serve, Wait, Work
from hms_cache_proxy.methods.protection import ProtectedDecider
from hms_cache_proxy.wire.message import Header, MessageType, parse_header
from tests.testbed.raw import encode_call

QUEUE_NS = 10**9


class Inner(BaseDecider):
    """Decides what it was told to."""

    decision: Decision = Forward("get_table", "miss")

    def moved(self) -> int:
        return 7

    def decide(
        self,
        session: ClientSession,
        header: Header,
        message: bytes,
        now_ns: int,
        *,
        complete: bool = True,
        patient: bool = False,
    ) -> Decision:
        return self.decision


def asked(decider: ProtectedDecider, peer: str, now_ns: int | None = None) -> Decision:
    message = encode_call("get_table", "d", "t")
    header = parse_header(message)
    assert isinstance(header, Header) and header.type is MessageType.CALL
    return decider.decide(ClientSession(peer=peer), header, message, now_ns or monotonic_ns(), patient=True)


def test_a_place_returns_when_its_call_is_forgotten() -> None:
    inner = Inner()
    decider = ProtectedDecider(inner, ProtectionSection(calls_per_address=1), frozenset(), queue_ns=QUEUE_NS)
    first: Decision | None = asked(decider, "a:1")
    assert isinstance(first, Forward)
    assert isinstance(asked(decider, "b:1"), Forward), "another address"
    waiting = asked(decider, "a:2")
    assert isinstance(waiting, Wait) and waiting.seen == decider.moved()
    first = None
    gc.collect()
    assert waiting.seen != decider.moved(), "it is decided again"
    second = asked(decider, "a:2")
    assert isinstance(second, Forward)
    second.pending.failed(True)
    third = asked(decider, "a:2")
    assert isinstance(third, Forward), "a call that failed holds nothing"
    late = asked(decider, "a:3", monotonic_ns() - QUEUE_NS)
    assert isinstance(late, Serve) and (late.outcome, late.reason) == ("error", "address_busy")
    inner.decision = Wait(inner.moved(), 1)
    wait = asked(decider, "a:4")
    assert isinstance(wait, Wait) and wait.seen == decider.moved(), "a wait behind it is not woken by places"
    inner.decision = Work(lambda: Wait(inner.moved(), 1))
    work = asked(decider, "a:5")
    assert isinstance(work, Work)
    wait = work.step()
    assert isinstance(wait, Wait) and wait.seen == decider.moved(), "nor is one that a large request ends in"


@pytest.mark.parametrize("oneway", [False, True])
@pytest.mark.parametrize("section", [ProtectionSection(read_only=True), ProtectionSection(refuse_writes=("d",))])
def test_what_is_refused_does_not_depend_on_the_type_of_the_message(section: ProtectionSection, oneway: bool) -> None:
    """A metastore does what a message of the type ONEWAY says, as if it were a call."""
    decider = ProtectedDecider(Inner(), section, frozenset(), queue_ns=QUEUE_NS)
    drop = encode_call("drop_table", "d", "t", True, oneway=oneway)
    for message in (drop, drop.replace(b"drop_table", b"drop_tbale")):
        header = parse_header(message)
        assert isinstance(header, Header) and (header.type is MessageType.ONEWAY) is oneway
        decision = decider.decide(ClientSession(), header, message, monotonic_ns())
        assert isinstance(decision, Serve) and decision.outcome == "error"
