"""Decides which metastore to connect to.

Job: keep the order of the upstream URIs, and a circuit breaker for each, which is open while the metastore does not
answer.
Must not know sockets or the clock. One per worker, shared by its connections.

Invariants
- The first URI with a closed circuit is preferred, so all connections go to one metastore while it is healthy; or, with
  `in_turn`, new connections go to those with closed circuits in turn.
- A refused connection opens a circuit at once. A call never does, nor does a slow login: a metastore that is slow, or
  closes the connection instead of answering, is suspected, and a probe on a separate connection decides (prober.py).
  Only a probe closes a circuit.
- If every circuit is open, calls try all metastores, except those where a connection attempt timed out, because each
  call would wait for that timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from hms_cache_proxy.config.address import Address
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.security.http_names import HttpNames
from hms_cache_proxy.security.metastore_security import PLAIN, MetastoreSecurity
from hms_cache_proxy.security.service_login import ServiceLogins
from hms_cache_proxy.security.tls import ClientSide
from hms_cache_proxy.security.tokens import Token

Unopened = Literal["refused", "silent", "late", "user"]
"""Why a connection was not opened: it was refused; the attempt got no answer in time; it was accepted, and the
handshake of TLS or the login took too long; the metastore does not let the proxy act for this user."""


class UserRefused(UpstreamError):
    """A metastore does not let the proxy act for this user; other users are not concerned."""


class CallUser(NamedTuple):
    """Whom a connection's calls come from. `user`: None if the client has not said; `bearer`: the token that its
    request brought."""

    user: str | None
    bearer: bytes = b""


class UserTokens(Protocol):
    """Tokens with which the proxy acts for its users (delegation.py)."""

    async def token(self, endpoint: Endpoint, user: str, reached: Callable[[], None]) -> Token: ...

    def forget(self, endpoint: Endpoint, user: str, token: Token) -> None: ...


@dataclass(eq=False, slots=True)
class Endpoint:
    """One metastore. `lacks`: methods that it answered with UNKNOWN_METHOD. `tls`, `logins`, `http`: None for
    connections without. `users`: tokens of users; None: the proxy does not act for them."""

    host: str
    port: int
    tls: ClientSide | None = None
    logins: ServiceLogins | None = None
    http: HttpNames | None = None
    users: UserTokens | None = None
    lacks: set[bytes] = field(default_factory=set)
    problem: str = ""  # why its circuit is open; empty: it is closed
    silent: bool = False  # its circuit is open because connection attempts get no answer
    hangs: bool = False  # ... because probes get no answer, neither to the connection attempt nor to the call
    heard_ns: int = 0  # when anything was last received from it, on any connection

    @property
    def uri(self) -> str:
        return Address(self.host, self.port).uri

    @property
    def authority(self) -> str:
        """Host and port, as in a URI."""
        return str(Address(self.host, self.port))

    @property
    def secured(self) -> dict[str, Any]:
        """Arguments for asyncio's functions that connect."""
        if self.tls is None:
            return {}
        return {"ssl": self.tls.context, "server_hostname": self.tls.server_name(self.host)}

    @property
    def sick(self) -> bool:
        """Its circuit is open."""
        return bool(self.problem)


class Endpoints:
    """The upstream URIs in their order."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], towards: MetastoreSecurity = PLAIN, *, in_turn: bool = False
    ) -> None:
        self.tls, self.logins, self.http = towards
        self._in_turn = in_turn
        self._turn = 0
        self.all = tuple(Endpoint(host, port, *towards) for host, port in addresses)
        self.suspect: Callable[[Endpoint], None] = lambda _: None  # set by the prober: probes the metastore

    @property
    def hear_users(self) -> bool:
        """Users are named with set_ugi: a connection itself is nobody's."""
        return self.logins is None and self.http is None

    def named(self, identity: bytes | None) -> bytes | None:
        """What of a client's identity belongs to its connection to a metastore, and cannot change on it."""
        return None if self.http is None else identity

    def act_for_users(self, tokens: UserTokens) -> None:
        """From now on, connections of users are made with these tokens."""
        for endpoint in self.all:
            endpoint.users = tokens

    def candidates(self, *, last: Endpoint | None = None) -> list[Endpoint]:
        """The metastores in the order to try: closed circuits, then open ones. `last` has just failed, and is the last
        of its group."""
        order = sorted(self.all, key=lambda endpoint: (endpoint.sick, endpoint is last))
        well = sum(not endpoint.sick and endpoint is not last for endpoint in order)
        if self._in_turn and well:
            first = self._turn % well
            order[:well] = order[first:well] + order[:first]
            self._turn += 1
        return [endpoint for endpoint in order if not endpoint.silent]

    def other_than(self, endpoint: Endpoint) -> bool:
        """Is there another metastore with a closed circuit?"""
        return any(not other.sick for other in self.all if other is not endpoint)

    @property
    def all_sick(self) -> bool:
        """No circuit is closed: an outage."""
        return all(endpoint.sick for endpoint in self.all)

    @property
    def problems(self) -> str:
        """Why nothing can be reached."""
        return "; ".join(f"{endpoint.uri}: {endpoint.problem}" for endpoint in self.all if endpoint.sick)

    def unopened(self, endpoint: Endpoint, detail: str, why: Unopened) -> None:
        """A connection to it was not opened."""
        if why == "late":
            self.suspect(endpoint)
        elif why != "user":
            self.refused(endpoint, detail, silent=why == "silent")

    def refused(self, endpoint: Endpoint, problem: str, *, silent: bool = False, hangs: bool = False) -> None:
        """It refused a connection (`silent`: did not answer the attempt in time), or did not answer a probe (`hangs`:
        within the time of a probe)."""
        endpoint.problem, endpoint.silent, endpoint.hangs = problem or "refused", silent, hangs
        endpoint.lacks.clear()  # after a restart it may have another version
        self.suspect(endpoint)

    def answered(self, endpoint: Endpoint) -> None:
        """It answered a probe."""
        endpoint.problem, endpoint.silent, endpoint.hangs = "", False, False
