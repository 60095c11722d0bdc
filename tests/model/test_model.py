"""Each model holds in each setting and says something there; with any rule left out, it does not hold."""

from __future__ import annotations

import ast
import re

import pytest

from tests.model.checking import HERE, MODELS, Checker, Model
from tests.testbed import ledger

SETTINGS = [(name, setting) for name in MODELS for setting in Model(name).settings]
RULES = [(name, rule, where) for name in MODELS for rule, one in Model(name).rules.items() for where in one.settings]
PACKAGE = HERE.parents[1] / "hms_cache_proxy"
PLANTED = HERE.parent / "history" / "planted" / "sitecustomize.py"
MOST_MEMORY_MB = 600.0


@pytest.fixture(scope="module")
def checkers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checker]:
    """Compiled once, each when it is asked for."""
    ledger.uses(ledger.SPIN)
    directory = tmp_path_factory.mktemp("models")
    return {name: Model(name).build(directory / name) for name in MODELS}


@pytest.mark.xdist_group("model")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "setting"), SETTINGS)
def test_it_holds(checkers: dict[str, Checker], name: str, setting: str) -> None:
    outcome = checkers[name].search(setting)
    assert outcome.violated is None
    said = {one.name for one in checkers[name].model.moments.values() if setting in one.settings}
    assert said and not said - outcome.reached.keys(), "what must be reached, or else it holds for nothing"
    assert outcome.memory_mb < MOST_MEMORY_MB


@pytest.mark.xdist_group("model")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "rule", "where"), RULES)
def test_without_a_rule_it_does_not(checkers: dict[str, Checker], name: str, rule: str, where: str) -> None:
    checker = checkers[name]
    assert checker.search(where, rule).violated is not None
    assert checker.counterexample(where, rule), "it says how"


OF_PEERS = {"leases_for_ever", "lease_not_looked_at", "peer_stores_no_fence", "write_waits_for_no_peer"}
NOT_MODELLED = {"full_disk_forgotten", "look_not_waited_for", *OF_PEERS}
"""A disk that is full is no state of the models, their reads of transactional tables have a proof, and their proxies do
not tell each other of writes: a fleet is simulated (tests/peers)."""


def test_each_bug_that_is_planted_in_histories_has_a_rule() -> None:
    functions = [one for one in ast.parse(PLANTED.read_text()).body if isinstance(one, ast.FunctionDef)]
    planted = {one.name for one in functions if [ast.unparse(by) for by in one.decorator_list] == ["bug"]}
    assert planted > NOT_MODELLED and planted - NOT_MODELLED <= {rule.lower() for _, rule, _ in RULES}


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_names_is_there(name: str) -> None:
    """Settings of rules and moments, numbers of their own, and what its comments name in the package."""
    model = Model(name)
    for names in (model.settings, model.rules, model.moments):
        assert len({one.number for one in names.values()}) == len(names)
    for one in (*model.rules.values(), *model.moments.values()):
        assert one.settings and set(one.settings) <= model.settings.keys()
    package = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    text = (HERE / f"{name}.pml").read_text()
    missing = [file for file in re.findall(r"\b[a-z_]+/[a-z_]+\.py\b", text) if not (PACKAGE / file).is_file()]
    for owner, member in re.findall(r"\b([A-Z][a-z]+[A-Za-z]*)\.(_?[a-z_]+)\b", text):
        if not re.search(rf"^class {owner}\b", package, re.M) or not re.search(rf"\b(def )?{member}\b", package):
            missing.append(f"{owner}.{member}")
    assert not missing
