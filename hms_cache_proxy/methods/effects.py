"""What a forwarded call does to fences, floors, locks and kept replies, at each moment of its life.

Job: one small class per kind of call; `Forward.pending` holds its object and the dispatcher passes the moments on:
`sending` (about to leave), `began` (first bytes of the reply are here), `done` (the reply, whole if it was held,
none of it passed on), `failed` (there will be no reply). Must not know: sockets, how a decision was made.

Invariants: a fence stands before its write leaves and is made finite before a byte of the reply is passed on; a floor
is up before a byte of the reply that it belongs to is passed on; nothing is ever learned from a refusal that is not
about existence. Owner: the worker's loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hms_cache_proxy.cache import targets as target
from hms_cache_proxy.cache.replies import HitLabel, ReplyCache, ReplyEntry
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.floors import Floors
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header

from .decision import Forward, Session
from .reply_contents import LOCK_WAITING, Said, event_id_of, kept_part, lock_of, said

HELD_WRITE_BYTES = 1 << 20
"""Replies of writes, locks and session calls are held up to this size, to see how they ended."""


@dataclass(slots=True)
class EffectsContext:
    """What the effects of one worker work on."""

    page: StatePage
    fences: FenceStore
    replies: ReplyCache
    wake: Callable[[], None]
    """Tells the follower to look now."""

    request_time_ns: int
    """The longest time that a metastore may work on a request."""

    answers_absent: bool = True
    """Whether a refusal that says that something does not exist may be kept."""

    pid: int = field(default_factory=os.getpid)

    def owed(self) -> None:
        """Whatever any metastore said up to now must be in the cache before the next hit of anybody."""
        self.fences.fence_now((target.ALL,))
        self.wake()


class Effect:
    """A call that does nothing at any of its moments; the base of the others."""

    __slots__ = ()

    def sending(self, shared: EffectsContext) -> None:
        """About to leave; may come twice for a read."""

    def began(self, shared: EffectsContext, session: Session, now_ns: int) -> None:
        """The first bytes of the reply are here."""

    def done(self, shared: EffectsContext, session: Session, reply: bytes | None, now_ns: int) -> None:
        """The reply, if it was held."""

    def failed(self, shared: EffectsContext, sent: bool, now_ns: int) -> None:
        """There will be no reply."""


@dataclass(frozen=True, slots=True)
class Read(Effect):
    """A relayed read: floors for what it showed, and if `key` is given, a reply to keep."""

    depends: tuple[bytes, ...]
    ticket: tuple[bytes, ...] = ()
    """What the cache has to refetch, as the reply may show what no event tells."""

    key: bytes = b""
    versions: tuple[int, ...] = ()
    method: str = ""
    label: HitLabel | None = None

    def began(self, shared: EffectsContext, session: Session, now_ns: int) -> None:
        if self.ticket:
            shared.fences.ticket(self.ticket)
            shared.wake()
            now_ns = time.monotonic_ns()  # a step that began after this has taken the ticket
        if session.floors is None:
            session.floors = Floors()
        session.floors.lift(self.depends, now_ns)

    def done(self, shared: EffectsContext, session: Session, reply: bytes | None, now_ns: int) -> None:
        if not self.key or reply is None:
            return
        waiting = shared.replies.peek(self.key)
        if waiting is not None and waiting.versions == self.versions and waiting.depends == self.depends:
            return  # an equal answer that came earlier can be used earlier
        body = kept_part(self.method, reply, not_found=shared.answers_absent)
        if body is not None:
            entry = ReplyEntry(body, self.depends, self.versions, learned_ns=now_ns, label=self.label)
            shared.replies.put(self.key, entry)


@dataclass(slots=True)
class Write(Effect):
    """A write: fenced from before it leaves until what it touched has been reloaded."""

    targets: tuple[bytes, ...]
    logs: bool = False
    """It logs an event if it succeeds: the log must then move on."""

    fence: int | None = None
    upstream_event: int = 0

    def sending(self, shared: EffectsContext) -> None:
        if self.fence is None:
            self.fence = shared.fences.begin(self.targets, shared.pid)
            self.upstream_event = shared.page[Slot.UPSTREAM_EVENT]

    def done(self, shared: EffectsContext, session: Session, reply: bytes | None, now_ns: int) -> None:
        assert self.fence is not None, "a reply before its request left"
        outcome = said(reply)
        if outcome is Said.UNKNOWN_METHOD:
            shared.fences.cancel(self.fence)
        else:
            if self.logs and outcome is Said.SUCCESS:
                expected = self.upstream_event + 1
                if shared.page[Slot.EXPECTED_EVENT] < expected:
                    shared.page[Slot.EXPECTED_EVENT] = expected
            shared.fences.finish(self.fence)
            shared.wake()
        self.fence = None

    def failed(self, shared: EffectsContext, sent: bool, now_ns: int) -> None:
        if self.fence is None:
            return
        if sent:
            shared.fences.unknown(self.fence, now_ns + shared.request_time_ns)
        else:
            shared.fences.cancel(self.fence)
        self.fence = None


@dataclass(frozen=True, slots=True)
class Lock(Effect):
    """`lock`: once granted, whoever reads what it locks must see what was true by then."""

    targets: tuple[bytes, ...]

    def done(self, shared: EffectsContext, session: Session, reply: bytes | None, now_ns: int) -> None:
        lock_id, state = lock_of("lock", reply)
        if state != LOCK_WAITING:
            shared.fences.fence_now(self.targets)
            shared.wake()
        elif lock_id is not None:
            shared.fences.remember_lock(lock_id, self.targets)


@dataclass(frozen=True, slots=True)
class CheckLock(Effect):
    """`check_lock`: the same, for a lock that was waited for; one that is not known here locks anything."""

    lock_id: int | None

    def done(self, shared: EffectsContext, session: Session, reply: bytes | None, now_ns: int) -> None:
        if lock_of("check_lock", reply)[1] == LOCK_WAITING:
            return
        known = None if self.lock_id is None else shared.fences.lock_targets(self.lock_id)
        shared.fences.fence_now((target.ALL,) if known is None else known)
        shared.wake()


def lock_id_of(args: type[spec.Struct], message: bytes, offset: int) -> int | None:
    """The lock that `check_lock` or `unlock` speaks of; None if that cannot be told."""
    try:
        row, _ = spec.decode(args, message, offset)
    except WireError:
        return None
    return None if row.rqst is None else row.rqst.lockid


@dataclass(frozen=True, slots=True)
class Unlock(Effect):
    """`unlock`: the lock's targets need not be remembered any longer."""

    lock_id: int | None

    def done(self, shared: EffectsContext, session: Session, reply: bytes | None, now_ns: int) -> None:
        if self.lock_id is not None and shared.fences.lock_targets(self.lock_id) is not None:
            shared.fences.forget_lock(self.lock_id)


@dataclass(frozen=True, slots=True)
class SessionCall(Effect):
    """A call that says who the client is: it is that user only once the metastore has agreed."""

    identity: bytes | None

    def done(self, shared: EffectsContext, session: Session, reply: bytes | None, now_ns: int) -> None:
        self.ended(session, reply)

    def ended(self, session: Session, reply: bytes | None) -> None:
        """The same where there is nothing to share."""
        outcome = said(reply)
        if self.identity is not None and outcome is Said.SUCCESS:
            session.identity = self.identity
        elif outcome is Said.UNREAD:  # nobody has looked at who the client is now
            session.relay_for_good = True


def session_call(session: Session, label: str, header: Header, message: bytes) -> Forward:
    """How a call about the session is passed on."""
    identity: bytes | None = None
    if label == "setMetaConf":
        session.relay_for_good = True
    else:
        identity = message[header.body :]
    return Forward(label, "relay", "session", HELD_WRITE_BYTES, replay=True, pending=SessionCall(identity))


@dataclass(frozen=True, slots=True)
class EventIds(Effect):
    """A call whose reply hands out event ids: the cache must have reached them before anybody's next hit."""

    method: str

    def done(self, shared: EffectsContext, session: Session, reply: bytes | None, now_ns: int) -> None:
        highest = None if reply is None else event_id_of(self.method, reply)
        if highest is None:
            shared.owed()
        elif highest > 0:
            shared.fences.raise_floor(highest)
            shared.wake()
