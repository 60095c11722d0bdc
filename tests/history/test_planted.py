"""Each planted bug finds the rule that it breaks: where that has moved away, it would plant nothing, unseen."""

from __future__ import annotations

import subprocess
import sys

from tests.proxy import PLANTED

PLANT_EACH = """
import os, sys
import planted_reliability, planted_visibility, sitecustomize
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
print(len(sitecustomize.BUGS))
"""


def test_every_planted_bug_finds_its_place() -> None:
    command = [sys.executable, "-c", PLANT_EACH]
    done = subprocess.run(command, env={"PYTHONPATH": str(PLANTED)}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    *astray, number = done.stdout.split()
    assert astray == [] and int(number) > 25
