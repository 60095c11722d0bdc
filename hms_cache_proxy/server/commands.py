"""What connection logic asks its driver to do.

Job: effects as data. `ClientConnection` returns lists of these, in order; the driver carries them out and answers with
events. Must not know how.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hms_cache_proxy.metrics import Outcome, UpstreamFailure
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.upstream.endpoints import Endpoint


class Why(Enum):
    """Why a client connection is closed by this side."""

    FINISHED = "finished"  # the client closed its side, or the worker drains
    WIRE = "wire"  # its bytes break the protocol
    LIMIT = "limit"  # ... or a limit
    TRANSPORT = "transport"  # its first bytes are of a transport that is not spoken
    IDLE = "idle"
    UPSTREAM = "upstream"  # a reply that had begun cannot be finished: the metastore's fault
    CACHE = "cache"  # ... or the cache's
    SESSION = "session"  # its session calls could not be repeated: a call must never run as another user


@dataclass(slots=True)
class Send:
    """Bytes to the client."""

    data: bytes


@dataclass(slots=True)
class SendUpstream:
    """Bytes to the metastore."""

    data: bytes


@dataclass(slots=True)
class OpenUpstream:
    """Connect; answered by upstream_opened or upstream_refused."""

    endpoint: Endpoint


@dataclass(slots=True)
class CloseUpstream:
    """Close the connection to the metastore, or stop opening it; nothing more is heard of it."""


@dataclass(slots=True)
class SetReading:
    """Start or stop to read from the client."""

    wanted: bool


@dataclass(slots=True)
class ReadingUpstream:
    """Start or stop to read from the metastore."""

    wanted: bool


@dataclass(slots=True)
class Again:
    """Call `turn` in the next turn of the loop."""


@dataclass(slots=True)
class Await:
    """Call `moved` when the decider has moved away from `seen`, or when it is `until_ns`."""

    seen: int
    until_ns: int


@dataclass(slots=True)
class Observe:
    """One call is over: count it."""

    label: str
    outcome: Outcome
    reason: str
    began_ns: int
    reply_bytes: int
    """What the client gets, without its frame."""

    request: Request = field(compare=False)


@dataclass(slots=True)
class UpstreamTrouble:
    """Log and count: kind is connect, closed, timeout or protocol."""

    kind: UpstreamFailure
    uri: str
    detail: str


@dataclass(slots=True)
class Close:
    """Close the client's connection once what was sent is out; `key` is the limit or the transport."""

    why: Why
    detail: str = ""
    key: str = ""


Command = (
    Send
    | SendUpstream
    | OpenUpstream
    | CloseUpstream
    | SetReading
    | ReadingUpstream
    | Again
    | Await
    | Observe
    | UpstreamTrouble
    | Close
)
