"""Connections are cut, delayed, forgotten, refused, and go deaf: clients' to a proxy, a proxy's to the metastore and to
the database, the metastore's to the database."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.torture.faults.kinds import GoesOn, kind
from tests.torture.world import World

METASTORES_DATABASE = "metastore's database"


@contextmanager
def some_link(world: World, chance: random.Random, *, unanswered: bool) -> Iterator[FaultProxy]:
    """One of the eight, restored at the end. `unanswered`: what waits behind it may be answered wrongly by Hive, if
    it is the metastore's to its database."""
    links = {f"{name} {number}": link for number, side in enumerate(world.sides) for name, link in side.links.items()}
    links[METASTORES_DATABASE] = world.metastore_database
    name = chance.choice(sorted(links))
    try:
        if name == METASTORES_DATABASE and unanswered:
            with world.database_away():
                yield links[name]
        else:
            yield links[name]
    finally:
        links[name].restore()


@kind()
def cut(world: World, chance: random.Random) -> None:
    """A few times: every connection that is open."""
    with some_link(world, chance, unanswered=True) as link:
        for _ in range(chance.randint(1, 4)):
            link.cut()
            time.sleep(chance.uniform(0, 0.5))


@kind()
def cut_midway(world: World, chance: random.Random) -> None:
    """Within a request, or within a reply."""
    with some_link(world, chance, unanswered=True) as link:
        for _ in range(chance.randint(2, 5)):
            link.cut_after(chance.choice(list(Direction)), chance.randint(1, 3000))
            time.sleep(chance.uniform(0.1, 0.5))


@kind()
def delay(world: World, chance: random.Random) -> None:
    """Every piece, one way or both."""
    with some_link(world, chance, unanswered=False) as link:
        link.delay(chance.uniform(0.01, 0.5), chance.choice([None, *Direction]))
        time.sleep(chance.uniform(1, 4))


@kind(6)
def deaf(world: World, chance: random.Random) -> None:
    """Nothing passes, no connection ends; then everything that was held back does."""
    with some_link(world, chance, unanswered=True) as link:
        link.stall()
        time.sleep(chance.uniform(1, 6))


@kind(6)
def half_open(world: World, chance: random.Random) -> None:
    """What is open is forgotten by whoever passes it on; what is new works."""
    with some_link(world, chance, unanswered=True) as link:
        link.half_open()
        time.sleep(chance.uniform(1, 6))


@kind()
def refuse(world: World, chance: random.Random) -> None:
    with some_link(world, chance, unanswered=True) as link:
        link.refuse()
        time.sleep(chance.uniform(0.5, 4))


@kind()
def accept_and_close(world: World, chance: random.Random) -> None:
    with some_link(world, chance, unanswered=True) as link:
        link.slam()
        time.sleep(chance.uniform(0.5, 4))


@kind(11, goes_on=GoesOn.GREETINGS)
def sick_metastore(world: World, chance: random.Random) -> None:
    """It accepts and hangs, while the proxy knows another that is well."""
    side = next(side for side in world.sides if side.spare is not None)
    side.upstream.stall()
    world.last(chance.uniform(6, 7))
    side.upstream.restore()


@kind()
def garble_metastore(world: World, chance: random.Random) -> None:
    """What it replies is random bytes."""
    side = chance.choice(world.sides)
    side.upstream.garble(Direction.DOWN)
    time.sleep(chance.uniform(0.2, 3))
    side.upstream.restore()
    side.upstream.cut()
