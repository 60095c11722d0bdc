"""Each planted bug finds the rule that it breaks: where that has moved away, it would plant nothing, unseen."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.proxy import PLANTED
from tests.torture.planted import RUNS

PLANT_EACH = """
import os, sys
import planted_fences, planted_fleet, planted_reliability, planted_visibility, sitecustomize
for name, plant in sitecustomize.BUGS.items():
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            print(name)
    else:
        try:
            plant()
        except BaseException:
            os._exit(1)
        os._exit(0)
print(*sitecustomize.BUGS)
"""


def test_every_planted_bug_finds_its_place() -> None:
    command = [sys.executable, "-c", PLANT_EACH]
    done = subprocess.run(command, env={"PYTHONPATH": str(PLANTED)}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    *astray, names = done.stdout.splitlines()
    assert astray == [] and len(names.split()) > 25
    assert {one.planted for one in RUNS} <= set(names.split())


@pytest.mark.parametrize(
    "name", ["fence_dropped", "unfenced_drop_table_req", "hung_worker_left", "verdict_of_any_user"]
)
def test_a_process_has_the_bug_that_its_environment_names(name: str) -> None:
    """One of each module."""
    done = started(name, "import sitecustomize; print(*sitecustomize.swapped)")
    assert done.returncode == 0 and done.stdout.split(), done


def test_a_bug_that_nobody_knows_ends_the_process() -> None:
    done = started("no_such_bug", "print('goes on')")
    assert done.returncode == os.EX_CONFIG and not done.stdout and "no_such_bug" in done.stderr


def started(name: str, program: str) -> subprocess.CompletedProcess[str]:
    """A process of Python with this bug."""
    environment = {"PYTHONPATH": str(PLANTED), "PLANTED_BUG": name}
    command = [sys.executable, "-P", "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
