"""The commands of the connection logic to its driver.

Job: effects as data. `ClientConnection` returns lists of commands; the driver executes them in order and answers with
events. Must not know: how they are executed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hms_cache_proxy.methods.decision import Wait
from hms_cache_proxy.metrics import Outcome, UpstreamFailure
from hms_cache_proxy.peers.requests import PeerRequest
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.upstream.endpoints import Endpoint


class Why(Enum):
    """Why a client connection is closed by this side."""

    FINISHED = "finished"  # the client closed its side, or the worker drains
    WIRE = "wire"  # the client broke the protocol
    LIMIT = "limit"  # the client exceeded a limit
    TRANSPORT = "transport"  # its first bytes belong to a transport that is not offered
    IDLE = "idle"
    UPSTREAM = "upstream"  # the metastore failed after a reply had begun
    CACHE = "cache"  # the cache failed after a reply had begun
    LOGIN = "login"  # its login is no longer valid
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
    """Connect; answered by upstream_opened, upstream_refused or upstream_busy."""

    endpoint: Endpoint


@dataclass(slots=True)
class CloseUpstream:
    """Close the connection to the metastore, or stop opening it; no event of it follows."""


@dataclass(slots=True)
class SetReading:
    """Start or stop reading from the client."""

    wanted: bool


@dataclass(slots=True)
class ReadingUpstream:
    """Start or stop reading from the metastore."""

    wanted: bool


@dataclass(slots=True)
class Again:
    """Call `turn` in the next turn of the loop."""


@dataclass(slots=True)
class Await:
    """Call `moved` when the request may be decided again."""

    wait: Wait


@dataclass(slots=True)
class AskPeers:
    """Call `peers_agreed` when the other proxies know of this."""

    request: PeerRequest


@dataclass(slots=True)
class Observe:
    """One call has ended: count it."""

    label: str
    outcome: Outcome
    reason: str
    began_ns: int
    reply_bytes: int
    """The length of the reply, without its frame."""

    request: Request = field(compare=False)
    upstream_ns: int = field(default=0, compare=False)
    """How long the metastore took to answer; 0: it was not asked, or did not answer."""

    reply: bytes = field(default=b"", compare=False)
    """The beginning of the reply (outbox.HEAD_BYTES), if there was one."""

    asked_ns: int = field(default=0, compare=False)
    """When the request was first sent to a metastore; 0: it was not."""


@dataclass(slots=True)
class UpstreamTrouble:
    """Log and count a failure; by its kind."""

    kind: UpstreamFailure
    uri: str
    detail: str


@dataclass(slots=True)
class LoggedIn:
    """From here on, requests come from this user. `how` this is known: jwt, header."""

    user: str
    how: str


@dataclass(slots=True)
class RequestRefused:
    """An HTTP request was answered with this status instead of a message. `detail`: what the client was not told."""

    status: int
    why: str
    detail: str


@dataclass(slots=True)
class Close:
    """Close the client's connection after what was sent has left; `key` is the limit or the transport."""

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
    | AskPeers
    | Observe
    | UpstreamTrouble
    | LoggedIn
    | RequestRefused
    | Close
)
