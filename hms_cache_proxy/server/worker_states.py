"""State that the workers of a proxy share: how many client connections each has, and that its event loop runs.

Job: keep two words on the state page for each worker: its number of connections and the time of its last heartbeat. The
number is used to spread new connections and to enforce `limits.max_connections`. The heartbeat is 0 until the worker
accepts connections, and shows the supervisor which worker hangs. Must not know: sockets.

Invariants
- A worker writes only its own two words, without a lock (and READ_NS, where the last time written counts); the
  supervisor clears the words of a worker that has ended.
- A worker that has had no heartbeat for `SILENT_NS` is left out: the others spread new connections among themselves.
Owner: the worker's loop; the supervisor's.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import Final

from hms_cache_proxy.cache.state import FIRST_BEAT, FIRST_CONNECTIONS, Slot, StatePage

BEAT_INTERVAL_S: Final = 0.25
SILENT_NS: Final = 2 * 10**9


def heard_since_ns(silent_ns: int) -> int:
    """After when a worker's last heartbeat must be, or it has been silent for so long. Not before the machine's boot,
    as 0 is no heartbeat."""
    return max(0, monotonic_ns() - silent_ns)


class WorkerStates:
    """All workers of a proxy."""

    __slots__ = ("_beats", "_connections", "_page")

    def __init__(self, page: StatePage, workers: int) -> None:
        self._page = page
        self._beats = slice(FIRST_BEAT, FIRST_BEAT + workers)
        self._connections = slice(FIRST_CONNECTIONS, FIRST_CONNECTIONS + workers)

    def beats(self) -> list[int]:
        """The time of each worker's last heartbeat (time.monotonic_ns()); 0: it does not accept."""
        return self._page.words[self._beats].tolist()

    def beat_of(self, worker: int) -> int:
        return self._page[FIRST_BEAT + worker]

    def connections(self) -> list[int]:
        """The number of client connections of each worker."""
        return self._page.words[self._connections].tolist()

    def forget(self, worker: int) -> None:
        """Clear the words of a worker that has ended."""
        self._page[FIRST_BEAT + worker] = 0
        self._page[FIRST_CONNECTIONS + worker] = 0


class Member:
    """One worker's part in its crew."""

    __slots__ = ("_page", "_states", "number", "silent_ns")

    def __init__(self, page: StatePage, number: int, workers: int, silent_ns: int = SILENT_NS) -> None:
        self.number = number
        self.silent_ns = silent_ns
        self._page = page
        self._states = WorkerStates(page, workers)
        self._states.forget(number)  # the supervisor may not have done it yet

    def beat(self) -> None:
        """Heartbeat: the loop runs, and connections are accepted."""
        self._page[FIRST_BEAT + self.number] = monotonic_ns()

    def has_read(self) -> None:
        """A cacheable read was answered or relayed: the follower then polls more often."""
        self._page[Slot.READ_NS] = monotonic_ns()

    def count(self, change: int) -> None:
        """Add to the number of connections open here."""
        self._page[FIRST_CONNECTIONS + self.number] += change

    def total(self) -> int:
        """Connections of all workers."""
        return sum(self._states.connections())

    def excess(self, beginning: int) -> float:
        """How many more connections this worker has than the one with the fewest among the others with a heartbeat, as
        a share of its own. `beginning` of its own are not counted yet. 0 if it has no more."""
        connections, since_ns = self._states.connections(), heard_since_ns(self.silent_ns)
        own = connections[self.number] = connections[self.number] + beginning
        told = zip(connections, self._states.beats(), strict=True)
        fewest = min((number for number, beat in told if beat > since_ns), default=own)
        return (own - fewest) / own if own > fewest else 0.0
