"""Processes are killed, stopped and started again: workers, followers, supervisors, the metastore, PostgreSQL."""

from __future__ import annotations

import os
import random
import signal
import time

from tests.testbed.processes import signalled, wait_until
from tests.torture.faults.kinds import GoesOn, kind
from tests.torture.world import WORKERS, Side, World


def send(side: Side, role: str, number: signal.Signals) -> list[int]:
    """To all processes of this role that are there; their ids."""
    return signalled(side.proxy.children()[role], number)


def another(world: World, side: Side, role: str, old: list[int], *, others: int = 0) -> None:
    """Wait until other processes have taken their place, besides those that are there."""

    def there() -> bool:
        return len(set(side.proxy.children()[role]) - set(old)) >= len(old) + others

    assert wait_until(there, world.patience_s), f"no other {role} has taken over:\n{side.proxy.log_tail()}"


@kind()
def kill_workers(world: World, chance: random.Random) -> None:
    side = chance.choice(world.sides)
    another(world, side, "worker", send(side, "worker", signal.SIGKILL))


@kind()
def kill_follower(world: World, chance: random.Random) -> None:
    side = chance.choice(world.sides)
    another(world, side, "follower", send(side, "follower", signal.SIGKILL))


@kind()
def kill_supervisor(world: World, chance: random.Random) -> None:
    """An init system starts it again."""
    side = chance.choice(world.sides)
    side.proxy.kill()
    side.proxy.start()


@kind()
def restart_proxy(world: World, chance: random.Random) -> None:
    """In order."""
    side = chance.choice(world.sides)
    side.proxy.stop()
    side.proxy.start()


def stopped(side: Side, role: str, seconds: float) -> None:
    pids = send(side, role, signal.SIGSTOP)
    time.sleep(seconds)
    signalled(pids, signal.SIGCONT)


@kind()
def stop_worker(world: World, chance: random.Random) -> None:
    stopped(chance.choice(world.sides), "worker", chance.uniform(0.5, 4))


@kind()
def stop_follower(world: World, chance: random.Random) -> None:
    stopped(chance.choice(world.sides), "follower", chance.uniform(0.5, 5))


@kind(20)
def hang_follower(world: World, chance: random.Random) -> None:
    """Until the supervisor has killed it."""
    side = chance.choice(world.sides)
    another(world, side, "follower", send(side, "follower", signal.SIGSTOP))


@kind(12)
def hang_worker(world: World, chance: random.Random) -> None:
    """Until the supervisor has killed it."""
    side = chance.choice(world.sides)
    side.proxy.wait(
        lambda: side.proxy.status()["workers"]["accepting"] == WORKERS, "served by all workers", world.patience_s
    )
    workers = side.proxy.children()["worker"]
    hung = chance.choice(workers)
    os.kill(hung, signal.SIGSTOP)
    another(world, side, "worker", [hung], others=len(workers) - 1)


@kind()
def stop_supervisor(world: World, chance: random.Random) -> None:
    side = chance.choice(world.sides)
    assert side.proxy.process is not None
    side.proxy.process.send_signal(signal.SIGSTOP)
    time.sleep(chance.uniform(0.5, 4))
    side.proxy.process.send_signal(signal.SIGCONT)


@kind(8, goes_on=GoesOn.GREETINGS)
def kill_metastore(world: World, chance: random.Random) -> None:
    world.metastore.kill()
    world.last(chance.uniform(0, 3))
    world.metastore.start()


@kind(8, goes_on=GoesOn.GREETINGS)
def restart_metastore(world: World, chance: random.Random) -> None:
    world.metastore.restart()


@kind(6)
def stop_metastore(world: World, chance: random.Random) -> None:
    """It hangs: connections open, no answer."""
    world.metastore.process.pause()
    time.sleep(chance.uniform(1, 6))
    world.metastore.process.resume()


@kind(6)
def kill_database(world: World, chance: random.Random) -> None:
    with world.database_away():
        world.server.kill()
        time.sleep(chance.uniform(0, 3))
        world.server.start()


@kind(6)
def restart_database(world: World, chance: random.Random) -> None:
    with world.database_away():
        world.server.stop()
        world.server.start()


@kind(6)
def stop_database(world: World, chance: random.Random) -> None:
    """All of its processes."""
    signalled(world.server.pids(), signal.SIGSTOP)
    time.sleep(chance.uniform(1, 5))
    signalled(world.server.pids(), signal.SIGCONT)
