"""A calm fleet, and what is done to it step by step."""

from __future__ import annotations

from tests.peers.sim_records import LOGGED, MS
from tests.peers.world import SimLink, SimProxy, SimWrite, World


def pair(*faults: str, proxies: int = 2) -> World:
    """A calm fleet."""
    world = World(1, proxies, faults=faults)
    world.start_all()
    world.calm()
    assert all(world.hit_allowed(proxy) for proxy in world.proxies)
    return world


def link(world: World, follower: SimProxy, followed: SimProxy) -> SimLink:
    return next(
        one for one in world.links.values() if one.open and (one.follower, one.followed) == (follower, followed)
    )


def cut(world: World, follower: SimProxy, followed: SimProxy) -> None:
    """Both ends notice."""
    one = link(world, follower, followed)
    one.open = False
    for proxy in (follower, followed):
        proxy.fleet.closed(one.number, proxy.local_ns())
        proxy.carry_out()


def done(world: World, write: SimWrite) -> None:
    """A write that may leave, to its end."""
    assert write.may_leave, "it waits"
    world.leave(write)
    world.apply(write)
    assert write.may_leave
    world.finish(write)


def later(world: World, ms: int, *proxies: SimProxy) -> None:
    world.now_ns += ms * MS
    for proxy in proxies:
        world.tick(proxy)


def waits_ms(world: World, proxy: SimProxy) -> int:
    """How long a write at this proxy waits until it may leave; it is carried out to its end. Everything is calm."""
    write, began_ns = world.write(proxy, LOGGED), world.now_ns
    while not write.may_leave:
        world.calm(1)
    waited_ms = (world.now_ns - began_ns) // MS
    world.leave(write)
    world.apply(write)
    world.calm(1)
    world.finish(write)
    world.calm(1)
    return waited_ms
