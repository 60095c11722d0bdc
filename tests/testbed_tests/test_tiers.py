"""The tiers: what is found in a test, what is sampled, what is refused, who waits for whom."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import needs, tiers_plugin, turns_plugin
from tests.lengths import MOST, lasting
from tests.testbed import ledger


@dataclass
class Item:
    nodeid: str


def questions(*names: str, each: int) -> list[Any]:
    return [Item(f"tests/a.py::test_b[{number}-{name}]") for name in names for number in range(each)]


def names(items: list[Any]) -> set[str]:
    return {item.nodeid.rpartition("-")[2] for item in items}


def test_one_of_each_kind_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tiers_plugin.SEED, "1")
    items = [*questions("get_table", each=500), *questions("get_database", "drop", each=2)]
    taken = tiers_plugin._sample("f", items, 10)
    assert len(taken) == 10 and names(taken) == {"get_table]", "get_database]", "drop]"}
    assert taken == tiers_plugin._sample("f", items[::-1], 10), "the same seed, the same choice"
    monkeypatch.setenv(tiers_plugin.SEED, "2")
    assert taken != tiers_plugin._sample("f", items, 10)
    assert len(tiers_plugin._sample("f", items, 2)) == 3, "never less than one of each"


def test_each_script_is_taken_on_one_database(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = [f"script_{number}" for number in range(8)]
    items: list[Any] = [
        Item(f"tests/a.py::test_b[{database}-{script}]")
        for database in ("embedded", "embedded-postgresql")
        for script in scripts
    ]
    chosen = set()
    for seed in range(20):
        monkeypatch.setenv(tiers_plugin.SEED, str(seed))
        taken = tiers_plugin._on_either("f", items)
        assert sorted(item.nodeid[:-1].rpartition("-")[2] for item in taken) == scripts
        assert len([item for item in taken if "[embedded-postgresql-" in item.nodeid]) == len(scripts) / 2
        assert {item.nodeid for item in taken} == {item.nodeid for item in tiers_plugin._on_either("f", items[::-1])}
        chosen |= {item.nodeid for item in taken}
    assert len(chosen) == len(items), "any of them may be taken"


def test_each_value_of_each_parameter_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    items: list[Any] = [
        SimpleNamespace(nodeid=f"a::test_b[{store}-{kind}]", callspec=SimpleNamespace(params=dict(s=store, k=kind)))
        for store in ("sql", "thrift")
        for kind in ("hive42", "embedded")
    ]
    chosen = set()
    for seed in range(20):
        monkeypatch.setenv(tiers_plugin.SEED, str(seed))
        taken: list[Any] = tiers_plugin._paired("f", items)
        assert sorted(item.callspec.params["s"] for item in taken) == ["sql", "thrift"]
        assert sorted(item.callspec.params["k"] for item in taken) == ["embedded", "hive42"]
        assert [id(item) for item in taken] == [id(item) for item in tiers_plugin._paired("f", items[::-1])]
        chosen |= {item.nodeid for item in taken}
    assert len(chosen) == len(items), "any of them may be taken"


def test_what_has_a_choice_is_taken_on_sqlite() -> None:
    ids = ("embedded-postgresql-sql-x", "embedded-sql-x", "embedded-postgresql", "embedded-y", "hive42-x")
    taken = tiers_plugin._on_sqlite([Item(f"tests/a.py::test_b[{id_}]") for id_ in ids])  # type: ignore[misc]
    assert {item.nodeid.partition("[")[2][:-1] for item in taken} == {*ids} - {"embedded-postgresql-sql-x"}


def test_what_another_tier_has_run_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two runs together are the whole tier."""
    monkeypatch.setenv(tiers_plugin.SEED, "1")
    monkeypatch.setattr(tiers_plugin, "needs", lambda item: frozenset({"hive42"} if "hive42" in item.nodeid else ()))
    items: list[Any] = [Item("tests/a.py::test_without"), *questions("hive42", each=400)]
    for tier in ("test", "all"):
        quick, whole = (tiers_plugin._selected(one, None, items) for one in ("quick", tier))
        rest = tiers_plugin._selected(tier, "quick", items)
        assert quick == {id(items[0])} and not quick & rest and quick | rest == whole
    assert not tiers_plugin._selected("test", "all", items[:1])


def on_hive_31() -> str:
    return "hive31"


def calls(new_metastore: Callable[..., object]) -> object:
    return [new_metastore(flavour) for flavour in (on_hive_31(), "hive42-mariadb")]


def test_flavours_are_found_in_helpers() -> None:
    assert {"hive31", "hive42-mariadb"} <= needs._mentioned(calls)  # type: ignore[arg-type]
    assert "hive40" not in needs._mentioned(calls)  # type: ignore[arg-type]


@pytest.mark.parametrize("flavour", ["embedded-postgresql"])
def test_needs_of_this_test(request: pytest.FixtureRequest, flavour: str) -> None:
    assert needs.needs(request.node) >= {flavour, ledger.POSTGRESQL}
    assert needs.always_needs(request.node.parent, request.node.originalname, request.function) == frozenset()


def test_always_needed_by_a_fixture(request: pytest.FixtureRequest) -> None:
    def test_it(hms42: object, new_metastore: object) -> None: ...

    assert needs.always_needs(request.node.parent, "test_it", test_it) == {*needs.STARTS["hms42"], ledger.POSTGRESQL}


@pytest.mark.parametrize(
    ("arguments", "left_out"),
    [
        (["tests/a.py::test_a", "tests/a.py::test_b[x::y]"], {"test_c"}),
        (["tests/a.py::TestA"], {"test_a", "test_b", "test_c"}),
        (["tests/a.py::test_a", "tests/b.py"], set()),
        (["tests"], set()),
    ],
)
def test_functions_that_a_run_does_not_name(arguments: list[str], left_out: set[str]) -> None:
    module: Any = SimpleNamespace(name="a.py", config=SimpleNamespace(args=arguments))
    names = ("test_a", "test_b", "test_c")
    assert {name for name in names if tiers_plugin._is_not_named(module, name)} == left_out


def test_methods_of_a_class_that_a_run_names() -> None:
    named: Any = SimpleNamespace(name="TestA", config=SimpleNamespace(args=["tests/a.py::TestA"]))
    other: Any = SimpleNamespace(name="TestB", config=named.config)
    assert not tiers_plugin._is_not_named(named, "test_a") and tiers_plugin._is_not_named(other, "test_a")


def test_what_is_not_found_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ledger.ALLOWED, "hive42 postgresql")
    ledger.uses("hive42")
    ledger.uses(ledger.PROXY)
    with pytest.raises(ledger.Undeclared, match="this test uses mariadb"), ledger.starting(ledger.MARIADB):
        raise AssertionError("it starts")


def test_who_is_alone_waits_for_the_others(tmp_path: Path) -> None:
    gate, machine, other = ((tmp_path / name).open("w") for name in ("gate", "machine", "machine"))
    with gate, machine, other:
        turns_plugin._take_turn(gate, machine, alone=False)
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_UN)
        turns_plugin._take_turn(gate, machine, alone=True)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_a_length_that_ends_with_enough_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, work = 100.0, 0
    monkeypatch.setattr("tests.lengths.time.monotonic", lambda: now_s)
    going_on = lasting(2, lambda: work > 5)
    work = 9
    assert going_on(), "not long enough"
    now_s = 102.0
    assert not going_on()
    work = 5
    assert going_on(), "not enough yet"
    now_s = 100 + 2 * MOST
    assert not going_on(), "it never ends"
