"""Two dispatchers in one: that of the cache that follows the log, and that of TTL mode while there is no log to follow.

Job: ask the dispatcher that is in charge, and tell both of every write, lock and event id, so that neither has anything
from before one of these when it takes over. Must not know: what either of them does.

Invariant: no connection is shown less than what it has seen before the other one took over. What TTL mode has shown is
a floor for the cache: TTL mode answers until the cache serves, so its answers can be newer than the step that the cache
serves first. What TTL mode loaded before the log was followed is invalidated when it takes over again, because the
cache may have shown newer states since.
Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic_ns

from hms_cache_proxy.budget import Budget
from hms_cache_proxy.cache.mode import BY_TIME, ModeReason
from hms_cache_proxy.cache.state import MODE_SERVE, Slot, StatePage
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.consistency.floors import Floors

from ..decision import (
    Ask,
    ClientCall,
    ClientSession,
    Decision,
    Dispatcher,
    Forward,
    PassingOn,
    Pending,
    Serve,
    Wait,
    Work,
)
from ..large_requests import decided
from .dispatcher import LoadingDispatcher

_FOR_BOTH = frozenset({"lock", "events"})
"""Reasons of relayed calls of which both are told, besides writes."""


@dataclass(frozen=True, slots=True)
class _Both(Pending):
    """A write, a lock or event ids, of which both dispatchers are told. No question is asked instead of it."""

    followed: Pending
    loading: Pending

    def sending(self) -> None:
        self.followed.sending()
        self.loading.sending()

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        self.followed.reply_began(session, now_ns)
        self.loading.reply_began(session, now_ns)

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        self.followed.reply_done(session, reply, now_ns)
        self.loading.reply_done(session, reply, now_ns)

    def failed(self, sent: bool) -> None:
        self.followed.failed(sent)
        self.loading.failed(sent)


@dataclass(frozen=True, slots=True)
class _Shown(PassingOn):
    """A read that TTL mode relays: the connection has seen its reply."""

    session: ClientSession
    memory: Budget | None

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        shown(session, self.memory)
        self.inner.reply_began(session, now_ns)

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        shown(self.session, self.memory)
        return self.inner.answered(reply)


def shown(session: ClientSession, memory: Budget | None) -> None:
    """From now on, the cache shows this connection nothing that is older than this moment. The two dispatchers name
    what an answer depends on differently, so this is one floor for everything; a later step satisfies it."""
    if session.floors is None:
        session.floors = Floors(memory)
    session.floors.lift((ALL,), monotonic_ns())


def is_by_time(page: StatePage) -> bool:
    """Is TTL mode in charge?"""
    return page[Slot.SERVE_MODE] != MODE_SERVE and ModeReason(page[Slot.MODE_REASON]) in BY_TIME


class Switch:
    """A dispatcher that passes each request to one of two."""

    def __init__(
        self, followed: Dispatcher, loading: LoadingDispatcher, page: StatePage, memory: Budget | None = None
    ) -> None:
        """`memory`: for floors."""
        self._followed = followed
        self._loading = loading
        self._page = page
        self._memory = memory
        self._was_by_time = True  # at the start, the cache has shown nobody anything
        self.hot = followed.hot  # knows by itself that nothing is served while nothing is followed
        self.looked_ns, self.hot_wait = followed.looked_ns, followed.hot_wait

    def moved(self) -> int:
        """Changes when that of either dispatcher changes."""
        return hash((self._followed.moved(), self._loading.moved()))

    def decide(self, call: ClientCall) -> Decision:
        """What to do with a request."""
        return decided(self._decide, call)

    def _decide(self, call: ClientCall) -> Decision:
        seen = self.moved()
        by_time = is_by_time(self._page)
        if by_time and not self._was_by_time:
            self._loading.take_over()
        self._was_by_time = by_time
        turn, other = (self._loading, self._followed) if by_time else (self._followed, self._loading)
        decision = turn.decide(call)
        if isinstance(decision, Wait | Work):
            return with_seen(decision, seen, partial(self._noted, call.session) if by_time else None)
        if not isinstance(decision, Forward) or not (decision.outcome == "write" or decision.reason in _FOR_BOTH):
            return self._noted(call.session, decision) if by_time else decision
        told = other.decide(call._replace(patient=False))
        if not isinstance(told, Forward):
            return decision
        pair = (told.pending, decision.pending) if by_time else (decision.pending, told.pending)
        return replace(decision, hold_bytes=max(decision.hold_bytes, told.hold_bytes), pending=_Both(*pair))

    def _noted(self, session: ClientSession, decision: Decision) -> Decision:
        """What TTL mode has decided; the connection's floors take note of what it shows."""
        if isinstance(decision, Serve):
            shown(session, self._memory)
        elif isinstance(decision, Forward) and decision.outcome == "miss":
            decision.pending = _Shown(decision.pending, session, self._memory)
        return decision


def with_seen(decision: Decision, seen: int, noted: Callable[[Decision], Decision] | None = None) -> Decision:
    """A decision about a read. One that waits, now or after some work, waits until either dispatcher has moved; what
    it becomes after some work goes through `noted`."""
    if isinstance(decision, Wait):
        return replace(decision, seen=seen)
    if not isinstance(decision, Work):
        return decision if noted is None else noted(decision)
    step = decision.step

    def seeing() -> Decision | None:
        found = step()
        return None if found is None else with_seen(found, seen, noted)

    return Work(seeing)
