"""The model of two proxies holds, and not without any of its rules; what simulated fleets do is a run of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns
from typing import Any

import pytest

from tests.peers.pair import RULES, Forbidden
from tests.peers.pair_replay import Event, Replay, traced
from tests.peers.pair_search import REDUNDANT, SCENARIOS, WHERE, search
from tests.peers.scenarios import SCENARIOS as FLEETS
from tests.peers.test_rules import STORIES
from tests.peers.traced import Recorder
from tests.peers.world import Stale

SEEDS, STEPS = 2, 300
CHANGING_LISTS = ("join", "cold", "orphan", "pipes_join")
"""Fleets in which a proxy need not be in everybody's list: who must welcome whom is not judged there."""


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with pytest.MonkeyPatch.context() as patch:
        yield Recorder(patch)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_holds(scenario: str) -> None:
    searched = search(scenario)
    assert searched.trace is None
    assert searched.hits > 100, "it says nothing where nothing is answered from the cache"


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in REDUNDANT])
def test_without_a_rule_it_does_not(rule: str) -> None:
    assert search(WHERE[rule], (rule,)).trace


@pytest.mark.parametrize("rule", REDUNDANT)
def test_two_rules_hold_each_other(rule: str) -> None:
    assert search(WHERE[rule], (rule, REDUNDANT[rule])).trace


@pytest.mark.parametrize("name", FLEETS)
def test_what_a_fleet_does_is_a_run_of_the_model(recorder: Recorder, name: str) -> None:
    for seed in range(SEEDS):
        FLEETS[name].run(5_000 + seed, STEPS)
        counts = recorder.replay(fixed=name not in CHANGING_LISTS).counts
        assert counts["received"] > 10 and counts["step_ends"] > 5


@pytest.mark.parametrize("rule", ["left_alone", "forgets_leases", "no_hold", "overtaking"])
def test_a_story_without_a_rule_is_none(recorder: Recorder, rule: str) -> None:
    STORIES[rule]()
    recorder.replay(fixed=True)
    with pytest.raises(Stale):
        STORIES[rule](rule)
    with pytest.raises(Forbidden):
        recorder.replay(fixed=True)


SEEN_AS = {
    "no_wait": "no_wait",
    "fence_after": "no_wait",
    "no_expiry": "no_wait",
    "early_ticket": "early_ticket",
    "running_step": "running_step",
    "no_lease": "late_lease",
    "receiver_clock": "no_lease",
    "old_lease": "no_lease",
    "no_replay": "no_replay",
    "no_hold": "no_hold",
    "no_catching_up": "no_wait",
}
"""Faults of a simulated fleet, and the rule of the model that its trace breaks first."""


def rule_that_forbids(recorder: Recorder, fault: str) -> str | None:
    """The rule that a trace of fleets with this fault breaks; None: they are runs of the model."""
    fleet = FLEETS["pipes" if fault == "no_catching_up" else "pair"]
    for seed in range(60):
        try:
            fleet.run(seed, STEPS, (fault,))
        except Stale:
            pass
        try:
            recorder.replay(fixed=True)
        except Forbidden as error:
            return error.rule
    return None


@pytest.mark.parametrize("fault", SEEN_AS)
def test_a_fleet_without_a_rule_is_seen(recorder: Recorder, fault: str) -> None:
    """Mostly before a read shows it."""
    assert rule_that_forbids(recorder, fault) == SEEN_AS[fault]


# Several processes write a trace: a worker's events are between any two of the peers' process


class Trace:
    """One of a writer W and a holder H, with a connection on which the hello has not left yet. Times are numbers of
    events, and a lease lasts for 100."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        for who in ("W", "H"):
            self.say(who, "began")
        self.connect("first")

    def say(self, who: str, kind: str, *arguments: Any) -> None:
        self.events.append((len(self.events), who, kind, list(arguments)))

    def connect(self, name: str) -> None:
        for who in ("W", "H"):
            self.say(who, "link", 1, name)
        self.say("H", "dialled", 1, "address", "W", 0)
        self.say("W", "accepted", 1, "H", 0)

    def sends(self, who: str, *message: Any) -> None:
        self.say(who, "sent", 1, list(message), len(self.events))

    def tells(self, who: str, *message: Any) -> None:
        """A message is sent, and arrives."""
        self.sends(who, *message)
        self.say("W" if who == "H" else "H", "received", 1, list(message))

    def replays(self, *standing: int) -> None:
        """The answer to a hello, with these fences."""
        self.say("W", "requires", "H")
        self.tells("W", "Welcome")
        for number in standing:
            self.fences(number)
        self.tells("W", "Replayed", 0)

    def fences(self, number: int) -> None:
        self.tells("W", "FenceRaised", "W", number)
        self.say("H", "holds", "W", "W", number)

    def leases(self) -> None:
        asked = len(self.events)
        self.tells("H", "LeaseAsked", asked)
        self.tells("W", "LeaseGiven", asked, 100, 0)
        self.say("H", "requires", "W")
        self.say("H", "serves", asked + 100)

    def is_a_run(self) -> None:
        Replay(hold=1000, write_age=0, outlasted=lambda duration: duration).run(self.events)


def test_a_worker_records_a_fence_while_a_replay_begins() -> None:
    """The process has looked at what stands, and hears of this one afterwards."""
    trace = Trace()
    trace.tells("H", "Hello")
    trace.say("W", "raised", 1)
    trace.replays()
    trace.fences(1)
    trace.tells("H", "Acknowledged", 2)
    trace.leases()
    trace.say("W", "goes", 1)
    trace.is_a_run()


@pytest.mark.parametrize("told", [True, False])
def test_a_replay_tells_of_what_has_stood_before(told: bool) -> None:
    trace = Trace()
    trace.say("W", "raised", 1)
    trace.tells("H", "Hello")
    trace.replays(*([1] if told else []))
    if told:
        trace.is_a_run()
    else:
        with pytest.raises(Forbidden, match="no_replay"):
            trace.is_a_run()


def test_a_fence_is_told_before_its_worker_asks() -> None:
    """It is recorded first; what gives a lease then, or compares, finds it there. It need not be told again."""
    trace = Trace()
    trace.tells("H", "Hello")
    trace.replays()
    trace.leases()
    trace.fences(1)
    trace.say("W", "raised", 1)
    trace.tells("H", "Acknowledged", 2)
    trace.leases()
    trace.say("W", "goes", 1)
    trace.is_a_run()


def test_a_connection_ends_before_a_worker_hears_that_its_write_may_go() -> None:
    """The fence was acknowledged, and stands."""
    trace = Trace()
    trace.tells("H", "Hello")
    trace.replays()
    trace.leases()
    trace.say("W", "raised", 1)
    trace.fences(1)
    trace.tells("H", "Acknowledged", 2)
    trace.say("W", "closed", 1, 0)
    trace.say("W", "goes", 1)
    trace.is_a_run()


def test_a_trace_is_read_while_it_is_written(tmp_path: Path) -> None:
    """When the first file has been read, a message is sent and received. The second file is a pipe: it says when."""
    path = tmp_path / "trace"

    def line(kind: str, number: int) -> str:
        return json.dumps([clock_gettime_ns(CLOCK_BOOTTIME), "W", kind, [number]]) + "\n"

    def write() -> None:
        with open(f"{path}.2", "w") as second:
            with open(f"{path}.1", "a") as first:
                first.write(line("sent", 2))
            second.write(earlier + line("received", 2))

    Path(f"{path}.1").write_text(line("sent", 1))
    earlier = line("received", 1)
    os.mkfifo(f"{path}.2")
    with ThreadPoolExecutor(1) as threads:
        written = threads.submit(write)
        assert [(kind, number) for _, _, kind, number in traced(path)] == [("sent", [1]), ("received", [1])]
        written.result()
