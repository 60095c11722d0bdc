"""A process as it finds itself after the machine has slept: CLOCK_BOOTTIME has gone on, CLOCK_MONOTONIC has not.

Job: run a program of Python in a time namespace of its own (Linux 5.6, util-linux 2.36). Must not know: what the
program looks at.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed.processes import SOON_S

ROOT = Path(__file__).parents[2]


def after_sleep(seconds: int, program: str, *arguments: str) -> str:
    """The last line that the program prints, which may import what tests may. Skips the test where no such namespace
    can be made."""
    rights = ["--user", "--map-root-user"] if os.geteuid() else []
    command = ["unshare", *rights, "--time", "--boottime", str(seconds), "--fork"]
    told = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if told.returncode:
        pytest.skip(f"no time namespace can be made here: {told.stderr.strip()}")
    command += [sys.executable, "-c", program, *arguments]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SOON_S)
    assert told.returncode == 0, told.stderr
    return told.stdout.splitlines()[-1]
