"""The states of a client's upstream connection, and of the request on it.

Job: one type for each state, with exactly what is known in that state. `exchange.py` moves from one to the next; until
a metastore is reached, `reaching.py` says to which:

    Closed -> Opening -> (Replaying ->) Questioning | Asking -> Replying (-> Streaming) -> Idle -> Questioning | Asking

Each state is followed by Closed when the connection is lost. Opening, Replaying, Questioning and Asking can also be
followed by Opening, for the next endpoint or for the same one again. Must not know: when any of this happens. Owner:
one Exchange.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.methods.decision import Ask, Forward
from hms_cache_proxy.methods.reply_contents import Said, said
from hms_cache_proxy.metrics import Outcome
from hms_cache_proxy.server.bridged_call import BridgedCall, is_bridged
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.server.outbox import Outbox
from hms_cache_proxy.server.reply import Reply
from hms_cache_proxy.upstream.endpoints import Endpoint


@dataclass(slots=True)
class RelayedCall:
    """A request from `start` to its end, on one or more connections."""

    request: Request
    forward: Forward
    began_ns: int
    question: Ask | None
    """The question to ask next instead of the request; None: the request itself."""

    attempt: int = 1
    """How often it has been sent, this time included."""

    asked_ns: int = 0
    """When its first byte, or that of a question instead of it, was sent to a metastore; 0: not yet."""

    discarded: bool = False
    """The client is gone; the outcome of its write is still needed."""

    problem: str = ""
    """Why endpoints could not be reached so far."""


@dataclass(frozen=True, slots=True)
class Closed:
    """There is no connection and no request."""


@dataclass(slots=True)
class Idle:
    """There is a connection, and no request."""

    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class Opening:
    """A connection is being made. `others`: the endpoints to try after this one."""

    call: RelayedCall
    endpoint: Endpoint
    others: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class Replaying:
    """The session call at `position`, which is `message`, has been sent."""

    call: RelayedCall
    endpoint: Endpoint
    others: tuple[Endpoint, ...]
    position: int
    message: bytes
    reply: Reply


@dataclass(frozen=True, slots=True)
class Questioning:
    """A question has been sent instead of the request; its reply is for the dispatcher."""

    call: RelayedCall
    endpoint: Endpoint
    reply: Reply


@dataclass(slots=True)
class Asking:
    """The request, or its `twin`, has been sent or is being sent; no reply has begun."""

    call: RelayedCall
    endpoint: Endpoint
    reply: Reply
    twin: BridgedCall | None
    last: bool
    """The other one of the request and its twin has been refused."""


@dataclass(slots=True)
class Replying:
    """The reply has begun and is held back."""

    call: RelayedCall
    endpoint: Endpoint
    reply: Reply
    twin: BridgedCall | None


@dataclass(slots=True)
class Streaming:
    """The reply is passed on in parts, as it arrives."""

    call: RelayedCall
    endpoint: Endpoint
    reply: Reply
    twin: BridgedCall | None


Sent = Questioning | Asking | Replying | Streaming
"""The request, or a question instead of it, has been sent or is being sent."""

Answering = Asking | Replying | Streaming
"""The request has been sent: the next bytes are of its reply."""

UpstreamState = Closed | Idle | Opening | Replaying | Sent

CLOSED: Final = Closed()


def lacks_method(state: Asking) -> bool:
    """Does the whole reply say, for the first time, that the metastore lacks the method?"""
    reply = state.reply
    if state.last or not is_bridged(state.call.request.header):
        return False
    return said(reply.held) is Said.UNKNOWN_METHOD


def observed(call: RelayedCall, outcome: Outcome, reason: str, outbox: Outbox, heard_ns: int) -> Observe:
    """How the call is counted; `outbox`: of its reply, whose last byte arrived at `heard_ns`."""
    upstream_ns = heard_ns - call.asked_ns if call.asked_ns and outcome != "error" else 0
    return Observe(
        call.forward.label,
        outcome,
        reason,
        began_ns=call.began_ns,
        reply_bytes=outbox.size,
        request=call.request,
        upstream_ns=upstream_ns,
        reply=outbox.head,
        asked_ns=call.asked_ns,
    )
