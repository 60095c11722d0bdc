"""PeerRecords over the fences' environment (consistency/peer_fences.py). Owner: the peers' process."""

from __future__ import annotations

from collections.abc import Sequence

from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.consistency.peer_fences import PeerFences
from hms_cache_proxy.peers.messages import Origin


class FenceRecords:
    """The fences, in the protocol's terms."""

    def __init__(self, fences: PeerFences) -> None:
        self._fences = fences
        self.position = fences.position
        self.unlogged_since = fences.unlogged_since
        self.keep = fences.keep
        self.missed = fences.missed
        self.owe = fences.owe
        self.reload = fences.reload
        self.reached = fences.reached
        self.remember_lock = fences.remember_lock
        self.give_until = fences.give_until
        self.recordable = fences.recordable
        self.last_note = fences.last_note
        self.notes_after = fences.notes_after
        self.drop_notes = fences.drop_notes
        self.covered = fences.covered
        self.cover = fences.cover

    def standing(self) -> list[tuple[Origin, tuple[Target, ...]]]:
        return [(Origin(*write), targets) for write, targets in self._fences.under_way()]

    def hold(self, via: bytes, origin: Origin, targets: Sequence[Target]) -> None:
        self._fences.hold_for(via, (origin.incarnation, origin.number), targets)

    def release(self, via: bytes, origin: Origin, *, executed: bool = True) -> None:
        self._fences.release_of(via, (origin.incarnation, origin.number), executed=executed)

    def release_others(self, via: bytes, origins: frozenset[Origin]) -> list[Origin]:
        kept = frozenset((one.incarnation, one.number) for one in origins)
        return [Origin(*write) for write in self._fences.release_all_but(via, kept)]
