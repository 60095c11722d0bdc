"""Kills a child that hangs, so that the next one can be started.

Job: measure how long a child has had no heartbeat. Must not know: what a heartbeat is, except that a number changes.
Only time counts during which this process was running. If it was stopped itself, like all processes of a paused
container, the children get their full time again. Owner: the supervisor's loop.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Protocol

import structlog

log = structlog.get_logger()

LOOKED_AWAY_S = 5.0  # between two checks: then it is unknown how long the child could run
START_S = 60.0  # a child has at least this long until its first heartbeat


class Watched(Protocol):
    """What the watchdog needs of a child."""

    name: str

    @property
    def pid(self) -> int | None:
        """The id of the current process."""

    def send(self, signal_number: int) -> None:
        """Signal the process, if one runs."""


class Watchdog:
    """The watchdog of one child. `life` changes while the child works, and is 0 before its first heartbeat."""

    def __init__(self, child: Watched, life: Callable[[], int], limit_s: float) -> None:
        self._child, self._life, self._limit_s = child, life, limit_s
        self._seen: tuple[int | None, int] = (None, 0)
        self._since_s = self._looked_s = 0.0

    def check(self, now_s: float) -> None:
        """Kill the child if it has had no heartbeat for too long. To be called about every second."""
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
