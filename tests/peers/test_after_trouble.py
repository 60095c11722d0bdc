"""Nothing stays: after trouble, everything is answered from the cache again, and no fence is left."""

from __future__ import annotations

from tests.peers.calm import cut, done, later, link, pair, waits_ms
from tests.peers.sim_records import LOGGED, MS, REQUEST_TIMEOUT_NS


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
    world.calm(REQUEST_TIMEOUT_NS // (20 * MS) + 20)
    assert [proxy.records.fences for proxy in world.proxies] == [{}, {}, {}]


def test_only_the_first_write_after_a_crash_waits() -> None:
    world = pair(proxies=3)
    a, b, c = world.proxies
    lease_ms = world.times.outlasted(world.times.lease_ns) // MS
    world.crash(c)
    first_ms, *later_ms = [waits_ms(world, a) for _ in range(5)]
    assert lease_ms // 2 < first_ms <= 1.05 * lease_ms + 20
    assert max(later_ms) <= 20, "b, which is there, acknowledges; c has no lease any more"
    world.calm()
    assert waits_ms(world, b) <= 20


def test_no_write_waits_for_a_lease_that_nobody_has() -> None:
    """b acknowledges too late, and gets no lease. Then the worker hears nothing of its peers' process: no lease is out,
    so nothing waits."""
    world = pair()
    a, b = world.proxies
    way = link(world, b, a)
    write = world.write(a, LOGGED)
    way.down.clear()
    for _ in range(30):
        later(world, 20, a, b)
        while way.up:
            world.deliver(way, down=False)
    assert write.may_leave, "its lease has run out"
    a.stopped = True
    a.worker.lose()
    a.worker.connect()
    again = world.write(a, LOGGED)
    world.now_ns += 20 * MS
    a.worker.look()
    assert again.may_leave


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
