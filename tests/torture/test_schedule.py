"""Which fault strikes when is a function of the seed, and nothing is left out."""

from __future__ import annotations

from collections import Counter

from tests.torture.faults import every
from tests.torture.schedule import planned

KINDS = {"short": 4.0, "middle": 8.0, "long": 30.0}


def test_a_seed_gives_the_same_plan_and_another_one_another() -> None:
    assert planned(7, 600, KINDS) == planned(7, 600, KINDS)
    assert planned(7, 600, KINDS) != planned(8, 600, KINDS)


def test_each_kind_comes_before_one_comes_again() -> None:
    for seed in range(20):
        plan = planned(seed, 3 * sum(KINDS.values()), KINDS)
        assert Counter(one.kind for one in plan) == dict.fromkeys(KINDS, 3)
        assert [one.at_s for one in plan] == sorted(one.at_s for one in plan)
        for first in range(0, len(plan), len(KINDS)):
            assert {one.kind for one in plan[first : first + len(KINDS)]} == set(KINDS)


def test_a_short_run_has_what_there_is_time_for() -> None:
    assert [one.kind for one in planned(1, 7, KINDS)] == ["short"]
    assert planned(1, 3, KINDS) == []


def test_what_takes_longer_than_there_is_time_is_planned_closer_together() -> None:
    plan = planned(3, 40, KINDS, rounds=2)
    assert [one.at_s for one in plan] == sorted(one.at_s for one in plan)
    assert plan[-1].at_s < 40 and Counter(one.kind for one in plan) == dict.fromkeys(KINDS, 2)


def test_three_rounds_of_everything_whatever_the_time() -> None:
    kinds = {name: kind.seconds for name, kind in every().items()}
    assert len(kinds) >= 30
    assert set(Counter(one.kind for one in planned(3, 1, kinds, rounds=3)).values()) == {3}
