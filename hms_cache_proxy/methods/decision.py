"""What a dispatcher decides about one request, and what the server reports back.

Job: define the types that methods/ and server/ share: `ClientSession` (a client connection), `ClientCall` (one request
of it), `Serve`, `Wait`, `Work` and `Forward` (what to do with a request), `Pending` (is told what happens to a Forward)
and the protocol `Dispatcher`. Some dispatchers wrap another: they change or refuse some calls, and pass the others on
to it.
Must not know: sockets, the loop, the cache. Order of calls for one request: the server calls the dispatcher's `hot` or
`decide`. After a Forward, it calls these methods of `pending`: `leaving`, after which it waits until other proxies know
what this returned; `sending` before the first byte leaves (again if the request is sent again, and before each question
that is asked instead of it, whose reply goes to `answered`); `reply_began` before any byte of the reply is passed on;
`reply_done` at its end. If there is no reply, `failed` takes the place of the rest. Owner: the worker's event loop;
nothing here may wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from hms_cache_proxy.consistency.floors import Floors
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.metrics import Outcome
from hms_cache_proxy.peers.requests import PeerRequest
from hms_cache_proxy.security.mechanism import OF_HTTP, Admitted
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header

from .method_plan import EVERYTHING, Plan, Understood, plan


@dataclass(slots=True)
class ClientSession:
    """One client connection. The server creates it; the dispatcher owns its fields."""

    peer: str = ""
    identity: bytes | None = None  # the user that the session calls, or a login, name
    login: Admitted | None = None  # the identity is that of a login, and no call changes it
    transport: str = ""  # as security.transports names it
    relay_for_good: bool = False  # the client called setMetaConf or the like
    floors: Floors | None = None  # for what its relayed reads have shown; None: nothing yet
    passing: PeerRequest | None = None  # what other proxies must know before the reply that has arrived is passed on
    held_back_ns: int = -(1 << 62)  # when a read was last relayed that the follower's next step would have helped
    locked: Floors | None = None  # for what it holds shared locks on, in TTL mode; None: nothing yet

    @property
    def known_by(self) -> str:
        """How the user has been proved: sasl, jwt, header; empty: in no way."""
        how = "" if self.login is None else self.login.how
        return how if how in ("", *OF_HTTP) else "sasl"


class ClientCall(NamedTuple):
    """One request, as it passes through the dispatchers. (It is a tuple because one is made for almost every request.)

    `plan`: its method's; None: the method is not in the table. `complete` False: it is too large to read, and `message`
    is only its beginning. `patient`: the decision may be Wait. `understood`: what a large request says, once it has
    been read in slices (large_requests.py); None: it is read from the message where it is needed.
    """

    session: ClientSession
    header: Header
    message: bytes
    plan: Plan | None
    arrived_ns: int
    complete: bool = True
    patient: bool = False
    understood: Understood | None = None

    @classmethod
    def of(
        cls,
        session: ClientSession,
        header: Header,
        message: bytes,
        arrived_ns: int,
        *,
        complete: bool = True,
        patient: bool = False,
    ) -> ClientCall:
        """A request that has just arrived, or is decided again."""
        return cls(session, header, message, plan(header.name), arrived_ns, complete, patient)

    def saying(self, message: bytes) -> ClientCall:
        """The same call with other arguments; its header has the same length."""
        return self._replace(message=message, understood=None)

    def named(self) -> tuple[bytes, ...]:
        """The targets of the request: what a write touches, what a read depends on."""
        if self.plan is None:
            return EVERYTHING
        if self.understood is not None:
            return self.understood.targets
        return self.plan.named(self.message, self.header.body, complete=self.complete)

    def silent(self, *, in_4: bool) -> tuple[bytes, ...]:
        """The partitions that a write changes without an event, before Hive 4 or in Hive 4."""
        assert self.plan is not None, "only the table says so"
        if self.understood is not None:
            return self.understood.silent_in_4 if in_4 else self.understood.silent
        return self.plan.silent(self.message, self.header.body, complete=self.complete, in_4=in_4)

    def read(self) -> tuple[tuple[bytes, ...], spec.Struct | None]:
        """What a read depends on, and its arguments, decoded once; None if they cannot be decoded."""
        assert self.plan is not None, "only the table says what a read is"
        if self.understood is not None:
            return self.understood.targets, self.understood.args
        return self.plan.read(self.message, self.header.body)

    def arguments(self) -> Any:
        """The arguments. WireError if they cannot be decoded."""
        assert self.plan is not None, "of a known method"
        if self.understood is None:
            return self.plan.arguments(self.message, self.header.body)
        if self.understood.args is None:
            raise WireError("arguments that cannot be decoded, or are too many")
        return self.understood.args


@dataclass(slots=True)
class Serve:
    """Answer from here. The reply is the whole message with the request's seqid; a large one is (its beginning, its
    result), which saves a copy, or an iterator of its slices."""

    chunks: bytes | tuple[bytes, bytes] | Iterator[bytes]
    label: str  # method label of the metrics
    outcome: Outcome = "hit"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the metastore this instead of the client's request. The reply goes to `Pending.answered`, not to the client.

    A reply longer than `hold_bytes` is discarded: `answered` then gets None.
    """

    header: Header
    message: bytes
    hold_bytes: int


class Pending:
    """What has to be done at each stage of a forwarded call. This base class does nothing."""

    __slots__ = ()

    def leaving(self) -> PeerRequest | None:
        """The call is about to be forwarded. What other proxies must know before it leaves; None: nothing."""
        return None

    def sending(self) -> None:
        """The request, or a question instead of it, is about to be sent."""

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        """The first bytes of the reply have arrived, and none has been passed on."""

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        """The reply has arrived. `reply` is the whole of it if it was held (no byte has been passed on), else None."""

    def failed(self, sent: bool) -> None:
        """There will be no reply; the outcome is unknown if `sent`."""

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        """The reply to an Ask has arrived; None if it was too long. Returns what to do next: another question, the
        reply for the client, or None: send the client's own request after all."""
        return None


@dataclass(frozen=True, slots=True)
class PassingOn(Pending):
    """Base class of what is added to another Pending. `inner` is told everything; an overriding method tells it too."""

    inner: Pending

    def leaving(self) -> PeerRequest | None:
        return self.inner.leaving()

    def sending(self) -> None:
        self.inner.sending()

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        self.inner.reply_began(session, now_ns)

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        self.inner.reply_done(session, reply, now_ns)

    def failed(self, sent: bool) -> None:
        self.inner.failed(sent)

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        return self.inner.answered(reply)


NOTHING: Final = Pending()
"""The Pending of calls without effects."""


@dataclass(slots=True)
class Forward:
    """Ask the metastore."""

    label: str  # method label of the metrics
    outcome: Outcome  # miss, relay, write
    reason: str = ""
    hold_bytes: int = 0  # reply_done needs the whole reply if it is no longer than this; 0: never
    retry: bool = False  # a read: may be sent again if the upstream died before the first byte of its reply
    replay: bool = False  # a session call: repeat it on each new upstream connection once it has succeeded
    offline: bytes | None = None  # a session call: the reply while no metastore answers; the call is made later
    pending: Pending = NOTHING  # is told what happens to the call
    ask: Ask | None = None  # the first question, asked instead of the request
    instead: bytes | None = None  # a call of the same method and seqid, sent instead of the request


@dataclass(slots=True)
class Wait:
    """Not yet: the cache can answer after the follower's next step, or after another read's reply. All times are in ns.

    Ask again with the same arrival time when `Dispatcher.moved` differs from `seen`, at the latest at `until_ns`, and
    then without patience. With `look_after_ns`, only a look that began after this moment helps: `seen` does not count,
    and `Dispatcher.looked_ns` must be above it. `told`: the follower tells the worker when its step has ended.
    """

    seen: int
    until_ns: int
    told: bool = False
    look_after_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """The answer takes several turns of the loop: call `step` in each turn until it returns a decision. If the client
    is gone, drop this object, which frees what it holds."""

    step: Callable[[], Decision | None]


Decision = Serve | Forward | Wait | Work
"""What to do with a request."""


class Dispatcher(Protocol):
    """Decides what each request means. One per worker."""

    def moved(self) -> int:
        """A number that changes when reads that wait may be decided again: after a step of the follower, or a reply."""

    def looked_ns(self) -> int:
        """When the last step of the follower began that is done."""

    def hot(self, session: ClientSession, data: bytes, now_ns: int) -> bytes | None:
        """The whole reply if `data` is exactly one request whose kept reply is still valid; otherwise None."""

    def hot_wait(self, session: ClientSession, data: bytes, now_ns: int) -> Wait | None:
        """A Wait if `data` is exactly one request that `hot` would answer after a step of the follower; else None."""

    def decide(self, call: ClientCall) -> Decision:
        """What to do with a request."""


class BaseDispatcher:
    """Base class of dispatchers that have no hot path and let no request wait."""

    def moved(self) -> int:
        return 0

    def looked_ns(self) -> int:
        return 0

    def hot(self, session: ClientSession, data: bytes, now_ns: int) -> bytes | None:
        return None

    def hot_wait(self, session: ClientSession, data: bytes, now_ns: int) -> Wait | None:
        return None
