"""Every order of what can happen between a writer and a holder, as far as a few writes and breaks allow.

    python -m tests.peers.pair_search            each scenario, then each rule left out, with a shortest counterexample

Breadth first. A pause of either side is every order in which it does nothing while time passes. One tick is half of a
lease; clocks run at one rate (tests/peers/world.py has others).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tests.peers.pair import LEFT, RULES, Forbidden, Message, Pair

LEASE, HOLD, LIFE = 2, 3, 2
"""A lease; how long a fence of a missed writer stands; how long a metastore may work on what a dead writer has sent."""


@dataclass(frozen=True)
class PairScenario:
    """`fresh`: the writer is a new incarnation, of whose predecessor the holder still has a lease."""

    writes: int = 1
    breaks: int = 0
    dies: bool = False
    fresh: bool = False


SCENARIOS = {
    "calm": PairScenario(),
    "breaks": PairScenario(breaks=1),
    "dies": PairScenario(dies=True),
    "fresh": PairScenario(fresh=True),
}
WHERE = {
    **dict.fromkeys(RULES, "breaks"),
    **dict.fromkeys(("catching_up", "left_alone", "stores", "overtaking", "no_wait", "no_lease"), "calm"),
    **dict.fromkeys(("early_ticket", "running_step", "receiver_clock"), "calm"),
    "no_hold": "dies",
    "no_welcome": "fresh",
    "late_lease": "fresh",
}
"""Where a rule shows that is left out."""

REDUNDANT = {"no_replay": "catching_up", "old_lease": "no_replay"}
"""Rules that another one holds: what a replay has not told is told before the first lease; a lease of the last
connection does no harm where a replay begins the next one."""


class SearchedPair(Pair):
    """A pair with the budget of a scenario. What one process does without a look at the clock is one transition."""

    def __init__(self, scenario: PairScenario, left_out: tuple[str, ...]) -> None:
        super().__init__(hold=HOLD, write_age=LEASE if scenario.fresh else 0, left_out=left_out)
        self.writes_left, self.breaks_left, self.may_die = scenario.writes, scenario.breaks, scenario.dies
        self.connections, self.broken, self.alive, self.dead_until = 0, False, True, 0
        self.greeting = 1 if scenario.fresh else 0  # 1: the hello is on its way, 2: the welcome
        if scenario.fresh:
            self.lease = LEASE  # of its predecessor
        else:
            self.required = self.welcomed = True

    def key(self) -> tuple[object, ...]:
        """What is compared: times as what is left of them."""
        w, h = self.now_w, self.now_h

        def message(one: Message) -> Message:
            return (one[0], max(one[1] - h, -LEASE), one[2]) if one[0] in ("lease", "ask") else one

        writes = tuple(
            (name, one.phase, max(one.waits - w, 0), one.told, one.agreed, one.held, max(one.until - h, 0))
            + (one.taken, one.fresh, one.owed, one.owed_taken)
            for name, one in sorted(self.writes.items(), key=str)
        )
        ways = tuple(tuple(map(message, one.get(self.connections, ()))) for one in (self.down, self.up))
        lefts = tuple(max(one, 0) for one in (self.given - w, self.old - w, self.dead_until - w, self.lease - h))
        flags = (self.welcomed, self.replayed, self.current, self.required, self.stepping, self.broken, self.alive)
        budget = (self.writes_left, self.breaks_left, self.may_die, self.greeting, self.connections)
        return writes, ways, lefts, flags, budget, self.line, self.at, self.sent, self.listed

    def settle(self) -> None:
        """The holder publishes its lease whenever it changes."""
        self.served = 1 << 60 if "no_lease" in self.left_out else self.lease

    def actions(self) -> Iterator[tuple[str, str, int]]:
        """(what happens, method, argument): those that may be tried."""
        yield "time passes", "tick", 0
        if self.alive and self.writes_left:
            yield "a write is fenced", "do_raise", self.writes_left
            yield "a write is fenced, the process hears of it later", "do_raise", -self.writes_left
        for name, one in self.writes.items():
            assert isinstance(name, int)
            if one.phase == "fenced" and self.alive:
                yield f"write {name} goes", "do_go", name
            if one.phase == "gone" and self.alive:
                yield f"write {name} is over", "do_over", name
            if one.held == "hold":
                yield f"the hold of write {name} ends", "expires", name
        way = self.connections
        if self.at is not None:
            queue = self.down.get(way, [])
            for index in range(len(queue) if "overtaking" in self.left_out else min(1, len(queue))):
                if index == 0 or queue[index][0] == "lease":
                    yield f"the holder receives {queue[index]}", "do_receive", index
        if self.alive and not self.broken and self.up.get(way):
            yield f"the writer receives {self.up[way][0]}", "do_answer", 0
        if self.current and not self.broken and self.lease - self.now_h < LEASE and not self._asked(way):
            yield "the holder asks for a lease", "do_ask", 0
        if self.breaks_left and self.at is not None and not self.broken:
            yield "the connection breaks", "do_break", 0
        if self.broken and self.line is not None:
            yield "the writer notices", "lost_at_writer", way
        if self.broken and self.at is not None:
            yield "the holder notices", "lost_at_holder", way
        if self.at is None and self.alive:
            yield "the holder connects", "do_connect", 0
        if self.stepping:
            yield "a step ends", "step_ends", 0
        elif any(one.phase in LEFT for one in self.writes.values()):
            yield "a step begins", "step_begins", 0
        if self.may_die and any(one.phase == "gone" for one in self.writes.values()):
            yield "the writer dies", "do_die", 0
        if self.greeting == 1:
            yield "the holder receives the hello", "do_hello", 0
        elif self.greeting == 2:
            yield "the writer is welcomed", "do_welcome", 0

    def _asked(self, way: int) -> bool:
        return any(one[0] in ("lease", "ask") for one in (*self.down.get(way, ()), *self.up.get(way, ())))

    def act(self, method: str, argument: int) -> None:
        """Carry one out. Forbidden: it is none that may happen."""
        getattr(self, method)(*(() if method in ("step_begins", "step_ends") else (argument,)))
        self.settle()

    def tick(self, _: int) -> None:
        self.now_w += 1
        self.now_h += 1
        if self.now_w >= self.dead_until:
            for one in self.writes.values():
                one.phase = "over" if one.phase == "dead" else one.phase

    def do_raise(self, number: int) -> None:
        self.writes_left -= 1
        self.raised(abs(number))
        if number > 0:
            self._tell(abs(number))

    def _tell(self, name: int) -> None:
        if self.line is not None and self.replayed:
            self.send(self.line, ("fence", name, 0), name)

    def do_go(self, name: int) -> None:
        self.go(name)
        if "early_ticket" in self.left_out:
            self._lift(name)

    def do_over(self, name: int) -> None:
        self.over(name)
        if "early_ticket" not in self.left_out:
            self._lift(name)

    def _lift(self, name: int) -> None:
        if self.line is not None and self.writes[name].told > 0:
            self.send(self.line, ("lift", name, 0), name)

    def do_receive(self, index: int) -> None:
        way = self.connections
        message = self.down[way][index]
        kind, name, duration = message
        self.take(way, message, down=True)
        if kind == "fence":
            self.told(name)
            if "stores" not in self.left_out:
                if name in self.writes:
                    self.hold(name)
                else:
                    self.unheld -= {name}  # it is over, and in the cache
        elif kind == "lift":
            self.release(name)
        elif kind == "note":
            self.reload(name)
        elif kind == "replayed":
            self.replay_ends()
            self.listed = frozenset()
        elif kind == "lease":
            self.leased(name, duration)
        if kind != "lease" and self.current and not self.broken:
            self.acknowledges(way, self._received(kind))
        self.unheld = frozenset()

    def _received(self, _: str) -> int:
        """Records that have arrived: all that were sent, but those on their way."""
        return self.sent - sum(one[0] != "lease" for one in self.down[self.connections])

    def do_answer(self, _: int) -> None:
        way = self.connections
        kind, number, _ = message = self.up[way][0]
        self.take(way, message, down=False)
        if kind == "hello":
            self.greeted(way)
            if "no_replay" not in self.left_out:
                for name, one in self.writes.items():
                    if one.phase in ("fenced", "gone"):
                        self.send(way, ("fence", name, 0), name)  # type: ignore[arg-type]
            self.send(way, ("replayed", 0, 0))
        elif kind == "ack":
            self.acknowledged(way, number)
        elif self.line == way:
            for name, one in self.writes.items():
                if one.phase in ("fenced", "gone") and not one.told and "catching_up" not in self.left_out:
                    self.send(way, ("fence", name, 0), name)  # type: ignore[arg-type]
                if one.phase == "over" and not one.told and "left_alone" not in self.left_out:
                    self.send(way, ("note", name, 0), name)  # type: ignore[arg-type]
            self.send(way, ("lease", number, LEASE))
            self.gave(self.now_w + LEASE)

    def do_ask(self, _: int) -> None:
        self.up.setdefault(self.connections, []).append(("ask", self.now_h, 0))

    def do_break(self, _: int) -> None:
        self.breaks_left -= 1
        self.broken = True
        self.up.pop(self.connections, None)

    def do_connect(self, _: int) -> None:
        self.connections += 1
        self.broken = False
        self.down.clear()
        self.up = {self.connections: [("hello", 0, 0)]}
        self.connects(self.connections)

    def do_die(self, _: int) -> None:
        self.alive = self.may_die = False
        self.broken = True
        self.up.clear()
        self.dead_until = self.now_w + LIFE
        self.dies()

    def do_hello(self, _: int) -> None:
        self.greeting = 2
        self.requires()
        self.settle()
        self.welcomes()

    def do_welcome(self, _: int) -> None:
        self.greeting = 0
        self.welcomed = True


@dataclass
class Searched:
    """`trace`: a shortest way to a state in which a write may be hidden. `hits`: states in which the holder answers
    from its cache and a write is over; if there are none, the search says nothing."""

    states: int
    hits: int
    trace: list[str] | None


def search(scenario: str, left_out: tuple[str, ...] = ()) -> Searched:
    """All states."""
    first = SearchedPair(SCENARIOS[scenario], left_out)
    first.settle()
    came: dict[object, tuple[object, str] | None] = {first.key(): None}
    queue, hits = deque([(first.key(), first)]), 0
    while queue:
        key, pair = queue.popleft()
        for label, method, argument in list(pair.actions()):
            after = pair.copy()
            try:
                after.act(method, argument)
            except Forbidden:
                continue
            reached = after.key()
            if reached in came:
                continue
            came[reached] = (key, label)
            if after.stale():
                return Searched(len(came), hits, _way(came, reached))
            hits += after.now_h < after.served and not after.writes_left and bool(after.connections)
            queue.append((reached, after))
    return Searched(len(came), hits, None)


def _way(came: dict[object, tuple[object, str] | None], key: object) -> list[str]:
    found = []
    while (step := came[key]) is not None:
        key, label = step
        found.append(label)
    return [*found[::-1], "a read may be answered from the cache now, and hide the write"]


if __name__ == "__main__":
    for name in SCENARIOS:
        print(f"{name}: {search(name)}")
    for rule, what in RULES.items():
        result = search(WHERE[rule], (rule, *filter(None, (REDUNDANT.get(rule),))))
        print(f"\n{rule} ({what}), {WHERE[rule]}: {result.states} states", *(result.trace or ["HOLDS"]), sep="\n    ")
