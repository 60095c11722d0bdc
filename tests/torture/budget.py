"""Memory, disk and upstream connections of the proxies, looked at once a second.

Job: the most that was seen, and whether it was more than the settings allow.
Must not know: faults.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tests.torture.world import MAX_UPSTREAM, WORKERS, Side, World

MEMORY_BYTES = 1 << 30
"""Of one proxy: two workers, a follower, a supervisor; pages of mapped files counted once."""
CONNECTIONS = WORKERS * MAX_UPSTREAM + 8
"""Of one proxy to the metastore: those of clients, and its own questions."""
LOOKS = 3
"""In so many in a row there are too many connections: processes that are killed and started overlap."""


class Budget:
    """One thread."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.exceeded: list[str] = []
        self._memory = self._disk = self._connections = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def peaks(self) -> dict[str, float]:
        """Of one proxy, in MiB."""
        return {
            "most memory, MiB": self._memory >> 20,
            "most disk, MiB": self._disk >> 20,
            "most upstream connections": self._connections,
        }

    def _watch(self) -> None:
        found: list[list[int]] = [[] for _ in self.world.sides]
        while not self._stop.wait(1.0):
            for side, connected in zip(self.world.sides, found, strict=True):
                self._memory = max(self._memory, memory(side))
                self._disk = max(self._disk, disk(side.data))
                connected.append(connections(side.upstream.port))
        self._connections = max((number for connected in found for number in connected), default=0)
        lasting = max(map(most_lasting, found))
        if lasting > CONNECTIONS:
            self.exceeded.append(f"a proxy had {lasting} connections to the metastore")
        if self._memory > MEMORY_BYTES:
            self.exceeded.append(f"a proxy had {self._memory >> 20} MiB of memory")


def most_lasting(numbers: list[int]) -> int:
    """The most that there were in so many looks in a row."""
    return max((min(numbers[at : at + LOOKS]) for at in range(len(numbers) - LOOKS + 1)), default=0)


def connections(port: int) -> int:
    """Established ones to this port of this machine, as the kernel says."""
    peer = f"0100007F:{port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2] == peer and row[3] == "01" for row in rows)


def memory(side: Side) -> int:
    """Anonymous memory of all its processes; those that end meanwhile are left out."""
    process = side.proxy.process
    if process is None:
        return 0
    return sum(anonymous(pid) for pid in (process.pid, *children(process.pid)))


def children(parent: int) -> list[int]:
    """Of a process, as the kernel says."""
    found: list[int] = []
    for of_thread in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            found += map(int, of_thread.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


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
