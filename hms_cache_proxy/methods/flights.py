"""Reads that are on their way to the metastore, and which reads may share their answers.

Job: of equal reads that miss at the same time, one goes upstream and the others wait for its answer (request
coalescing). Must not know: the cache, sockets, how replies are kept.

A read may share the answer to an equal read that left before it arrived, if nothing has happened in between that it
must see. When it is decided, the gate is open, so nothing that it depends on is fenced. Beyond that:
- It depends on the same targets in the same versions: no change has been loaded since the other read left, and every
  answered write through a proxy of this data directory is loaded or fenced.
- The metastore has not shown its connection any of these targets since then (floors).
- The mode does not ask for what is true at the moment of the call (`strict` and `bounded` do), and the read does not
  need a look: without a lease, a write through another proxy may have ended since the other read left.
- It arrived before the answer, and the answer is right for both reads: where the user matters, the key contains the
  user.
A read that has waited in vain (for a refusal, a failure, an answer that is too long) is sent by itself.
Owner: one per worker, on its loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.consistency.floors import Floors

LONGEST_NS: Final = 10_000_000_000
"""How long a read waits for an answer, and how long after a read has left others join it."""
KEPT_NS: Final = 1_000_000_000
"""How long an answer is kept for the reads that waited for it."""


@dataclass(slots=True)
class Flight:
    """One read that went upstream. `awaited`: a read waits for it. `body`: its answer, if that may be shared."""

    key: bytes
    depends: tuple[bytes, ...]
    versions: tuple[int, ...]
    left_ns: int
    landed_ns: int = 0  # 0: not yet
    awaited: bool = False
    body: bytes | None = None


class Flights:
    """The flights of a worker, by the key of the reply."""

    __slots__ = ("_by_key", "landed")

    def __init__(self) -> None:
        self._by_key: dict[bytes, list[Flight]] = {}
        """Those that have not landed, the last one that has with an answer, and the last without; as they have left."""

        self.landed = 0  # how many have landed for which reads waited: others wake nobody

    def begin(self, key: bytes, depends: tuple[bytes, ...], versions: tuple[int, ...], now_ns: int) -> Flight:
        """A read is about to leave; the next equal reads join it."""
        flight = Flight(key, depends, versions, now_ns)
        self._by_key.setdefault(key, []).append(flight)
        return flight

    def land(self, flight: Flight, body: bytes | None, now_ns: int) -> None:
        """The flight's answer has arrived; None if it may not be shared."""
        if not flight.landed_ns:
            flight.body, flight.landed_ns = body, now_ns
            self.landed += flight.awaited
            self._by_key[flight.key] = [
                one
                for one in self._by_key.get(flight.key, ())
                if one is flight or not one.landed_ns or (one.body is None) is not (body is None)
            ]

    def of(
        self,
        key: bytes,
        depends: tuple[bytes, ...],
        versions: tuple[int, ...],
        floors: Floors | None,
        arrived_ns: int,
    ) -> Flight | None:
        """The flight whose answer may be shared by a read on a connection with these floors: one that has landed since
        the read arrived, or the last that has left."""
        least_ns = -1 if floors is None else floors.of(depends)
        suited = [
            one
            for one in self._by_key.get(key, ())
            if one.depends == depends and one.versions == versions and one.left_ns > least_ns
        ]
        landed = (one for one in suited if one.body is not None and one.landed_ns >= arrived_ns)
        return next(landed, suited[-1] if suited else None)

    def forget(self, now_ns: int) -> None:
        """Forget flights that no read waits for any more."""
        for key, flights in list(self._by_key.items()):
            left = [one for one in flights if not one.landed_ns or now_ns - one.landed_ns <= KEPT_NS]
            if left:
                self._by_key[key] = left
            else:
                del self._by_key[key]
