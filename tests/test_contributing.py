"""CONTRIBUTING.md names files, commands and tests that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.tiers_plugin import TIERS

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = sorted(set(re.findall(r"(?<![\w/.])(?:hms_cache_proxy|tests|docs|conf|idl|\.ci)/[\w./-]*\w/?", TEXT)))
TARGETS = sorted(set(re.findall(r"\bmake ([a-z-]+)", TEXT)) - {"a"})
MODULES = sorted(set(re.findall(r"python -m (tests[\w.]*)", TEXT)))


def test_something_is_named() -> None:
    assert len(PATHS) > 20 and "quick" in TARGETS and "tests.testbed" in MODULES


@pytest.mark.parametrize("path", PATHS)
def test_the_file_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("target", TARGETS)
def test_the_target_exists(target: str) -> None:
    files = (ROOT / "Makefile").read_text() + (ROOT / "idl" / "Makefile.inc").read_text()
    assert re.search(rf"^{target}:", files, re.MULTILINE)


@pytest.mark.parametrize("module", MODULES)
def test_the_command_exists(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


def test_the_names_in_the_recipes_exist() -> None:
    from hms_cache_proxy.follower.events import HANDLERS
    from tests.methods.questions.question import Question
    from tests.needs import STARTS

    assert all(re.search(rf"`{name}`", TEXT) for name in ("HANDLERS", "Question", "STARTS"))
    assert HANDLERS and Question._fields[:2] == ("method", "arguments") and STARTS


def test_the_tiers_exist() -> None:
    assert set(re.findall(r"--tier (\w+)", TEXT)) <= TIERS.keys()
    assert set(re.findall(r"TIER=(\w+)", TEXT)) <= TIERS.keys()
