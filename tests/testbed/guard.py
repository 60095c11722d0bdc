"""Ends the children of a test run whose owner has died: `python guard.py < pipe`.

Job: read lines `+ pid ticks signal`, `- pid`, `d directory` from the owner; when the pipe closes, stop the
processes left (their signal first, SIGKILL after a grace) and remove the directories.
Must not know: what the processes are. Imports the standard library alone.
Invariants: a process is signalled only while its start time is the one reported.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time

GRACE_S = 10.0
ZOMBIE_STATES = ("Z", "X")


def start_ticks(pid: int) -> int:
    """Start of a running process in clock ticks since boot (proc(5), stat field 22); 0 if none runs."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            after_name = handle.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if after_name[0].decode() in ZOMBIE_STATES else int(after_name[19])


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # ended between the check and the signal


def stop_all(children: dict[int, tuple[int, int]]) -> None:
    """Stop {pid: (ticks, signal)}, the last started first."""

    def left() -> list[int]:
        return [pid for pid, (ticks, _) in children.items() if start_ticks(pid) == ticks]

    for pid in reversed(left()):
        _signal(pid, signal.SIGCONT)
        _signal(pid, children[pid][1])
    deadline = time.monotonic() + GRACE_S
    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left():
        _signal(pid, signal.SIGKILL)
    while left() and time.monotonic() < deadline + GRACE_S:
        time.sleep(0.05)


def main() -> None:
    """Follow the owner's reports until its end."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    children: dict[int, tuple[int, int]] = {}
    directories: list[str] = []
    for line in sys.stdin:
        kind, rest = line.rstrip("\n").split(" ", 1)
        if kind == "+":
            pid, ticks, number = (int(part) for part in rest.split())
            children[pid] = (ticks, number)
        elif kind == "-":
            children.pop(int(rest), None)
        else:
            directories.append(rest)
    stop_all(children)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
