"""What a forwarded call does to fences, floors, locks and kept replies at each stage.

Job: have one small class for each kind of call. Its object is the Forward's `pending`, and is told what happens to the
call (decision.py). Must not know: sockets, how a decision was made.

Invariants: a fence is raised before its write leaves, and is made finite before a byte of the reply is passed on; a
floor is set before a byte of its reply is passed on; a refusal is learned only if it says that something does not
exist. Owner: the worker's loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from hms_cache_proxy.budget import Budget
from hms_cache_proxy.cache import targets as target
from hms_cache_proxy.cache.replies import HitLabel, ReplyCache, ReplyEntry
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.floors import Floors
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.consistency.guards import Guard, Guards, WriteEnding
from hms_cache_proxy.consistency.notes import Note, NoteKind
from hms_cache_proxy.errors import CacheError, WireError
from hms_cache_proxy.peers.requests import PeerAsk, PeerRequest
from hms_cache_proxy.upstream import replay
from hms_cache_proxy.wire import spec

from .decision import ClientCall, ClientSession, Forward, Pending
from .expression_routes import ROUTES, ExpressionRoutes
from .flights import Flight, Flights
from .partial_decode import decode_beginning
from .patience import Patience
from .reply_contents import LOCK_WAITING, Said, agreement, event_id_of, kept_part, lock_of, said

SHARED_READ = 1  # LockType
LEFT = (WriteEnding.FINISHED, WriteEnding.UNLOGGED)
HELD_WRITE_BYTES = 1 << 20
"""Replies to writes, locks and session calls are held back up to this size, to see how the calls ended."""

IDENTITY_BYTES = replay.MAX_BYTES
"""Of a user with all groups: more could not be repeated on another connection to a metastore."""


class Peers(Protocol):
    """The other proxies, as one worker tells them of its calls."""

    def tell(self, request: PeerRequest) -> None:
        """Tell them what has no answer."""

    def alone(self, number: int) -> bool:
        """Has the write with this fence left without a word of the peers' process?"""


@dataclass(slots=True)
class EffectsContext:
    """What the calls of one worker change."""

    page: StatePage
    fences: FenceStore
    guards: Guards
    replies: ReplyCache
    wake: Callable[[], None]
    """Makes the follower begin a step now."""

    answers_absent: bool = True
    """May a reply be kept that says that something does not exist?"""

    flights: Flights = field(default_factory=Flights)
    routes: ExpressionRoutes = field(default_factory=ExpressionRoutes)
    patience: Patience = field(default_factory=Patience)
    memory: Budget | None = None
    """For floors."""

    peers: Peers | None = None
    """Other proxies, which are told of writes; None: there are none."""

    def fence_now(self, targets: tuple[bytes, ...] = (target.ALL,)) -> None:
        """Give no client a hit on these until the cache has everything that was true of them before now."""
        try:
            self.fences.fence_now(targets)
        except CacheError:
            self.guards.missed(targets)
        self.wake()

    def granted(self, session: ClientSession, targets: tuple[bytes, ...]) -> None:
        """A lock has been granted: no client, at no proxy, may see less than what is true now."""
        self.fence_now(targets)
        if self.peers is not None:
            session.passing = self.noted(Note(NoteKind.OWED, targets))

    def noted(self, note: Note) -> PeerRequest:
        """What other proxies must be told of, and what to ask them. If it cannot be noted, they get no lease until it
        is."""
        try:
            return PeerRequest(PeerAsk.NOTED, self.fences.note(note))
        except CacheError:
            self.guards.missed(note.targets or (target.UNKNOWN,))
            return PeerRequest(PeerAsk.NOTED)

    def settle(self) -> None:
        """Record what could not be recorded: in fences that have room again, or are in the place of damaged ones."""
        try:
            if self.fences.renew():
                self.guards.again()
            if self.guards.settle():
                self.fences.join()
        except CacheError:  # damaged still, as the supervisor says; this is called again in a moment
            return

    def shown(self, session: ClientSession, targets: tuple[bytes, ...], now_ns: int) -> None:
        """From now on, show this connection nothing of these that is older than now_ns."""
        if session.floors is None:
            session.floors = Floors(self.memory)
        session.floors.lift(targets, now_ns)

    def reload(self, targets: tuple[bytes, ...]) -> None:
        """Request a reload of these."""
        try:
            self.fences.ticket(targets)
        except CacheError:
            self.guards.missed(targets)
        self.wake()


@dataclass(frozen=True, slots=True)
class FenceBarrier:
    """Fences, as the Barrier of consistency/guards.py."""

    fences: FenceStore
    request_timeout_ns: int
    """The longest time that a metastore may work on a request."""

    pid: int = field(default_factory=os.getpid)

    def begin(self, targets: Sequence[bytes]) -> int:
        return self.fences.begin(targets, self.pid)

    def end(self, record_id: int, targets: Sequence[bytes], ending: WriteEnding) -> None:
        if ending in (WriteEnding.FINISHED, WriteEnding.UNLOGGED, WriteEnding.MISSED):
            unlogged, missed = ending is WriteEnding.UNLOGGED, ending is WriteEnding.MISSED
            self.fences.finish(record_id, unlogged=unlogged, missed=missed)
        elif ending is WriteEnding.UNKNOWN:
            self.fences.unknown(record_id, time.monotonic_ns() + self.request_timeout_ns)
        else:
            self.fences.cancel(record_id)


@dataclass(slots=True)
class RelayedRead(Pending):
    """A relayed read. It sets floors for what it showed; its reply is kept if `key` is given."""

    shared: EffectsContext
    depends: tuple[bytes, ...]
    ticket: tuple[bytes, ...] = ()
    """What to reload: the reply may show a change that wrote no event."""

    key: bytes = b""
    versions: tuple[int, ...] = ()
    method: str = ""
    label: HitLabel | None = None
    flight: Flight | None = None
    """Other reads wait for this reply."""

    reason: Reason | None = None
    """Why it was not answered from the cache."""

    by_look: bool = False
    """Whether the reply may be given again only after a look that began after its read arrived."""

    lasting: tuple[bytes, ...] | None = None
    """What the reply depends on once it agrees with the cache; None: on the same."""

    decided_ns: int = field(default_factory=time.monotonic_ns)

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        self.shared.patience.relayed(now_ns - self.decided_ns)
        if self.ticket:
            self.shared.reload(self.ticket)
            now_ns = time.monotonic_ns()  # a step that began after this has taken the ticket
        self.shared.shown(session, target.objects(self.depends), now_ns)  # a user's replies depend on rights, too

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        body = self._kept(reply)
        if self.reason in ROUTES and reply is not None and kept_part(self.method, reply, not_found=False) is not None:
            self.shared.routes.went(self.reason, time.monotonic_ns())
        if self.flight is not None:
            self.shared.flights.land(self.flight, body, time.monotonic_ns())
        if body is None or self.decided_ns <= self.shared.replies.cleared_ns:
            return
        waiting = self.shared.replies.peek(self.key)
        if waiting is not None and waiting.versions == self.versions and waiting.depends == self.depends:
            return  # an earlier equal reply can be used sooner
        entry = ReplyEntry(body, self.depends, self.versions, learned_ns=now_ns, label=self.label, by_look=self.by_look)
        entry.lasting = self.lasting
        self.shared.replies.put(self.key, entry)

    def failed(self, sent: bool) -> None:
        if self.flight is not None:
            self.shared.flights.land(self.flight, None, time.monotonic_ns())

    def _kept(self, reply: bytes | None) -> bytes | None:
        if not self.key or reply is None:
            return None
        return kept_part(self.method, reply, not_found=self.shared.answers_absent)


@dataclass(slots=True)
class FencedWrite(Pending):
    """A write: its targets are fenced from before it is sent until they have been reloaded."""

    shared: EffectsContext
    targets: tuple[bytes, ...]
    logs: bool = False
    """It logs an event if it succeeds: the log must then grow."""

    guard: Guard | None = None
    upstream_event: int = 0
    asked: int = 0
    """The number of the fence that peers were asked about; 0: it was not recorded."""

    def leaving(self) -> PeerRequest | None:
        if self.shared.peers is None:
            return None
        self.sending()
        assert self.guard is not None
        self.asked = self.guard.record_id or 0
        return PeerRequest(PeerAsk.WRITE, self.asked, self.targets)

    def sending(self) -> None:
        if self.guard is None:
            self.guard = self.shared.guards.begin(self.targets)
            self.upstream_event = self.shared.page[Slot.UPSTREAM_EVENT]

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        outcome = said(reply)
        if outcome is Said.UNKNOWN_METHOD:
            self._end(WriteEnding.CANCELLED)
        else:
            if self.logs and outcome is Said.SUCCESS:
                self._expect()
            fleet = self.shared.peers is not None
            self._end(WriteEnding.UNLOGGED if fleet and not self.logs else WriteEnding.FINISHED)
            self.shared.wake()
            if fleet and not self.shared.page[Slot.PEERS_SETTLED]:
                session.passing = PeerRequest(PeerAsk.PASS)

    def failed(self, sent: bool) -> None:
        if self.guard is not None:
            self._end(WriteEnding.UNKNOWN if sent else WriteEnding.CANCELLED)

    def _expect(self) -> None:
        """Expect the log to reach the next id, unless it has gone back: then the id belongs to another history."""
        page, expected = self.shared.page, self.upstream_event + 1
        if page[Slot.EXPECTED_EVENT] < expected and page[Slot.UPSTREAM_EVENT] >= self.upstream_event:
            page[Slot.EXPECTED_EVENT] = expected

    def _end(self, ending: WriteEnding) -> None:
        assert self.guard is not None, "a reply before its request left"
        guard, self.guard = self.guard, None
        peers, number = self.shared.peers, guard.record_id
        if peers is not None and number is not None and ending in LEFT and self._may_be_untold(peers, number):
            ending = WriteEnding.MISSED
        self.shared.guards.end(guard, ending)
        if peers is not None and number is not None and ending is not WriteEnding.UNKNOWN:
            kind = PeerAsk.CANCELLED if ending is WriteEnding.CANCELLED else PeerAsk.OVER
            peers.tell(PeerRequest(kind, number))

    def _may_be_untold(self, peers: Peers, number: int) -> bool:
        """Are peers perhaps not told of the fence with this number? They were not asked about it, as it was recorded
        after the question, or again in a new file; or nobody has answered."""
        return number != self.asked or peers.alone(number)


@dataclass(frozen=True, slots=True)
class Lock(Pending):
    """`lock`. Once it is granted, every read of what it locks must see what was true at that moment; for a lock that
    others may hold too (`reads`), only reads on the connection that asked for it."""

    shared: EffectsContext
    targets: tuple[bytes, ...]
    reads: bool = False

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        lock_id, state = lock_of("lock", reply)
        if state != LOCK_WAITING and self.reads:
            self.shared.shown(session, self.targets, now_ns)
        elif state != LOCK_WAITING:
            self.shared.granted(session, self.targets)
        elif lock_id is not None:
            with suppress(CacheError):  # a lock that is not remembered counts as a lock on everything
                self.shared.fences.remember_lock(lock_id, self.targets)
            if self.shared.peers is not None:
                self.shared.peers.tell(PeerRequest(PeerAsk.LOCKED, lock_id, self.targets))


def only_reads(call: ClientCall) -> bool:
    """Does `lock` ask only for SHARED_READ, as Hive's readers do?"""
    if not call.complete:
        return False
    try:
        args = call.arguments()
    except WireError:
        return False
    components = None if args.rqst is None else args.rqst.component
    return components is not None and len(components) > 0 and all(one.type == SHARED_READ for one in components)


@dataclass(frozen=True, slots=True)
class CheckLock(Pending):
    """`check_lock`: the same for a lock that had to wait. An unknown lock counts as a lock on everything."""

    shared: EffectsContext
    lock_id: int | None

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        if lock_of("check_lock", reply)[1] == LOCK_WAITING:
            return
        known = None if self.lock_id is None else self.shared.fences.lock_targets(self.lock_id)
        self.shared.granted(session, (target.ALL,) if known is None else known)


def lock_id_of(call: ClientCall) -> int | None:
    """The lock that `check_lock` or `unlock` names; None if that is unknown."""
    try:
        row = call.arguments()
    except WireError:
        return None
    return None if row.rqst is None else row.rqst.lockid


@dataclass(frozen=True, slots=True)
class Unlock(Pending):
    """`unlock`: the lock's targets can be forgotten."""

    shared: EffectsContext
    lock_id: int | None

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        if self.lock_id is not None and self.shared.fences.lock_targets(self.lock_id) is not None:
            with suppress(CacheError):  # then it is forgotten after a day
                self.shared.fences.forget_lock(self.lock_id)


@dataclass(frozen=True, slots=True)
class SessionCall(Pending):
    """A call that names the client's user. The name counts once the metastore has accepted it."""

    identity: bytes | None

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        outcome = said(reply)
        if self.identity is not None and outcome is Said.SUCCESS:
            session.identity = self.identity
        elif outcome is Said.UNREAD:  # too long to read: the user is unknown
            session.relay_for_good = True


def named_user(call: ClientCall) -> bytes:
    """The arguments of a set_ugi, which a connection keeps. If they are too long, or were not read, it keeps the name
    alone: reads then go to the metastore, which knows the groups."""
    identity = call.message[call.header.body :]
    if call.complete and len(identity) <= IDENTITY_BYTES:
        return identity
    call.session.relay_for_good = True
    cls = spec.args("set_ugi")
    name = decode_beginning(cls, call.message, call.header.body).user_name or b""
    return spec.encode(cls(user_name=name[:IDENTITY_BYTES], group_names=[]))


def session_call(call: ClientCall) -> Forward:
    """How a session call is forwarded. set_ugi only names the user, so it can be answered before a metastore receives
    it: a client whose reads are hits can then connect during an outage."""
    label = call.header.name.decode()
    identity: bytes | None = None
    offline: bytes | None = None
    if label == "setMetaConf":
        call.session.relay_for_good = True
    else:
        identity = named_user(call)
        with suppress(WireError):  # the metastore refuses what is not a set_ugi
            offline = agreement(label, call.header, call.message)
    pending = SessionCall(identity)
    return Forward(label, "relay", "session", HELD_WRITE_BYTES, replay=True, offline=offline, pending=pending)


@dataclass(frozen=True, slots=True)
class EventIds(Pending):
    """A call whose reply has event ids: the cache must have reached them before any client's next hit.

    A cursor beyond an id proves this only while the log is the same. `Cycle.step` handles a log that has gone back.
    """

    shared: EffectsContext
    method: str

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        highest = None if reply is None else event_id_of(self.method, reply)
        if highest is None or highest > self.shared.page[Slot.CURSOR]:
            self.shared.fence_now()
        if self.shared.peers is not None and highest != 0:
            unread = Note(NoteKind.OWED, (target.ALL,))
            session.passing = self.shared.noted(unread if highest is None else Note(NoteKind.EVENT, event=highest))
