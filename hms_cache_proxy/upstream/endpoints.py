"""Which metastore to connect to.

Job: the order of the upstream URIs, and a circuit for each: open while it is known not to answer. Must not know sockets
or the clock. One per worker, shared by its connections.

Invariants
- The first URI whose circuit is closed is preferred, so that all connections of a healthy proxy go to one metastore.
- A refused connection opens a circuit at once. What happens to a call never does: a metastore that is slow, or closes
  instead of answering, is suspected, and a probe on a connection of its own decides (prober.py). Only a probe closes a
  circuit.
- Where every circuit is open, calls try all of them but those to which no connection could be made in time: trying
  these would cost each call the whole time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Endpoint:
    """One metastore; `lacks` are methods that it answered with UNKNOWN_METHOD."""

    host: str
    port: int
    lacks: set[bytes] = field(default_factory=set)
    problem: str = ""  # why its circuit is open; empty: it is closed
    silent: bool = False  # its circuit is open because connects get no answer
    hangs: bool = False  # ... as nobody answers a probe there, be it the connect or the question
    heard_ns: int = 0  # when anything last came from it, on any connection

    @property
    def uri(self) -> str:
        return f"thrift://[{self.host}]:{self.port}" if ":" in self.host else f"thrift://{self.host}:{self.port}"

    @property
    def sick(self) -> bool:
        """Its circuit is open."""
        return bool(self.problem)


class Endpoints:
    """The upstream URIs in their order."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self.all = tuple(Endpoint(host, port) for host, port in addresses)
        self.suspect: Callable[[Endpoint], None] = lambda _: None  # have it probed: the prober's

    def candidates(self, *, last: Endpoint | None = None) -> list[Endpoint]:
        """In the order to try: closed circuits, then open ones; `last` has just failed, and comes last of its kind."""
        order = sorted(self.all, key=lambda endpoint: (endpoint.sick, endpoint is last))
        return [endpoint for endpoint in order if not endpoint.silent]

    def other_than(self, endpoint: Endpoint) -> bool:
        """Is there another one whose circuit is closed?"""
        return any(not other.sick for other in self.all if other is not endpoint)

    @property
    def all_sick(self) -> bool:
        """No circuit is closed: an outage."""
        return all(endpoint.sick for endpoint in self.all)

    @property
    def problems(self) -> str:
        """Why nothing can be reached."""
        return "; ".join(f"{endpoint.uri}: {endpoint.problem}" for endpoint in self.all if endpoint.sick)

    def refused(self, endpoint: Endpoint, problem: str, *, silent: bool = False, hangs: bool = False) -> None:
        """It could not be connected to (`silent`: nobody answered in time), or it did not answer a probe (`hangs`: for
        as long as a probe waits)."""
        endpoint.problem, endpoint.silent, endpoint.hangs = problem or "refused", silent, hangs
        endpoint.lacks.clear()  # it may come back as another version
        self.suspect(endpoint)

    def answered(self, endpoint: Endpoint) -> None:
        """It answered a probe."""
        endpoint.problem, endpoint.silent, endpoint.hangs = "", False, False
