"""Two dispatchers in one: that of the cache that follows the log, and that of TTL mode while there is no log to follow.

Job: ask the dispatcher that is in charge, and tell both of every write, so that neither has anything from before a
write when it takes over. Must not know: what either of them does. Owner: one per worker, on its loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hms_cache_proxy.cache.mode import BY_TIME, ModeReason
from hms_cache_proxy.cache.state import MODE_SERVE, Slot, StatePage

from ..decision import ClientCall, ClientSession, Decision, Dispatcher, Forward, Pending, Wait, Work
from ..large_requests import decided


@dataclass(frozen=True, slots=True)
class _Both(Pending):
    """A write or a lock, of which both dispatchers are told. No question is asked instead of it."""

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


def is_by_time(page: StatePage) -> bool:
    """Is TTL mode in charge?"""
    return page[Slot.SERVE_MODE] != MODE_SERVE and ModeReason(page[Slot.MODE_REASON]) in BY_TIME


class Switch:
    """A dispatcher that passes each request to one of two."""

    def __init__(self, followed: Dispatcher, loading: Dispatcher, page: StatePage) -> None:
        self._followed = followed
        self._loading = loading
        self._page = page
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
        turn, other = (self._loading, self._followed) if by_time else (self._followed, self._loading)
        decision = turn.decide(call)
        if isinstance(decision, Wait | Work):
            return with_seen(decision, seen)
        if not isinstance(decision, Forward) or not (decision.outcome == "write" or decision.reason == "lock"):
            return decision
        told = other.decide(call._replace(patient=False))
        if not isinstance(told, Forward):
            return decision
        pair = (told.pending, decision.pending) if by_time else (decision.pending, told.pending)
        return replace(decision, hold_bytes=max(decision.hold_bytes, told.hold_bytes), pending=_Both(*pair))


def with_seen(decision: Decision, seen: int) -> Decision:
    """A decision about a read. One that waits, now or after some work, waits until either dispatcher has moved."""
    if isinstance(decision, Wait):
        return replace(decision, seen=seen)
    if not isinstance(decision, Work):
        return decision
    step = decision.step

    def seeing() -> Decision | None:
        found = step()
        return None if found is None else with_seen(found, seen)

    return Work(seeing)
