"""What is counted of a process and its descendants."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.measure import family, private_bytes

OF_A_THREAD = """
import subprocess, sys, threading
def start():
    print(subprocess.Popen([sys.executable, "-c", "input()"], stdin=sys.stdin).pid, flush=True)
    ended.wait()
ended = threading.Event()
threading.Thread(target=start, daemon=True).start()
threading.Event().wait()
"""
"""A process that has a child which is not of its first thread, as Spark's JVM has its Python workers."""


def test_children_of_every_thread() -> None:
    parent = subprocess.Popen([sys.executable, "-c", OF_A_THREAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        found, used = family(parent.pid), private_bytes(child)
        parent.kill()
    assert found == [parent.pid, child] and used > 0


def test_an_ended_child_has_no_memory() -> None:
    """Until its parent has waited for it, it is among the children."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.pid in family(os.getpid()) and private_bytes(child.pid) == 0
    child.wait()
