"""Relaying: the upstream side of one client connection, one request at a time.

Job: choose and open the upstream connection, repeat the session calls on it, send the request, pass the reply on as it
comes, and decide what a failure means. Pure: events in, commands appended to the list of its owner. Must not know
sockets or the clock.

Invariants
- `sending` comes before the first byte leaves; `reply_began` before any byte of the reply is passed on; a held reply is
  passed on after `reply_done`.
- A request is sent again only if it is a read and not one byte of a reply has been seen, once.
- A reply must carry the name and the seqid of its request: one that does not would be somebody else's answer.
- A failure that no byte of the reply preceded becomes a TApplicationException and the client's connection stays
  usable; after the first byte the client's connection is closed. A metastore that closes its connection instead of
  answering (some requests make Hive do so) has its client closed too: that is its answer.
Owner: one ClientConnection.
"""

from __future__ import annotations

from enum import Enum

from hms_cache_proxy.errors import CacheError, WireError
from hms_cache_proxy.methods.decision import Ask, Forward, Session
from hms_cache_proxy.metrics import Failure, Outcome
from hms_cache_proxy.server import twin
from hms_cache_proxy.server.commands import (
    Again,
    CloseUpstream,
    Command,
    Observe,
    OpenUpstream,
    ReadingUpstream,
    SendUpstream,
    UpstreamTrouble,
    Why,
)
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.server.outbox import Outbox
from hms_cache_proxy.server.reply import Reply
from hms_cache_proxy.server.twin import Twin
from hms_cache_proxy.upstream.endpoints import Endpoint, Endpoints
from hms_cache_proxy.upstream.replay import MAX_REPLY_BYTES, SessionCalls, succeeded
from hms_cache_proxy.wire.message import ApplicationError, Header, MessageLimits, MessageType, exception_message
from hms_cache_proxy.wire.spec import METHODS

# Oneway; tells the metastore to free what the connection holds. Where there is none, nobody needs to be told.
GOODBYE = b"shutdown"


class Link(Enum):
    """The upstream connection."""

    CLOSED = "closed"
    OPENING = "opening"
    REPLAYING = "replaying"  # a session call is out
    IDLE = "idle"
    ASKING = "asking"  # the request is out or leaving, no byte of its reply seen
    REPLYING = "replying"


class Exchange:
    """The upstream connection of a client and the request that is on it."""

    def __init__(
        self,
        *,
        session: Session,
        endpoints: Endpoints,
        outbox: Outbox,
        commands: list[Command],
        limits: MessageLimits,
    ) -> None:
        self._session = session
        self._endpoints = endpoints
        self._outbox = outbox
        self._commands = commands
        self._limits = limits
        self._calls = SessionCalls()
        self._candidates: list[Endpoint] = []
        self._endpoint: Endpoint | None = None
        self._attempt = 0
        self._replayed = 0
        self._began_ns = 0
        self._problem = ""
        self._reply: Reply | None = None
        self._request: Request | None = None
        self._forward: Forward | None = None
        self._twin: Twin | None = None  # is asked in place of the request
        self._question: Ask | None = None  # the same, as the decider wants it
        self._refusal: bytes | None = None  # the reply to a bridged request that has no twin
        self._tried_both = False
        self._streamed = False  # the reply goes out in parts
        self._discard = False  # the client is gone; the outcome of its write is still wanted
        self.over = False  # the request is over; the owner takes note of it and clears the flag
        self.must_close: tuple[Why, str] | None = None  # the client has to be closed, and why
        self.link = Link.CLOSED
        self.blocked = False  # the upstream transport's buffer is above its high water
        self.progress_ns = 0  # when bytes last moved on the upstream side

    @property
    def waiting(self) -> bool:
        """The metastore owes us something."""
        return self.link in (Link.REPLAYING, Link.ASKING, Link.REPLYING)

    def start(self, request: Request, forward: Forward, now_ns: int) -> None:
        """Relay one request."""
        self._request, self._forward, self._question = request, forward, forward.ask
        self._began_ns = self.progress_ns = now_ns
        self._attempt = 1
        self._problem = ""
        self._streamed = self._tried_both = False
        self._refusal = None
        self._outbox.size = 0
        if self.link is Link.IDLE:
            self._ask()
        elif request.header.name == GOODBYE:
            self._over(forward.outcome, forward.reason)
        else:
            self._open(now_ns)

    def opened(self, now_ns: int) -> None:
        """The connection to the endpoint is there."""
        assert self.link is Link.OPENING and self._endpoint is not None
        self._endpoints.connected(self._endpoint)
        self.progress_ns = now_ns
        self._replayed = 0
        self._replay_next()

    def refused(self, detail: str, now_ns: int) -> None:
        """The connection to the endpoint could not be made."""
        assert self.link is Link.OPENING
        self._trouble("connect", detail)
        self._refuse_endpoint(detail, now_ns)

    def received(self, data: bytes, now_ns: int) -> None:
        """Bytes from the metastore."""
        self.progress_ns = now_ns
        try:
            if self.link in (Link.ASKING, Link.REPLYING):
                self._take(data, now_ns)
            elif self.link is Link.REPLAYING:
                self._take_replayed(data)
            else:
                raise WireError("bytes that nobody asked for")
        except WireError as error:
            self._lose("protocol", str(error), now_ns)

    def lost(self, detail: str, now_ns: int, *, orderly: bool = False) -> None:
        """The metastore closed the connection (`orderly`), or it broke."""
        if self.link is Link.IDLE:
            self._close_link()
        else:
            self._lose("closed", detail, now_ns, orderly=orderly)

    def timed_out(self, now_ns: int) -> None:
        """Nothing moved on the upstream side for the request time."""
        self._lose("timeout", "no answer in time", now_ns)

    def pump(self) -> None:
        """The metastore takes more of a large request."""
        request = self._request
        if request is None or request.spool is None or self.link not in (Link.ASKING, Link.REPLYING):
            return
        if request.spool.left and not self.blocked:
            self._commands.append(SendUpstream(request.spool.read()))
            if request.spool.left:
                self._commands.append(Again())

    def client_gone(self) -> None:
        """There is nobody to answer. A write goes on, so that its outcome is known; the rest ends."""
        forward = self._forward
        if forward is None or forward.retry or self.link not in (Link.ASKING, Link.REPLYING):
            self.abort()
            return
        self._discard = True
        self._outbox.drop()
        self._commands.append(ReadingUpstream(True))

    def abort(self) -> None:
        """End at once; a request on its way has an unknown outcome."""
        forward, sent = self._forward, self._sent
        self._forget()
        if self.link is not Link.CLOSED:
            self._close_link()
        if forward is not None:
            forward.pending.failed(sent)

    # opening

    @property
    def _sent(self) -> bool:
        return self._attempt > 1 or self.link in (Link.ASKING, Link.REPLYING)

    def _open(self, now_ns: int) -> None:
        if not self._calls.complete:
            self.must_close = (Why.SESSION, "too many session calls to repeat them on a new connection")
            return
        self._tried_both = False
        self._candidates = self._endpoints.candidates(now_ns)
        self._open_next()

    def _open_next(self) -> None:
        if not self._candidates:
            self.link = Link.CLOSED
            self._fail("no_upstream", f"no metastore can be reached: {self._problem}")
            return
        self._endpoint = self._candidates.pop(0)
        self.link = Link.OPENING
        self._commands.append(OpenUpstream(self._endpoint))

    def _refuse_endpoint(self, detail: str, now_ns: int) -> None:
        assert self._endpoint is not None
        self._endpoints.refused(self._endpoint, now_ns)
        self._problem = "; ".join(filter(None, (self._problem, f"{self._endpoint.uri}: {detail}")))
        self._open_next()

    def _replay_next(self) -> None:
        if self._replayed == len(self._calls.messages):
            self._ask()
            return
        self.link = Link.REPLAYING
        header, message = self._calls.messages[self._replayed]
        self._reply = Reply(header, self._limits, MAX_REPLY_BYTES)
        self._commands.append(SendUpstream(message))

    def _take_replayed(self, data: bytes) -> None:
        reply = self._reply
        assert reply is not None
        reply.take(data)
        if not reply.complete:
            return
        if reply.extra or reply.held is None or not succeeded(reply.held):
            self.must_close = (Why.SESSION, "the metastore refuses a session call that it once accepted")
            return
        self._replayed += 1
        self._replay_next()

    # asking

    def _ask(self) -> None:
        request, forward = self._request, self._forward
        assert request is not None and forward is not None
        try:
            forward.pending.sending()
        except CacheError as error:
            self._fail("cache", f"the call cannot be kept apart from the cache: {error}")
            return
        self.link = Link.ASKING
        if self._question is not None:
            self._twin = None
            self._reply = Reply(self._question.header, self._limits, self._question.hold_bytes)
            self._commands.append(SendUpstream(self._question.message))
            return
        hold = max(forward.hold_bytes, MAX_REPLY_BYTES) if forward.replay else forward.hold_bytes
        self._twin = self._choose_twin(request)
        if self._twin is not None:
            self._reply = Reply(self._twin.asked, self._limits, max(hold, twin.HOLD_BYTES))
            self._commands.append(SendUpstream(self._twin.message))
            return
        self._reply = Reply(request.header, self._limits, hold)
        if request.spool is None:
            self._commands.append(SendUpstream(request.message))
        else:
            request.spool.rewind()
            self.pump()
        if not _is_answered(request.header):
            self._sent_oneway(request, forward)

    def _choose_twin(self, request: Request) -> Twin | None:
        assert self._endpoint is not None
        if request.header.name not in self._endpoint.lacks or request.spool is not None:
            return None
        return twin.twin_of(request.header, request.message)

    def _try_the_other(self, reply: Reply) -> bool:
        """True if the metastore lacks the method, and it, or its twin, is asked in its place, once."""
        request, endpoint = self._request, self._endpoint
        assert request is not None and endpoint is not None and reply.header is not None
        if self._tried_both or not twin.is_bridged(request.header) or reply.held is None:
            return False
        if not twin.says_unknown_method(reply.header, reply.held):
            return False
        self._tried_both = True
        if self._twin is not None:
            endpoint.lacks.discard(request.header.name)
        else:
            endpoint.lacks.add(request.header.name)
            if self._choose_twin(request) is None:
                self._refusal = twin.refusal(request.header, request.message)
                return False
        self._ask()
        return True

    def _sent_oneway(self, request: Request, forward: Forward) -> None:
        forward.pending.failed(True)  # nobody will say how it ended
        self.link = Link.IDLE
        if not _is_known(request.header):
            self._close_link()  # a server that does not know it answers all the same
        self._over(forward.outcome, forward.reason)

    def _take(self, data: bytes, now_ns: int) -> None:
        reply, forward = self._reply, self._forward
        assert reply is not None and forward is not None
        parts = reply.take(data)
        if reply.header is None:
            return
        if self._question is not None:
            self._take_answer(reply, forward, now_ns, too_long=bool(parts))
            return
        if reply.header.type is MessageType.EXCEPTION and not parts:
            if not reply.complete or self._try_the_other(reply):
                return  # only a whole one tells whether it is the answer
        if self.link is Link.ASKING:
            self.link = Link.REPLYING
            forward.pending.reply_began(self._session, now_ns)
        if parts:
            self._pass_on(parts, forward, now_ns)
        if reply.complete:
            self._complete(reply, forward, now_ns)

    def _take_answer(self, reply: Reply, forward: Forward, now_ns: int, *, too_long: bool) -> None:
        """Part of the reply to a question that was asked in place of the request."""
        if not reply.complete and not too_long:
            return
        step = forward.pending.answered(None if too_long else reply.held)
        if isinstance(step, bytes):
            self.link = Link.IDLE
            if reply.extra or self._discard or too_long:
                self._close_link()
            if not self._discard:
                self._outbox.whole(step)
            self._over(forward.outcome, forward.reason)
            return
        self._question = step
        if too_long or reply.extra:  # the rest of it is still to come
            self._close_link()
            self._open(now_ns)
        else:
            self._ask()

    def _pass_on(self, parts: list[bytes], forward: Forward, now_ns: int) -> None:
        if self._twin is not None:
            parts = self._twin.stream(parts)
        if not self._streamed:
            self._streamed = True
            if forward.hold_bytes:  # it is too long to be held: say so before the first byte leaves
                forward.pending.reply_done(self._session, None, now_ns)
            self._outbox.begin()
        if not self._discard:
            for part in parts:
                self._outbox.stream(part)

    def _complete(self, reply: Reply, forward: Forward, now_ns: int) -> None:
        request, held = self._request, reply.held
        assert request is not None
        if held is not None and self._twin is not None:
            held = self._twin.splice(held)
        held = self._refusal or held
        if forward.replay and held is not None and succeeded(held):
            self._calls.remember(request.header, request.message)
        if not (self._streamed and forward.hold_bytes):
            wanted = held if held is not None and len(held) <= forward.hold_bytes else None
            forward.pending.reply_done(self._session, wanted, now_ns)
        self.link = Link.IDLE
        if reply.extra:
            self._trouble("protocol", "bytes after the end of a reply")
        if reply.extra or self._discard or (request.spool is not None and request.spool.left):
            self._close_link()
        if not self._discard:
            if held is not None:
                self._outbox.whole(held)
            else:
                self._outbox.end()
        self._over(forward.outcome, forward.reason)

    # the end

    def _lose(self, kind: Failure, detail: str, now_ns: int, *, orderly: bool = False) -> None:
        link, forward, reply = self.link, self._forward, self._reply
        self._trouble(kind, detail)
        if link is Link.IDLE or forward is None:
            self._close_link()
        elif link is Link.REPLAYING:
            self._close_link()
            self._refuse_endpoint(detail, now_ns)
        elif kind == "closed" and forward.retry and self._attempt == 1 and not (reply and reply.seen):
            self._close_link()
            self._attempt = 2
            self._open(now_ns)
        else:
            assert self._endpoint is not None
            uri = self._endpoint.uri
            reason, text = _ENDINGS[kind]
            silent = orderly and not (reply and reply.seen)
            self._fail(reason, f"{uri} {text}: {detail}", close=silent)

    def _fail(self, reason: str, text: str, *, close: bool = False) -> None:
        """The request has no answer. `close`: the client is told so in the metastore's own way."""
        request, forward = self._request, self._forward
        assert request is not None and forward is not None
        sent = self._sent
        if self.link is not Link.CLOSED:
            self._close_link()
        forward.pending.failed(sent)
        if close or (self._streamed and self._outbox.passed_on) or (forward.replay and sent):
            self._observe("error", reason)
            self._forget()  # a session call whose outcome is unknown: nobody knows who the client is now
            self.must_close = (Why.SESSION if forward.replay else Why.UPSTREAM, text)
            return
        self._outbox.drop()
        if _is_answered(request.header) and not self._discard:
            header = request.header
            self._outbox.whole(exception_message(header.name, header.seqid, ApplicationError.INTERNAL_ERROR, text))
        self._over("error", reason)

    def _over(self, outcome: Outcome, reason: str) -> None:
        self._observe(outcome, reason)
        self._forget()
        self.over = True

    def _observe(self, outcome: Outcome, reason: str) -> None:
        request, forward = self._request, self._forward
        assert request is not None and forward is not None
        size = self._outbox.size
        self._commands.append(Observe(forward.label, outcome, reason, self._began_ns, size, request))

    def _forget(self) -> None:
        if self._request is not None:
            self._request.close()
        self._request = self._forward = self._reply = self._question = None

    def _close_link(self) -> None:
        self.link = Link.CLOSED
        self.blocked = False
        self._commands.append(CloseUpstream())

    def _trouble(self, kind: Failure, detail: str) -> None:
        uri = self._endpoint.uri if self._endpoint is not None else ""
        self._commands.append(UpstreamTrouble(kind, uri, detail))


_ENDINGS: dict[Failure, tuple[str, str]] = {
    "closed": ("upstream_lost", "closed the connection; whether the call was done is not known"),
    "timeout": ("upstream_timeout", "did not answer; whether the call was done is not known"),
    "protocol": ("upstream_protocol", "broke the protocol; whether the call was done is not known"),
}


def _is_known(header: Header) -> bool:
    return header.name.decode("utf-8", "replace") in METHODS


def _is_answered(header: Header) -> bool:
    """Servers go by the method, not by the message's type; what no Hive knows is taken at its word."""
    if _is_known(header):
        return not METHODS[header.name.decode()].oneway
    return header.type is not MessageType.ONEWAY
