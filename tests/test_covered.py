"""Sums of what tiers reach, and a run that measures processes that tests start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import covered
from tests.covered import ROOT, Reached, Run
from tests.figures import Origin

NO_TESTS = pytest.ExitCode.NO_TESTS_COLLECTED

OF = Origin(("tests",), "0123abcd", False, "2026-01-01")


def run(tier: str, **files: tuple[str, set[int], set[int]]) -> Run:
    """Of files: digest, executable lines, reached lines; `a__b` stands for a/b.py."""
    named = {
        f"hms_cache_proxy/{name.replace('__', '/')}.py": Reached(digest, frozenset(lines), frozenset(reached))
        for name, (digest, lines, reached) in files.items()
    }
    return Run(tier, OF, 0, "1", named)


LINES = set(range(1, 11))
QUICK = run("quick", cache__a=("1", LINES, {1, 2}), wire__b=("2", LINES, set()), errors=("3", {1, 2}, {1}))
ALL = run("all", cache__a=("1", LINES, {1, 2, 3, 4, 8}), wire__b=("2", LINES, {5}), errors=("3", {1, 2}, {1, 2}))


def test_shares_are_of_what_the_widest_tier_reaches() -> None:
    told = covered.summary([QUICK, ALL])
    assert told["tiers"] == {"quick": {"lines": 22, "covered": 3}, "all": {"lines": 22, "covered": 8}}
    assert told["share_of_all"] == {"quick": round(3 / 8, 4)}
    assert told["packages"] == {
        "(modules)": {"quick": 0.5, "all": 1.0},
        "cache": {"quick": 0.2, "all": 0.5},
        "wire": {"quick": 0.0, "all": 0.1},
    }
    assert told["changed_between"] == []


def test_a_file_that_changed_between_the_runs_is_left_out_and_named() -> None:
    later = run("all", cache__a=("other", LINES, LINES), wire__b=("2", LINES, {5}), new=("4", {1}, {1}))
    told = covered.summary([QUICK, later])
    changed = ["hms_cache_proxy/cache/a.py", "hms_cache_proxy/errors.py", "hms_cache_proxy/new.py"]
    assert told["changed_between"] == changed and list(told["packages"]) == ["wire"]
    assert told["tiers"]["all"] == {"lines": 10, "covered": 1}


def test_what_is_missed_comes_worst_first() -> None:
    same, _ = covered.comparable([QUICK, ALL])
    found = covered.missed(QUICK, ALL, same)
    assert [(Path(name).name, lines) for name, lines in found] == [
        ("a.py", [3, 4, 8]),
        ("errors.py", [2]),
        ("b.py", [5]),
    ]
    assert covered.ranges([3, 4, 8]) == "3-4, 8"


SCRIPT = """
import os, signal, subprocess, sys
subprocess.run([sys.executable, "-c", "import hms_cache_proxy.consistency.fences"], check=True)
leave = "import hms_cache_proxy.consistency.floors, os; os._exit(0)"
subprocess.run([sys.executable, "-c", leave], check=True)
killed = "import hms_cache_proxy.consistency.names, os, signal; os.kill(os.getpid(), signal.SIGTERM)"
assert subprocess.run([sys.executable, "-c", killed]).returncode == -signal.SIGTERM
"""


def keep_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
        monkeypatch.delenv(name)
    parts = tmp_path / "quick.parts"
    parts.mkdir()
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={ROOT / 'pyproject.toml'}", "script.py"]
    environment = {**os.environ, "COVERAGE_FILE": str(parts / "data")}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=120)
    covered.keep("quick", OF, 1, "17", parts, tmp_path, below=covered.PACKAGE / "consistency")
    assert not parts.exists()


def test_processes_are_measured_however_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_a_run(tmp_path, monkeypatch)
    found = covered.load("quick", tmp_path)
    assert (found.tier, found.origin, found.failed, found.seed) == ("quick", OF, 1, "17"), (
        "tests that fail do not stop it"
    )
    reached = {name: len(one.reached) for name, one in found.files.items()}
    for module in ("fences", "floors", "names"):
        assert reached[f"hms_cache_proxy/consistency/{module}.py"] > 3, module
    assert reached["hms_cache_proxy/consistency/gate.py"] == 0


def test_a_run_after_another_counts_what_that_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_a_run(tmp_path, monkeypatch)
    file = "tests/consistency/test_floors.py"
    assert covered.measure("test", [file, "-p", "no:cacheprovider"], "quick", tmp_path) == NO_TESTS, (
        "quick's are left out"
    )
    quick, test = covered.load("quick", tmp_path), covered.load("test", tmp_path)
    assert test.seed == quick.seed == "17" and quick.files["hms_cache_proxy/consistency/names.py"].reached
    assert all(of_quick.reached <= test.files[name].reached for name, of_quick in quick.files.items())
    kept = tmp_path / "quick.json"
    kept.write_text(kept.read_text().replace('"digest": "', '"digest": "0', 1))
    with pytest.raises(ValueError, match="changed since tier quick"):
        covered.measure("test", [file], "quick", tmp_path)


def test_a_tier_that_was_not_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileNotFoundError, match="quick.json"):
        covered.compare(["quick"], tmp_path)
    assert covered.main(["nonsense"]) == 2 == covered.main([])
    assert "TIER" in capsys.readouterr().err
