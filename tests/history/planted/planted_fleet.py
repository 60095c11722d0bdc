"""Rules of the protocol between proxies, left out one by one (tests/history/test_fleet_rules.py plays each).

`sitecustomize` imports this module; it plants one of them by its name, or several whose names are joined by "+". The
names are those of the protocol's model where it has one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from sitecustomize import bug, swap


@bug
def no_wait() -> None:
    """A write leaves before any peer has acknowledged its fence."""
    from hms_cache_proxy.peers.outbox import PeerOutbox

    swap(PeerOutbox, "awaited", lambda self, one, now_ns: False)


@bug
def no_expiry() -> None:
    """A write goes on at once without a peer that is cut off, whatever leases it has."""
    from hms_cache_proxy.peers.outbox import PeerOutbox

    awaited = PeerOutbox.awaited
    swap(PeerOutbox, "awaited", lambda self, one, now_ns: one.link is not None and awaited(self, one, now_ns))


@bug
def receiver_clock() -> None:
    """A lease counts from when it has arrived, not from when it was asked for."""
    from hms_cache_proxy.peers.following import Following

    swap(Following, "lasts_until", lambda self, message, now_ns: now_ns + message.duration_ns)


@bug
def overtaking() -> None:
    """Leases go another way than what is fenced, and overtake it."""
    import fleet_points

    from hms_cache_proxy.peers.driver import PeersProcess
    from hms_cache_proxy.peers.messages import LeaseGiven
    from hms_cache_proxy.peers.protocol import SendToPeer

    one, waiting = PeersProcess._one, list[Any]()

    async def passed_on(process: PeersProcess) -> None:
        while fleet_points.closed("fence_sent"):
            await asyncio.sleep(0.01)
        while waiting:
            one(process, waiting.pop(0))

    def apart(self: PeersProcess, command: Any) -> None:
        if not isinstance(command, SendToPeer) or isinstance(command.message, LeaseGiven):
            one(self, command)
        elif waiting or fleet_points.closed("fence_sent"):
            waiting.append(command)
            if len(waiting) == 1:
                self._spawn(passed_on(self))
        else:
            one(self, command)

    swap(PeersProcess, "_one", apart)


@bug
def early_clock() -> None:
    """The clock is read before a request is received: when the one before it was."""
    from time import CLOCK_BOOTTIME, clock_gettime_ns

    from hms_cache_proxy.consistency.gate import Gate
    from hms_cache_proxy.methods.hot import HotPath

    answer = HotPath.answer
    clocks, arrived = [0, clock_gettime_ns(CLOCK_BOOTTIME)], [0]

    def answered(self: HotPath, session: Any, data: bytes, now_ns: int) -> bytes | None:
        if now_ns != arrived[0]:
            arrived[0] = now_ns
            clocks[:] = [clocks[1], clock_gettime_ns(CLOCK_BOOTTIME)]
        return answer(self, session, data, now_ns)

    swap(HotPath, "answer", answered)
    swap(Gate, "lapsed", staticmethod(lambda until_ns: clocks[0] >= until_ns))


@bug
def fences_first() -> None:
    """The fences are looked at when a request is received, before the lease. Between the two is a point."""
    import fleet_points

    from hms_cache_proxy.consistency.mirror import FenceMirror
    from hms_cache_proxy.methods.hot import HotPath

    answer, refresh, arrived = HotPath.answer, FenceMirror._refresh, [0]

    def answered(self: HotPath, session: Any, data: bytes, now_ns: int) -> bytes | None:
        if now_ns != arrived[0]:
            arrived[0] = now_ns
            refresh(self._gate.fences)  # type: ignore[arg-type]  # the only one that there is
            fleet_points.visit("fences_looked_at")
        return answer(self, session, data, now_ns)

    swap(HotPath, "answer", answered)
    swap(FenceMirror, "_refresh", lambda self: None)


@bug
def early_ticket() -> None:
    """Peers are told that a write is over when it leaves, not when its reply is here."""
    from hms_cache_proxy.cache.state import boottime_ns
    from hms_cache_proxy.peers.driver import PeersProcess
    from hms_cache_proxy.peers.fleet import Fleet
    from hms_cache_proxy.peers.messages import FenceLifted
    from hms_cache_proxy.peers.protocol import MayLeave

    one, write, numbers = PeersProcess._one, Fleet.write, dict[int, int]()

    def written(self: Fleet, token: int, number: int, targets: Any, now_ns: int) -> None:
        numbers[token] = number
        write(self, token, number, targets, now_ns)

    def leaves(self: PeersProcess, command: Any) -> None:
        number = numbers.pop(command.token, None) if isinstance(command, MayLeave) else None
        if number is not None:
            outbox = self._fleet.outbox  # type: ignore[union-attr]  # it has given this command
            for follower in outbox._connected():
                outbox._record(follower, FenceLifted(self.incarnation, number, 1), boottime_ns())
        one(self, command)

    swap(Fleet, "write", written)
    swap(PeersProcess, "_one", leaves)


@bug
def no_catching_up() -> None:
    """A lease is given without telling peers of the fences that they have not been told of."""
    from hms_cache_proxy.peers.fleet import Fleet

    swap(Fleet, "_catch_up", lambda self, standing, now_ns: None)


@bug
def fence_after() -> None:
    """Peers are told of a write when its reply is here, before that is passed on; not before it leaves."""
    from hms_cache_proxy.methods.effects import FencedWrite
    from hms_cache_proxy.peers.requests import PeerAsk, PeerRequest

    done = FencedWrite.reply_done

    def replied(self: FencedWrite, session: Any, reply: bytes | None, now_ns: int) -> None:
        number = None if self.guard is None else self.guard.record_id
        done(self, session, reply, now_ns)
        session.passing = PeerRequest(PeerAsk.WRITE, number or 0, self.targets)

    def unasked(self: FencedWrite) -> None:
        self.sending()
        assert self.guard is not None
        self.asked = self.guard.record_id or 0

    swap(FencedWrite, "leaving", unasked)
    swap(FencedWrite, "reply_done", replied)
    no_catching_up()


@bug
def no_replay() -> None:
    """A new connection does not begin with the fences that stand."""
    from hms_cache_proxy.peers.fleet import Fleet

    swap(Fleet, "told", lambda self: [])


@bug
def no_orphans() -> None:
    """... nor with those that are held for others."""
    from hms_cache_proxy.peers.fleet import Fleet

    def own(self: Fleet) -> Any:
        return [one for one in self._records.under_way() if one[0].incarnation == self._own.incarnation]

    swap(Fleet, "told", own)


@bug
def no_owed() -> None:
    """A new connection does not fence everything until a step has begun."""
    from hms_cache_proxy.cache.targets import UNKNOWN
    from hms_cache_proxy.consistency.peer_fences import PeerFences

    owe = PeerFences.owe
    swap(PeerFences, "owe", lambda self, targets: None if tuple(targets) == (UNKNOWN,) else owe(self, targets))


@bug
def old_lease() -> None:
    """A lease of the last connection counts while the new one replays fences."""
    from hms_cache_proxy.peers.fleet import Fleet

    swap(Fleet, "drop_lease", lambda self, incarnation: None)


@bug
def released_at_welcome() -> None:
    """What was held for a peer gets tickets when a replay begins, not when it ends."""
    from hms_cache_proxy.peers.following import Following
    from hms_cache_proxy.peers.messages import Welcome

    received = Following.received

    def released(self: Following, message: Any, now_ns: int) -> Any:
        if isinstance(message, Welcome):
            self._records.release_others(self.incarnation, frozenset())
        return received(self, message, now_ns)

    swap(Following, "received", released)


@bug
def no_hold() -> None:
    """The fences of a writer that is missed get tickets at once."""
    from hms_cache_proxy.consistency.peer_fences import PeerFences

    missed = PeerFences.missed

    def lifted(self: PeerFences, via: bytes) -> None:
        self.release_others(via, frozenset())
        missed(self, via)

    swap(PeerFences, "missed", lifted)


@bug
def cold_restart() -> None:
    """The fences of a proxy's own writes do not survive its crash."""
    from hms_cache_proxy.consistency.fence_rows import FINITE, fences_in
    from hms_cache_proxy.consistency.fences import FenceStore

    recovered = FenceStore._recovered

    def forgetful(path: Any, page: Any, request_timeout_ns: int, *, lost: bool) -> FenceStore:
        store = recovered(path, page, request_timeout_ns, lost=lost)
        with store._change() as txn:
            for key in [key for key, fence in fences_in(txn) if fence.state != FINITE]:
                txn.delete(key)
        return store

    swap(FenceStore, "_recovered", forgetful)


@bug
def forgets_leases() -> None:
    """A writer that starts again does not wait for leases that it gave before."""
    from hms_cache_proxy.peers.protocol import FleetTimes

    swap(FleetTimes, "write_age_ns", property(lambda self: self.list_lag_ns))


@bug
def leave_short() -> None:
    """... waits for ordinary leases only, not for those of an orderly stop."""
    from hms_cache_proxy.peers.protocol import FleetTimes

    swap(FleetTimes, "write_age_ns", property(lambda self: max(self.list_lag_ns, self.outlasted(self.lease_ns))))


@bug
def no_welcome() -> None:
    """A new member does not wait until the others require its lease."""
    from hms_cache_proxy.peers.roster import PeerRoster

    swap(PeerRoster, "all_answered", lambda self: True)


@bug
def early_hits() -> None:
    """A member answers by leases once it is in every list, not twice as late."""
    from hms_cache_proxy.peers.protocol import FleetTimes

    swap(FleetTimes, "serve_age_ns", property(lambda self: self.list_lag_ns))


@bug
def late_lease() -> None:
    """A lease of the last process at an address counts after its successor's hello."""
    from hms_cache_proxy.peers.roster import PeerRoster

    greeted = PeerRoster.greeted

    def keeps(self: PeerRoster, incarnation: bytes, address: str, now_ns: int) -> list[bytes]:
        before = {place.address: place.incarnation for place in self.places.values()}
        greeted(self, incarnation, address, now_ns)
        for place in self.places.values():
            place.incarnation = before[place.address]
        return []

    swap(PeerRoster, "greeted", keeps)


@bug
def hello_not_required() -> None:
    """A lease is required of whoever is at an address of the list, not of those who have said hello."""
    from hms_cache_proxy.peers.roster import PeerRoster

    swap(PeerRoster, "required", lambda self: {place.incarnation for place in self.others() if place.listed})


@bug
def left_alone() -> None:
    """Nothing takes the place of the fence of a write that has left by the page and is over."""
    from hms_cache_proxy.server.peers_link import PeersLink

    swap(PeersLink, "alone", lambda self, number: False)


@bug
def no_notes() -> None:
    """A lease is given without telling peers of what is noted."""
    from hms_cache_proxy.peers.fleet import Fleet

    swap(Fleet, "_tell_notes", lambda self, now_ns: None)


@bug
def untold() -> None:
    """What was over before it could be recorded is not told when there is room."""
    from hms_cache_proxy.consistency.fences import FenceStore

    finish = FenceStore.finish

    def silent(self: FenceStore, fence_id: int, *, unlogged: bool = False, missed: bool = False) -> int:
        return finish(self, fence_id, unlogged=unlogged)

    swap(FenceStore, "finish", silent)


@bug
def named() -> None:
    """An address of the list is that of whoever names it in a hello, whether a handshake has shown it there or not."""
    from hms_cache_proxy.peers.roster import PeerRoster

    greeted = PeerRoster.greeted

    def believed(self: PeerRoster, incarnation: bytes, address: str, now_ns: int) -> list[bytes]:
        before = greeted(self, incarnation, address, now_ns)
        if address in self.places:
            self.places[address].incarnation = incarnation
        return before

    swap(PeerRoster, "greeted", believed)
