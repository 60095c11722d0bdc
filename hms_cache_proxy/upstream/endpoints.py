"""Which metastore to connect to.

Job: the order of the upstream URIs, and which of them refused a connection a moment ago. Must not know sockets or the
clock (times are passed in). One per worker, shared by its connections.
Invariants: the first URI that is not remembered as dead is preferred, so that all connections of a healthy proxy go
to one metastore; a dead one is tried again after DEAD_NS, or at once when every other has failed too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

DEAD_NS = 2_000_000_000  # long enough that a connect time-out is not paid by each call, short enough to come back soon


@dataclass(eq=False, slots=True)
class Endpoint:
    """One metastore; `lacks` are methods that it answered with UNKNOWN_METHOD."""

    host: str
    port: int
    lacks: set[bytes] = field(default_factory=set)
    dead_until_ns: int = 0

    @property
    def uri(self) -> str:
        return f"thrift://[{self.host}]:{self.port}" if ":" in self.host else f"thrift://{self.host}:{self.port}"


class Endpoints:
    """The upstream URIs in their order."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self.all = tuple(Endpoint(host, port) for host, port in addresses)

    def candidates(self, now_ns: int) -> list[Endpoint]:
        """All of them in the order to try: those not known to be dead, then the others, longest dead first."""
        alive = [endpoint for endpoint in self.all if endpoint.dead_until_ns <= now_ns]
        dead = [endpoint for endpoint in self.all if endpoint.dead_until_ns > now_ns]
        return alive + sorted(dead, key=lambda endpoint: endpoint.dead_until_ns)

    def refused(self, endpoint: Endpoint, now_ns: int) -> None:
        """It could not be connected to."""
        endpoint.dead_until_ns = now_ns + DEAD_NS

    def connected(self, endpoint: Endpoint) -> None:
        """It can be connected to; it may be another version than before, so what it lacks is asked again."""
        if endpoint.dead_until_ns:
            endpoint.dead_until_ns = 0
            endpoint.lacks.clear()
