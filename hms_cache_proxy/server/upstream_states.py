"""The states of a client's upstream connection, and of the request that is on it.

Job: a type for each state, with what is known in it and nothing else; `exchange.py` moves from one to the next:

    Closed -> Opening -> (Replaying ->) Questioning | Asking -> Replying (-> Streaming) -> Idle -> Questioning | Asking

From each of them the way leads to Closed when the connection is lost; from Opening, Replaying, Questioning and Asking
also to Opening, at the next endpoint or once more. Must not know: when any of this happens. Owner: one Exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

from hms_cache_proxy.methods.decision import Ask, Forward
from hms_cache_proxy.server.commands import Why
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.server.reply import Reply
from hms_cache_proxy.server.twin import Twin, is_bridged, says_unknown_method
from hms_cache_proxy.upstream.endpoints import Endpoint


@dataclass(slots=True)
class RelayedCall:
    """A request from `start` to its end, on whichever connections."""

    request: Request
    forward: Forward
    began_ns: int
    question: Ask | None
    """What is to be asked in its place next; None: the request itself."""

    attempt: int = 1
    """How often it has been sent, with this time."""

    discarded: bool = False
    """The client is gone; the outcome of its write is still wanted."""

    problem: str = ""
    """Why endpoints could not be reached so far."""


@dataclass(frozen=True, slots=True)
class Closed:
    """There is no connection and no request."""


@dataclass(frozen=True, slots=True)
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
    """A session call is out: the one at `position`."""

    call: RelayedCall
    endpoint: Endpoint
    others: tuple[Endpoint, ...]
    position: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Questioning:
    """A question is out in place of the request; its reply is for the dispatcher."""

    call: RelayedCall
    endpoint: Endpoint
    reply: Reply


@dataclass(frozen=True, slots=True)
class Asking:
    """The request, or its `twin`, is out or leaving; nothing of the reply has been heeded."""

    call: RelayedCall
    endpoint: Endpoint
    reply: Reply
    twin: Twin | None
    last: bool
    """Of the request and its twin, the other one has been refused."""


@dataclass(frozen=True, slots=True)
class Replying:
    """The reply has begun and is held back."""

    call: RelayedCall
    endpoint: Endpoint
    reply: Reply
    twin: Twin | None


@dataclass(frozen=True, slots=True)
class Streaming:
    """The reply goes out in parts, as it arrives."""

    call: RelayedCall
    endpoint: Endpoint
    reply: Reply
    twin: Twin | None


Sent = Questioning | Asking | Replying | Streaming
"""The request, or what is asked in its place, is out or leaving."""

UpstreamState = Closed | Idle | Opening | Replaying | Sent


def was_sent(call: RelayedCall, state: UpstreamState) -> bool:
    """May a metastore have begun to carry the call out?"""
    return call.attempt > 1 or isinstance(state, Sent)


def lacks_method(state: Asking) -> bool:
    """Does the whole reply say that the metastore lacks the method, for the first time?"""
    reply = state.reply
    if state.last or not is_bridged(state.call.request.header) or reply.held is None:
        return False
    assert reply.header is not None
    return says_unknown_method(reply.header, reply.held)


@dataclass(frozen=True, slots=True)
class Finished:
    """The request is over, the client has been answered as far as it is to be."""


@dataclass(frozen=True, slots=True)
class MustClose:
    """The request is over, and the client has to be closed."""

    why: Why
    detail: str


ReplyEnding = Finished | MustClose
