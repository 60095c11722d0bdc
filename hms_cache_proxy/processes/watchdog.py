"""Ends a child that hangs, so that the next one can be started.

Job: for how long has a child shown no life? Must not know what a sign of life is made of: a number that changes.

What counts is the time during which this process has looked. If it was stopped itself, as all processes of a container
are when that is paused, the children get their whole time again. Owner: the supervisor's loop.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Protocol

import structlog

log = structlog.get_logger()

LOOKED_AWAY_S = 5.0  # between two looks: then it is not known how long the child could run
START_S = 60.0  # until its first sign of life a child has this long at least


class Watched(Protocol):
    """What is asked of a child."""

    name: str

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""

    def send(self, signal_number: int) -> None:
        """Signal the process, if one runs."""


class Watchdog:
    """Of one child; `life` changes while it lives, and is 0 before its first sign of life."""

    def __init__(self, child: Watched, life: Callable[[], int], limit_s: float) -> None:
        self._child, self._life, self._limit_s = child, life, limit_s
        self._seen: tuple[int | None, int] = (None, 0)
        self._since_s = self._looked_s = 0.0

    def look(self, now_s: float) -> None:
        """Kill the child if it has shown no life for too long; to be called about every second."""
        pid, life = seen = self._child.pid, self._life()
        if seen != self._seen or now_s - self._looked_s > LOOKED_AWAY_S:
            self._seen, self._since_s = seen, now_s
        self._looked_s = now_s
        silent_s = now_s - self._since_s
        if pid is not None and silent_s > (self._limit_s if life else max(self._limit_s, START_S)):
            role = self._child.name.partition("-")[0]
            log.error(f"{role} hangs, killing it", child=self._child.name, pid=pid, silent_s=round(silent_s, 1))
            self._child.send(signal.SIGKILL)
            self._since_s = now_s
