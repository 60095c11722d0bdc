"""Floors of one connection."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.consistency.floors import MAX_FLOORS, Floors


def test_only_what_was_shown_is_held_back_until_a_later_step() -> None:
    floors = Floors()
    assert not floors.block([b"a"], 0)
    floors.lift([b"a", b"d"], 100)
    assert floors.block([b"a"], 99) and floors.block([b"x", b"d"], 100)
    assert not floors.block([b"x"], 99)
    assert not floors.block([b"a"], 101)
    assert floors.highest_ns == 0, "a step that passed them all empties them"


def test_everything() -> None:
    floors = Floors()
    floors.lift([ALL], 100)
    assert floors.block([b"x"], 100) and not floors.block([b"x"], 101)


def test_what_depends_on_everything_is_as_new_as_all_that_was_shown() -> None:
    """For instance the names of tables with a certain parameter."""
    floors = Floors()
    floors.lift([b"a"], 100)
    assert floors.of([b"x", ALL]) == 100
    assert floors.block([ALL], 100) and not floors.block([ALL], 101)


def test_too_many_become_one() -> None:
    floors = Floors()
    floors.lift((b"%d" % number for number in range(MAX_FLOORS + 1)), 100)
    assert floors.block([b"never shown"], 100)


def test_nothing_shown_is_no_floor() -> None:
    floors = Floors()
    floors.lift([], 100)
    assert floors.highest_ns == 0 and not floors.block([b"a"], 1)


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"*"]), st.integers(1, 50), st.integers(0, 60))))
def test_never_older_than_shown(moves: list[tuple[bytes, int, int]]) -> None:
    """Against a model without forgetting: time and confirmations only move forward."""
    floors, now, began = Floors(), 0, 0
    shown: dict[Any, int] = {}
    for target, step, behind in moves:
        now += step
        began = max(began, now - behind)
        blocked = floors.block([target], began)
        counted = shown.values() if target == b"*" else (shown.get(target, 0), shown.get(b"*", 0))
        required = max(counted, default=0)
        assert blocked or required < began or required == 0
        if required == 0 or required < began:
            assert not blocked or any(when >= began for when in shown.values())
        floors.lift([target], now)
        shown[target] = now


def test_the_latest_floor_of_some_targets() -> None:
    floors = Floors()
    assert floors.of([b"a"]) == floors.of([]) == 0
    floors.lift([b"a"], 5)
    floors.lift([b"b"], 7)
    assert (floors.of([b"a"]), floors.of([b"a", b"b"]), floors.of([b"c"])) == (5, 7, 0)
    floors.lift([ALL], 6)
    assert (floors.of([b"a"]), floors.of([b"b"]), floors.of([])) == (6, 7, 6)


def test_what_is_in_all_tables_of_a_database_and_one_of_them() -> None:
    every, one, other = targets.members(b"c", b"d"), targets.table(b"c", b"d", b"t"), targets.table(b"c", b"dx", b"t")
    floors = Floors()
    floors.lift([one], 100)
    assert (floors.of([every]), floors.of([targets.members(b"c", b"dx")])) == (100, 0)
    assert floors.block([every], 100) and not floors.block([targets.members(b"c", b"dx")], 100)
    assert not floors.block([every], 101)
    floors.lift([every], 200)
    assert (floors.of([one]), floors.of([other])) == (200, 0)
    assert floors.block([one], 200) and not floors.block([other], 200)
    assert not floors.block([targets.tables(b"c", b"d")], 200)
    assert not floors.block([one], 201) and not floors.block([one], 0)
