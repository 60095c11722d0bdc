"""What every test of this suite keeps to, read in its syntax: no test leaves early, none is skipped without a
reason, none is run a second time, none draws the same in each run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
Rule = Callable[[ast.AST], Iterator[int]]
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
REASON_AT = {"skip": 0, "xfail": 0, "skipif": None, "importorskip": None}
"""Where the reason of a skip stands if it has no name."""


@cache
def sources() -> dict[Path, str]:
    return {path: path.read_text() for path in sorted(TESTS.rglob("*.py"))}


@cache
def parsed(path: Path) -> ast.AST:
    return ast.parse(sources()[path])


def within(function: ast.AST) -> Iterator[ast.AST]:
    """What lies in a function, but not in functions and classes in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, INNER):
            yield node
            yield from within(node)


def early_returns(tree: ast.AST) -> Iterator[int]:
    """Lines on which a test returns: what follows would be left out without a word."""
    for function in ast.iter_child_nodes(tree):
        if isinstance(function, ast.ClassDef | ast.If | ast.With | ast.Try):
            yield from early_returns(function)
        elif isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test"):
            yield from (node.lineno for node in within(function) if isinstance(node, ast.Return))


def unexplained(tree: ast.AST) -> Iterator[int]:
    """Lines of skips and expected failures without a reason."""
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in REASON_AT and ast.unparse(node.value).startswith("pytest"):
            if not _reason(node.attr, called.get(id(node))):
                yield node.lineno


def _reason(name: str, call: ast.Call | None) -> bool:
    if call is None:
        return False  # a mark without parentheses
    named = [word.value for word in call.keywords if word.arg in ("reason", "msg")]
    place = REASON_AT[name]
    found = [*named, *(call.args[place : place + 1] if place is not None else ())]
    return bool(found) and not (isinstance(found[0], ast.Constant) and not str(found[0].value or "").strip())


def repeated(tree: ast.AST) -> Iterator[int]:
    """Lines that mark a test to be run again."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("flaky", "rerun"):
            yield node.lineno


def unseeded(tree: ast.AST) -> Iterator[int]:
    """Lines of generators with a seed that is always the same, and of others than the run's SEED."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("random.Random", "Random", "random.seed", "seed"):
            if not node.args or isinstance(node.args[0], ast.Constant):
                yield node.lineno
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[A-Z]+_SEED", node.value):
            yield node.lineno
        if isinstance(node, ast.keyword) and node.arg == "derandomize" and ast.unparse(node.value) != "False":
            yield node.value.lineno


RULES: dict[Rule, tuple[str, ...]] = {
    early_returns: ("def test", "return"),
    unexplained: ("skip|xfail",),
    repeated: ("flaky|rerun",),
    unseeded: ("(?i)seed|random",),
}
"""Each with what stands in every file that breaks it: the others need not be parsed, which takes seconds."""


def may_break(rule: Rule, source: str) -> bool:
    return all(re.search(pattern, source) for pattern in RULES[rule])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_test_breaks_the_rule(rule: Rule) -> None:
    paths = [path for path, source in sources().items() if may_break(rule, source)]
    found = [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in rule(parsed(path))]
    assert paths and not found, found


BROKEN = """
@pytest.mark.skip
def test_a(x):
    if x: return
    def inner(): return 1
    pytest.skip("")
@pytest.mark.skipif(True)
def test_b():
    with x:
        for y in x:
            return
    pytest.skip(reason=" ")
    pytest.skip(f"{x} is missing")
@pytest.mark.flaky(reruns=1)
class TestC:
    @pytest.mark.skipif(True, reason="why")
    async def test_d(self): return 3
def helper():
    random.Random(5)
    random.Random()
    random.Random(seed)
    int(os.environ["FUZZ_SEED"])
@settings(derandomize=True)
def test_e(): pass
"""


@pytest.mark.parametrize(
    ("rule", "lines"),
    [(early_returns, [4, 11, 17]), (unexplained, [2, 6, 7, 12]), (repeated, [14]), (unseeded, [19, 20, 22, 23])],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_each_rule_sees_what_breaks_it(rule: Rule, lines: list[int]) -> None:
    assert sorted(rule(ast.parse(BROKEN))) == lines


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (early_returns, "def test_a():\n    return"),
        (early_returns, "class TestA:\n    async def test_a(self):\n        return"),
        (unexplained, "pytest.skip()"),
        (unexplained, "pytest.importorskip('a')"),
        (unexplained, "@pytest.mark.xfail\ndef test_a(): pass"),
        (repeated, "@pytest.mark.flaky\ndef test_a(): pass"),
        (repeated, "@pytest.mark.rerun\ndef test_a(): pass"),
        (unseeded, "Random()"),
        (unseeded, "seed(1)"),
        (unseeded, "os.environ['A_SEED']"),
        (unseeded, "settings(derandomize=True)"),
    ],
)
def test_a_file_that_breaks_a_rule_is_parsed(rule: Rule, source: str) -> None:
    assert may_break(rule, source) and list(rule(ast.parse(source)))


def test_nothing_runs_a_test_again() -> None:
    """No plugin that does is a dependency, and CI asks for none."""
    for name in ("pyproject.toml", ".ci/run", "Makefile"):
        text = (ROOT / name).read_text()
        assert not [word for word in ("rerun", "flaky", "--again", "--lf", "--last-failed") if word in text], name
