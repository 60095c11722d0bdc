"""Reads that are on their way to the metastore, and who may share their answers.

Job: of equal reads that miss at the same time one goes upstream, and the others wait for its answer. Must not know: the
cache, sockets, how replies are kept.

A read may have the answer to another one that left before it came where nothing has happened in between that it must
see. So, at the moment at which it is decided about (with the gate open, thus nothing that it depends on fenced):
- it depends on the same, in the same versions: no change has been loaded since the other one left, and a write through
  any proxy of this data directory that has been answered is either loaded or fenced;
- its connection has not been shown anything of that by the metastore since then (floors);
- the rules ask for no more than that: not for what is true at the moment of the call (`strict`, `bounded`);
- it came before the answer did, and one answer is right for both: the key says who asks where that matters.
Who has waited in vain (for a refusal, a failure, an answer that is too long) asks by itself.
Owner: one per worker, on its loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.consistency.floors import Floors

LONGEST_NS: Final = 10_000_000_000
"""How long an answer is waited for, and how long after it has left a read is joined."""
KEPT_NS: Final = 1_000_000_000
"""How long an answer stays for those who have waited for it."""


@dataclass(slots=True)
class Flight:
    """One read upstream. `body`: its answer, if that may be shared."""

    depends: tuple[bytes, ...]
    versions: tuple[int, ...]
    left_ns: int
    landed_ns: int = 0  # 0: not yet
    body: bytes | None = None


class Flights:
    """Those of a worker, by the key of the reply."""

    __slots__ = ("_by_key", "landed")

    def __init__(self) -> None:
        self._by_key: dict[bytes, Flight] = {}
        self.landed = 0  # how many have

    def begin(self, key: bytes, depends: tuple[bytes, ...], versions: tuple[int, ...], now_ns: int) -> Flight:
        """A read is about to leave; the next ones join it."""
        flight = self._by_key[key] = Flight(depends, versions, now_ns)
        return flight

    def land(self, flight: Flight, body: bytes | None, now_ns: int) -> None:
        """Its answer, None if it has none that may be shared."""
        if not flight.landed_ns:
            flight.body, flight.landed_ns = body, now_ns
            self.landed += 1

    def of(
        self, key: bytes, depends: tuple[bytes, ...], versions: tuple[int, ...], floors: Floors | None
    ) -> Flight | None:
        """The latest one whose answer may be shared by a read of a connection with these floors."""
        flight = self._by_key.get(key)
        if flight is None or flight.depends != depends or flight.versions != versions:
            return None
        if floors is not None and floors.of(depends) >= flight.left_ns:
            return None
        return flight

    def forget(self, now_ns: int) -> None:
        """Those that nobody waits for any more."""
        over = [key for key, flight in self._by_key.items() if flight.landed_ns and now_ns - flight.landed_ns > KEPT_NS]
        for key in over:
            del self._by_key[key]
