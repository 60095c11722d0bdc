"""Every rule of the protocol: with all of them no read shows less than it must, and without any one of them some do.

The rules whose names are in world.py are those that the protocol's model can leave out. Three of the model's rules
cannot be left out alone here, because another rule holds them: `old_lease` (a fence is released only at the end of a
replay), `late_lease` (a lease is required of each incarnation that has said hello, not of its address), `leave_short`
(the last lease is shorter than the list's lag). test_fleet.py looks at these in the messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.peers.calm import cut, done, later, link, pair, waits_ms
from tests.peers.scenarios import FOUND_BY_CHANCE, SCENARIOS
from tests.peers.sim_records import LOGGED, MS, REQUEST_TIMEOUT_NS, SILENT
from tests.peers.world import Stale, World

RUNS, STEPS = 8, 300


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_read_shows_less_than_it_must(name: str) -> None:
    worlds = [SCENARIOS[name].run(1_000 + seed, STEPS) for seed in range(RUNS)]
    assert sum(world.hits for world in worlds) > 0, "nothing was answered from a cache"
    assert sum(world.finished for world in worlds) > RUNS // 2


@pytest.mark.parametrize("rule", FOUND_BY_CHANCE)
def test_a_rule_that_is_left_out_shows_by_chance(rule: str) -> None:
    assert SCENARIOS["pair"].found(150, STEPS, rule) is not None


@pytest.mark.parametrize("alone", [True, False], ids=["by the page", "by the process"])
@pytest.mark.parametrize("name", ["pipes", "pipes3", "pipes_join", "crash", "peers", "leave", "join"])
def test_every_question_is_answered(name: str, alone: bool) -> None:
    """Workers decide by the state page at the latest when every lease has run out. Without that, the process itself
    answers every question within the same time, once nothing breaks any more (unless it is not asked, as what the
    question is about could not be recorded)."""
    asked, scenario = 0, SCENARIOS[name]
    if not alone:
        scenario = replace(scenario, budget=replace(scenario.budget, full_disks=0))
    for seed in range(RUNS):
        chaos = scenario.begin(2_000 + seed, STEPS, () if alone else ("never_alone",))
        world = chaos.world
        waiting = [write for proxy in world.proxies if proxy.up for write in world.unanswered(proxy)]
        chaos.heal()
        left = [write for proxy in world.proxies if proxy.up for write in world.unanswered(proxy)]
        assert left == [], "\n".join(world.history[-100:])
        asked += len(waiting)
    assert alone or name not in ("pipes", "pipes3", "pipes_join") or asked, "nothing waited"


@pytest.mark.parametrize("name", ["three", "crash", "pipes3", "orphan"])
def test_once_everything_is_calm_no_write_waits_for_a_lease(name: str) -> None:
    """Whatever has happened before: each follower that is there acknowledges, and nobody waits for one that is not."""
    for seed in range(RUNS // 2):
        chaos = SCENARIOS[name].begin(3_000 + seed, STEPS)
        chaos.heal()
        chaos.world.slow = False
        for proxy in [one for one in chaos.world.proxies if one.up]:
            waited_ms = [waits_ms(chaos.world, proxy) for _ in range(3)]
            assert max(waited_ms) <= 20, (seed, proxy.name, waited_ms)


def test_a_worker_that_waits_for_leases_that_are_given_later_waits_for_ever() -> None:
    """As with a write that could not be recorded in time: nobody is asked about it, and leases go on."""
    with pytest.raises(AssertionError, match="wait for too long"):
        for seed in range(150):
            SCENARIOS["pipes"].run(seed, STEPS, ["late_word"])


# Rules that take a longer story


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


def a_lease_that_overtakes_a_fence(*faults: str) -> None:
    world = pair(*faults)
    a, b = world.proxies
    down = link(world, b, a)
    write = world.write(a, LOGGED)
    later(world, 100, b)
    world.deliver(down, down=False)
    assert len(down.down) == 2, "a fence and a lease"
    world.deliver(down, down=True, index=-1 if faults else 0)
    later(world, 335, a)
    done(world, write)
    if not faults:
        world.deliver_all()
    assert world.hit_allowed(b)
    world.read(b, LOGGED)


def a_lock_that_the_process_was_not_asked_about(*faults: str) -> None:
    world = pair(*faults)
    a, b = world.proxies
    a.stopped = True
    world.versions[LOGGED] += 1
    lock = world.write(a, LOGGED, "lock")
    assert not lock.may_leave
    world.now_ns += 450 * MS
    a.worker.look()
    assert lock.may_leave, "every lease has run out"
    world.finish(lock)
    a.worker.lose()
    a.go_on()
    world.calm(15, steps=False)
    assert world.hit_allowed(b)
    world.read(b, LOGGED)


def a_write_that_could_not_be_recorded(*faults: str) -> None:
    world = pair(*faults)
    a, b = world.proxies
    world.fill_disk(a)
    write = world.write(a, SILENT)
    world.calm(25, steps=False)
    assert not world.hit_allowed(b), "no leases meanwhile"
    done(world, write)
    world.settle(a)
    world.calm(15, steps=False)
    assert world.hit_allowed(b)
    world.read(b, SILENT)


def a_write_that_is_recorded_after_it_has_left(*faults: str) -> None:
    world = pair(*faults)
    a, b = world.proxies
    world.fill_disk(a)
    write = world.write(a, SILENT)
    world.calm(25, steps=False)
    assert write.may_leave and not world.hit_allowed(b), "no leases meanwhile"
    world.leave(write)
    world.settle(a)
    world.apply(write)
    world.finish(write)
    world.calm(15, steps=False)
    assert world.hit_allowed(b)
    world.read(b, SILENT)


def a_write_that_takes_long(*faults: str) -> None:
    """Longer than a fence would last of a peer that is not heard of any more."""
    world = pair(*faults)
    a, b = world.proxies
    write = world.write(a, LOGGED)
    world.deliver_all()
    world.leave(write)
    world.calm(2 * REQUEST_TIMEOUT_NS // (20 * MS) + 60)
    world.apply(write)
    world.read(a, LOGGED)
    assert world.hit_allowed(b)
    world.read(b, LOGGED)


def a_write_that_is_over_before_the_process_hears_of_it(*faults: str) -> None:
    """b's last lease has run out, so the worker of a decides by the page; then b gets a lease."""
    world = pair(*faults)
    a, b = world.proxies
    cut(world, b, a)
    later(world, 600, a)
    later(world, 200, b)
    world.slow = True
    world.connect(b, a.name)
    way = link(world, b, a)
    world.deliver(way, down=False)
    while way.down:
        world.deliver(way, down=True)
    world.begin_step(b)
    world.end_step(b)
    write = world.write(a, LOGGED)
    a.worker.look()
    world.leave(write)
    world.apply(write)
    a.worker.look()
    world.finish(write)
    while way.up or way.down:
        world.deliver(way, down=not way.up)
    assert world.hit_allowed(b)
    world.read(b, LOGGED)


def a_newcomer_that_names_the_address_of_another(*faults: str) -> None:
    """a is cut off from b, and goes on. Its address stays required, whoever names it, until a handshake shows who is
    there."""
    world = World(1, 3, faults=faults)
    a, b, c = world.proxies
    for proxy in (a, b):
        proxy.start()
        world.look_up(proxy)
    world.calm()
    cut(world, b, a)
    later(world, 600, a)
    c.says = a.name
    c.start()
    world.look_up(c)
    world.connect(c, b.name)
    world.deliver_all()
    world.tick(b)
    world.connect(b, c.name)
    world.deliver_all()
    world.begin_step(b)
    world.end_step(b)
    done(world, world.write(a, LOGGED))
    assert world.hit_allowed(b) is bool(faults)
    world.read(b, LOGGED)


STORIES: dict[str, Callable[..., None]] = {
    "no_owed": a_missed_lock,
    "early_clock": a_clock_read_early,
    "fences_first": a_read_that_looks_at_the_fences_first,
    "no_hold": a_dead_writer,
    "overtaking": a_lease_that_overtakes_a_fence,
    "no_notes": a_lock_that_the_process_was_not_asked_about,
    "left_alone": a_write_that_is_over_before_the_process_hears_of_it,
    "untold": a_write_that_could_not_be_recorded,
    "recorded_late": a_write_that_is_recorded_after_it_has_left,
    "forgets_peers": a_write_that_takes_long,
    "forgets_leases": a_writer_that_starts_again,
    "cold_restart": a_writer_that_forgets_its_fences,
    "no_welcome": a_writer_that_is_in_no_list,
    "early_hits": a_writer_that_did_not_know_of_the_reader,
    "no_orphans": a_member_that_joins_after_a_crash,
    "named": a_newcomer_that_names_the_address_of_another,
}


@pytest.mark.parametrize("rule", STORIES)
def test_a_rule_that_is_left_out_shows(rule: str) -> None:
    STORIES[rule]()
    with pytest.raises(Stale):
        STORIES[rule](rule)
