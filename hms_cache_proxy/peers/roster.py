"""The members of the fleet, as far as one proxy knows them.

Job: keep the addresses of the list, the incarnations that answer there or have said hello, and decide whose leases are
required.
Must not know: connections' contents, leases, fences.

A lease is required of every address in the list (that of the incarnation that last answered there), and of every
incarnation that has said hello, until it is neither listed nor connected for twice the list's lag. Nobody is removed
because it does not answer. So with a fixed list, an incarnation that has never answered at an address of the list stays
required until a successor names its address: the list does not say when it has ended.
A look-up that failed, or that does not name this proxy, adds addresses and removes none.
An address whose handshake shows this proxy's own incarnation is this proxy. Owner: a Fleet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hms_cache_proxy.peers.protocol import FleetTimes

FIRST_DIAL_NS = 100_000_000
LAST_DIAL_NS = 2_000_000_000
"""Pauses between attempts to connect: a member that is back is followed soon."""

CLAIMED_AFTER_NS = 4_000_000_000
"""After a hello, the incarnation is expected at an address of the list for this long; then the address that it has
named is dialled."""


@dataclass(slots=True)
class PeerPlace:
    """An address that is dialled."""

    address: str
    listed: bool
    incarnation: bytes | None = None
    """Who last answered there."""

    answered: bool = False
    """Somebody there has welcomed this incarnation of this proxy."""

    link: int | None = None
    dialling: bool = False
    dial_after_ns: int = 0
    pause_ns: int = FIRST_DIAL_NS
    problem: str = ""


@dataclass(slots=True)
class PeerGreeting:
    """An incarnation that has said hello."""

    incarnation: bytes
    address: str
    since_ns: int
    seen_ns: int
    """When it was last connected or listed."""

    listed: bool = False
    """It has answered at an address of the list."""


class PeerRoster:
    """The members of the fleet."""

    def __init__(self, own: bytes, times: FleetTimes) -> None:
        self._own, self._times = own, times
        self.places: dict[str, PeerPlace] = {}
        self.greetings: dict[bytes, PeerGreeting] = {}

    def others(self) -> Iterator[PeerPlace]:
        """All places but this proxy's own."""
        return (place for place in self.places.values() if place.incarnation != self._own)

    def listed(self, addresses: Iterable[str], *, complete: bool) -> list[PeerPlace] | None:
        """The list was looked up. `complete`: no part of the look-up has failed. Returns places that are left out; None
        if the look-up does not count, as it has failed or does not name this proxy."""
        found = dict.fromkeys(addresses)
        for address in found:
            self.places.setdefault(address, PeerPlace(address, True)).listed = True
        names_own = any(self._is_own(address) for address in found)
        if not complete or not (names_own or self._fixed):
            return None
        gone = [place for place in self.places.values() if place.listed and place.address not in found]
        for place in gone:
            place.listed = False
        return gone

    @property
    def _fixed(self) -> bool:
        return not self._times.list_lag_ns

    def _is_own(self, address: str) -> bool:
        place = self.places.get(address)
        return place is not None and place.incarnation == self._own

    def place_of(self, incarnation: bytes) -> PeerPlace | None:
        """Where an incarnation answers."""
        return next((place for place in self.places.values() if place.incarnation == incarnation), None)

    def greeted(self, incarnation: bytes, address: str, now_ns: int) -> list[bytes]:
        """An incarnation says hello, and names its address. Returns its predecessors there. An address of the list
        stays required whoever names it: two members may name the same one, by mistake or behind their machines."""
        new = incarnation not in self.greetings
        if new:
            listed = incarnation in self._listed_ones()
            self.greetings[incarnation] = PeerGreeting(incarnation, address, now_ns, now_ns, listed)
        self.greetings[incarnation].seen_ns = now_ns
        if not new:
            return []
        for other in self.places.values():
            other.dial_after_ns = now_ns  # it may be at one of these now
        before = [one.incarnation for one in self.greetings.values() if one.address == address]
        before = [one for one in before if one != incarnation]
        for one in before:
            del self.greetings[one]
        place = self.places.get(address)
        if place is not None and place.incarnation not in (incarnation, self._own):
            if place.incarnation is not None and place.incarnation not in before:
                before.append(place.incarnation)
            place.incarnation, place.answered = None, False  # who is there now, a handshake with that address shows
        return before

    def answered_at(self, address: str, incarnation: bytes) -> bytes | None:
        """An incarnation has answered at an address. Returns its predecessor there, which has ended."""
        place = self.places[address]
        before, place.incarnation = place.incarnation, incarnation
        place.answered &= before == incarnation
        if place.listed and incarnation in self.greetings:
            self.greetings[incarnation].listed = True
        if before in (None, incarnation, self._own):
            return None
        if before in self.greetings and self.greetings[before].address == address:
            del self.greetings[before]
        return before

    def required(self) -> set[bytes | None]:
        """Whose leases are required; None stands for an address where nobody has answered yet."""
        return {place.incarnation for place in self.others() if place.listed} | set(self.greetings)

    def all_answered(self) -> bool:
        """Has everybody in the list welcomed this proxy?"""
        return all(place.answered for place in self.others() if place.listed)

    def forget(self, connected: set[bytes], now_ns: int) -> None:
        """Forget who has been neither listed nor connected for long enough."""
        listed = self._listed_ones()
        for one in list(self.greetings.values()):
            if one.incarnation in listed:
                one.listed = True
            if one.incarnation in connected or one.incarnation in listed:
                one.seen_ns = now_ns
            elif now_ns - one.seen_ns >= self._times.serve_age_ns and (one.listed or not self._fixed):
                del self.greetings[one.incarnation]
        for place in list(self.places.values()):
            claimed = any(one.address == place.address for one in self.greetings.values())
            wanted = place.listed or (claimed and not self._elsewhere(place))
            if not wanted and place.link is None and not place.dialling:
                del self.places[place.address]

    def _listed_ones(self) -> set[bytes | None]:
        """Who answers at the addresses of the list; None stands for one where nobody has answered yet."""
        return {place.incarnation for place in self.places.values() if place.listed}

    def _elsewhere(self, place: PeerPlace) -> bool:
        """Does the incarnation at this place also answer at another one?"""
        one = place.incarnation
        return one is not None and any(other.incarnation == one for other in self.places.values() if other is not place)

    def claimed(self, now_ns: int) -> list[str]:
        """Dial the addresses that incarnations have named which no address of the list has led to. Returns the new ones
        of these that a fixed list lacks."""
        found = []
        for one in self.greetings.values():
            late = now_ns - one.since_ns >= CLAIMED_AFTER_NS
            if late and one.address not in self.places and self.place_of(one.incarnation) is None:
                self.places[one.address] = PeerPlace(one.address, False)
                found.append(one.address)
        return found if self._fixed else []

    def due(self, followed: set[bytes], now_ns: int) -> list[PeerPlace]:
        """Places to dial now; not those of incarnations that are followed already."""
        return [
            place
            for place in self.others()
            if place.link is None
            and not place.dialling
            and place.dial_after_ns <= now_ns
            and place.incarnation not in followed
        ]

    def dial_failed(self, address: str, problem: str, now_ns: int) -> None:
        """Nobody answers, or nobody that belongs here."""
        place = self.places.get(address)
        if place is not None:
            place.dialling, place.problem = False, problem
            place.dial_after_ns = now_ns + place.pause_ns
            place.pause_ns = min(2 * place.pause_ns, LAST_DIAL_NS)

    def refused(self, link: int, reason: str) -> None:
        """Who is at the other end of this connection wants nothing of this proxy: it is dialled seldom."""
        for place in self.places.values():
            if place.link == link:
                place.problem, place.pause_ns = reason, LAST_DIAL_NS
