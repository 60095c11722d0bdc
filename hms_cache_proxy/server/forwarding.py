"""Brings a request to a metastore, over a connection that has the client's session.

Job: try the metastores one after the other, and repeat the session calls on the connection that opens. Pure: each event
returns the next state or the outcome; exchange.py acts on it. Must not know: commands, replies to the request, what the
client is told.

Invariants
- Nothing else is sent over a connection before every session call has succeeded on it: a call must never run as another
  user.
- Each metastore is tried once, and the call notes why it could not be reached.
Owner: one Exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

from hms_cache_proxy.budget import Budget
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.server.reply import REPLY_LIMITS, Reply
from hms_cache_proxy.server.upstream_states import Opening, RelayedCall, Replaying
from hms_cache_proxy.upstream.endpoints import Endpoint, Endpoints
from hms_cache_proxy.upstream.replay import MAX_REPLY_BYTES, SessionCalls, succeeded


@dataclass(frozen=True, slots=True)
class Reached:
    """The call can be sent over the connection to this endpoint."""

    call: RelayedCall
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class NoneReached:
    """No endpoint is left to try."""

    call: RelayedCall


@dataclass(frozen=True, slots=True)
class SessionRefused:
    """The metastore refuses a session call that it accepted before."""


ReachingStep = Opening | Replaying | Reached | NoneReached | SessionRefused


class Reaching:
    """The way to a metastore, for one client."""

    __slots__ = ("_calls", "_endpoints", "_memory", "_opened_for", "_session")

    def __init__(self, session: ClientSession, endpoints: Endpoints, calls: SessionCalls, memory: Budget) -> None:
        self._session = session
        self._endpoints = endpoints
        self._calls = calls
        self._memory = memory
        self._opened_for: bytes | None = None  # whom the connection itself names

    @property
    def names_another(self) -> bool:
        """Does the connection name another user than the client is now?"""
        return self._opened_for != self._endpoints.named(self._session.identity)

    def better_elsewhere(self, endpoint: Endpoint) -> bool:
        """Does this endpoint not answer, while another does at which this client's session can begin?"""
        return endpoint.sick and self._calls.complete and self._endpoints.other_than(endpoint)

    def begin(self, call: RelayedCall, last: Endpoint | None) -> ReachingStep:
        """Try the endpoints, `last` as the last one."""
        candidates = tuple(self._endpoints.candidates(last=last))
        if not candidates:
            call.problem = self._endpoints.problems
        return _next(call, candidates)

    def opened(self, state: Opening) -> ReachingStep:
        """The connection to the endpoint is open."""
        self._opened_for = self._endpoints.named(self._session.identity)
        return self._replay(state, 0)

    def failed(self, state: Opening | Replaying, detail: str) -> ReachingStep:
        """The connection could not be opened, or was lost."""
        call = state.call
        call.problem = "; ".join(filter(None, (call.problem, f"{state.endpoint.uri}: {detail}")))
        return _next(call, state.others)

    def received(self, state: Replaying, data: bytes) -> ReachingStep | None:
        """Bytes of the reply to a session call; None: there is more to come. Raises WireError."""
        reply = state.reply
        reply.take(data)
        if not reply.complete:
            return None
        if reply.extra or reply.held is None or not succeeded(reply.held):
            return SessionRefused()
        return self._replay(state, state.position + 1)

    def _replay(self, state: Opening | Replaying, position: int) -> ReachingStep:
        """Repeat the session calls from this position on."""
        if position == len(self._calls.messages):
            return Reached(state.call, state.endpoint)
        header, message = self._calls.messages[position]
        reply = Reply(header, REPLY_LIMITS, MAX_REPLY_BYTES, self._memory, must=True)
        return Replaying(state.call, state.endpoint, state.others, position, message, reply)


def _next(call: RelayedCall, candidates: tuple[Endpoint, ...]) -> ReachingStep:
    return Opening(call, candidates[0], candidates[1:]) if candidates else NoneReached(call)
