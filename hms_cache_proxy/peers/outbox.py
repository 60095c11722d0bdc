"""What this proxy tells its followers, and what its writes wait for.

Job: keep the stream of records to each follower and the leases that it was given; decide who must have acknowledged
what before a write leaves, or before a reply is passed on of which a note tells. Must not know: sockets, whom this
proxy follows.

Everything to one follower goes through one ordered connection, so **a lease never overtakes a fence**: a lease that a
follower receives says that it has every record sent before. Therefore a record waits only for leases that were given
*before* it was sent: until the follower has acknowledged it, or the last of them has run out, counted from after it was
given, plus 5 %. A follower without such a lease is not waited for. A new connection begins with all standing fences, so
the acknowledgement of the replay's end counts for every record that was sent on the last one.

A follower that leaves a record unacknowledged for 200 ms gets no lease until it has caught up, and then 10 s more
(doubling to 5 minutes): so a slow follower delays writes by one lease at most. The same applies to a follower for which
a write has waited until its lease had run out, even if its connection broke meanwhile: otherwise a connection that
breaks again and again would bring a new lease each time, and each write would wait for it. Owner: a Fleet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.consistency.notes import Note, NoteKind
from hms_cache_proxy.consistency.peer_fences import Origin
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.peers.messages import (
    EventReached,
    FenceLifted,
    FenceOwed,
    FenceRaised,
    LeaseGiven,
    LockWaits,
    MissedTargets,
    PeerMessage,
    Replayed,
    TokensCancelled,
    Welcome,
    short,
)
from hms_cache_proxy.peers.protocol import ClosePeer, FleetTimes, MayLeave, PeerCommand, SendToPeer

MOST_ACKS = 10_000
_INHERITED = b""
"""In the place of an incarnation: all followers of this proxy's last peer process."""


@dataclass(slots=True)
class Follower:
    """One that follows this proxy. It outlives its connections while it may have a lease, or has a penalty."""

    incarnation: bytes
    link: int | None = None
    sent: int = 0
    acknowledged: int = 0
    given_until_ns: int = 0
    asked_ns: int | None = None
    told: set[Origin] = field(default_factory=set)
    """Fences that it was told of, whose end it has not been told of."""

    noted: int = 0
    """The number of the last note that it was told of."""

    notes: deque[tuple[int, int]] = field(default_factory=deque)
    """Notes with the records that told of them, which it has not acknowledged."""

    unacknowledged: deque[tuple[int, int]] = field(default_factory=deque)
    """Records with the times when they were sent."""

    penalty_ns: int = 0
    without_until_ns: int = 0
    last_ack_ns: int = 0
    """How long the last acknowledgement took."""

    calls: tuple[int, int] | None = None
    """Its hits and reads, as it last told."""


@dataclass(slots=True)
class _Awaited:
    """A follower whose acknowledgement is waited for. `record` None: it is not connected."""

    record: int | None
    until_ns: int


class PeerOutbox:
    """The followers of this proxy."""

    def __init__(self, times: FleetTimes, commands: list[PeerCommand], given_until_ns: int = 0) -> None:
        """`given_until_ns`: when the leases of this proxy's last peer process have run out."""
        self._times = times
        self._commands = commands
        self.followers: dict[bytes, Follower] = {}
        if given_until_ns:
            self.followers[_INHERITED] = Follower(_INHERITED, given_until_ns=given_until_ns)
        self._waiting: dict[int, dict[bytes, _Awaited]] = {}
        self.acks_ns: deque[int] = deque(maxlen=MOST_ACKS)
        """How long acknowledgements took since somebody looked."""

    # connections

    def replay(
        self,
        follower: tuple[bytes, int],
        standing: Iterable[tuple[Origin, tuple[Target, ...]]],
        unlogged: tuple[Target, ...],
        last: tuple[int, int],
        now_ns: int,
    ) -> None:
        """A new connection (incarnation, link): begin it with everything that is under way. `last`: ticket and note;
        the end of a replay covers all notes."""
        incarnation, link = follower
        one = self.followers.setdefault(incarnation, Follower(incarnation))
        if one.link is not None and one.link != link:
            self._commands.append(ClosePeer(one.link, "there is a newer connection"))
        one.link, one.sent, one.acknowledged = link, 0, 0
        position, one.noted = last
        one.asked_ns = None
        one.told.clear()
        one.notes.clear()
        one.unacknowledged.clear()
        self._commands.append(SendToPeer(link, Welcome()))
        for origin, targets in standing:
            if origin.incarnation != incarnation:
                one.told.add(origin)
                self._record(one, FenceRaised(origin.incarnation, origin.number, short(targets)), now_ns)
        if unlogged:
            self._record(one, MissedTargets(short(unlogged)), now_ns)
        self._record(one, Replayed(position), now_ns)
        one.notes.append((one.noted, one.sent))
        for waiting in self._waiting.values():
            if incarnation in waiting:
                waiting[incarnation].record = one.sent

    def follows(self, incarnation: bytes, link: int) -> bool:
        """Has a replay begun on this connection?"""
        one = self.followers.get(incarnation)
        return one is not None and one.link == link

    def lost(self, link: int) -> None:
        """A connection has ended."""
        for one in self.followers.values():
            if one.link == link:
                one.link = None
                one.told.clear()
                for waiting in self._waiting.values():
                    if one.incarnation in waiting:
                        waiting[one.incarnation].record = None

    # records

    def raised(self, token: int, origin: Origin, targets: tuple[Target, ...], now_ns: int) -> None:
        """A write is fenced here: tell everybody. MayLeave(token) when it may leave."""
        message = FenceRaised(origin.incarnation, origin.number, short(targets))
        for one in self._connected():
            if origin not in one.told:
                one.told.add(origin)
                self._record(one, message, now_ns)
        self._wait(token, now_ns)

    def over(self, origin: Origin, now_ns: int, *, executed: bool = True) -> None:
        """A write is over."""
        for one in self._connected():
            if origin in one.told:
                one.told.discard(origin)
                self._record(one, FenceLifted(origin.incarnation, origin.number, int(executed)), now_ns)

    def compare(self, standing: Iterable[Origin], now_ns: int) -> None:
        """Tell of what is over without a word, as after the death of a worker."""
        left = set(standing)
        for one in self._connected():
            for origin in sorted(one.told - left):
                one.told.discard(origin)
                self._record(one, FenceLifted(origin.incarnation, origin.number, 1), now_ns)

    def noted(self, token: int, number: int, now_ns: int) -> None:
        """A reply is about to be passed on that this note is about. MayLeave(token) when it may be."""
        self._wait(token, now_ns, note=number)

    def tell_notes(self, notes: Sequence[tuple[int, Note]], now_ns: int) -> None:
        """Tell everybody of these, as far as they have not been told: a lease must not overtake them."""
        for one in self._connected():
            for number, note in notes:
                if number > one.noted:
                    self._record(one, _told(note), now_ns)
                    one.noted = number
                    one.notes.append((number, one.sent))

    def least_noted(self) -> int | None:
        """Which notes all followers that are connected have been told of; None: nobody is connected."""
        return min((one.noted for one in self._connected()), default=None)

    def locked(self, lock_id: int, targets: tuple[Target, ...], now_ns: int) -> None:
        """A lock waits; nobody is waited for."""
        for one in self._connected():
            self._record(one, LockWaits(lock_id, short(targets)), now_ns)

    def cancelled(self, records: tuple[bytes, ...]) -> None:
        """These tokens are cancelled; nobody is waited for."""
        for one in self._connected():
            assert one.link is not None
            self._commands.append(SendToPeer(one.link, TokensCancelled(records)))

    def _connected(self) -> list[Follower]:
        return [one for one in self.followers.values() if one.link is not None]

    def _record(self, one: Follower, message: PeerMessage, now_ns: int) -> None:
        assert one.link is not None
        one.sent += 1
        one.unacknowledged.append((one.sent, now_ns))
        self._commands.append(SendToPeer(one.link, message))

    # what writes wait for

    def awaited(self, one: Follower, now_ns: int) -> bool:
        """Does a record that is sent now wait for this follower?"""
        return one.given_until_ns > now_ns

    def _wait(self, token: int, now_ns: int, *, note: int | None = None) -> None:
        waiting: dict[bytes, _Awaited] = {}
        for one in self.followers.values():
            if self.awaited(one, now_ns):
                record = None if one.link is None else one.sent if note is None else _record_of(one, note)
                if record is None or record > one.acknowledged:
                    waiting[one.incarnation] = _Awaited(record, one.given_until_ns)
        if waiting:
            self._waiting[token] = waiting
        else:
            self._commands.append(MayLeave(token))

    def acknowledged(self, incarnation: bytes, records: int, now_ns: int) -> None:
        """A follower has committed these."""
        one = self.followers[incarnation]
        if not one.acknowledged <= records <= one.sent:
            raise WireError("a peer acknowledges what it was not sent")
        one.acknowledged = records
        while one.notes and one.notes[0][1] <= records:
            one.notes.popleft()
        while one.unacknowledged and one.unacknowledged[0][0] <= records:
            _, sent_ns = one.unacknowledged.popleft()
            one.last_ack_ns = now_ns - sent_ns
            self.acks_ns.append(one.last_ack_ns)
            self._judge(one, one.last_ack_ns, now_ns)
        for token, waiting in list(self._waiting.items()):
            awaited = waiting.get(incarnation)
            if awaited is not None and awaited.record is not None and awaited.record <= records:
                del waiting[incarnation]
                self._ready(token)

    def _ready(self, token: int) -> None:
        if not self._waiting[token]:
            del self._waiting[token]
            self._commands.append(MayLeave(token))

    def catch_up(self, standing: Sequence[tuple[Origin, tuple[Target, ...]]], now_ns: int) -> None:
        """Tell everybody of these, as far as they have not been told: a lease must not overtake them."""
        for one in self._connected():
            for origin, targets in standing:
                if origin not in one.told:
                    one.told.add(origin)
                    self._record(one, FenceRaised(origin.incarnation, origin.number, short(targets)), now_ns)

    # leases

    def lasts_until(self, duration_ns: int, now_ns: int) -> int:
        """When a lease that is given now has run out, by any clock."""
        return now_ns + self._times.outlasted(duration_ns)

    def asked(self, incarnation: bytes, asked_ns: int, position: int | None, now_ns: int) -> None:
        """A follower asks for a lease. `position`: of the lease; None: it gets none now."""
        one = self.followers[incarnation]
        assert one.link is not None
        one.asked_ns = asked_ns
        self._give(one, asked_ns, 0 if position is None else self._times.lease_ns, position or 0, now_ns)

    def last_leases(self, position: int, now_ns: int) -> None:
        """This proxy stops, and nothing is under way: the last lease is a longer one."""
        for one in self._connected():
            if one.asked_ns is not None and not self._slow(one, now_ns):
                self._give(one, one.asked_ns, self._times.last_lease_ns, position, now_ns)

    def _give(self, one: Follower, asked_ns: int, duration_ns: int, position: int, now_ns: int) -> None:
        assert one.link is not None
        if duration_ns:
            one.given_until_ns = max(one.given_until_ns, self.lasts_until(duration_ns, now_ns))
        self._commands.append(SendToPeer(one.link, LeaseGiven(asked_ns, duration_ns, position)))

    def answers_nothing(self, incarnation: bytes) -> None:
        """A follower stops: its leases are void."""
        self.followers[incarnation].given_until_ns = 0
        for token, waiting in list(self._waiting.items()):
            if waiting.pop(incarnation, None) is not None:
                self._ready(token)

    def _judge(self, one: Follower, took_ns: int, now_ns: int) -> None:
        if took_ns > self._times.slow_ns and now_ns >= one.without_until_ns:
            doubled_ns = max(2 * one.penalty_ns, self._times.first_penalty_ns)
            one.penalty_ns = min(doubled_ns, self._times.last_penalty_ns)
        if took_ns > self._times.slow_ns:
            one.without_until_ns = now_ns + one.penalty_ns

    def slow(self, incarnation: bytes, now_ns: int) -> bool:
        """Does this follower get no lease now, because it acknowledges too late?"""
        return self._slow(self.followers[incarnation], now_ns)

    def _slow(self, one: Follower, now_ns: int) -> bool:
        if one.unacknowledged and now_ns - one.unacknowledged[0][1] > self._times.slow_ns:
            return True
        return self._punished(one, now_ns) and now_ns < one.without_until_ns

    def _punished(self, one: Follower, now_ns: int) -> bool:
        """Has it been slow lately? If not, its next penalty is the first one again."""
        if one.penalty_ns and now_ns - one.without_until_ns > self._times.last_penalty_ns:
            one.penalty_ns = 0
        return one.penalty_ns != 0

    # time

    def tick(self, now_ns: int) -> None:
        """Leases run out; followers that are gone for good are forgotten."""
        too_late: set[bytes] = set()
        for token, waiting in list(self._waiting.items()):
            for incarnation, awaited in list(waiting.items()):
                if awaited.until_ns <= now_ns:
                    del waiting[incarnation]
                    too_late.add(incarnation)
            self._ready(token)
        for incarnation in too_late:
            self._judge(self.followers[incarnation], self._times.lease_ns, now_ns)
        for one in list(self.followers.values()):
            if one.link is None and one.given_until_ns <= now_ns and not self._punished(one, now_ns):
                del self.followers[one.incarnation]

    def next_ns(self) -> int | None:
        """When `tick` has something to do for a record that waits."""
        return min((one.until_ns for waiting in self._waiting.values() for one in waiting.values()), default=None)


def _told(note: Note) -> PeerMessage:
    if note.kind is NoteKind.EVENT:
        return EventReached(note.event)
    return FenceOwed(short(note.targets)) if note.kind is NoteKind.OWED else MissedTargets(short(note.targets))


def _record_of(one: Follower, number: int) -> int | None:
    """The record with which a follower knows of a note; 0 if that is acknowledged, None if it was not told."""
    if number > one.noted:
        return None
    return next((record for told, record in one.notes if told >= number), 0)
