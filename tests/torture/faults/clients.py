"""Clients misbehave: many connections, slow readers, huge lists, long requests without an end, messages that are none.
Others take many shared locks, which is no misbehaviour.

They are processes of their own, so that what they cost this one is not taken for what they cost the proxy's clients.
"""

from __future__ import annotations

import random
import subprocess
import sys

from tests.torture.faults.kinds import kind
from tests.torture.steady import database_of
from tests.torture.world import REQUEST_TIMEOUT_S, World

ATTACK_S = 1200.0


def attack(world: World, chance: random.Random, what: str) -> None:
    """Run one, to its end, straight at a proxy's port. What it prints is wrong."""
    number = chance.randrange(len(world.sides))
    side = world.sides[number]
    command = [sys.executable, "-m", "tests.torture.attackers", what, str(chance.getrandbits(32))]
    command += map(str, (side.proxy.port, side.upstream.port, side.proxy.http_port))
    command += [database_of(number), str(world.slowdown())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ATTACK_S)
    assert done.returncode == 0, done.stderr[-2000:]
    world.complaints += [f"{what}: {line}" for line in done.stdout.splitlines()]


@kind(8, clients=True)
def connection_flood(world: World, chance: random.Random) -> None:
    attack(world, chance, "connections")


@kind(5, clients=True)
def slow_readers(world: World, chance: random.Random) -> None:
    attack(world, chance, "slow_readers")


@kind(5, clients=True)
def huge_lists(world: World, chance: random.Random) -> None:
    attack(world, chance, "huge_lists")


@kind(6, clients=True)
def long_requests(world: World, chance: random.Random) -> None:
    attack(world, chance, "long_requests")


@kind(5)
def same_misses(world: World, chance: random.Random) -> None:
    """While the metastore takes its time."""
    for side in world.sides:
        for link in (side.upstream, side.spare):
            if link is not None:
                link.delay(0.3)
    try:
        attack(world, chance, "same_misses")
    finally:
        for side in world.sides:
            for link in (side.upstream, side.spare):
                if link is not None:
                    link.restore()


@kind(5)
def shared_locks(world: World, chance: random.Random) -> None:
    attack(world, chance, "shared_locks")


@kind(5, grace_s=3 * REQUEST_TIMEOUT_S, clients=True)
def mutated_messages(world: World, chance: random.Random) -> None:
    """Recovers later: a mutated write of which nobody knows how it ended may be one of anything."""
    attack(world, chance, "mutated")
