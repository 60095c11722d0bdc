"""An environment as users make one: the program and what it requires, without the tests' packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.packaging.requirements import ROOT
from tests.testbed import ledger

INSTALL_S = 400


def installed(directory: Path, extras: Sequence[str], *options: str) -> Path:
    """Its directory of programs, below `directory`. `options`: further ones of `pip install`."""
    sources = directory / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    shutil.copytree(ROOT / "hms_cache_proxy", sources / "hms_cache_proxy")
    programs = directory / "venv" / "bin"
    with ledger.starting(ledger.ENVIRONMENT):
        run(sys.executable, "-m", "venv", str(directory / "venv"))
        wanted = [*options, f"{sources}[{','.join(extras)}]"]
        run(str(programs / "python"), "-m", "pip", "install", "-q", "--prefer-binary", *wanted)
    return programs


def run(*command: str, timeout_s: float = INSTALL_S, **environment: str) -> str:
    """What it prints; AssertionError if it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, cwd="/", env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
