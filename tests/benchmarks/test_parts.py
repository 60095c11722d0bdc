"""Parts of the benchmark that are measured apart have their place on the page; a row's name is what counters say."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import MagicMock

import pytest

import benchmarks
from benchmarks import parts
from benchmarks.measure import Result, Server, counting
from benchmarks.servers import HIT, HIVE, MISS, REFRESH, called

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(benchmarks.__file__).parent.glob("[a-z]*.py")))
def test_every_benchmark_can_be_imported(name: str) -> None:
    """Each is a command that a page names; no test runs most of them."""
    importlib.import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("part", parts.PARTS)
def test_a_part_has_a_place_on_the_page(part: str) -> None:
    assert f"<!-- begin figures {part} -->" in PAGE.read_text("utf-8")


def test_a_relayed_answer_is_never_called_a_hit() -> None:
    assert called(HIT, {"hit": 7}) == HIT
    assert called(HIT, {"hit": 6, "miss": 1}) == "proxy, 6 of 7 hits"
    assert called(HIT, {"relay": 7}) == MISS
    assert called(MISS, {"hit": 7}) == HIT
    assert called(HIVE, {}) == HIVE


def test_what_was_answered_before_is_not_counted() -> None:
    answers = iter(({"hit": 5, "miss": 2}, {"hit": 9, "miss": 2, "relay": 1}))
    with counting(Server(HIT, 1, (), lambda: next(answers))) as counted:
        pass
    assert counted == {"hit": 4, "relay": 1}
    with counting(Server(HIVE, 1)) as counted:
        pass
    assert counted == {}


def test_the_refresh_of_cached_store_is_its_setting() -> None:
    assert REFRESH.endswith("s") and int(REFRESH[:-1]) > 0


def test_a_goal_of_the_cache_needs_hits() -> None:
    from benchmarks.goals import all_hits

    result = Result(1, 1, 1, 1, 1, 1, 1, 10, {"hit": 10})
    assert all_hits(result)
    result.counted["miss"] = 1
    assert not all_hits(result)


def test_a_part_is_asked_warm_then_for_the_first_time_then_again(monkeypatch: pytest.MonkeyPatch) -> None:
    row = parts.Asked("call", lambda number: b"%d" % number, 3)
    same = parts.Asked("call", lambda _: b"0", 3, other=False)
    sent: list[list[bytes]] = []

    def varied(generator: Path, server: Server, messages: Iterable[bytes], *, connections: int = 1) -> Result:
        sent.append(list(messages))
        return Result(1, 1, 1, 1, 1, 1, 1, 3, {"hit": 2, "miss": 1})

    monkeypatch.setattr(parts.single, "varied", varied)
    rows = list(parts._asked(Path(), Server(HIT, 1), row))
    assert sent == [[b"4", b"5", b"6"], [b"1", b"2", b"3"], [b"1", b"2", b"3"]]
    assert [cells[1:4] for cells in rows] == [
        ["for the first time", 1, "proxy, 2 of 3 hits"],
        ["again", 1, "proxy, 2 of 3 hits"],
    ]
    assert all(len(cells) == len(parts.HEAD) and cells[-2:] == [2, 1] for cells in rows)
    assert [cells[1] for cells in parts._asked(Path(), Server(HIT, 1), same)] == ["again"]
    sent.clear()
    once = parts.Asked("call", lambda number: b"%d" % number, 3, warm=1, connections=8, again=False)
    assert [cells[1:3] for cells in parts._asked(Path(), Server(HIT, 1), once)] == [["for the first time", 8]]
    assert sent == [[b"4"], [b"1", b"2", b"3"]]


def test_cold_calls_are_all_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of one connection from those of eight: else these could be given what was kept for the others."""
    monkeypatch.setattr(parts, "MetastoreClient", MagicMock())
    monkeypatch.setattr(parts.contents, "fill_tables", MagicMock())
    monkeypatch.setattr(parts.contents, "fill", MagicMock())
    monkeypatch.setattr(parts, "COLD_TABLES", 50)
    seen: set[bytes] = set()
    for row in parts.cold(MagicMock(), MagicMock()):
        messages = [row.message(at) for at in range(1, min(row.calls, 60) + 1)]
        assert len(set(messages)) == len(messages) and seen.isdisjoint(messages), row.label
        seen.update(messages)
