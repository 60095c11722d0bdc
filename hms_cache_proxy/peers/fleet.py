"""One member of a fleet: everything that it knows and decides about the others.

Job: take events (connections, messages, writes of this proxy, the list, the clock), and give commands in the order in
which they must be carried out. `take` returns them. Must not know: sockets, LMDB, the clock's origin.

Invariants
- A record is committed (PeerRecords) before its acknowledgement is a command. If it cannot be committed, the
  connection is closed, and its lease dropped.
- `ServeUntil` is lowered before anything is sent that depends on that: a hello of a new incarnation is welcomed only
  after the leases of the last one at that address are dropped, and the new one's is required.
- `PeerRecords.give_until` is called before a lease is sent, and then the fences and notes are read that it must not
  overtake.
Owner: the peers' process (driver.py); the tests' simulation.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.consistency.peer_fences import Origin
from hms_cache_proxy.errors import CacheError, WireError
from hms_cache_proxy.peers.following import Following
from hms_cache_proxy.peers.messages import (
    Acknowledged,
    AnswersNothing,
    CallsCounted,
    Hello,
    LeaseAsked,
    PeerMessage,
    RefusedPeer,
    TokensCancelled,
)
from hms_cache_proxy.peers.outbox import PeerOutbox
from hms_cache_proxy.peers.protocol import (
    SECOND,
    ClosePeer,
    DialPeer,
    FleetTimes,
    MayLeave,
    PeerCommand,
    PeerRecords,
    SendToPeer,
    ServeUntil,
    TellPeer,
)
from hms_cache_proxy.peers.roster import FIRST_DIAL_NS, PeerRoster

COMPARE_NS = SECOND
UNLISTED = "while it cannot be reached, every read looks at the database; give all proxies the same list (peers)"
Writes: TypeAlias = tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class OwnMember:
    """This proxy. `started_ns`: the start of its supervisor. `given_until_ns`: when the leases that its last peer
    process gave have run out. `serves` False: it never answers by leases, and asks for none."""

    incarnation: bytes
    address: str
    metastore: bytes
    started_ns: int
    given_until_ns: int = 0
    serves: bool = True


class Fleet:
    """The state of one member."""

    def __init__(self, own: OwnMember, records: PeerRecords, times: FleetTimes) -> None:
        self._own, self._records, self.times = own, records, times
        self._commands: list[PeerCommand] = []
        self.roster = PeerRoster(own.incarnation, times)
        self.outbox = self._new_outbox()
        self.following: dict[int, Following] = {}
        self._accepted: dict[int, bytes] = {}
        self._heard_ns: dict[int, int] = {}
        self._leases: dict[bytes, int] = {}
        """Leases by the incarnation that gave them; they outlive connections."""

        self._served_until_ns = 0
        self._listed = False
        self._looked_ns: int | None = None
        self._settled = False
        self._ready: list[int] = []
        """Tokens of what waits for nothing but that this proxy is settled."""

        self._compared_ns = 0
        self._cancelled: dict[bytes, None] = {}
        """The records of cancelled tokens that all followers have been told of."""

        self.stopping = False

    def _new_outbox(self) -> PeerOutbox:
        return PeerOutbox(self.times, self._commands, self._own.given_until_ns)

    def _new_following(self, link: int, incarnation: bytes) -> Following:
        return Following(link, incarnation, self._records, self._commands)

    def take(self) -> list[PeerCommand]:
        """The commands since the last call."""
        commands: list[PeerCommand] = []
        for command in self._commands:
            if isinstance(command, MayLeave) and not self._settled:
                self._ready.append(command.token)
            else:
                commands.append(command)
        self._commands.clear()
        return commands

    # the list and the clock

    def listed(self, addresses: list[str], now_ns: int, *, complete: bool = True) -> None:
        """The list was looked up, in a look that began at `now_ns`."""
        self._listed |= complete
        gone = self.roster.listed(addresses, complete=complete)
        if gone is not None:
            self._looked_ns = now_ns
        for place in gone or ():
            self._commands.append(TellPeer("a peer has left the list", place.address))
        self.tick(now_ns)

    def tick(self, now_ns: int) -> None:
        """Time has passed."""
        self.outbox.tick(now_ns)
        for link, heard_ns in list(self._heard_ns.items()):
            if now_ns - heard_ns > self.times.silence_ns and not self._may_be_silent(link):
                self._close(link, "it is silent", now_ns)
        for following in list(self.following.values()):
            if following.current and self._asks and now_ns - following.asked_ns >= self.times.ask_ns:
                following.ask(now_ns)
        if now_ns - self._compared_ns >= COMPARE_NS:
            self._compared_ns = now_ns
            self._compare(now_ns)
        for address in self.roster.claimed(now_ns):
            self._commands.append(TellPeer("a peer is not in the list", address, UNLISTED))
        followed = {one.incarnation for one in self.following.values()}
        for place in self.roster.due(followed, now_ns):
            place.dialling = True
            self._commands.append(DialPeer(place.address))
        self._decide(now_ns)

    def _may_be_silent(self, link: int) -> bool:
        """Is it one on which nothing is asked? Then nothing arrives while nothing is written. (What is sent shows that
        the other end is there: how many hits there were.)"""
        following = self.following.get(link)
        return following is not None and following.current and not self._own.serves

    def _compare(self, now_ns: int) -> None:
        self.roster.forget({*self._accepted.values(), *(one.incarnation for one in self.following.values())}, now_ns)
        try:
            self._keep()
            standing = self._records.under_way()
            self._catch_up(standing, now_ns)  # first: a fence may stand in the place of one that is over
            self.outbox.compare((origin for origin, _ in standing), now_ns)
            self._tell_notes(now_ns)
            told = self.outbox.least_noted()
            self._records.drop_notes(self._records.last_note() if told is None else told)
        except CacheError:
            return  # the fences are damaged: the next look tries again

    def _keep(self) -> None:
        """What connected peers have told of lasts, however long their writes take."""
        self._records.keep(frozenset(one.incarnation for one in self.following.values()))

    def next_ns(self, now_ns: int) -> int:
        """When `tick` should be called next, at the latest."""
        times = [now_ns + self.times.ask_ns // 5]
        waits_ns = self.outbox.next_ns()
        if waits_ns is not None:
            times.append(waits_ns)
        if self._served_until_ns > now_ns:
            times.append(self._served_until_ns)
        return max(now_ns, min(times))

    def _decide(self, now_ns: int) -> None:
        """Publish until when reads may be served, and whether writes may leave."""
        until_ns = self.serves_until(now_ns)
        if until_ns != self._served_until_ns:
            self._served_until_ns = until_ns
            self._commands.append(ServeUntil(until_ns))
        self._settled = self.settled(now_ns)
        if self._settled:
            self._commands += [MayLeave(token) for token in self._ready]
            self._ready.clear()

    def serves_until(self, now_ns: int) -> int:
        """The minimum of the required leases, and of the time for which the list is known; 0 if this proxy is too young
        to answer by leases."""
        if self.stopping or self._looked_ns is None or now_ns - self._own.started_ns < self.times.serve_age_ns:
            return 0
        leases = [0 if one is None else self._leases.get(one, 0) for one in self.roster.required()]
        until_ns = min(leases, default=now_ns + self.times.lease_ns)
        return min(until_ns, self._looked_ns + self.times.list_fresh_ns) if self.times.list_lag_ns else until_ns

    def settled(self, now_ns: int) -> bool:
        """May writes leave, as far as the start of this proxy is concerned? Either everybody in the list has welcomed
        it, or everybody has had the time to find it in the list, and the leases of its predecessor have run out."""
        age_ns = now_ns - self._own.started_ns
        return age_ns >= self.times.write_age_ns or (self._listed and self.roster.all_answered())

    # connections

    def dialled(self, link: int, address: str, incarnation: bytes, now_ns: int) -> None:
        """The handshake at an address is over."""
        place = self.roster.places.get(address)
        if place is None or not place.dialling:
            self._commands.append(ClosePeer(link, "it is not dialled any more"))
            return
        place.dialling, place.problem, place.pause_ns = False, "", FIRST_DIAL_NS
        before = self.roster.answered_at(address, incarnation)
        if before is not None:
            self._forget_lease(before, now_ns)
        if incarnation == self._own.incarnation:
            self._commands.append(ClosePeer(link, "it is this proxy itself"))
            self._decide(now_ns)
            return
        elsewhere = next((one for one in self.following.values() if one.incarnation == incarnation), None)
        if elsewhere is not None:
            place.answered |= elsewhere.current
            self._commands.append(ClosePeer(link, "it is followed at another address"))
            self._decide(now_ns)
            return
        place.link = link
        self.following[link] = self._new_following(link, incarnation)
        self._heard_ns[link] = now_ns
        self.drop_lease(incarnation)
        self._decide(now_ns)
        try:
            position = self._records.covered(incarnation)
        except CacheError as error:
            self._close(link, str(error), now_ns)
            return
        own = self._own
        known = incarnation if position else b""
        self._commands.append(SendToPeer(link, Hello(own.metastore, own.address.encode(), known, position)))

    def drop_lease(self, incarnation: bytes) -> None:
        """A lease of an earlier connection does not say that fences have been received on this one."""
        self._leases.pop(incarnation, None)

    def dial_failed(self, address: str, problem: str, now_ns: int) -> None:
        """Nobody answers at an address."""
        self.roster.dial_failed(address, problem, now_ns)

    def accepted(self, link: int, incarnation: bytes, now_ns: int) -> None:
        """The handshake of a connection that another proxy has opened is over; its hello follows."""
        self._accepted[link] = incarnation
        self._heard_ns[link] = now_ns

    def closed(self, link: int, now_ns: int) -> None:
        """A connection has ended."""
        self._heard_ns.pop(link, None)
        self._accepted.pop(link, None)
        self.outbox.lost(link)
        following = self.following.pop(link, None)
        for place in self.roster.places.values():
            if place.link == link:
                place.link, place.dial_after_ns = None, now_ns + place.pause_ns
        if following is not None:
            try:
                self._records.missed(following.incarnation)
            except CacheError:
                pass  # they stay for twice as long, or are in a file that is replaced, which then fences everything
        self._decide(now_ns)

    def _close(self, link: int, reason: str, now_ns: int) -> None:
        self._commands.append(ClosePeer(link, reason))
        self.closed(link, now_ns)

    def _forget_lease(self, incarnation: bytes, now_ns: int) -> None:
        """A predecessor at an address: close its connection, drop its lease."""
        for following in list(self.following.values()):
            if following.incarnation == incarnation:
                self._close(following.link, "another process has taken its place", now_ns)
        self._leases.pop(incarnation, None)

    # messages

    def received(self, link: int, message: PeerMessage, now_ns: int) -> None:
        """A message has arrived. WireError: the connection must be closed."""
        if link not in self._heard_ns:
            return  # it has been closed; what was under way does not count
        self._heard_ns[link] = now_ns
        if link in self.following:
            self._from_followed(self.following[link], message, now_ns)
        else:
            self._from_follower(link, message, now_ns)

    def _from_followed(self, following: Following, message: PeerMessage, now_ns: int) -> None:
        if isinstance(message, RefusedPeer):
            reason = message.reason.decode(errors="replace")
            self._commands.append(TellPeer("a peer refuses this proxy", self._address_of(following), reason))
            self.roster.refused(following.link, reason)
            self._close(following.link, reason, now_ns)
            return
        was_current = following.current
        try:
            over = following.received(message, now_ns)
        except CacheError as error:  # what it says is not recorded, so no lease may say that it is
            self._leases.pop(following.incarnation, None)
            self._close(following.link, str(error), now_ns)
            return
        for origin in over:
            self.outbox.over(origin, now_ns)
        if following.current and not was_current:
            self._welcomed(following, now_ns)
        if following.lease_until_ns:
            self._leases[following.incarnation] = following.lease_until_ns
        self._decide(now_ns)

    def _welcomed(self, following: Following, now_ns: int) -> None:
        for place in self.roster.places.values():
            if place.incarnation == following.incarnation:
                place.answered = True
        if self._asks:
            following.ask(now_ns)

    @property
    def _asks(self) -> bool:
        """Does this proxy ask for leases? If it stops, writes at the others would wait for those."""
        return self._own.serves and not self.stopping

    def _address_of(self, following: Following) -> str:
        place = self.roster.place_of(following.incarnation)
        return "" if place is None else place.address

    def _from_follower(self, link: int, message: PeerMessage, now_ns: int) -> None:
        incarnation = self._accepted[link]
        if isinstance(message, Hello):
            self._greeted(link, incarnation, message, now_ns)
        elif not self.outbox.follows(incarnation, link):
            raise WireError("a peer speaks before its hello")
        elif isinstance(message, Acknowledged):
            self.outbox.acknowledged(incarnation, message.records, now_ns)
        elif isinstance(message, LeaseAsked):
            gets_none = self.stopping or self.outbox.slow(incarnation, now_ns)
            position = None if gets_none else self._caught_up(self.times.lease_ns, now_ns)
            self.outbox.asked(incarnation, message.asked_ns, position, now_ns)
        elif isinstance(message, AnswersNothing):
            self.outbox.answers_nothing(incarnation)
        elif isinstance(message, CallsCounted):
            self.outbox.followers[incarnation].calls = (message.hits, message.reads)
        else:
            raise WireError(f"a peer that follows sends {type(message).__name__}")

    def _caught_up(self, duration_ns: int, now_ns: int) -> int | None:
        """Tell everybody what no lease may overtake. Returns the position of a lease; None if there cannot be one.

        A worker that hears nothing of this process lets its write leave once GIVEN_UNTIL_NS is over. So that word is
        raised first, then the records are read: either the worker sees the word, or its fence or note is told of here,
        before the lease. The same goes for the word that says that a worker cannot record something. Where no lease
        will be given, the word must stay: workers would wait for leases that nobody has.
        """
        if not self._records.recordable():
            return None
        try:
            self._records.give_until(self.outbox.lasts_until(duration_ns, now_ns))
            position = self._records.position()
            self._catch_up(self._records.under_way(), now_ns)
            self._tell_notes(now_ns)
        except CacheError:
            return None
        return position if self._records.recordable() else None

    def _catch_up(self, standing: list[tuple[Origin, Writes]], now_ns: int) -> None:
        """Tell everybody of this proxy's own writes, as far as they have not been told."""
        own = [one for one in standing if one[0].incarnation == self._own.incarnation]
        self.outbox.catch_up(own, now_ns)

    def _tell_notes(self, now_ns: int) -> None:
        told = self.outbox.least_noted()
        if told is not None:
            self.outbox.tell_notes(self._records.notes_after(told), now_ns)

    def _greeted(self, link: int, incarnation: bytes, hello: Hello, now_ns: int) -> None:
        if hello.metastore != self._own.metastore:
            reason = "it serves another metastore, or another part of it (include, exclude)"
            self._commands.append(SendToPeer(link, RefusedPeer(reason.encode())))
            address = hello.address.decode(errors="replace")
            self._commands.append(TellPeer("this proxy refuses a peer", address, reason))
            self._close(link, reason, now_ns)
            return
        for before in self.roster.greeted(incarnation, hello.address.decode(errors="replace"), now_ns):
            self._forget_lease(before, now_ns)
        self._decide(now_ns)  # its lease is required from here on: before it is welcomed
        try:
            last, told = (self._records.position(), self._records.last_note()), self.told()
            known = hello.position if hello.known == self._own.incarnation else 0
            unlogged = self._records.unlogged_since(known)
        except CacheError as error:
            self._close(link, str(error), now_ns)
            return
        for other, other_incarnation in list(self._accepted.items()):
            if other_incarnation == incarnation and other != link:
                self._close(other, "there is a newer connection", now_ns)
        self.outbox.replay((incarnation, link), told, unlogged, last, now_ns)
        if self._cancelled:
            self._commands.append(SendToPeer(link, TokensCancelled(tuple(self._cancelled))))

    def told(self) -> list[tuple[Origin, Writes]]:
        """The fences that a new follower is told of: also those that are held for others, living or dead."""
        return self._records.under_way()

    # writes of this proxy

    def write(self, token: int, number: int, targets: Writes, now_ns: int) -> None:
        """A write is fenced here. MayLeave(token) when it may leave."""
        self.outbox.raised(token, Origin(self._own.incarnation, number), targets, now_ns)

    def over(self, number: int, now_ns: int, *, executed: bool = True) -> None:
        """Its reply has arrived, and its fence here has a ticket; or it was not `executed`, and the fence is gone."""
        self.outbox.over(Origin(self._own.incarnation, number), now_ns, executed=executed)

    def noted(self, token: int, number: int, now_ns: int) -> None:
        """A reply tells of something that is noted here. MayLeave(token) when it may be passed on."""
        with suppress(CacheError):  # then the leases are waited for that were given before
            self._tell_notes(now_ns)
        self.outbox.noted(token, number, now_ns)

    def locked(self, lock_id: int, targets: Writes, now_ns: int) -> None:
        """A lock waits."""
        self.outbox.locked(lock_id, targets, now_ns)

    def passes(self, token: int) -> None:
        """The reply of a write may be passed on when MayLeave(token) comes: at once, unless this proxy is so young that
        others may not require its lease."""
        self._commands.append(MayLeave(token))

    def tokens_cancelled(self, records: tuple[bytes, ...]) -> None:
        """These tokens are cancelled, as far as is known here: tell everybody of those that are new."""
        new = tuple(record for record in records if record not in self._cancelled)
        self._cancelled = dict.fromkeys(records)
        if new:
            self.outbox.cancelled(new)

    # the end and the beginning

    @property
    def writes_leave(self) -> bool:
        """Do writes wait for nothing but acknowledgements?"""
        return self._settled

    def begin_again(self, now_ns: int) -> None:
        """The fences are others: nothing that peers have told is in them."""
        self._leases.clear()
        for link in list(self._heard_ns):
            self._close(link, "the fences were replaced", now_ns)
        self._decide(now_ns)

    def counted(self, hits: int, reads: int) -> None:
        """Tell the others how this proxy does, for their /status."""
        for following in self.following.values():
            if following.current:
                self._commands.append(SendToPeer(following.link, CallsCounted(hits, reads)))

    def report(self, now_ns: int) -> list[dict[str, object]]:
        """The other members, for /status."""
        found: list[dict[str, object]] = []
        for place in self.roster.others():
            follower = None if place.incarnation is None else self.outbox.followers.get(place.incarnation)
            following = None if place.link is None else self.following.get(place.link)
            until_ns = 0 if place.incarnation is None else self._leases.get(place.incarnation, 0)
            told = follower is not None and follower.link is not None
            hits, reads = (None, None) if follower is None or follower.calls is None else follower.calls
            state = "missing" if following is None else "leased" if until_ns > now_ns else "connected"
            found.append(
                {
                    "address": place.address,
                    "state": state,
                    "incarnation": "" if place.incarnation is None else place.incarnation.hex(),
                    "lease_ms": max(0, (until_ns - now_ns) // 1_000_000),
                    "follows": told,
                    "lag_events": len(follower.unacknowledged) if follower is not None and told else None,
                    "ack_ms": None if follower is None else follower.last_ack_ns / 1e6,
                    "hits": hits,
                    "reads": reads,
                    "problem": place.problem,
                }
            )
        return found

    def stop(self, now_ns: int) -> None:
        """No write will leave any more, and none is under way."""
        self.stopping = True
        self._decide(now_ns)
        position = self._caught_up(self.times.last_lease_ns, now_ns)
        if position is not None:  # without it, the others look at the database until this proxy is back
            self.outbox.last_leases(position, now_ns)
        for following in self.following.values():
            self._commands.append(SendToPeer(following.link, AnswersNothing()))
