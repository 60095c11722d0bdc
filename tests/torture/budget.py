"""Memory and disk of the proxies, looked at once a second.

Job: the largest that was seen, and whether it was more than the settings allow.
Must not know: faults.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tests.torture.world import Side, World

MEMORY_BYTES = 1 << 30
"""Of one proxy: two workers, a follower, a supervisor; pages of mapped files counted once."""


class Budget:
    """One thread."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.exceeded: list[str] = []
        self._memory = self._disk = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def peaks(self) -> dict[str, float]:
        """Of one proxy, in MiB."""
        return {"most memory, MiB": self._memory >> 20, "most disk, MiB": self._disk >> 20}

    def _watch(self) -> None:
        while not self._stop.wait(1.0):
            for side in self.world.sides:
                self._memory = max(self._memory, memory(side))
                self._disk = max(self._disk, disk(side.data))
        if self._memory > MEMORY_BYTES:
            self.exceeded.append(f"a proxy had {self._memory >> 20} MiB of memory")


def memory(side: Side) -> int:
    """Anonymous memory of all its processes; those that end meanwhile are left out."""
    process = side.proxy.process
    if process is None:
        return 0
    pids = [process.pid, *(pid for pids in side.proxy.children().values() for pid in pids)]
    return sum(anonymous(pid) for pid in pids)


def anonymous(pid: int) -> int:
    """Bytes that are no file's."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:")), 0)


def disk(directory: Path) -> int:
    """Bytes that its files take."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total
