"""The fixtures without Maven: a skip for a developer, a failure in CI; nothing is left running either way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEST_IN_FIXTURE = "tests/testbed_tests/test_raw.py::test_pieces_and_pipelined_messages"
TEST_IN_BODY = "tests/testbed_tests/test_metastores.py::test_cached_store"
TEST_WITHOUT_SERVER = "tests/idl/test_derive.py"


@pytest.mark.real
@pytest.mark.parametrize("ci", ["true", ""])
def test_missing_maven(tmp_path: Path, ci: str) -> None:
    tools = tmp_path / "bin"  # a path without mvn
    tools.mkdir()
    environment = {**os.environ, "PATH": str(tools), "HMS_TESTBED_CACHE": str(tmp_path / "cache"), "CI": ci}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST_IN_FIXTURE, TEST_IN_BODY]
    command.append(TEST_WITHOUT_SERVER)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert "Maven is not installed: apt-get install maven" in done.stdout
    outcome = done.stdout.splitlines()[-1]
    if ci:
        assert done.returncode == 1 and "2 failed" in outcome and "1 error" in outcome
    else:
        assert done.returncode == 0 and "3 skipped" in outcome
