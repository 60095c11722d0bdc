"""Files of measured figures are written and read, and found stale by the commits that touch what they measure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from tests import figures, long_runs
from tests.history.run import Outcome
from tests.long_runs import RUNS, Found, Lengths, outcome
from tests.times_plugin import Times, kept_name


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One commit: a package and a page."""
    root = tmp_path / "repository"
    (root / "package").mkdir(parents=True)
    (root / "package" / "code.py").write_text("0\n")
    (root / "page.md").write_text("text\n")
    git(root, "init", "-q", "-b", "main")
    commit(root, "first")
    return root


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(root: Path, message: str) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)


def change(root: Path, path: str, times: int) -> None:
    for number in range(times):
        (root / path).write_text(f"{number}\n" * 2)
        commit(root, f"{path} {number}")


def measured(root: Path) -> figures.Figures:
    of = figures.origin("package", root=root)
    figures.write("speed", {"calls_per_s": 7.5}, command="make speed", of=of, root=root)
    return figures.read("speed", root)


def test_what_is_written_is_read(repository: Path) -> None:
    found = measured(repository)
    assert found.commit == git(repository, "rev-parse", "--short=8", "HEAD")
    assert (found.command, found.measures, found.changed) == ("make speed", ("package",), False)
    assert found.figures == {"calls_per_s": 7.5}
    assert found.machine["cores"] >= 1 and found.machine["processor"]
    assert f"at commit {found.commit} on {found.date}" in found.stated and "uncommitted" not in found.stated
    assert re.search(r"\d process(es)? wanted to run", found.stated)
    assert figures.names(repository) == ["speed"] and figures.exists("speed", repository)


def test_uncommitted_changes_are_told(repository: Path) -> None:
    (repository / "page.md").write_text("not measured\n")
    assert not measured(repository).changed
    (repository / "package" / "new.py").write_text("1\n")
    assert measured(repository).changed
    assert "uncommitted changes" in measured(repository).stated
    assert "uncommitted changes" in "".join(figures.complaints(repository))


def test_a_path_of_the_machine_is_refused(repository: Path) -> None:
    of = figures.origin("package", root=repository)
    with pytest.raises(ValueError, match="path of this machine"):
        figures.write("speed", {"log": "/tmp/run.log"}, command="make speed", of=of, root=repository)
    with pytest.raises(ValueError, match="elsewhere is not in the repository"):
        figures.origin("elsewhere", root=repository)


def test_stale_after_more_commits_than_fifty_that_touch_it(repository: Path) -> None:
    found = measured(repository)
    commit(repository, "figures")
    change(repository, "package/code.py", figures.MOST_COMMITS)
    change(repository, "page.md", 3)
    assert figures.behind(found, repository) == figures.MOST_COMMITS
    assert list(figures.complaints(repository)) == []
    change(repository, "package/code.py", 1)
    (line,) = figures.complaints(repository)
    assert line.startswith("docs/figures/speed.json is stale: 51 commits") and line.endswith("renew: make speed")


def test_without_history_it_says_that_it_cannot_tell(repository: Path, tmp_path: Path) -> None:
    found = measured(repository)
    commit(repository, "figures")
    change(repository, "package/code.py", 2)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "shallow")
    assert figures.behind(found, tmp_path / "shallow") == "the history is shallow"
    (line,) = figures.complaints(tmp_path / "shallow")
    assert line == "docs/figures: cannot tell whether these are stale, as the history is shallow: speed"
    git(tmp_path, "clone", "-q", f"file://{repository}", "other")
    git(tmp_path / "other", "checkout", "-q", "--orphan", "apart")
    commit(tmp_path / "other", "one commit")
    assert "is not in the history" in str(figures.behind(found, tmp_path / "other"))


def test_an_exported_tree_has_no_history(repository: Path, tmp_path: Path) -> None:
    found = measured(repository)
    exported = tmp_path / "exported"
    exported.mkdir()
    assert figures.behind(found, exported) == "there is no history"


def test_what_a_run_of_tests_keeps() -> None:
    times = Times("quick", 2, None)
    for number, (when, how) in enumerate((("setup", "skipped"), ("call", "passed"), ("call", "failed"))):
        nodeid, place = f"tests/store/test_a.py::test_{number}", ("", 0, "")
        report: Any = pytest.TestReport(nodeid, place, {}, how, None, when, duration=1.5)  # type: ignore[arg-type]
        report.starts = [("server", 4.0)] if when == "call" else []
        report.cpu_s = 0.25
        times.pytest_runtest_logreport(report)
    kept = times.figures(9.0)
    assert kept["failed"] == ["tests/store/test_a.py::test_2"]
    assert kept["outcomes"] == {"skipped": 1, "passed": 1, "failed": 1}
    assert kept["folders"] == {"tests/store": {"seconds": 4.5, "items": 3}}
    assert kept["started"] == {"server": {"starts": 2, "seconds": 8.0}}
    heading, row, *_ = times.lines()
    assert dict(zip(heading.split(), row.split(), strict=True)) == {
        **{"seconds": "4.5", "set-up": "1.5", "call": "3.0", "teardown": "0.0", "CPU": "0.8", "items": "3"},
        "folder": "tests/store",
    }


@pytest.mark.parametrize(
    ("nodeid", "kept"),
    [
        ("tests/store/test_a.py::test_it", "tests/store/test_a.py::test_it"),
        ("tests/store/test_a.py::test_it[N-get_table]", "tests/store/test_a.py::test_it[N-get_table]"),
        ("tests/store/test_a.py::test_it[/home/user/x]", "tests/store/test_a.py::test_it"),
    ],
)
def test_the_name_of_a_failed_test_is_kept_without_paths(nodeid: str, kept: str) -> None:
    assert kept_name(nodeid) == kept


def test_the_line_of_a_long_run_says_what_was_found() -> None:
    fine = Found("", False, {"reads": 10, "violations": 0})
    bad = Found("", True, {"reads": 12, "violations": 1})
    assert outcome([fine]) == "1 run, nothing found; reads: 10"
    assert outcome([fine, fine]) == "2 runs, nothing found; reads: 10"
    assert outcome([fine, bad]) == "2 runs, 1 with findings; reads: 10 to 12; violations: 0 to 1"


def test_the_end_of_a_run_says_what_is_stale(repository: Path) -> None:
    """A warning: the run's exit status stays what it was."""
    (repository / "test_it.py").write_text("def test_it(): pass\n")
    (repository / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    measured(repository)
    commit(repository, "figures")
    change(repository, "package/code.py", 51)
    command = [sys.executable, "-m", "pytest", "-p", "tests.figures_plugin", "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(figures.ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "docs/figures/speed.json is stale: 51 commits" in done.stdout


def test_what_a_history_found_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The histories themselves take minutes; what they are asked for is checked against what they take."""
    found = Outcome(["old"], [], 20, {"hits": 15, "writes": 3}, {})
    monkeypatch.setattr(long_runs, "with_proxies", create_autospec(long_runs.with_proxies, return_value=found))
    for name, of in RUNS.items():
        if name.startswith("history-"):
            (told,) = of.run(Lengths(range(1), seconds=60, steps=0))
            assert told.wrong and told.counts["reads"] == 20 and told.counts["violations"] == 1, name
            assert (told.counts["hits"], told.counts["writes"], told.counts["increments"]) == (15, 3, 0), name
