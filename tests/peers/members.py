"""One member of a fleet, driven by messages: a real `Fleet` over simulated records, and what its commands say."""

from __future__ import annotations

from hms_cache_proxy.peers.fleet import Fleet, OwnMember
from hms_cache_proxy.peers.messages import (
    Hello,
    LeaseAsked,
    LeaseGiven,
    PeerMessage,
    Replayed,
    Welcome,
)
from hms_cache_proxy.peers.protocol import FleetTimes, PeerCommand, SendToPeer
from tests.peers.world import World

OWN, OTHER, THIRD = b"o" * 16, b"x" * 16, b"y" * 16
S = 10**9
TABLE = (b"tx",)


class Member:
    """A Fleet with a clock that stands, and records of a simulated proxy."""

    def __init__(self, *, lag_s: int = 0, given_until_ns: int = 0, serves: bool = True) -> None:
        self.now_ns = 100 * S
        proxy = World(0, 1).proxies[0]
        proxy.incarnation, self.records = OWN, proxy.records
        own = OwnMember(OWN, "own:1", b"m", self.now_ns, given_until_ns, serves)
        self.fleet = Fleet(own, self.records, FleetTimes(list_lag_ns=lag_s * S))

    def take(self) -> list[PeerCommand]:
        return self.fleet.take()

    def listed(self, *addresses: str) -> list[PeerCommand]:
        self.fleet.listed(list(addresses), self.now_ns)
        return self.take()

    def got(self, link: int, *messages: PeerMessage) -> list[PeerCommand]:
        for message in messages:
            self.fleet.received(link, message, self.now_ns)
        return self.take()

    def after(self, seconds: float) -> list[PeerCommand]:
        self.now_ns += int(seconds * S)
        self.fleet.tick(self.now_ns)
        return self.take()

    def followed(self, link: int = 1, incarnation: bytes = OTHER) -> None:
        """This proxy follows the other one, and has a lease."""
        self.fleet.dialled(link, "other:1", incarnation, self.now_ns)
        commands = self.got(link, Welcome(), Replayed(3))
        asked = next(
            one.message for one in commands if isinstance(one, SendToPeer) and isinstance(one.message, LeaseAsked)
        )
        assert isinstance(asked, LeaseAsked)
        self.got(link, LeaseGiven(asked.asked_ns, 2 * S, 3))

    def leased(self, link: int = 1) -> None:
        """It has another lease of the one that it follows."""
        asked_ns = self.fleet.following[link].asked_ns
        self.got(link, LeaseGiven(asked_ns, 2 * S, 3))

    def follows(self, link: int = 2, incarnation: bytes = OTHER, address: bytes = b"other:1") -> list[PeerCommand]:
        """The other one follows this proxy."""
        self.fleet.accepted(link, incarnation, self.now_ns)
        return self.got(link, Hello(b"m", address, b"", 0))


def of(kind: type, commands: list[PeerCommand]) -> list[PeerCommand]:
    return [one for one in commands if isinstance(one, kind)]


def given(commands: list[PeerCommand]) -> list[tuple[int, int]]:
    """The leases: when they were asked for, for how long they are."""
    sent = [one.message for one in commands if isinstance(one, SendToPeer)]
    return [(one.asked_ns, one.duration_ns) for one in sent if isinstance(one, LeaseGiven)]
