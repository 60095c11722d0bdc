"""The table of planted faults: each can be planted, there is one for each package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.planted_faults import _FAILED, FAULTS, PACKAGE, ROOT, Fault, copy_tree, plant


def test_one_in_each_package() -> None:
    packages = {path.parent.name for path in (ROOT / PACKAGE).glob("*/__init__.py")}
    assert sorted(fault.package for fault in FAULTS) == sorted(packages)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.package)
def test_it_can_be_planted(fault: Fault) -> None:
    text = (ROOT / PACKAGE / fault.file).read_text()
    assert text.count(fault.old) == 1
    broken = text.replace(fault.old, fault.new)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(text)), "it changes something, and can be imported"
    assert all((ROOT / place).exists() for place in fault.near)


def test_the_tree_is_copied_and_stays_as_it_is(tmp_path: Path) -> None:
    fault = FAULTS[0]
    before = (ROOT / PACKAGE / fault.file).read_text()
    copy_tree(tmp_path)
    assert (tmp_path / "pyproject.toml").read_text() == (ROOT / "pyproject.toml").read_text()
    plant(fault, tmp_path)
    assert (tmp_path / PACKAGE / fault.file).read_text() == before.replace(fault.old, fault.new)
    assert (ROOT / PACKAGE / fault.file).read_text() == before
    with pytest.raises(AssertionError, match=fault.file):
        plant(fault, tmp_path)


@pytest.mark.parametrize(
    ("line", "test"),
    [
        ("FAILED tests/a.py::test_b[another host] - AssertionError: a - b", "tests/a.py::test_b[another host]"),
        ("FAILED tests/a.py::test_b[x[0]]", "tests/a.py::test_b[x[0]]"),
        ("FAILED tests/a.py::test_b - assert [1] == [2]", "tests/a.py::test_b"),
        ("ERROR tests/a.py::test_b[x]@group - OSError", "tests/a.py::test_b[x]@group"),
        ("ERROR tests/a.py", "tests/a.py"),
    ],
)
def test_a_failed_test_is_found_in_the_summary(line: str, test: str) -> None:
    found = _FAILED.search(f"=== short test summary info ===\n{line}\n1 failed\n")
    assert found is not None and found[1] == test
