"""Two dispatchers in one: the cache that follows the log, and TTL mode while there is no log to follow.

Job: ask the one whose time it is, and tell both of every write, so that neither has anything from before it when the
other hands over. Must not know what either of them does. Owner: one per worker, on its loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from hms_cache_proxy.cache.mode import BY_TIME, ModeReason
from hms_cache_proxy.cache.state import MODE_SERVE, Slot, StatePage
from hms_cache_proxy.wire.message import Header

from ..decision import Ask, Decider, Forward, Serve, Session, Wait, Work


@dataclass(frozen=True, slots=True)
class _Both:
    """A forwarded call, as each of them sees it. `loading` None: nothing of it concerns TTL mode."""

    followed: Forward | None
    loading: Forward | None


def _worked(work: Work) -> Serve | Forward | None:
    """A step of what the followed cache is looking for: only it does such work."""
    found = work.step()
    return replace(found, pending=_Both(found, None)) if isinstance(found, Forward) else found


class Switch:
    """A Decider made of two."""

    def __init__(self, followed: Decider, loading: Decider, page: StatePage) -> None:
        self._followed = followed
        self._loading = loading
        self._page = page
        self.hot = followed.hot  # knows by itself that nothing is served while nothing is followed

    def by_time(self) -> bool:
        """Is it TTL mode's time?"""
        page = self._page
        return page[Slot.SERVE_MODE] != MODE_SERVE and ModeReason(page[Slot.MODE_REASON]) in BY_TIME

    def moved(self) -> int:
        """Changes when either has moved."""
        return hash((self._followed.moved(), self._loading.moved()))

    def decide(
        self,
        session: Session,
        header: Header,
        message: bytes,
        now_ns: int,
        *,
        complete: bool = True,
        patient: bool = False,
    ) -> Serve | Forward | Wait | Work:
        """What to do with a request that arrived at now_ns."""
        seen = self.moved()
        by_time = self.by_time()
        turn, other = (self._loading, self._followed) if by_time else (self._followed, self._loading)
        decision = turn.decide(session, header, message, now_ns, complete=complete, patient=patient)
        if isinstance(decision, Wait):
            return Wait(seen, decision.until_ns)
        if isinstance(decision, Work):
            return Work(partial(_worked, decision))
        if isinstance(decision, Serve):
            return decision
        second: Forward | None = None
        if decision.outcome == "write" or decision.reason == "lock":
            told = other.decide(session, header, message, now_ns, complete=complete)
            second = told if isinstance(told, Forward) else None
        both = _Both(second, decision) if by_time else _Both(decision, second)
        hold = max(decision.hold_bytes, second.hold_bytes if second is not None else 0)
        return replace(decision, hold_bytes=hold, pending=both)

    def sending(self, session: Session, forward: Forward) -> None:
        """The request is about to leave."""
        for decider, own in self._each(forward):
            decider.sending(session, own)

    def reply_began(self, session: Session, forward: Forward, now_ns: int) -> None:
        """The first bytes of the reply are here and none has been passed on."""
        for decider, own in self._each(forward):
            decider.reply_began(session, own, now_ns)

    def reply_done(self, session: Session, forward: Forward, reply: bytes | None, now_ns: int) -> None:
        """The reply is here: whole if it was held."""
        for decider, own in self._each(forward):
            decider.reply_done(session, own, reply, now_ns)

    def failed(self, session: Session, forward: Forward, sent: bool) -> None:
        """There will be no reply."""
        for decider, own in self._each(forward):
            decider.failed(session, own, sent)

    def answered(self, session: Session, forward: Forward, reply: bytes | None, now_ns: int) -> Ask | bytes | None:
        """The reply to a question, which only TTL mode asks."""
        both = forward.pending
        assert isinstance(both, _Both) and both.loading is not None
        return self._loading.answered(session, both.loading, reply, now_ns)

    def _each(self, forward: Forward) -> list[tuple[Decider, Forward]]:
        both = forward.pending
        assert isinstance(both, _Both)
        pairs = ((self._followed, both.followed), (self._loading, both.loading))
        return [(decider, own) for decider, own in pairs if own is not None]
