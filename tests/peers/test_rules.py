"""Every rule of the protocol: with all of them no read shows less than it must, and without any one of them some do.

The rules whose names are in world.py are those that the protocol's model can leave out. Three of the model's rules
cannot be left out alone here, because another rule holds them: `old_lease` (a fence is released only at the end of a
replay), `late_lease` (a lease is required of each incarnation that has said hello, not of its address), `leave_short`
(the last lease is shorter than the list's lag). test_fleet.py looks at these in the messages.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.peers.scenarios import FOUND_BY_CHANCE, SCENARIOS
from tests.peers.sim_records import HOLD_NS, LOGGED, MS
from tests.peers.world import SimLink, SimProxy, SimWrite, Stale, World

RUNS, STEPS = 8, 300


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_read_shows_less_than_it_must(name: str) -> None:
    worlds = [SCENARIOS[name].run(1_000 + seed, STEPS) for seed in range(RUNS)]
    assert sum(world.hits for world in worlds) > 0, "nothing was answered from a cache"
    assert sum(world.finished for world in worlds) > RUNS


@pytest.mark.parametrize("rule", FOUND_BY_CHANCE)
def test_a_rule_that_is_left_out_shows_by_chance(rule: str) -> None:
    assert SCENARIOS["pair"].found(150, STEPS, rule) is not None


# Rules that take a longer story


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


def a_missed_lock(*faults: str) -> None:
    world = pair(*faults)
    a, b = world.proxies
    cut(world, b, a)
    later(world, 600, a)
    world.versions[LOGGED] += 1
    lock = world.write(a, LOGGED, "lock")
    assert lock.may_leave, "the lease has run out"
    world.finish(lock)
    later(world, 200, b)
    world.connect(b, a.name)
    world.deliver_all()
    assert world.hit_allowed(b)
    world.read(b, LOGGED)


def a_clock_read_early(*faults: str) -> None:
    world = pair(*faults)
    a, b = world.proxies
    world.read(b, LOGGED)
    cut(world, b, a)
    later(world, 600, a)
    done(world, world.write(a, LOGGED))
    world.read(b, LOGGED)


def a_read_that_looks_at_the_fences_first(*faults: str) -> None:
    world = pair(*faults)
    a, b = world.proxies
    cut(world, b, a)
    later(world, 600, a)
    done(world, world.write(a, LOGGED))
    world.read(b, LOGGED)  # with the fault: no fence, the old version, and the lease is looked at below
    later(world, 200, b)
    world.connect(b, a.name)
    world.deliver_all()
    assert world.hit_allowed(b)
    world.read(b, LOGGED)


def a_dead_writer(*faults: str) -> None:
    world = pair(*faults)
    a, b = world.proxies
    write = world.write(a, LOGGED)
    world.deliver_all()
    world.leave(write)
    world.crash(a)
    world.begin_step(b)
    world.apply(write)
    world.read(b, LOGGED)
    world.end_step(b)
    assert world.hit_allowed(b)
    world.read(b, LOGGED)


def a_writer_that_starts_again(*faults: str) -> None:
    world = pair(*faults)
    a, b = world.proxies
    world.crash(a)
    a.start(crashed=True)
    world.look_up(a)
    world.tick(a)
    write = world.write(a, LOGGED)
    if write.may_leave:
        done(world, write)
    assert world.hit_allowed(b)
    world.read(b, LOGGED)


def a_writer_that_forgets_its_fences(*faults: str) -> None:
    world = pair(*faults)
    a, b = world.proxies
    cut(world, b, a)
    later(world, 600, a)
    write = world.write(a, LOGGED)
    world.leave(write)
    world.crash(a)
    a.start(crashed=True)
    world.look_up(a)
    world.calm()
    assert world.hit_allowed(b)
    world.apply(write)
    world.begin_step(a)
    world.end_step(a)
    world.read(a, LOGGED)
    world.read(b, LOGGED)


def a_writer_that_is_in_no_list(*faults: str) -> None:
    world = World(1, 2, faults=faults, lag_ns=700 * MS)
    a, b = world.proxies
    b.start()
    for _ in range(30):
        world.look_up(b, [b.name])
        world.calm(4)
    assert world.hit_allowed(b)
    a.start()
    world.look_up(a, [a.name, b.name])
    write = world.write(a, LOGGED)
    if write.may_leave:
        done(world, write)
    world.read(b, LOGGED)


def a_writer_that_did_not_know_of_the_reader(*faults: str) -> None:
    world = World(1, 2, faults=faults, lag_ns=700 * MS)
    a, b = world.proxies
    b.start()
    world.look_up(b, [b.name])
    world.calm(18)
    a.start()
    world.look_up(a, [a.name])
    world.connect(a, a.name)
    world.tick(a)
    done(world, world.write(a, LOGGED))
    for _ in range(5):
        world.now_ns += 90 * MS
        world.look_up(b, [b.name])
        world.tick(b)
        for address in sorted(b.dialling):
            world.connect(b, address)
    assert world.hit_allowed(b) is bool(faults)
    world.read(b, LOGGED)


def a_member_that_joins_after_a_crash(*faults: str) -> None:
    world = World(1, 3, faults=faults)
    a, b, c = world.proxies
    for proxy in (a, b):
        proxy.start()
        world.look_up(proxy, [a.name, b.name])
    world.calm()
    write = world.write(a, LOGGED)
    world.deliver_all()
    world.leave(write)
    world.crash(a)
    c.start()
    for proxy in (b, c):
        world.look_up(proxy, [b.name, c.name])
    world.calm()
    assert world.hit_allowed(b) and world.hit_allowed(c)
    world.apply(write)
    world.read(b, LOGGED)
    world.read(c, LOGGED)


STORIES: dict[str, Callable[..., None]] = {
    "no_owed": a_missed_lock,
    "early_clock": a_clock_read_early,
    "fences_first": a_read_that_looks_at_the_fences_first,
    "no_hold": a_dead_writer,
    "forgets_leases": a_writer_that_starts_again,
    "cold_restart": a_writer_that_forgets_its_fences,
    "no_welcome": a_writer_that_is_in_no_list,
    "early_hits": a_writer_that_did_not_know_of_the_reader,
    "no_orphans": a_member_that_joins_after_a_crash,
}


@pytest.mark.parametrize("rule", STORIES)
def test_a_rule_that_is_left_out_shows(rule: str) -> None:
    STORIES[rule]()
    with pytest.raises(Stale):
        STORIES[rule](rule)


# Nothing stays: after trouble, everything is answered from the cache again, and no fence is left


def test_after_a_crash_and_a_restart() -> None:
    world = pair(proxies=3)
    a, b, c = world.proxies
    writes = [world.write(a, LOGGED), world.write(b, LOGGED)]
    world.deliver_all()
    for write in writes:
        world.leave(write)
    world.apply(writes[1])
    world.crash(a)
    world.calm(25)
    assert not world.hit_allowed(b) and not world.hit_allowed(c), "a lease of a dead member has run out"
    a.start(crashed=True)
    world.look_up(a)
    world.calm()
    assert all(world.hit_allowed(proxy) for proxy in world.proxies)
    world.finish(writes[1])
    world.calm(HOLD_NS // (20 * MS) + 20)
    assert [proxy.records.fences for proxy in world.proxies] == [{}, {}, {}]


def test_two_halves_of_a_partition_both_go_on() -> None:
    world = pair()
    a, b = world.proxies
    cut(world, a, b)
    cut(world, b, a)
    writes = [world.write(proxy, LOGGED) for proxy in (a, b)]
    assert not any(write.may_leave for write in writes)
    for proxy in (a, b):
        proxy.fleet.roster.places[{a: b, b: a}[proxy].name].dial_after_ns = 1 << 62
    later(world, 430, a, b)
    for write in writes:
        done(world, write)
    for proxy in (a, b):
        assert not world.hit_allowed(proxy)
        world.read(proxy, LOGGED)
    again = [world.write(proxy, LOGGED) for proxy in (a, b)]
    assert all(write.may_leave for write in again), "only the first write waits"
