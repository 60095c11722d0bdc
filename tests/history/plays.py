"""Plays of a fleet: each returns what the reader is shown at its end. It must be 1, the version that was written.

A play is given on a Stage, with the rules of the protocol or with one left out (test_fleet_rules.py). The reader's
cache has version 0 at the end, because its follower is stopped; so only the rules between proxies say that it must not
be shown.
"""

from __future__ import annotations

from hms_cache_proxy.cache.state import Slot
from tests.history.stage import LONG_S, READER, THIRD, WRITER, Stage, times
from tests.proxy import Proxy
from tests.testbed.fault_proxy import Direction, FaultProxy

SHORT_S = 3.0
"""A lease that runs out in a play, but not between two questions for it."""

MEDIUM_S = 8.0
"""One in which a write that is under way ends, and a read is made."""

LAG_S = 300.0
"""After so long a start is in every list: a proxy that starts in a play is not."""


def fence_under_way(stage: Stage) -> int:
    """The fence does not get to the reader, whose lease is good."""
    a, b = stage.pair(times())
    stage.stop(b)
    way = stage.way(READER, WRITER)
    way.stall(Direction.DOWN)
    written = stage.goes_or_waits(a)
    if written.done():
        return stage.read(b)
    way.restore()
    written.result()
    return stage.read(b)


def cut_off(stage: Stage) -> int:
    """The reader is cut off, and its lease is good."""
    a, b = stage.pair(times())
    stage.stop(b)
    way, missed = stage.way(READER, WRITER), stage.visits(b, "missed")
    way.refuse()
    stage.visited(b, "missed", missed)
    stage.until(lambda: not a.status()["peers"][0]["follows"], "aware of that")
    written = stage.goes_or_waits(a)
    if written.done():
        return stage.read(b)
    way.restore()
    written.result()
    return stage.read(b)


def parted(stage: Stage) -> int:
    """The writer goes on when the reader's lease has run out. The reader knows nothing of the write."""
    a, b = stage.pair(times(SHORT_S))
    stage.stop(b)
    stage.way(READER, WRITER).stall()
    stage.write(a).result()
    return stage.read(b)


def lease_under_way(stage: Stage) -> int:
    """A lease is under way for longer than it is good. Behind it is the fence of a write that has not waited for it."""
    a, b = stage.pair(times(SHORT_S))
    stage.stop(b)
    way = stage.way(READER, WRITER)
    way.stall(Direction.DOWN)
    stage.until(lambda: way.bytes_taken[Direction.DOWN] > way.bytes_passed[Direction.DOWN], "a lease under way")
    way.stall()
    stage.until(lambda: stage.leases_are_out(a) and not b.may_hit(), "without leases")
    stage.write(a).result()
    arrived = stage.hold(b, "leased")
    way.restore()
    stage.visited(b, "leased", arrived)
    return stage.read(b)


def record_under_way(stage: Stage) -> int:
    """A fence is sent late, and what comes after it on its way, too. Its write goes on when the leases have run out
    that were given before."""
    a, b = stage.pair(times(SHORT_S))
    stage.stop(b)
    stage.hold(a, "fence_sent")
    stage.write(a).result()
    return stage.read(b)


def read_in_pieces(stage: Stage) -> int:
    """A read is held in the middle, if it gets there, until the reader is connected again and has a lease."""
    a, b = stage.pair(times(SHORT_S))
    stage.stop(b)
    way = stage.way(READER, WRITER)
    way.refuse()
    stage.write(a).result()
    came = stage.hold(b, "fences_looked_at")
    reading = stage.reading(b)
    stage.until(lambda: reading.done() or stage.visits(b, "fences_looked_at") > came, "reading")
    if not reading.done():
        way.restore()
        stage.until(lambda: b.may_hit(), "leased")
        stage.let_on(b, "fences_looked_at")
    return reading.result()


def missed_while_cut_off(stage: Stage) -> int:
    """A write is over when the reader is connected again. Nothing tells of it but the log, which nobody reads. (If it
    had left by the page, which the worker looks at when the lease has run out, a replay would tell of it.)"""
    a, b = stage.pair(times(SHORT_S))
    stage.stop(b)
    way = stage.way(READER, WRITER)
    way.refuse()
    stage.hold(a, "page")
    stage.write(a).result()
    way.restore()
    stage.until(lambda: b.may_hit(), "leased")
    return stage.read(b)


def step_under_way(stage: Stage) -> int:
    """A step of the reader's follower has read the database when the write begins, and ends when that is over."""
    a, b = stage.pair(times())
    lifted, read = stage.visits(b, "lifted"), stage.hold(b, "step_reads")
    stage.create_another(a)
    stage.visited(b, "step_reads", read)
    stage.write(a).result()
    stage.visited(b, "lifted", lifted, 2)
    began = stage.hold(b, "step_begins")
    stage.let_on(b, "step_reads")
    stage.visited(b, "step_begins", began)
    return stage.read(b)


def held_before_it_leaves(stage: Stage) -> int:
    """Between the moment when a write may leave and its leaving, the reader's follower makes some steps."""
    a, b = stage.pair(times())
    lifted = stage.visits(b, "lifted")
    written = stage.write_up_to(a, "leaves")
    if stage.planted is not None:
        stage.visited(b, "lifted", lifted)
    stage.steps(b)
    stage.stop(b)
    stage.let_on(a, "leaves")
    written.result()
    return stage.read(b)


def before_the_reply(stage: Stage) -> int:
    """The metastore has carried out a write, and shows it to another read. The reply is not passed on yet."""
    a, b = stage.pair(times())
    stage.stop(b)
    written = stage.write_up_to(a, "replied")
    assert stage.relayed(b) == 1
    shown = stage.read(b)
    stage.let_on(a, "replied")
    written.result()
    return shown


def connected_meanwhile(stage: Stage) -> int:
    """The reader connects again while a write is under way of which it knows nothing. The peers' process has let it
    leave: when one is over that has left by the page, peers are told of it."""
    a, b = stage.pair(times(SHORT_S))
    way = stage.way(READER, WRITER)
    way.refuse()
    stage.hold(a, "page")
    written = stage.write_up_to(a, "leaves")
    way.restore()
    stage.until(lambda: b.may_hit(), "leased")
    stage.steps(b)
    stage.stop(b)
    stage.let_on(a, "leaves")
    written.result()
    return stage.read(b)


def welcomed_meanwhile(stage: Stage) -> int:
    """The reader connects again while a write is under way that it has fenced. What follows the welcome is late."""
    a, b = stage.pair(times())
    welcomed = stage.hold(b, "welcomed")
    written = stage.write_up_to(a, "leaves")
    stage.way(READER, WRITER).cut()
    stage.visited(b, "welcomed", welcomed)
    stage.steps(b)
    stage.stop(b)
    stage.let_on(a, "leaves")
    written.result()
    return stage.read(b)


# The writer ends


def killed_meanwhile(stage: Stage) -> int:
    """A writer is killed while its write is under way, which is carried out later. Another read is shown it."""
    a, b = stage.pair(times(), holds=True)
    stage.leave_for_nowhere(a)
    missed = stage.visits(b, "missed")
    stage.kill(a)
    stage.visited(b, "missed", missed)
    stage.steps(b)
    stage.stop(b)
    stage.carried_out()
    assert stage.relayed(b) == 1
    return stage.read(b)


def killed_and_started(stage: Stage) -> int:
    """A writer is killed and starts again. It cannot reach the reader, whose lease is good."""
    a, b = stage.pair(times())
    stage.stop(b)
    ways = stage.part()
    stage.kill(a)
    stage.again(WRITER)
    stage.written_or_reunited(a, ways)
    return stage.read(b)


def killed_while_cut_off(stage: Stage) -> int:
    """A writer is killed and starts again, while its write is under way of which the reader knows nothing."""
    a, b = stage.pair(times(SHORT_S), holds=True)
    way = stage.way(READER, WRITER)
    way.refuse()
    stage.leave_for_nowhere(a)
    stage.kill(a)
    stage.again(WRITER)
    way.restore()
    stage.until(lambda: b.may_hit(), "leased")
    stage.steps(b)
    stage.stop(b)
    stage.carried_out()
    assert stage.relayed(b) == 1
    return stage.read(b)


def succeeded(stage: Stage) -> int:
    """A writer ends in good order, and its successor says hello to the reader, which cannot reach it. The last lease of
    the one that has ended is good."""
    a, b = stage.pair(times())
    stage.stop(b)
    a.stop()
    stage.way(READER, WRITER).refuse()
    stage.again(WRITER)
    stage.ready(a)
    stage.write(a).result()
    return stage.read(b)


def succeeded_out_of_reach(stage: Stage) -> int:
    """The same, and its successor cannot reach the reader. The last lease is longer than others are."""
    a, b = stage.pair(times(SHORT_S, last_lease_ns=LONG_S))
    stage.stop(b)
    a.stop()
    ways = stage.part()
    stage.again(WRITER)
    stage.written_or_reunited(a, ways)
    return stage.read(b)


# Members join


def unknown_to_the_reader(stage: Stage) -> int:
    """A writer is so new that it is not in the reader's list, and cannot reach the reader."""
    b = stage.enter(READER, times(list_lag_ns=LAG_S), [READER], older_s=2 * LAG_S + 100)
    stage.ready(b)
    stage.create(b)
    stage.answers(b)
    stage.stop(b)
    way = stage.way(WRITER, READER)
    way.refuse()
    a = stage.enter(WRITER, times(list_lag_ns=LAG_S))
    stage.written_or_reunited(a, [way])
    return stage.read(b)


def unknown_to_each_other(stage: Stage) -> int:
    """A writer and a reader are so new that neither is in the other one's list."""
    b = stage.enter(READER, times(list_lag_ns=LAG_S), [READER], older_s=LAG_S + 100)
    stage.ready(b)
    stage.create(b)
    if stage.planted is not None:
        stage.answers(b)
    a = stage.enter(WRITER, times(list_lag_ns=LAG_S), [WRITER])
    stage.ready(a)
    stage.stop(b)
    stage.write(a).result()
    return stage.read(b)


def joined_after_a_crash(stage: Stage) -> int:
    """A writer is killed while its write is under way. Who joins then has never known it."""
    a, b = stage.pair(times(), holds=True)
    stage.leave_for_nowhere(a)
    stage.kill(a)
    c = stage.enter(THIRD, times(), [THIRD, READER])
    stage.ready(c)
    stage.until(lambda: c.may_hit(), "leased")
    stage.steps(c)
    stage.stop(c)
    stage.carried_out()
    assert stage.relayed(b) == 1
    return stage.read(c)


# What the peers' process hears too late


def unasked(stage: Stage, lease_s: float) -> tuple[Proxy, Proxy, FaultProxy]:
    """All leases have run out, and the reader's question for another one is under way. The peers' process does not hear
    the writer's worker, which decides by the page."""
    a, b = stage.pair(times(lease_s))
    stage.stop(b)
    way = stage.way(READER, WRITER)
    way.stall(Direction.UP)
    stage.until(lambda: stage.leases_are_out(a) and not b.may_hit(), "without leases")
    stage.hold(a, "asks")
    return a, b, way


def over_unheard(stage: Stage) -> int:
    """A write is over before the process has heard of it. Then the reader gets a lease."""
    a, b, way = unasked(stage, SHORT_S)
    stage.write(a).result()
    way.restore()
    stage.until(lambda: b.may_hit(), "leased")
    return stage.read(b)


def under_way_unheard(stage: Stage) -> int:
    """A write is under way before the process has heard of it. Then the reader gets a lease."""
    a, b, way = unasked(stage, MEDIUM_S)
    written = stage.write_up_to(a, "leaves")
    way.restore()
    stage.until(lambda: b.may_hit(), "leased")
    stage.stop(a, "peers")
    stage.let_on(a, "leaves")
    written.result()
    return stage.read(b)


def handed_out_unheard(stage: Stage) -> int:
    """The id of an event is handed out before the process has heard of it. Then the reader gets a lease."""
    a, b, way = unasked(stage, SHORT_S)
    stage.write_past_all()
    stage.hand_out_events(a)
    way.restore()
    stage.until(lambda: b.may_hit(), "leased")
    return stage.read(b)


def without_room(stage: Stage) -> int:
    """A write is over before there was room to record it. When there is, the reader gets a lease."""
    a, b = stage.pair(times(SHORT_S))
    stage.stop(b)
    with stage.no_room(a):
        stage.write(a).result()
    stage.until(lambda: not a.word(Slot.UNFENCED) & 1 and b.may_hit(), "recorded, and the reader leased")
    return stage.read(b)


def another_names_its_address(stage: Stage) -> int:
    """The writer cannot be reached by the reader, to whom somebody else names the writer's address as its own."""
    all_times, way = times(SHORT_S), stage.way(READER, WRITER)
    address = f"127.0.0.1:{way.port}"
    a = stage.enter(WRITER, all_times, says=address)
    b = stage.enter(READER, all_times, [WRITER, READER, THIRD])
    stage.ready(a, b)
    stage.create(a)
    stage.answers(b)
    way.refuse()
    c = stage.enter(THIRD, all_times, [READER, THIRD], says=address)
    stage.ready(c)
    stage.until(lambda: stage.leases(b) >= 1, "leased by it")
    stage.steps(b)
    stage.stop(b)
    stage.write(a).result()
    return stage.read(b)
