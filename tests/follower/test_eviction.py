"""A cache that is full: who leaves is who was asked for longest ago, as a whole; who is asked for comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.inventory import Inventory
from hms_cache_proxy.cache.last_used import LastUsed
from hms_cache_proxy.follower import eviction
from hms_cache_proxy.follower.eviction import LOOK_S, Eviction, Used
from tests.follower.stepping import CATALOG, DATABASE, Catalog, Stepping

NAMES = tuple(b"t%d" % number for number in range(6))
PARTITIONS = 300
NEVER_S = 3600.0


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with Catalog(tmp_path_factory.mktemp("metastore")) as made:
        for name in NAMES:
            made.table(name)
            made.add(name, [b"%05d" % number for number in range(PARTITIONS)])
        yield made


@pytest.fixture
def stepping(catalog: Catalog, tmp_path: Path) -> Iterator[Stepping]:
    """Everything is loaded, and was asked for an hour ago, the later tables longer ago."""
    with Stepping(tmp_path / "data", catalog) as made:
        made.settle()
        for number, name in enumerate(NAMES):
            made.used(name, NEVER_S + 10 * number)
        yield made


def limited(stepping: Stepping, factor: float, **settings: object) -> None:
    """From now on the cache may have so much of what it has."""
    most = int(stepping.writer.cache_bytes * factor)
    stepping.settings = replace(stepping.settings, max_bytes=most, **settings)  # type: ignore[arg-type]
    stepping.another_cycle()


def loaded(stepping: Stepping) -> list[bytes]:
    return [name for name in NAMES if stepping.loaded(name)]


def looked_again(stepping: Stepping) -> None:
    """It is time for another look at the tables without room, and everything that comes of it is done."""
    time.sleep(LOOK_S + 0.1)
    stepping.settle()


def reload(stepping: Stepping, name: bytes) -> None:
    stepping.fences.ticket([targets.partitions(CATALOG, DATABASE, name)])


def test_a_table_that_changes_does_not_leave(catalog: Catalog, stepping: Stepping) -> None:
    """What it replaces is on its way out, and is no growth."""
    limited(stepping, 1.1)
    for _ in range(4):
        reload(stepping, NAMES[0])
        reload(stepping, NAMES[1])
        assert stepping.cycle.step(stepping.settings.chunk).evicted == 0, "nothing is collected in between"
        assert loaded(stepping) == list(NAMES)
    stepping.settle()
    assert stepping.writer.cache_bytes <= stepping.settings.max_bytes
    assert stepping.same(catalog, NAMES[0]) == PARTITIONS


def test_who_was_asked_for_longest_ago_leaves(catalog: Catalog, stepping: Stepping) -> None:
    limited(stepping, 0.75)
    stepping.settle()
    left = loaded(stepping)
    assert left == list(NAMES[: len(left)]) and 2 <= len(left) <= 4
    assert stepping.writer.cache_bytes <= stepping.settings.max_bytes
    entry = stepping.table(NAMES[-1])
    assert (entry.body, entry.reason_not_loaded) == (None, "full")
    assert stepping.same(catalog, NAMES[0]) == PARTITIONS


def test_pinned_tables_stay(stepping: Stepping) -> None:
    limited(stepping, 0.75, pin=("d.t5", "d.t4"))
    stepping.settle()
    left = loaded(stepping)
    assert {b"t4", b"t5"} < set(left) and len(left) <= 4


def test_who_is_asked_for_comes_back(catalog: Catalog, stepping: Stepping) -> None:
    limited(stepping, 0.75)
    stepping.settle()
    before = loaded(stepping)
    stepping.used(NAMES[-1], -5)
    looked_again(stepping)
    after = loaded(stepping)
    assert NAMES[-1] in after
    assert set(after) < {*before, NAMES[-1]}, "others made room"
    assert NAMES[0] in after, "those that were asked for longest ago"
    assert stepping.writer.cache_bytes <= stepping.settings.max_bytes
    assert stepping.same(catalog, NAMES[-1]) == PARTITIONS


def test_nobody_leaves_for_another_while_they_are_used(stepping: Stepping) -> None:
    limited(stepping, 0.75)
    stepping.settle()
    before = loaded(stepping)
    for name in before:
        stepping.used(name, 0)
    stepping.used(NAMES[-1], -5)
    looked_again(stepping)
    assert loaded(stepping) == before


def test_a_limit_that_was_lowered_to_less_than_half(catalog: Catalog, tmp_path: Path) -> None:
    """The map was smaller than the file: what is to leave could not be written, at each start again."""
    with Stepping(tmp_path / "data", catalog) as before:
        before.settle()
        used = before.writer.cache_bytes
    most = used // 3
    with Stepping(tmp_path / "data", catalog, max_bytes=most, map_size=2 * most) as after:
        assert after.writer.rebuilt is None and after.writer.cache_bytes == used
        after.settle()
        assert after.writer.cache_bytes <= most
        stays = loaded(after)
        assert 0 < len(stays) < len(NAMES)
        assert all(after.same(catalog, name) == PARTITIONS for name in stays)


def test_after_a_clock_was_set_back(stepping: Stepping) -> None:
    """Marks of the time before it are an hour ahead. A table that is read now is loaded again in place of such ones."""
    limited(stepping, 0.75)
    stepping.settle()
    before = loaded(stepping)
    for name in before:
        stepping.used(name, -3600)
    stepping.used(NAMES[-1], -5)
    looked_again(stepping)
    assert NAMES[-1] in loaded(stepping)


def test_a_pinned_table_comes_back_unasked(stepping: Stepping) -> None:
    limited(stepping, 0.75)
    stepping.settle()
    assert NAMES[-1] not in loaded(stepping)
    stepping.settings = replace(stepping.settings, pin=("d.t5",))
    stepping.another_cycle()
    stepping.settle()
    assert NAMES[-1] in loaded(stepping)


def test_all_come_back_when_there_is_room(catalog: Catalog, stepping: Stepping) -> None:
    limited(stepping, 0.75)
    stepping.settle()
    for name in NAMES:
        stepping.used(name, -5)
    stepping.settings = replace(stepping.settings, max_bytes=1 << 30)
    stepping.another_cycle()
    stepping.settle()
    assert loaded(stepping) == list(NAMES)


@pytest.mark.parametrize("set_back_s", [0, 3600])
def test_a_pause_ends_when_a_clock_is_set_back(stepping: Stepping, set_back_s: int) -> None:
    """Nobody could be evicted, so there is another search a while later, by whatever clock."""
    full, now_s = Used(1000, 0.0, garbage=False), time.time()
    room = Eviction(900, (), LastUsed(stepping.uses))
    assert room.leaving(Inventory(None), full, (), now_s) == []
    with stepping.reader.snapshot() as snapshot:
        leaving = room.leaving(Inventory(snapshot), full, (), now_s + 1 - set_back_s)
    assert bool(leaving) == bool(set_back_s)


def test_sizes_of_tables_that_are_gone_are_forgotten(stepping: Stepping, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each table that was ever evicted, and dropped since, would take memory."""
    monkeypatch.setattr(eviction, "MOST_NEEDS", 0)
    room, now_s = Eviction(900, (), LastUsed(stepping.uses)), time.time()
    with stepping.reader.snapshot() as snapshot:
        left = room.leaving(Inventory(snapshot), Used(1000, 0.0, garbage=False), (), now_s)
        assert set(room._needs) == {one.key for one in left} != set()
        room.coming(Inventory(snapshot), Used(10, 0.0, garbage=False), {}, now_s)
    assert not room._needs
