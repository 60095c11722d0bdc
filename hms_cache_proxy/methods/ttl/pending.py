"""What a call to the metastore does to the loading cache at each stage.

Job: have one small class for each kind of call. Its object is the Forward's `pending`, and is told what happens to the
call (decision.py). Must not know: sockets, how a decision was made.

Invariants: a write holds its targets from before it leaves until just before its reply is passed on; the hold of a
write with unknown outcome stays until no metastore can execute the write any more. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic_ns

from hms_cache_proxy.cache.state import boottime_ns
from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.cache.ttl import TtlCache
from hms_cache_proxy.consistency.floors import Floors
from hms_cache_proxy.consistency.guards import Guard, WriteEnding
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.wire.message import MessageType, message_header

from ..decision import Ask, ClientSession, Pending
from ..reply_contents import LOCK_WAITING, Said, lock_of, said
from .looking import Conversation, TtlContext

LOCKS = 10_000
"""Waiting locks whose tables are remembered; any other counts as a lock on everything."""


@dataclass(frozen=True, slots=True)
class Loading(Pending):
    """A read that went to the metastore, with the conversation that composes its answer."""

    shared: TtlContext
    conversation: Conversation
    method: str
    seqid: int
    began_ns: int

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        if reply is None:
            self.conversation.look.release()
            return
        try:
            self.conversation.learn(reply)
        except CacheError as error:
            self.shared.troubled(error)
            self.conversation.look.release()
        self._loaded(said(reply) is Said.SUCCESS)

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        try:
            step = self.conversation.answered(reply)
        except CacheError as error:
            self.shared.troubled(error)
            return None
        if not isinstance(step, bytes):
            return step
        self._loaded(True)
        return message_header(self.method.encode(), MessageType.REPLY, self.seqid) + step

    def failed(self, sent: bool) -> None:
        self._loaded(False)
        self.conversation.look.release()

    def _loaded(self, well: bool) -> None:
        label = self.conversation.kind.label
        took_s = (monotonic_ns() - self.began_ns) / 1e9
        self.shared.metrics.ttl_loaded(label, "loaded" if well else "failed", took_s)


@dataclass(frozen=True, slots=True)
class HoldBarrier:
    """Holds, as the Barrier of guards. If the outcome of a write is unknown, another hold begins when the
    answer is given up, and ends by itself."""

    cache: TtlCache
    request_timeout_ns: int
    """The longest time that a metastore may work on a request."""

    def begin(self, targets: Sequence[Target]) -> tuple[bytes, ...]:
        now_ns = monotonic_ns()
        return self.cache.hold(targets, now_ns + self.request_timeout_ns, now_ns)

    def end(self, record_id: tuple[bytes, ...], targets: Sequence[Target], ending: WriteEnding) -> None:
        if ending is WriteEnding.UNKNOWN:
            self.begin(targets)
        else:
            self.cache.end_hold(record_id, targets)


@dataclass(slots=True)
class Writing(Pending):
    """A write."""

    shared: TtlContext
    targets: tuple[Target, ...]
    guard: Guard | None = None

    def sending(self) -> None:
        if self.guard is None:
            self.guard = self.shared.guards.begin(self.targets)

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        self._end(WriteEnding.FINISHED)

    def failed(self, sent: bool) -> None:
        self._end(WriteEnding.UNKNOWN if sent else WriteEnding.CANCELLED)

    def _end(self, ending: WriteEnding) -> None:
        if self.guard is not None:
            guard, self.guard = self.guard, None
            self.shared.guards.end(guard, ending)


@dataclass(slots=True)
class WaitedFor:
    """The targets of this worker's locks that have to wait."""

    targets: dict[int, tuple[Target, ...]] = field(default_factory=dict)

    def remember(self, lock_id: int, targets: tuple[Target, ...]) -> None:
        """A lock has to wait."""
        if len(self.targets) >= LOCKS:
            self.targets.clear()
        self.targets[lock_id] = targets

    def take(self, lock_id: int | None) -> tuple[Target, ...]:
        """The lock waits no more. An unknown lock counts as a lock on everything: it may be another worker's."""
        return (ALL,) if lock_id is None else self.targets.pop(lock_id, (ALL,))


@dataclass(frozen=True, slots=True)
class Locking(Pending):
    """`lock`. The holder of a lock must read what was true when it was granted (Iceberg's commits). For a lock that
    others may hold too (`reads`), only the connection that asked for it must; it is shown what was loaded later."""

    shared: TtlContext
    waited_for: WaitedFor
    targets: tuple[Target, ...]
    reads: bool = False

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        lock_id, state = lock_of("lock", reply)
        if state != LOCK_WAITING and self.reads:
            if session.locked is None:
                session.locked = Floors(self.shared.memory)
            session.locked.lift(self.targets, boottime_ns())
        elif state != LOCK_WAITING:
            self.shared.invalidate(self.targets or (ALL,))
        elif lock_id is not None:
            self.waited_for.remember(lock_id, self.targets)


@dataclass(frozen=True, slots=True)
class CheckingLock(Pending):
    """`check_lock`: the same, for a lock that had to wait."""

    shared: TtlContext
    waited_for: WaitedFor
    lock_id: int | None

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        if lock_of("check_lock", reply)[1] != LOCK_WAITING:
            self.shared.invalidate(self.waited_for.take(self.lock_id))
