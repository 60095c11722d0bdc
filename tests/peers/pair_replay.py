"""Replays what the members of a fleet did (tests/history/planted/fleet_trace.py) as transitions of the pair model.

A trace of many proxies is projected onto the ordered pairs of their incarnations. `Forbidden`: what happened is no run
of the model, or a read might have been answered from a cache that hid a write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns
from typing import Any

from tests.peers.pair import Forbidden, Pair

Event = tuple[int, str, str, list[Any]]
NOTES = ("FenceOwed", "EventReached", "LockWaits", "MissedTargets")


def traced(path: Path) -> list[Event]:
    """What processes have written down under this path, in order: they have one clock. They go on while their files are
    read one by one, so the trace ends before the first is read: what was received by then has been written down where
    it was sent. A message that is received later may have been sent after the sender's file was read."""
    until_ns = clock_gettime_ns(CLOCK_BOOTTIME)
    texts = [file.read_text() for file in sorted(path.parent.glob(f"{path.name}.*"))]
    lines = [line for text in texts for line in text.splitlines(keepends=True)]
    events: list[Event] = [tuple(json.loads(line)) for line in lines if line.endswith("\n")]
    return sorted((event for event in events if event[0] < until_ns), key=lambda event: event[0])


class Replay:
    """`clock`: what the clock of an incarnation shows at a time. `steps`: the trace has the follower's steps; without
    them a fence that has a ticket is not looked at any more (tests/model/cache.pml has what follows)."""

    def __init__(
        self,
        *,
        hold: int,
        write_age: int,
        outlasted: Callable[[int], int],
        clock: Callable[[str, int], int] = lambda who, at: at,
        steps: bool = False,
    ) -> None:
        self.hold, self.write_age, self.outlasted, self.clock, self.steps = hold, write_age, outlasted, clock, steps
        self.pairs: dict[tuple[str, str], Pair] = {}
        self.began: dict[str, int] = {}
        self.dead: set[str] = set()
        self.names: dict[tuple[str, int], object] = {}
        self.ends: dict[tuple[str, int], tuple[Any, str, bool]] = {}
        self.phases: dict[str, dict[tuple[str, int], str]] = {}
        self.counts: dict[str, int] = {}
        """How often each kind of event was replayed."""

    def run(self, events: Iterable[Event]) -> None:
        for at, who, kind, arguments in events:
            if who not in self.began:
                self.joined(who, at)
            act = getattr(self, f"on_{kind}")
            touched = [(key, pair) for key, pair in self.pairs.items() if who in key]
            for (writer, holder), pair in touched:
                pair.now_w, pair.now_h = self.clock(writer, at), self.clock(holder, at)
            try:
                act(who, *arguments)
                for _, pair in touched:
                    hidden = pair.stale()
                    pair.must("stale", not hidden, f"{hidden} may be hidden")
            except Forbidden as error:
                raise Forbidden(error.rule, f"{error} at {at}: {who[:8]} {kind} {arguments}") from error
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def joined(self, who: str, at: int) -> None:
        """An incarnation begins. Those that began before it must welcome it; it has nobody's lease."""
        for other in self.began:
            self.pairs[who, other] = Pair(hold=self.hold, write_age=self.clock(who, at) + self.write_age)
            self.pairs[other, who] = Pair(hold=self.hold, write_age=-(10**18))
            self.pairs[who, other].welcomed = other in self.dead
            self.pairs[other, who].welcomed = True
            for name, phase in self.phases.get(other, {}).items():
                self.pairs[other, who].raised(name)
                self.pairs[other, who].writes[name].phase = phase
        self.began[who] = at

    def of_writer(self, who: str) -> list[Pair]:
        return [pair for (writer, _), pair in self.pairs.items() if writer == who]

    def of_holder(self, who: str) -> list[tuple[str, Pair]]:
        return [(writer, pair) for (writer, holder), pair in self.pairs.items() if holder == who]

    # connections

    def on_began(self, who: str) -> None:
        """Its peers' process begins: it has no connections, and no leases."""
        self.ends = {key: end for key, end in self.ends.items() if key[0] != who}
        self.names = {key: name for key, name in self.names.items() if key[0] != who}
        for pair in self.of_writer(who):
            pair.line = None
        for _, pair in self.of_holder(who):
            pair.at, pair.current, pair.lease, pair.served = None, False, 0, 0

    def on_link(self, who: str, link: int, name: str) -> None:
        self.names[who, link] = name

    def on_dialled(self, who: str, link: int, address: str, other: str, now: int) -> None:
        self.ends[who, link] = (self.names.get((who, link), link), other, True)

    def on_accepted(self, who: str, link: int, other: str, now: int) -> None:
        self.ends[who, link] = (self.names.get((who, link), link), other, False)

    def on_closed(self, who: str, link: int, now: int) -> None:
        number, other, dialled = self.ends.pop((who, link), (None, "", False))
        if (who, other) not in self.pairs:
            return
        if dialled:
            self.pairs[other, who].lost_at_holder(number)
        else:
            self.pairs[who, other].lost_at_writer(number)

    # messages

    def on_sent(self, who: str, link: int, message: list[Any], now: int) -> None:
        number, other, dialled = self.ends.get((who, link), (None, "", False))
        if (who, other) not in self.pairs:
            return
        if dialled:
            self.up(self.pairs[other, who], number, message)
        else:
            self.down(who, other, number, message, now)

    def up(self, pair: Pair, number: Any, message: list[Any]) -> None:
        kind = message[0]
        if kind == "Acknowledged":
            pair.acknowledges(number, message[1])
        elif kind in UP:
            if kind == "Hello":
                pair.connects(number)
                pair.serves(pair.served)
            pair.up.setdefault(number, []).append(UP[kind](message))

    def down(self, who: str, other: str, number: Any, message: list[Any], now: int) -> None:
        pair, kind = self.pairs[who, other], message[0]
        if kind not in DOWN:
            return
        shape, name = DOWN[kind](message), named(message)
        if kind == "Welcome":
            self.pairs[other, who].welcomes()
        if kind == "FenceRaised" and name is not None and name[0] == who:
            self.on_raised(*name)  # it is recorded, and its worker is about to ask
        if name is not None and name not in pair.writes:
            pair.raised(name)
            pair.writes[name].foreign = True
        pair.send(number, shape, name)
        if kind == "MissedTargets":
            for one in pair.writes.values():
                one.told = one.told or (pair.sent if one.phase == "over" else 0)
        elif kind == "LeaseGiven" and shape[2]:
            pair.gave(now + self.outlasted(shape[2]))

    def on_received(self, who: str, link: int, message: list[Any]) -> None:
        number, other, dialled = self.ends.get((who, link), (None, "", False))
        if (who, other) not in self.pairs:
            return
        if not dialled:
            self.at_writer(self.pairs[who, other], number, message)
            return
        pair, kind = self.pairs[other, who], message[0]
        if kind not in DOWN:
            return
        shape, name = DOWN[kind](message), named(message)
        pair.take(number, shape, down=True)
        if kind == "Welcome":
            self.pairs[who, other].welcomed = True
        elif kind == "FenceRaised":
            pair.told(name)
        elif kind == "FenceLifted":
            pair.release(name)
        elif kind == "Replayed":
            pair.replay_ends()
        elif kind == "MissedTargets":
            for one, write in pair.writes.items():
                if write.phase == "over":
                    pair.reload(one)
        elif kind == "LeaseGiven" and shape[2]:
            pair.leased(shape[1], shape[2])
        self.forget(pair)

    def at_writer(self, pair: Pair, number: Any, message: list[Any]) -> None:
        kind = message[0]
        if kind not in UP:
            return
        pair.take(number, UP[kind](message), down=False)
        if kind == "Hello":
            pair.greeted(number)
        elif kind == "Acknowledged":
            pair.acknowledged(number, message[1])
        elif kind == "AnswersNothing":
            pair.void()

    # writes

    def on_raised(self, who: str, number: int) -> None:
        name = (who, number)
        if name not in self.phases.setdefault(who, {}):
            self.phases[who][name] = "fenced"
            for pair in self.of_writer(who):
                pair.raised(name)

    def on_goes(self, who: str, number: int) -> None:
        name = (who, number)
        if self.phases.get(who, {}).get(name) == "fenced":
            self.phases[who][name] = "gone"
            for pair in self.of_writer(who):
                pair.go(name)

    def on_over(self, who: str, number: int) -> None:
        name = (who, number)
        if name in self.phases.get(who, {}):
            self.phases[who][name] = "over"
            for pair in self.of_writer(who):
                if name in pair.writes:
                    pair.over(name)
                self.forget(pair)

    def forget(self, pair: Pair) -> None:
        if not self.steps:
            pair.writes = {
                name: one
                for name, one in pair.writes.items()
                if one.phase != "over" or not (one.held == "ticket" or (one.owed and one.held == ""))
            }

    # the holder

    def on_requires(self, who: str, *required: str) -> None:
        for writer, pair in self.of_holder(who):
            if writer in required:
                pair.required = True
            elif writer in self.dead:
                pair.required = False
                pair.writes.clear()  # its successor tells of what is still under way
            else:
                pair.required = False

    def on_serves(self, who: str, until: int) -> None:
        for _, pair in self.of_holder(who):
            pair.serves(until)

    def on_holds(self, who: str, via: str, incarnation: str, number: int) -> None:
        self.pairs[via, who].hold((incarnation, number))

    def on_releases(self, who: str, via: str, incarnation: str, number: int) -> None:
        if (via, who) in self.pairs:
            self.pairs[via, who].release((incarnation, number))

    def on_expires(self, who: str, via: str, incarnation: str, number: int) -> None:
        if (via, who) in self.pairs:
            self.pairs[via, who].expires((incarnation, number))

    def on_step_begins(self, who: str) -> None:
        for _, pair in self.of_holder(who):
            pair.step_begins()

    def on_step_ends(self, who: str, *fences: list[Any]) -> None:
        """`fences`: those that are done: (via, incarnation, number)."""
        for via, incarnation, number in fences:
            one = self.pairs[via, who].writes.get((incarnation, number)) if (via, who) in self.pairs else None
            if one is not None and self.pairs[via, who].stepping:
                self.pairs[via, who].must("running_step", one.held == "" or one.taken, f"{number} is done")
        for _, pair in self.of_holder(who):
            pair.step_ends()

    def on_crashes(self, who: str) -> None:
        self.dead.add(who)
        for pair in self.of_writer(who):
            pair.dies()
        for _, pair in self.of_holder(who):
            pair.served, pair.welcomed = 0, True


def named(message: list[Any]) -> tuple[str, int] | None:
    """The write that a message is about."""
    return (message[1], message[2]) if message[0] in ("FenceRaised", "FenceLifted") else None


Shape = Callable[[list[Any]], tuple[str, Any, Any]]
UP: dict[str, Shape] = {
    "Hello": lambda m: ("hello", 0, 0),
    "Acknowledged": lambda m: ("ack", m[1], 0),
    "LeaseAsked": lambda m: ("ask", m[1], 0),
    "AnswersNothing": lambda m: ("bye", 0, 0),
}
DOWN: dict[str, Shape] = {
    "Welcome": lambda m: ("welcome", 0, 0),
    "FenceRaised": lambda m: ("fence", m[1], m[2]),
    "FenceLifted": lambda m: ("lift", m[1], m[2]),
    "Replayed": lambda m: ("replayed", 0, 0),
    "LeaseGiven": lambda m: ("lease", m[1], m[2]),
    **dict.fromkeys(NOTES, lambda m: ("note", m[0], m[1] if len(m) > 1 else 0)),
}
