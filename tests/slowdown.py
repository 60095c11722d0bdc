"""How many times as long as a usual machine this one takes, for one fixed piece of work.

Job: `at_rest()` measures it before a run begins. `Slowdown` measures it again and again while a run lasts;
`between(...)` is what it was in a stretch of time. Bounds on time are judged by it, and by nothing else.
Must not know: faults, bounds.
Invariants: the work is a process that starts and imports, as what recovers does; its time is that of the clock, so a
slow processor counts as well as others that use it; a machine that is quicker than a usual one counts as usual.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from statistics import median

WORK = "import asyncio, decimal, email.message, http.client"
USUAL_S = 0.1
"""What a start of Python with these modules takes on an idle core of 3 GHz."""
PAUSE_S = 4.0
"""Between two measurements: the work takes a fortieth of one usual core."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Once, in seconds of the monotonic clock."""

    began_s: float
    ended_s: float

    @property
    def factor(self) -> float:
        """1 on a usual machine."""
        return max(1.0, (self.ended_s - self.began_s) / USUAL_S)


def measure() -> Measured:
    """Do the work once."""
    began_s = time.monotonic()
    # In a session of its own, as what is tortured: Linux may divide processor time by sessions.
    subprocess.run([sys.executable, "-c", WORK], check=True, start_new_session=True)
    return Measured(began_s, time.monotonic())


def mean(measured: list[Measured]) -> float:
    """Their time together, by what a usual machine takes for as much."""
    return sum(one.factor for one in measured) / len(measured)


def at_rest() -> float:
    """While nothing else runs: the median of a few times, after one that reads the files from the disk."""
    measure()
    return median(measure().factor for _ in range(5))


class Slowdown:
    """One thread that measures; others may ask at any time."""

    def __init__(self) -> None:
        self.measured = [measure()]
        self._measuring = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def at_start(self) -> float:
        """Before anything else ran."""
        return self.measured[0].factor

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def now(self) -> float:
        """Since the last measurement began."""
        return self.between(self.measured[-1].ended_s, time.monotonic())

    def between(self, first_s: float, last_s: float) -> float:
        """Mean of all measurements that were under way then; of one that is made now if there were none."""
        with self._measuring:  # so one that is under way has ended
            found = [one for one in self.measured if one.began_s <= last_s and first_s <= one.ended_s]
            if not found:
                found = [measure()]
                self.measured += found
            return mean(found)

    def _watch(self) -> None:
        while not self._stop.wait(PAUSE_S):
            with self._measuring:
                self.measured.append(measure())
