"""How work is cut, and which old snapshots may go: pure decisions."""

from __future__ import annotations

import calendar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hms_cache_proxy.pipeline.publish import ABANDONED_S, new_name, outdated
from hms_cache_proxy.pipeline.ranges import PartitionStretch, tasks


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 10_000), max_size=60), st.integers(1, 9))
def test_tasks_are_consecutive_and_few(costs: list[int], most: int) -> None:
    stretches = [PartitionStretch(place, (), cost) for place, cost in enumerate(costs)]
    found = tasks(stretches, most)
    assert [stretch for some in found for stretch in some] == stretches
    assert len(found) <= most and all(found)
    if stretches:
        largest = max(sum(stretch.cost for stretch in some) for some in found)
        assert largest <= sum(costs) / most + max(costs) + 1


NAMES = [f"snapshot-2026010{day}T000000Z-0000000{day}" for day in range(1, 6)]
NOW_S = float(calendar.timegm((2026, 1, 5, 12, 0, 0)))


def test_complete_ones_that_are_not_needed_go() -> None:
    assert outdated(NAMES, set(NAMES), {NAMES[3], NAMES[4]}, NOW_S) == NAMES[:3]
    assert outdated(NAMES, set(NAMES), {NAMES[0], NAMES[4]}, NOW_S) == NAMES[1:4], "an increment needs an older one"
    assert outdated(NAMES, set(NAMES), set(NAMES), NOW_S) == []
    assert outdated(NAMES, {NAMES[0], NAMES[3]}, {NAMES[3]}, NOW_S) == [NAMES[0], NAMES[1], NAMES[2]]


def test_what_is_being_made_stays() -> None:
    """Without a manifest, until it is a day old."""
    complete = set(NAMES[:4])
    assert outdated(NAMES, complete, complete, NOW_S) == []
    assert outdated(NAMES, complete, complete, NOW_S + ABANDONED_S) == [NAMES[4]]


def test_names_are_unique_and_understood() -> None:
    names = [new_name() for _ in range(100)]
    first = names[0]
    assert len(set(names)) == 100
    assert [name[:-3] for name in names] == sorted(name[:-3] for name in names), "in the order in which they were made"
    assert outdated([first], set(), set(), NOW_S) == []
