"""Directories of Python packages in the cache."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.testbed.artifacts import BedError, PackageSet, install_packages

METADATA = "Metadata-Version: 2.1\nName: only-here\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HMS_TESTBED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def wheel(directory: Path) -> Path:
    """Of a package with one module."""
    path = directory / "only_here-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("only_here.py", "WHERE = __file__\n")
        archive.writestr("only_here-1.0.dist-info/METADATA", METADATA)
        archive.writestr("only_here-1.0.dist-info/WHEEL", WHEEL)
        archive.writestr("only_here-1.0.dist-info/RECORD", "")
    return path


def test_packages_are_installed_once_and_seen_by_a_process_that_names_them(cache: Path, tmp_path: Path) -> None:
    wanted = PackageSet("one", (str(wheel(tmp_path)),))
    directory = install_packages(wanted)
    (tmp_path / "only_here-1.0-py3-none-any.whl").unlink()
    assert install_packages(wanted) == directory == cache / wanted.directory_name
    command = [sys.executable, "-c", "import only_here; print(only_here.WHERE)"]
    said = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(directory)}, capture_output=True, text=True, check=True
    )
    assert Path(said.stdout.strip()) == directory / "only_here.py"


def test_what_cannot_be_installed_leaves_no_directory(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(BedError, match="absent"):
        install_packages(PackageSet("none", (str(tmp_path / "absent-1.0-py3-none-any.whl"),)))
    assert [path.name for path in cache.iterdir()] == ["pip.lock"]


def test_another_list_is_another_directory() -> None:
    one, other = PackageSet("one", ("a==1",)), PackageSet("one", ("a==2",))
    assert one.directory_name != other.directory_name and one.directory_name.startswith("one-")
