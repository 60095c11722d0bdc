"""The members of a simulated fleet: the real ones, with rules of the protocol left out (`faults`)."""

from __future__ import annotations

from dataclasses import dataclass

from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.consistency.peer_fences import Origin
from hms_cache_proxy.peers.fleet import Fleet, Writes
from hms_cache_proxy.peers.following import Following
from hms_cache_proxy.peers.messages import Hello, LeaseGiven
from hms_cache_proxy.peers.outbox import Follower, PeerOutbox
from hms_cache_proxy.peers.protocol import FleetTimes


class _Outbox(PeerOutbox):
    faults: frozenset[str] = frozenset()

    def awaited(self, one: Follower, now_ns: int) -> bool:
        if "no_wait" in self.faults or ("no_expiry" in self.faults and one.link is None):
            return False
        return super().awaited(one, now_ns)


class _Following(Following):
    faults: frozenset[str] = frozenset()

    def _replayed(self, position: int) -> list[Origin]:
        records = self._records
        before = dict(records.fences)  # type: ignore[attr-defined]
        over = super()._replayed(position)
        if self.faults & {"no_owed", "no_replay"}:
            for key in set(records.fences) - set(before):  # type: ignore[attr-defined]
                del records.fences[key]  # type: ignore[attr-defined]
        return over

    def lasts_until(self, message: LeaseGiven, now_ns: int) -> int:
        if "receiver_clock" in self.faults:
            return now_ns + message.duration_ns
        return super().lasts_until(message, now_ns)


class SimFleet(Fleet):
    faults: frozenset[str] = frozenset()

    def _new_outbox(self) -> PeerOutbox:
        outbox = _Outbox(self.times, self._commands, self._own.given_until_ns)
        outbox.faults = self.faults
        return outbox

    def _new_following(self, link: int, incarnation: bytes) -> Following:
        made = _Following(link, incarnation, self._records, self._commands)
        made.faults = self.faults
        return made

    def _keep(self) -> None:
        if "forgets_peers" not in self.faults:
            super()._keep()

    def _tell_notes(self, now_ns: int) -> None:
        if "no_notes" not in self.faults:
            super()._tell_notes(now_ns)

    def _catch_up(self, standing: list[tuple[Origin, Writes]], now_ns: int) -> None:
        if "no_catching_up" not in self.faults:
            super()._catch_up(standing, now_ns)

    def _greeted(self, link: int, incarnation: bytes, hello: Hello, now_ns: int) -> None:
        super()._greeted(link, incarnation, hello, now_ns)
        place = self.roster.places.get(hello.address.decode())
        if "named" in self.faults and place is not None and place.incarnation is None:
            place.incarnation = incarnation
            self._decide(now_ns)

    def serves_until(self, now_ns: int) -> int:
        return 1 << 62 if "no_lease" in self.faults else super().serves_until(now_ns)

    def settled(self, now_ns: int) -> bool:
        return bool(self.faults & {"forgets_leases", "no_welcome"}) or super().settled(now_ns)

    def drop_lease(self, incarnation: bytes) -> None:
        if "old_lease" not in self.faults:
            super().drop_lease(incarnation)

    def told(self) -> list[tuple[Origin, tuple[Target, ...]]]:
        standing = super().told()
        if "no_replay" in self.faults:
            return []
        if "no_orphans" in self.faults:
            return [one for one in standing if one[0].incarnation == self._own.incarnation]
        return standing


@dataclass(frozen=True, slots=True)
class FaultyTimes(FleetTimes):
    faults: frozenset[str] = frozenset()

    @property
    def write_age_ns(self) -> int:
        short = max(self.list_lag_ns, self.outlasted(self.lease_ns))
        return short if "leave_short" in self.faults else FleetTimes.write_age_ns.fget(self)  # type: ignore[attr-defined]

    @property
    def serve_age_ns(self) -> int:
        return self.list_lag_ns if "early_hits" in self.faults else 2 * self.list_lag_ns
