"""Fleets in which a rule that is left out shows, and fleets in which nothing may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.peers.chaos import Budget, Chaos
from tests.peers.sim_records import MS
from tests.peers.world import Stale, World


@dataclass(frozen=True)
class Scenario:
    """A kind of fleet, and what happens to it."""

    budget: Budget
    proxies: int = 2
    writers: int = 1
    late: tuple[int, ...] = ()
    lag_ms: int = 0

    def run(self, seed: int, steps: int, faults: Sequence[str] = ()) -> World:
        """One run; Stale if a read shows less than it must."""
        return self.begin(seed, steps, faults).world

    def begin(self, seed: int, steps: int, faults: Sequence[str] = ()) -> Chaos:
        """The same, with what has happened to it."""
        world = World(seed, self.proxies, faults=faults, lag_ns=self.lag_ms * MS)
        chaos = Chaos(world, self.budget, writers=self.writers, late=self.late)
        chaos.run(steps)
        return chaos

    def found(self, runs: int, steps: int, fault: str) -> int | None:
        """How many runs it takes until a read shows less than it must."""
        for seed in range(runs):
            try:
                self.run(seed, steps, (fault,))
            except Stale:
                return seed + 1
        return None


_PIPES: dict[str, Any] = {"pipes": True, "pipe_breaks": 3, "pauses": 2, "full_disks": 1}
SCENARIOS = {
    "pair": Scenario(Budget()),
    "quiet": Scenario(Budget(writes=2, breaks=1, silent=False, long_pauses=False)),
    "both": Scenario(Budget(locks=True), writers=2),
    "three": Scenario(Budget(locks=True), proxies=3, writers=2),
    "crash": Scenario(Budget(crashes=2), writers=2),
    "peers": Scenario(Budget(peer_restarts=2, locks=True), writers=2),
    "leave": Scenario(Budget(stops=1), writers=1),
    "join": Scenario(Budget(), late=(0,), lag_ms=700),
    "cold": Scenario(Budget(), late=(0, 1), lag_ms=700),
    "pipes": Scenario(Budget(locks=True, **_PIPES), writers=2),
    "pipes3": Scenario(Budget(locks=True, peer_restarts=2, **_PIPES), proxies=3, writers=2),
    "pipes_join": Scenario(Budget(peer_restarts=1, **_PIPES), late=(0,), lag_ms=700),
    "orphan": Scenario(Budget(crashes=1, forever_down=True, silent=False), proxies=3, late=(2,)),
}
FOUND_BY_CHANCE = (
    "no_wait",
    "fence_after",
    "early_ticket",
    "running_step",
    "no_lease",
    "no_expiry",
    "receiver_clock",
    "no_replay",
)
"""Rules that show in some of the first 150 runs of "pair" if they are left out."""
