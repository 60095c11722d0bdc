"""What a dispatcher decides about one request, and what the server reports back to it.

Job: the vocabulary between methods/ and server/: `ClientSession` (what a client connection is), `Serve`, `Wait`, `Work`
and `Forward` (what to do with a request), `Pending` (who is told what becomes of a Forward) and the protocol `Decider`,
which all dispatchers implement.
Must not know: sockets, the loop, the cache.
Order of calls for one request: the decider's `hot` or `decide`; for a Forward then, of its `pending`, `sending` (before
the first byte leaves; may come twice if the request is sent again; before each question that is asked in its place,
whose reply goes to `answered`), `reply_began` (before any byte of the reply is passed on), `reply_done`; or `failed` in
place of the rest. Owner: the worker's event loop; nothing here may wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from hms_cache_proxy.consistency.floors import Floors
from hms_cache_proxy.metrics import Outcome
from hms_cache_proxy.wire.message import Header


@dataclass(slots=True)
class ClientSession:
    """One client connection. The server creates it; the dispatcher owns its fields."""

    peer: str = ""
    identity: bytes | None = None  # who the session calls say the client is
    relay_for_good: bool = False  # the client called setMetaConf or the like
    floors: Floors | None = None  # what its relayed reads have shown; None: nothing yet
    locked: Floors | None = None  # what its shared locks are on, in TTL mode; None: nothing yet


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer from here: the whole reply message with the request's seqid, a large one as its beginning and its result,
    which are not copied together; or its slices in order."""

    chunks: bytes | tuple[bytes, bytes] | Iterator[bytes]
    label: str  # method label of the metrics
    outcome: Outcome = "hit"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the metastore this in place of the client's request; its reply is for `Pending.answered`, not for the client.

    A reply over `hold_bytes` is given up: `answered` then gets None.
    """

    header: Header
    message: bytes
    hold_bytes: int


class Pending:
    """What a forwarded call still has to do at each stage. This base class does nothing."""

    __slots__ = ()

    def sending(self) -> None:
        """The request, or a question in its place, is about to be sent."""

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        """The first bytes of the reply are here and none has been passed on."""

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        """The reply is here: whole if it was held, and then none of it has been passed on; else None."""

    def failed(self, sent: bool) -> None:
        """There will be no reply; the outcome is unknown if `sent`."""

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        """The reply to an Ask, None if it was too long. What to do next: another question, the reply for the client, or
        None: send the client's own request after all."""
        return None


NOTHING: Final = Pending()
"""The Pending of calls that nothing follows from."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Ask the metastore."""

    label: str  # method label of the metrics
    outcome: Outcome  # miss, relay, write
    reason: str = ""
    hold_bytes: int = 0  # reply_done needs the whole reply if it is no longer than this; 0: never
    retry: bool = False  # a read: may be sent again if the upstream died before the first byte of its reply
    replay: bool = False  # a session call: repeat it on each new upstream connection once it has succeeded
    offline: bytes | None = None  # a session call: what to answer while no metastore is well; it is made later
    pending: Pending = NOTHING  # is told what becomes of it
    ask: Ask | None = None  # the first question that is asked in place of the request


@dataclass(frozen=True, slots=True)
class Wait:
    """Not yet: the cache can answer once the follower has finished its next step, in milliseconds.

    Ask again with the same arrival time when `Decider.moved` gives another value than `seen`, at the latest at
    `until_ns`, and then without patience.
    """

    seen: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class Work:
    """Being looked for: call `step` with each turn of the loop until it gives what to do. A client that is gone needs
    nothing more: dropping this frees what it holds."""

    step: Callable[[], Decision | None]


Decision = Serve | Forward | Wait | Work
"""What to do with a request."""


class Decider(Protocol):
    """Decides what each request means. One per worker."""

    def moved(self) -> int:
        """A number that changes when the follower has finished a step: reads that wait may then be decided."""

    def hot(self, session: ClientSession, data: bytes, now_ns: int) -> bytes | None:
        """The whole reply if `data` is exactly one request whose kept reply is still valid; otherwise None."""

    def decide(
        self,
        session: ClientSession,
        header: Header,
        message: bytes,
        now_ns: int,
        *,
        complete: bool = True,
        patient: bool = False,
    ) -> Decision:
        """What to do with a request that arrived at now_ns. `complete` False: it is too large to look at, `message` is
        its beginning. `patient`: Wait may be the answer."""


class BaseDecider:
    """Base of Deciders: it has no hot path, and lets no request wait."""

    def moved(self) -> int:
        return 0

    def hot(self, session: ClientSession, data: bytes, now_ns: int) -> bytes | None:
        return None
