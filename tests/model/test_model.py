"""Each model holds in each setting and says something there; with any rule left out, it does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.test_history import PLANTED
from tests.model.checking import HERE, MODELS, Checker, Model
from tests.testbed import ledger

SETTINGS = [(name, setting) for name in MODELS for setting in Model(name).settings]
RULES = [(name, rule, where) for name in MODELS for rule, one in Model(name).rules.items() for where in one.settings]
MOST_SECONDS = 60.0  # on a busy machine; README.md has the usual ones
MOST_MEMORY_MB = 600.0


@pytest.fixture(scope="module")
def checkers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checker]:
    """Compiled once, each when it is asked for."""
    ledger.uses(ledger.SPIN)
    directory = tmp_path_factory.mktemp("models")
    return {name: Model(name).build(directory / name) for name in MODELS}


@pytest.mark.xdist_group("model")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "setting"), SETTINGS)
def test_it_holds(checkers: dict[str, Checker], name: str, setting: str) -> None:
    outcome = checkers[name].search(setting)
    assert outcome.violated is None
    said = {one.name for one in checkers[name].model.moments.values() if setting in one.settings}
    assert said and not said - outcome.reached.keys(), "what must be reached, or else it holds for nothing"
    assert outcome.memory_mb < MOST_MEMORY_MB and outcome.seconds < MOST_SECONDS


@pytest.mark.xdist_group("model")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "rule", "where"), RULES)
def test_without_a_rule_it_does_not(checkers: dict[str, Checker], name: str, rule: str, where: str) -> None:
    checker = checkers[name]
    assert checker.search(where, rule).violated is not None
    assert checker.counterexample(where, rule), "it says how"


def test_each_bug_that_is_planted_in_histories_has_a_rule() -> None:
    assert set(PLANTED) <= {rule.lower() for _, rule, _ in RULES}


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_names_is_there(name: str) -> None:
    """Settings of rules and moments, numbers of their own, and the files that its comments name."""
    model = Model(name)
    for names in (model.settings, model.rules, model.moments):
        assert len({one.number for one in names.values()}) == len(names)
    for one in (*model.rules.values(), *model.moments.values()):
        assert one.settings and set(one.settings) <= model.settings.keys()
    assert (HERE.parents[1] / "hms_cache_proxy").is_dir() and Path(HERE / f"{name}.pml").is_file()
