"""CPU time and memory of a process with all its descendants, looked at while a block of code runs.

Must not know: what the processes do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.measure import cpu_seconds, family, private_bytes

PAUSE_S = 0.05


@dataclass(slots=True)
class Used:
    """`cpu_s`: user and system time when it was last seen; `memory_bytes`: the most private memory seen at once."""

    cpu_s: float = 0.0
    memory_bytes: int = 0


@contextmanager
def watched(root: Callable[[], int | None]) -> Iterator[Used]:
    """The block yields what the process `root()` and its descendants have used; None: it has not started yet. A process
    that ends within PAUSE_S, and whose parent does not wait for it, may be missed."""
    used, over = Used(), threading.Event()

    def watch() -> None:
        while not over.wait(PAUSE_S):
            pid = root()
            if pid is None:
                continue
            try:
                used.cpu_s = max(used.cpu_s, cpu_seconds((pid,)))
                used.memory_bytes = max(used.memory_bytes, sum(map(private_bytes, family(pid))))
            except (FileNotFoundError, ProcessLookupError, AssertionError):
                continue  # one of them has just ended

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield used
    finally:
        over.set()
        thread.join()
