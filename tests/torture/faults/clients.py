"""Clients misbehave: many connections, slow readers, huge lists, messages that are none.

They are processes of their own, so that what they cost this one is not taken for what they cost the proxy's clients.
"""

from __future__ import annotations

import random
import subprocess
import sys

from tests.torture.faults.kinds import kind
from tests.torture.world import REQUEST_TIMEOUT_S, World

ATTACK_S = 300.0


def attack(world: World, chance: random.Random, what: str) -> None:
    """Run one, to its end, straight at a proxy's port."""
    port = chance.choice(world.sides).proxy.port
    command = [sys.executable, "-m", "tests.torture.attackers", what, str(port), str(chance.getrandbits(32))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ATTACK_S)
    assert done.returncode == 0, done.stderr[-2000:]


@kind(5, clients=True)
def connection_flood(world: World, chance: random.Random) -> None:
    attack(world, chance, "connections")


@kind(5, clients=True)
def slow_readers(world: World, chance: random.Random) -> None:
    attack(world, chance, "slow_readers")


@kind(5, clients=True)
def huge_lists(world: World, chance: random.Random) -> None:
    attack(world, chance, "huge_lists")


@kind(5, grace_s=3 * REQUEST_TIMEOUT_S, clients=True)
def mutated_messages(world: World, chance: random.Random) -> None:
    """Recovers later: a mutated write of which nobody knows how it ended may be one of anything."""
    attack(world, chance, "mutated")
