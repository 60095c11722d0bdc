"""One run: start the clients, let the faults strike as planned, check, report.

Job: `tortured(world, plan, ...)` gives an `Outcome`. Must not know: how a fault is made.
Invariants: a strike begins when the one before it has recovered; all that was planned strikes, however long it takes,
unless there is one from which a proxy does not recover.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.history.registers import Register, Torn
from tests.history.run import ways
from tests.history.threads import LOST
from tests.history.workload import UNREADABLE
from tests.slowdown import Measured, Slowdown, mean
from tests.testbed.client import MetastoreClient
from tests.torture import afterwards, attackers
from tests.torture.budget import Budget
from tests.torture.faults import floods
from tests.torture.faults.kinds import KINDS, GoesOn
from tests.torture.gate import Gate
from tests.torture.latencies import too_many
from tests.torture.pulse import Pulse, Signs
from tests.torture.schedule import Planned
from tests.torture.workload import OwnChecker, TortureWorkload
from tests.torture.world import MOST_PATIENCE_S, NOTICED_S, REQUEST_TIMEOUT_S, UNCONFIRMED_S, World

RECOVERY_S = 5.0
"""After what failed answers again, until every proxy answers from the cache and acknowledges a write."""
LATENCY = 3.0
"""So many times as long as in calm may the slowest in a hundred reads take while other clients misbehave."""
BACK_S = 1.0
"""Before a fault's end, where something may work again already."""
LEAST_S = 0.5
"""Shorter times are not judged."""
JUDGED, SHARE = 6, 0.75
"""So many times are judged at least; in this share of them it must be so."""
LONG_S = 60.0
"""A run of this length looks at what is left, too: until that is gone it may take as long as a lost write."""
FENCED = {"miss fence", "miss floor"}
CALM = "calm"
PORT = re.compile(r"(?<=127\.0\.0\.1)\W+\d+")
SETTLE_S = 300.0
"""A bound on waiting, however slow the machine is; nobody waits longer than it takes."""
CALM_S = 3.0
"""Before the first fault, and before clients misbehave: what the slowest reads take then is compared."""


@dataclass(frozen=True, slots=True)
class Struck:
    """One strike. `recovery_s`: of the slower proxy; None: it did not recover. `slowdown`: of the machine meanwhile."""

    kind: str
    at_s: float
    lasted_s: float
    recovery_s: float | None
    slowdown: float
    signs: list[Signs]
    relayed: float = 0  # steady reads meanwhile that were no hits

    @property
    def ended_s(self) -> float:
        """When all had recovered, or nobody waited any longer."""
        return self.at_s + self.lasted_s + (MOST_PATIENCE_S if self.recovery_s is None else self.recovery_s)

    @property
    def told(self) -> str:
        """In words."""
        return f"{self.lasted_s} s, then {'; '.join(map(str, self.signs))}, slowdown {self.slowdown}"

    @property
    def fenced(self) -> bool:
        """Did a proxy read from the metastore after the usual time, for fences alone? A transaction's end whose outcome
        is not known is a write to anything, and stays fenced for as long as it may still be carried out."""
        allowed_s = RECOVERY_S * self.slowdown
        slow = [one for one in self.signs if one.slowest_s is None or one.slowest_s > allowed_s]
        return bool(slow) and all(one.misses and one.misses.keys() <= FENCED for one in slow)

    @property
    def late(self) -> bool:
        """Later than is allowed on a machine that is so slow."""
        return self._takes_longer(self.slowdown)

    @property
    def late_by_the_clock(self) -> bool:
        """Later than is allowed on a usual machine."""
        return self._takes_longer(1.0)

    def _takes_longer(self, slowdown: float) -> bool:
        """A request's timeout is by the clock on any machine."""
        allowed_s = (RECOVERY_S + KINDS[self.kind].grace_s) * slowdown + REQUEST_TIMEOUT_S * self.fenced
        return self.recovery_s is None or self.recovery_s > allowed_s


@dataclass
class Outcome:
    """`wrong` fails a run anywhere; `slow` where times are checked."""

    struck: list[Struck] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    p99_ms: dict[str, float] = field(default_factory=dict)
    slowdown: dict[str, float] = field(default_factory=dict)

    @property
    def kinds(self) -> Counter[str]:
        """How often each has struck."""
        return Counter(one.kind for one in self.struck)

    def summary(self) -> str:
        """In lines."""
        work = "a fixed piece of work took so many times as long as on a usual machine"
        lines = [f"{work}: {', '.join(f'{factor:g} {when}' for when, factor in self.slowdown.items())}"]
        lines += [f"{what}: {count:g}" for what, count in self.counts.items()]
        lines += [f"{count} {what}" for what, count in self.failures.items()]
        lines += [f"p99 {ms} ms: {kind}" for kind, ms in self.p99_ms.items()]
        lines += [f"WRONG: {one}" for one in self.wrong[:20]] + [f"SLOW: {one}" for one in self.slow]
        return "\n".join(lines)


def tortured(world: World, plan: Sequence[Planned], *, seconds: float, prefix: str = "torture") -> Outcome:
    """Let clients run for so long at least, and while anything of the plan is left."""
    outcome = Outcome()
    checker = OwnChecker(world, bound_s=UNCONFIRMED_S + 1)
    gate = Gate()
    workload = TortureWorkload(world, checker, prefix, gate)
    pulses = [Pulse(world, number, gate) for number in range(len(world.sides))]
    budget = Budget(world)
    slowdown = Slowdown()
    workload.create(copies=2)
    if not world.prepared:
        for pulse in pulses:
            pulse.create()
        attackers.prepared(world.truth)
        floods.prepared(world.truth)
        world.prepared = True
    world.still = gate.closed
    world.restored = lambda: outcome.wrong.extend(after_restore(world, workload))
    world.slowdown = slowdown.now
    began_s = time.monotonic()
    with ExitStack() as running:
        threads: list[Slowdown | Budget | Pulse] = [slowdown, budget, *pulses]
        for thread in threads:
            thread.start()
            running.callback(thread.stop)
        workload.begin(writers=2, readers=2, lockers=1)
        running.callback(workload.stop)
        time.sleep(min(CALM_S, seconds / 4))
        for planned in plan:
            wait_s = min(CALM_S, seconds / 4) if KINDS[planned.kind].clients else 0.0
            time.sleep(max(wait_s, began_s + planned.at_s - time.monotonic()))
            outcome.struck.append(strike(world, planned, pulses, began_s, slowdown))
            if outcome.struck[-1].recovery_s is None:
                break  # what strikes a proxy that is broken shows nothing
        time.sleep(max(0.0, began_s + seconds - time.monotonic()))
    judged(world, outcome, workload, pulses, budget)
    if seconds >= LONG_S:
        outcome.wrong += settled(lambda: left(world, pulses))
    going_on(outcome, pulses, began_s)
    judge_latencies(outcome, pulses, slowdown, began_s)
    outcome.counts["seconds"] = round(time.monotonic() - began_s, 1)
    return outcome


def strike(world: World, planned: Planned, pulses: Sequence[Pulse], began_s: float, slowdown: Slowdown) -> Struck:
    """One fault, and what comes after it."""
    kind = KINDS[planned.kind]
    relayed = -sum(pulse.misses() for pulse in pulses)
    at_s = time.monotonic()
    try:
        kind.strike(world, random.Random(planned.seed))
    except Exception as error:
        error.add_note(f"{planned.kind} with seed {planned.seed} at {at_s - began_s:.1f} s")
        raise
    healed_s, patience_s = time.monotonic(), world.patience_s
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda pulse: pulse.recovered(healed_s, patience_s), pulses))
    slowest = [one.slowest_s for one in found]
    recovery_s = None if None in slowest else max(one for one in slowest if one is not None)
    factor = round(slowdown.between(healed_s, time.monotonic()), 2)
    began, lasted = round(at_s - began_s, 1), round(healed_s - at_s, 1)
    relayed += sum(pulse.misses() for pulse in pulses)
    struck = Struck(planned.kind, began, lasted, recovery_s, factor, found, max(0.0, relayed))
    print(f"{struck.at_s:7.1f} s {struck.kind}: {struck.told}", flush=True)
    return struck


def judge_latencies(outcome: Outcome, pulses: Sequence[Pulse], slowdown: Slowdown, began_s: float) -> None:
    """Of steady reads: from begin to end while nothing is broken, and those that begin while clients misbehave. What
    disturbs the machine then more than in calm is allowed for. While a write to anything is in progress reads are
    relayed: as many of the slowest as there were are no hits, and are not judged."""
    took: dict[str, list[float]] = defaultdict(list)
    for call in (call for pulse in pulses for call in pulse.reads):
        at_s = call.began_s - began_s
        kind = during(outcome.struck, at_s)
        if kind is not None and (kind != CALM or during(outcome.struck, at_s + call.took_s) == CALM):
            took[kind].append(call.took_s)
    factors: dict[str, list[Measured]] = defaultdict(list)
    for one in slowdown.measured:
        if kind := during(outcome.struck, one.began_s - began_s):
            factors[kind].append(one)
    outcome.slowdown = {"at the start": slowdown.at_start, "in the mean": mean(slowdown.measured)}
    outcome.slowdown |= {f"during {kind}": mean(measured) for kind, measured in factors.items()}
    outcome.p99_ms = {kind: 1000 * sorted(times)[int(0.99 * (len(times) - 1))] for kind, times in took.items()}
    calm_ms = outcome.p99_ms.get(CALM, 0.0)
    for kind, found_ms in outcome.p99_ms.items():
        relayed = sum(one.relayed for one in outcome.struck if one.kind == kind)
        hits = sorted(took[kind])[: max(0, len(took[kind]) - int(relayed))]
        more = max(1.0, mean(factors[kind]) / mean(factors[CALM])) if factors[kind] and factors[CALM] else 1.0
        if too_many(hits, LATENCY * more * calm_ms / 1000):
            outcome.slow.append(f"p99 {found_ms:.1f} ms with {kind}, {calm_ms:.1f} ms in calm, slowdown {more:.1f}")


def during(struck: Sequence[Struck], at_s: float) -> str | None:
    """Calm, or the kind if only clients misbehave then; None: something is broken, or recovers."""
    one = next((one for one in struck if one.at_s <= at_s <= one.ended_s), None)
    if one is None:
        return CALM
    return one.kind if KINDS[one.kind].clients and at_s < one.at_s + one.lasted_s else None


def going_on(outcome: Outcome, pulses: Sequence[Pulse], began_s: float) -> None:
    """What goes on while a fault lasts: was it so, in how many of the times in which there was time for it?

    Not in all: behind a lost write to anything nothing is a hit, and a call may be under way when the fault begins."""
    for name, kind in sorted(KINDS.items()):
        if kind.goes_on is None:
            continue
        spans = [
            (began_s + one.at_s + NOTICED_S * one.slowdown, began_s + one.at_s + one.lasted_s - BACK_S)
            for one in outcome.struck
            if one.kind == name
        ]
        spans = [(first_s, last_s) for first_s, last_s in spans if last_s > first_s + LEAST_S]
        done = [pulse.greetings if kind.goes_on is GoesOn.GREETINGS else pulse.writes for pulse in pulses]
        found = [
            any(first_s <= call.began_s and call.began_s + call.took_s <= last_s for call in calls)
            for first_s, last_s in spans
            for calls in done
        ]
        if found:
            outcome.counts |= {f"{name}: so often it was seen whether {kind.goes_on.value}": len(found)}
        if len(found) >= JUDGED and sum(found) < SHARE * len(found):
            outcome.slow.append(f"in {sum(found)} of {len(found)} times {kind.goes_on.value} during {name}")


def judged(world: World, outcome: Outcome, workload: TortureWorkload, pulses: Sequence[Pulse], budget: Budget) -> None:
    """What was wrong, what was slow, how much was done."""
    checker = workload.own
    outcome.wrong += workload.errors
    outcome.wrong += [wrong for pulse in pulses for wrong in pulse.wrong]
    outcome.wrong += not_converged(world, [*workload.live, *workload.retired])
    outcome.wrong += lost_writes(world, workload)
    outcome.wrong += settled(lambda: floods.differing(world))
    outcome.wrong += checker.violations
    outcome.wrong += world.complaints
    outcome.slow += [f"{one.kind} at {one.at_s} s: {one.told}" for one in outcome.struck if one.late]
    outcome.slow += budget.exceeded
    outcome.counts |= {
        "reads": checker.reads,
        "writes": workload.counts["writes"],
        "increments": workload.counts["increments"],
        "objects under a lost write": workload.retirements,
        "recoveries behind a lost write to anything": sum(one.fenced for one in outcome.struck),
        "recoveries that a usual machine would have to make sooner": sum(
            one.late_by_the_clock for one in outcome.struck
        ),
        "answers excused, of Hive without a database": checker.excused,
        "steady reads": sum(len(pulse.reads) for pulse in pulses),
        "hits": sum(side_hits(world)),
        **budget.peaks(),
    }
    for what, count in workload.counts.items():
        if "failed" in what:
            outcome.failures[PORT.sub("PORT", what)] += count


def left(world: World, pulses: Sequence[Pulse]) -> list[str]:
    """What has not been cleared away, though there is something to follow."""
    with MetastoreClient(*world.truth) as client:
        for pulse in pulses:
            pulse.beat.write(client, len(pulse.writes))
    return afterwards.left(world)


def after_restore(world: World, workload: TortureWorkload) -> list[str]:
    """What each proxy says of the objects that went back: within its bound, what the metastore says."""
    time.sleep(UNCONFIRMED_S)
    return not_converged(world, workload.begin_again())


def side_hits(world: World) -> list[float]:
    """Of each proxy since it was last started."""
    told = [side.proxy.told_requests() for side in world.sides]
    return [sum(count for (_, how, _), count in rows.items() if how == "hit") for rows in told]


def settled(look: Callable[[], list[str]]) -> list[str]:
    """What it says at last: nothing, or after a while."""
    deadline = time.monotonic() + SETTLE_S
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def not_converged(world: World, registers: Sequence[Register]) -> list[str]:
    """When writes have ended, every way to read every object gives the metastore's answer through every proxy."""
    different = list(registers)

    def look() -> list[str]:
        nonlocal different
        said: list[str] = []
        still: dict[str, Register] = {}
        for register in different:
            truth = told(register, world.metastore.port)
            for side in world.sides:
                answers = told(register, side.front.port)
                if answers != truth:
                    said.append(f"not converged: {register.key} on {side.front.port}: {answers}, not {truth}")
                    still[register.key] = register
        different = list(still.values())
        return said

    return settled(look)


def told(register: Register, port: int) -> object:
    """By every way to read it; what it fails with, if it fails."""
    try:
        return ways(register, port)
    except (*LOST, *UNREADABLE, Torn) as error:
        return f"{type(error).__name__}"


def lost_writes(world: World, workload: TortureWorkload) -> list[str]:
    """Acknowledged ones that the metastore does not have."""
    lost = []
    with MetastoreClient(*world.truth) as client:
        for counter in workload.counters:
            found = counter.register.by_get_table_req(client)
            if not counter.increments <= found <= counter.increments + counter.lost:
                lost.append(f"{counter.register.key}: {counter.increments} increments under locks left it at {found}")
    for register in workload.live:
        found = max(ways(register, world.metastore.port).values())
        if found != (-1 if "Recreated" in register.key and register.version % 2 else register.version):
            lost.append(f"{register.key}: {found} in the metastore, {register.version} was acknowledged")
    return lost
