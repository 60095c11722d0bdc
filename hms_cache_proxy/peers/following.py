"""One connection on which this proxy follows another: messages become fences, acknowledgements and a lease.

    GREETING -> REPLAYING (Welcome) -> CURRENT (Replayed)

Job: keep the order of events on such a connection. Must not know: other members, sockets.

On a new connection, three things happen before a lease is taken. The fences that the other proxy lists are infinite
again. The other fences that were held for this incarnation get tickets. And one fence over everything waits for one
step, because records that have no end of their own (a granted lock) may have been missed. A record is committed before
it is acknowledged. A lease counts from the moment when it was requested, by this proxy's own clock. Owner: a Fleet.
"""

from __future__ import annotations

from enum import Enum, auto

from hms_cache_proxy.cache.targets import UNKNOWN
from hms_cache_proxy.consistency.peer_fences import Origin
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.peers.messages import (
    Acknowledged,
    EventReached,
    FenceLifted,
    FenceOwed,
    FenceRaised,
    LeaseAsked,
    LeaseGiven,
    LockWaits,
    MissedTargets,
    PeerMessage,
    Replayed,
    TokensCancelled,
    Welcome,
    understood,
)
from hms_cache_proxy.peers.protocol import SECOND, CancelTokens, PeerCommand, PeerRecords, SendToPeer, WakeFollower
from hms_cache_proxy.security.cancelled_tokens import RECORD_BYTES

LONGEST_LEASE_NS = 60 * SECOND
"""No version gives a longer one."""

MOST_ASKED = 16
"""Questions for a lease that are remembered until they are answered."""


class FollowingState(Enum):
    """How far a connection has got."""

    GREETING = auto()
    REPLAYING = auto()
    CURRENT = auto()


class Following:
    """A connection to a proxy that is followed."""

    def __init__(self, link: int, incarnation: bytes, records: PeerRecords, commands: list[PeerCommand]) -> None:
        self.link, self.incarnation = link, incarnation
        self.state = FollowingState.GREETING
        self.lease_until_ns = 0
        self.asked_ns = 0
        self._records, self._commands = records, commands
        self._asked: list[int] = []
        self._listed: set[Origin] = set()
        self._received = 0

    @property
    def current(self) -> bool:
        return self.state is FollowingState.CURRENT

    def ask(self, now_ns: int) -> None:
        """Ask for a lease."""
        assert self.current
        self.asked_ns = now_ns
        self._asked = [*self._asked[-MOST_ASKED + 1 :], now_ns]
        self._commands.append(SendToPeer(self.link, LeaseAsked(now_ns)))

    def received(self, message: PeerMessage, now_ns: int) -> list[Origin]:
        """A message of the followed. Returns the writes of which this says that they are over. CacheError: it could not
        be recorded."""
        if isinstance(message, LeaseGiven):
            self._leased(message, now_ns)
            return []
        if isinstance(message, Welcome):
            if self.state is not FollowingState.GREETING:
                raise WireError("a peer welcomes this proxy a second time")
            self.state = FollowingState.REPLAYING
            return []
        if self.state is FollowingState.GREETING:
            raise WireError("a peer sends records before its welcome")
        if isinstance(message, TokensCancelled):
            if any(len(record) != RECORD_BYTES for record in message.records):
                raise WireError("a peer tells of cancelled tokens in another form")
            self._commands.append(CancelTokens(message.records))
            return []
        over = self._recorded(message)
        self._received += 1
        if self.current:
            self._commands.append(SendToPeer(self.link, Acknowledged(self._received)))
        return over

    def _recorded(self, message: PeerMessage) -> list[Origin]:
        records, via = self._records, self.incarnation
        match message:
            case FenceRaised():
                records.hold(via, message.origin, understood(message.targets))
                if not self.current:
                    self._listed.add(message.origin)
            case FenceLifted():
                records.release(via, message.origin, executed=message.executed != 0)
                self._commands.append(WakeFollower())
                return [message.origin]
            case Replayed():
                return self._replayed(message.position)
            case MissedTargets():
                records.reload(understood(message.targets))
                self._commands.append(WakeFollower())
            case FenceOwed():
                records.owe(understood(message.targets))
                self._commands.append(WakeFollower())
            case EventReached():
                records.reached(message.event)
            case LockWaits():
                records.remember_lock(message.lock_id, understood(message.targets))
            case _:
                raise WireError(f"a peer that is followed sends {type(message).__name__}")
        return []

    def _replayed(self, position: int) -> list[Origin]:
        if self.current:
            raise WireError("a peer ends its replay a second time")
        over = self._records.release_others(self.incarnation, frozenset(self._listed))
        self._records.owe((UNKNOWN,))
        self._records.cover(self.incarnation, position)
        self._listed.clear()
        self.state = FollowingState.CURRENT
        self._commands.append(WakeFollower())
        return over

    def _leased(self, message: LeaseGiven, now_ns: int) -> None:
        if message.asked_ns not in self._asked or message.duration_ns < 0:
            raise WireError("a peer answers what it was not asked")
        while self._asked and self._asked[0] < message.asked_ns:
            self._asked.pop(0)
        if self.current and message.duration_ns:
            self.lease_until_ns = max(self.lease_until_ns, self.lasts_until(message, now_ns))
            self._records.cover(self.incarnation, message.position)

    def lasts_until(self, message: LeaseGiven, now_ns: int) -> int:
        """A lease counts from the question: when the answer was sent is not known here."""
        return message.asked_ns + min(message.duration_ns, LONGEST_LEASE_NS)
