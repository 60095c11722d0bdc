"""What is published: the long description as a package index shows it, and a source distribution whose tests run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from readme_renderer import markdown

from tests.packaging.requirements import ROOT, project
from tests.testbed import ledger

BUILD_S = 300
TESTS = ("tests/wire/test_framing.py", "tests/test_contributing.py", "tests/packaging/test_constraints.py")


def test_the_long_description_is_rendered() -> None:
    """As the renderer of package indexes does it, tables and code blocks too; it has no link into nowhere."""
    page = markdown.render((ROOT / project()["readme"]).read_text("utf-8"))
    assert page is not None
    assert "<table>" in page and "<pre" in page and "<h2" in page
    targets = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert len(targets) > 20
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


def test_what_an_index_is_told() -> None:
    told = project()
    assert set(told["urls"]) == {"Documentation", "Source", "Issues", "Changelog"}
    assert len(told["classifiers"]) == len(set(told["classifiers"])) > 5
    assert not any(one.startswith("License ::") for one in told["classifiers"]), "license is an SPDX expression"


def test_an_index_is_told_which_pythons_were_tried() -> None:
    """The same as readers are."""
    page = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    section = page.partition("\n## Python\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (3\.\d+) \| (.+) \|$", section, re.MULTILINE)
    tried = [python for python, what in rows if what != "not tried"]
    told = [one.rpartition(" :: ")[2] for one in project()["classifiers"] if ":: Python :: 3." in one]
    assert told == tried and project()["requires-python"] == f">={tried[0]}"
    first, (last, what) = (ROOT / "README.md").read_text("utf-8"), rows[-1]
    assert f"Python {', '.join(tried[:-1])} or {tried[-1]} ({last} was {what})" in first


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked; built of a copy, because setuptools writes into its tree."""
    directory = tmp_path_factory.mktemp("distribution")
    for path in tracked():
        target = directory / "sources" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target)
    with ledger.starting(ledger.ENVIRONMENT):
        done = subprocess.run(
            [sys.executable, "-m", "build", "--sdist", "--outdir", str(directory), str(directory / "sources")],
            capture_output=True,
            text=True,
            timeout=BUILD_S,
        )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    (archive,) = directory.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(directory / "unpacked", filter="data")
    (unpacked,) = (directory / "unpacked").iterdir()
    return unpacked


def tracked() -> list[str]:
    """Files of the repository. Skipped where there is none, as in an unpacked source distribution."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip("this is no clone: git does not say which files belong to it")
    return [path for path in done.stdout.splitlines() if (ROOT / path).exists()]


def test_a_source_distribution_has_every_file(distribution: Path) -> None:
    assert [path for path in tracked() if not (distribution / path).exists()] == []


def test_tests_run_in_a_source_distribution(distribution: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COVERAGE_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=distribution,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert re.search(r"\d+ passed", done.stdout)
