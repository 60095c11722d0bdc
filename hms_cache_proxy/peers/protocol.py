"""What the parts of the protocol share: times, commands to the driver, and the interface to the fences.

Must not know: sockets, LMDB, the clock. All times are nanoseconds of CLOCK_BOOTTIME, which goes on while a machine
sleeps; they are only ever compared on the machine that read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.config.peers import DNS_PREFIX
from hms_cache_proxy.consistency.notes import Note
from hms_cache_proxy.consistency.peer_fences import Origin
from hms_cache_proxy.peers.messages import PeerMessage

SECOND: int = 1_000_000_000
LIST_LAG_NS: int = 35 * SECOND
"""Of a name in DNS: thirty seconds of caches, and the time between two looks."""


@dataclass(frozen=True, slots=True)
class FleetTimes:
    """The times of the protocol."""

    lease_ns: int = 2 * SECOND
    ask_ns: int = SECOND // 2
    list_lag_ns: int = 35 * SECOND
    """How long after the start of a proxy another may not find it in its list; 0 if the list is fixed."""

    slow_ns: int = SECOND // 5
    """A record that is unacknowledged for longer costs its follower the lease."""

    first_penalty_ns: int = 10 * SECOND
    last_penalty_ns: int = 300 * SECOND
    silence_ns: int = 5 * SECOND
    """A connection on which nothing arrives for this long is closed."""

    drift_percent: int = 5
    """By how much the clocks of two machines may differ in rate."""

    @property
    def list_fresh_ns(self) -> int:
        """How long a look at the list counts; what is left of the lag is the list's own. A proxy that has not seen the
        list for longer may miss a member that lets its writes leave."""
        return self.list_lag_ns // 7

    @property
    def last_lease_ns(self) -> int:
        """The lease that a proxy gives when it stops."""
        return max(self.lease_ns, min(self.list_lag_ns // 2, 15 * SECOND))

    def outlasted(self, duration_ns: int) -> int:
        """How long a giver must wait until a lease for this time has run out on the other machine."""
        return duration_ns + duration_ns * self.drift_percent // 100

    @property
    def write_age_ns(self) -> int:
        """From this age on, a proxy lets writes leave although a listed address has not answered."""
        return max(self.list_lag_ns, self.outlasted(self.last_lease_ns))

    @property
    def serve_age_ns(self) -> int:
        """From this age on, a proxy answers by its leases."""
        return 2 * self.list_lag_ns


def fleet_times(peers: Sequence[str]) -> FleetTimes:
    """The times of a fleet with this list: one that has a name of DNS in it changes, the others do not."""
    by_name = any(peer.startswith(DNS_PREFIX) for peer in peers)
    return FleetTimes(list_lag_ns=LIST_LAG_NS if by_name else 0)


class PeerRecords(Protocol):
    """The fences, as the protocol uses them; PeerFences (consistency/peer_fences.py) implements it. `via`: the
    incarnation of the proxy that has told of a fence. Every change is committed when its call returns; CacheError if it
    cannot be."""

    def under_way(self) -> list[tuple[Origin, tuple[Target, ...]]]:
        """Every write that is not over: of this proxy, and those of which their own proxies have told it. (If what
        others pass on were passed on again, two proxies could keep each other from ending a fence.)"""
        ...

    def position(self) -> int:
        """The last ticket."""
        ...

    def unlogged_since(self, position: int) -> tuple[Target, ...]:
        """What writes of this proxy that log no event have changed, whose tickets are larger."""
        ...

    def hold(self, via: bytes, origin: Origin, targets: Sequence[Target]) -> None:
        """A write of a peer is about to leave: fence its targets until it is released."""
        ...

    def keep(self, vias: frozenset[bytes]) -> None:
        """These peers are connected: no fence that they have told of ends by itself. Called from time to time."""
        ...

    def release(self, via: bytes, origin: Origin, *, executed: bool = True) -> None:
        """The write is over: its targets are reloaded, unless it was not executed."""
        ...

    def release_others(self, via: bytes, origins: frozenset[Origin]) -> list[Origin]:
        """Releases all that this peer has told of but these. Returns what was released."""
        ...

    def missed(self, via: bytes) -> None:
        """The connection to the peer has ended: release what it has told of once no metastore can work on it any more,
        unless it tells of it again."""
        ...

    def owe(self, targets: Sequence[Target]) -> None:
        """Reads of these must show what is true now; nothing is reloaded for it."""
        ...

    def reload(self, targets: Sequence[Target]) -> None:
        """The same, and they are reloaded."""
        ...

    def reached(self, event: int) -> None:
        """A client is about to receive the id of this event: no read may show less."""
        ...

    def remember_lock(self, lock_id: int, targets: Sequence[Target]) -> None:
        """What a waiting lock locks."""
        ...

    def give_until(self, until_ns: int) -> None:
        """Some peer may have a lease of this proxy until this time: from now on, workers see it."""
        ...

    def recordable(self) -> bool:
        """Whether everything of this proxy is recorded that peers must be told of; if not, they get no leases."""
        ...

    def last_note(self) -> int:
        """The number of the last note."""
        ...

    def notes_after(self, number: int) -> list[tuple[int, Note]]:
        """The notes of this proxy with larger numbers."""
        ...

    def drop_notes(self, number: int) -> None:
        """All followers that are connected have been told of the notes up to this one."""
        ...

    def covered(self, via: bytes) -> int:
        """The position that was reached with this peer; 0 if it is unknown."""
        ...

    def cover(self, via: bytes, position: int) -> None:
        """Everything of this peer up to this position is here."""
        ...


@dataclass(frozen=True, slots=True)
class SendToPeer:
    """Send a message on a connection."""

    link: int
    message: PeerMessage


@dataclass(frozen=True, slots=True)
class ClosePeer:
    """Close a connection."""

    link: int
    reason: str


@dataclass(frozen=True, slots=True)
class DialPeer:
    """Connect to an address, and do the handshake; then `Fleet.dialled` or `Fleet.dial_failed`."""

    address: str


@dataclass(frozen=True, slots=True)
class ServeUntil:
    """Reads that arrive before this time may be answered from the cache."""

    until_ns: int


@dataclass(frozen=True, slots=True)
class MayLeave:
    """What was asked about under this token need not wait any more."""

    token: int


@dataclass(frozen=True, slots=True)
class WakeFollower:
    """A step of the follower has something to do."""


@dataclass(frozen=True, slots=True)
class CancelTokens:
    """A peer knows that these tokens are cancelled: they are to be so here, too."""

    records: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TellPeer:
    """Something to log about a peer."""

    event: str
    address: str
    reason: str = ""


PeerCommand = SendToPeer | ClosePeer | DialPeer | ServeUntil | MayLeave | WakeFollower | CancelTokens | TellPeer
"""What the driver must do, in the order in which they are given."""
