"""Which tests a run takes: the tiers quick, test, all and every, chosen by what each test starts.

Job: `--tier`, the selection, the sampling of large sets of questions by a seed, and the guard that lets a test start
nothing but what tests/needs.py finds in it.
Must not know: how a need is found, how a server starts.
Invariants: no mark chooses a tier. A test that is named by its id is taken in any tier. Of the items of one function
that differ in a number only (17-get_table, 18-get_table), one at least is taken, so no kind of question falls out.
The seed is SEED, or new for each run; it is printed, and is pytest-randomly's and hypothesis's, too. `random` in a test
depends on it and on the test's id alone, in a fixture on it and on the fixture's name. Worker processes of pytest-xdist
inherit it by the environment.
"""

from __future__ import annotations

import os
import random
import re
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from tests.chance import for_hypothesis
from tests.needs import always_needs, needs
from tests.testbed import ledger

SEED: Final = "SEED"
_DATABASE: Final = re.compile(r"(?<=[\[-])embedded(-postgresql)?(?=[-\]])")
_NUMBER: Final = re.compile(r"(?<=[\[-])\d+(?=[-\]])")


@dataclass(frozen=True, slots=True)
class Tier:
    """What may be started (None: anything), and how many items of a function are taken.

    `sampled`: of functions that start a server; `elsewhere`: of those that start another one than `USUAL`;
    `by_parameter`: of functions with this parameter; `scenarios`: of those in SCENARIOS. None: all of them.
    `pairs`: of those IN_PAIRS, only so many that each value of each parameter is taken.
    `one_database`: items that differ in the embedded metastore's database only are taken once: on SQLite, or, of
    ON_EITHER, half of them on each.
    """

    starts: frozenset[str] | None
    sampled: int | None = None
    elsewhere: int | None = None
    by_parameter: tuple[tuple[str, int], ...] = ()
    scenarios: int | None = None
    pairs: bool = False
    one_database: bool = False


WITHOUT_SERVER: Final = frozenset(("embedded",))
USUAL: Final = frozenset(("embedded", "hive42", ledger.POSTGRESQL, ledger.PROXY))

TIERS: Final = {
    "quick": Tier(WITHOUT_SERVER),
    "test": Tier(
        USUAL | {"embedded-postgresql"},
        sampled=100,
        elsewhere=80,
        by_parameter=(("planted", 1),),
        scenarios=1,
        pairs=True,
        one_database=True,
    ),
    "all": Tier(None, elsewhere=300),
    "every": Tier(None),
}


SCENARIOS: Final = frozenset(
    (
        "tests/differential/test_differential.py::test_reads_are_equal",
        "tests/follower/test_following.py::test_random_changes",
        "tests/ops/test_damaged_fences.py::test_hits_come_back_and_nothing_is_lost_meanwhile",
        "tests/ops/test_damaged_lock_files.py::test_hits_come_back",
        "tests/ops/test_without_metastore.py::test_a_new_client_logs_in_and_is_served",
        "tests/visibility/test_kinds.py::test_two_users",
        "tests/history/test_history.py::test_no_violation_before_the_embedded_metastore",
        "tests/write_ids/test_differential.py::test_reads_are_equal",
    )
)
"""Long tests that do the same in several settings."""

IN_PAIRS: Final = frozenset(
    (
        "tests/follower/test_transactions.py::test_every_key_value_commit_is_seen",
        "tests/follower/test_transactions.py::test_renames_between_the_write_and_the_commit",
        "tests/follower/test_transactions.py::test_renames_while_the_follower_is_away",
    )
)
"""Tests of every metastore with every store. Each metastore and each store is taken once: which of them go together,
the seed chooses."""

ON_EITHER: Final = frozenset(
    (
        "tests/embedded/test_files.py::test_files",
        "tests/embedded/test_files.py::test_overlapping_files",
        "tests/embedded/test_flows.py::test_flow",
        "tests/embedded/test_like_hive.py::test_events",
        "tests/embedded/test_like_hive.py::test_replies",
    )
)
"""Scripts that Hive 4.2 and an embedded metastore answer alike, whichever database the latter has: about half run on
SQLite, the others on PostgreSQL."""

SELDOM_CAUGHT: Final = frozenset(("tag_before_objects", "learned_early"))
"""Planted bugs that a busy machine may not show in their time: where one of each kind is taken, it is another."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=TIERS,
        default="all",
        help="quick: without a server; test: Hive 4.2 on PostgreSQL and the embedded metastore, questions sampled;"
        " all (default): every metastore, database and client, repeats sampled; every: nothing left out",
    )
    parser.addoption(
        "--after",
        choices=TIERS,
        help="leave out the tests that this tier takes: they have been run with the same SEED",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    seed = os.environ[SEED] = os.environ.get(SEED) or str(random.SystemRandom().randrange(100_000))
    if getattr(config.option, "randomly_seed", None) == "default":
        config.option.randomly_seed = int(seed)
    os.environ[ledger.TIER] = config.option.tier
    for_hypothesis(config)


def pytest_report_header() -> str:
    return _told()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(_told())


def _told() -> str:
    seed = os.environ[SEED]
    return f"tier {os.environ[ledger.TIER]}, seed {seed} (SEED={seed} makes the same choices again)"


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    random.seed(f"{os.environ[SEED]} {fixturedef.argname}")
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    random.seed(f"{os.environ[SEED]} {pyfuncitem.nodeid.partition('@')[0]}")  # pytest-xdist adds the group
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """No items of a function of which nothing is to run, because making items is a good part of a collection."""
    if isinstance(obj, type) or not collector.istestfunction(obj, name):
        return None
    if _names_tests(collector.config):
        return [] if _is_not_named(collector, name) else None
    starts = TIERS[collector.config.option.tier].starts
    return None if starts is None or always_needs(collector, name, obj) <= starts else []


def _names_tests(config: pytest.Config) -> bool:
    return any("::" in str(argument) for argument in config.invocation_params.args)


def _is_not_named(collector: pytest.Collector, name: str) -> bool:
    """Whether the run names tests only, and neither this function nor its class."""
    wanted = [str(argument).partition("[")[0].split("::")[1:] for argument in collector.config.args]
    return all(wanted) and not any(name in names or collector.name in names for names in wanted)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _names_tests(config):
        return
    taken = _selected(config.option.tier, config.option.after, items)
    left = [item for item in items if id(item) not in taken]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if id(item) in taken]


def _selected(tier: str, after: str | None, items: list[pytest.Item]) -> set[int]:
    """The ids of the items that a tier takes, without those that the tier `after` takes."""
    done = {id(item) for item in _taken(TIERS[after], items)} if after is not None else set[int]()
    return {id(item) for item in _taken(TIERS[tier], items)} - done


def _taken(tier: Tier, items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """What the tier runs, function by function."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if tier.starts is None or needs(item) <= tier.starts:
            functions[item.nodeid.partition("[")[0]].append(item)
    for name, found in functions.items():
        if tier.one_database:
            found = _on_either(name, found) if name in ON_EITHER else _on_sqlite(found)
        if tier.pairs and name in IN_PAIRS:
            found = _paired(name, found)
        limit = _limit(tier, found)
        if tier.by_parameter:
            found = [item for item in found if not SELDOM_CAUGHT & _texts(item)]
        yield from found if limit is None or len(found) <= limit else _sample(name, found, limit)


def _texts(item: pytest.Item) -> set[object]:
    """Of its parameters, those that are text."""
    callspec = getattr(item, "callspec", None)
    return {value for value in callspec.params.values() if isinstance(value, str)} if callspec is not None else set()


def _limit(tier: Tier, items: list[pytest.Item]) -> int | None:
    if items[0].nodeid.partition("[")[0] in SCENARIOS and tier.scenarios is not None:
        return tier.scenarios
    callspec = getattr(items[0], "callspec", None)
    for parameter, limit in tier.by_parameter:
        if callspec is not None and parameter in callspec.params:
            return limit
    started = frozenset[str]().union(*(needs(item) for item in items))
    if not started <= USUAL:
        return tier.elsewhere
    return tier.sampled if started - WITHOUT_SERVER else None


def _on_sqlite(items: list[pytest.Item]) -> list[pytest.Item]:
    """Each on the embedded metastore's first database, if it has a choice. Hive 4.2 is on PostgreSQL."""
    taken = {id(every[0]) for every in _databases(items).values()}
    return [item for item in items if id(item) in taken]


def _databases(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """Items that differ in the embedded metastore's database only: SQLite first."""
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.nodeid):
        found[_DATABASE.sub("", item.nodeid)].append(item)
    for every in found.values():
        every.sort(key=lambda item: "embedded-postgresql" in item.nodeid)
    return found


def _on_either(name: str, items: list[pytest.Item]) -> list[pytest.Item]:
    """Each script on one database: by turns, in an order that the seed chooses."""
    scripts = _databases(items)
    order = sorted(scripts)
    random.Random(f"{os.environ[SEED]} {name}").shuffle(order)
    return [scripts[script][turn % len(scripts[script])] for turn, script in enumerate(order)]


def _paired(name: str, items: list[pytest.Item]) -> list[pytest.Item]:
    """Each value of each parameter with some value of the others: few items, in an order that the seed chooses."""
    order = sorted(items, key=lambda item: item.nodeid)
    random.Random(f"{os.environ[SEED]} {name}").shuffle(order)
    values = {id(item): set(item.callspec.params.items()) for item in order}  # type: ignore[attr-defined]  # a Function
    taken, seen = list[pytest.Item](), set[tuple[str, object]]()
    while any(not each <= seen for each in values.values()):
        new = max(order, key=lambda item: len(values[id(item)] - seen))
        taken.append(new)
        seen |= values[id(new)]
    return taken


def _sample(name: str, items: list[pytest.Item], limit: int) -> list[pytest.Item]:
    """One of each kind, then any, up to a number (or one of each kind where there are more)."""
    chance = random.Random(f"{os.environ[SEED]} {name}")
    items = sorted(items, key=lambda item: item.nodeid)
    kinds: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        kinds[_NUMBER.sub("", item.nodeid)].append(item)
    if len(kinds) == len(items):
        return chance.sample(items, limit)
    taken = [chance.choice(kind) for kind in kinds.values()]
    chosen = {id(item) for item in taken}
    rest = [item for item in items if id(item) not in chosen]
    return taken + chance.sample(rest, max(0, min(limit - len(taken), len(rest))))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test starts what it names, and nothing else."""
    before = os.environ.get(ledger.ALLOWED)
    os.environ[ledger.ALLOWED] = " ".join(sorted(needs(item)))
    try:
        return (yield)
    finally:
        if before is None:
            del os.environ[ledger.ALLOWED]
        else:
            os.environ[ledger.ALLOWED] = before
