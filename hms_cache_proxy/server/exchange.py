"""Relaying: the upstream side of one client connection, one request at a time.

Job: reach a metastore (forwarding.py), send the request, and pass the reply on as it arrives. Pure: events come in, and
commands are appended to the owner's list. An event that ends the request returns how it ended. Must not know: sockets,
the clock, what a failure means for the request (upstream_failures.py).

Invariants
- `state` (upstream_states.py) is everything that is known about the connection and the request on it.
- `sending` is called before the first byte is sent, and `reply_began` before any byte of the reply is passed on. A held
  reply is passed on after `reply_done`.
- While a call waits, its metastore is probed. If the metastore does not answer and another does, a read continues at
  the other; a write that was sent waits for its end.
- A reply must have the name and the seqid of its request; otherwise it is the answer to another call.
Owner: one ClientConnection.
"""

from __future__ import annotations

from hms_cache_proxy.budget import Budget
from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.methods.decision import ClientSession, Forward
from hms_cache_proxy.metrics import Outcome, UpstreamFailure
from hms_cache_proxy.server import bridged_call
from hms_cache_proxy.server.commands import (
    Again,
    CloseUpstream,
    Command,
    OpenUpstream,
    ReadingUpstream,
    SendUpstream,
    UpstreamTrouble,
    Why,
)
from hms_cache_proxy.server.forwarding import Reached, Reaching, ReachingStep, SessionRefused
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.server.outbox import Outbox
from hms_cache_proxy.server.reply import REPLY_LIMITS, Reply
from hms_cache_proxy.server.reply_ending import FINISHED, Finished, MustClose, ReplyEnding
from hms_cache_proxy.server.upstream_failures import (
    INSTEAD_OF_A_REPLY,
    closes_client,
    ending_of,
    may_ask_again,
    may_give_up,
    was_sent,
)
from hms_cache_proxy.server.upstream_states import (
    CLOSED,
    Answering,
    Asking,
    Closed,
    Idle,
    Opening,
    Questioning,
    RelayedCall,
    Replaying,
    Replying,
    Sent,
    Streaming,
    UpstreamState,
    lacks_method,
    observed,
)
from hms_cache_proxy.upstream.endpoints import Endpoint, Endpoints, Unopened
from hms_cache_proxy.upstream.replay import MAX_REPLY_BYTES, SessionCalls, succeeded
from hms_cache_proxy.upstream.silence import hangs
from hms_cache_proxy.wire.message import ApplicationError, MessageType, exception_message

# A oneway call that makes the metastore free what the connection holds. Without a connection it is not needed.
GOODBYE = b"shutdown"
_EXCEPTION = MessageType.EXCEPTION


class Exchange:
    """The upstream connection of a client and the request on it."""

    def __init__(
        self,
        *,
        session: ClientSession,
        endpoints: Endpoints,
        outbox: Outbox,
        commands: list[Command],
        memory: Budget,
        calls: SessionCalls,
    ) -> None:
        """`calls`: what metastores are told before anything else."""
        self._memory = memory
        self._session = session
        self._endpoints = endpoints
        self._outbox = outbox
        self._commands = commands
        self.calls = calls
        self.state: UpstreamState = CLOSED
        self.blocked = False  # the upstream transport's buffer is above its high-water mark
        self._closing = False  # the metastore has said that it closes the connection: nothing more can be sent over it
        self.progress_ns = 0  # when bytes last moved on the upstream side
        self._reaching = Reaching(session, endpoints, calls, memory)

    @property
    def waiting(self) -> bool:
        """A reply is outstanding."""
        return isinstance(self.state, Replaying | Sent)

    @property
    def replying(self) -> bool:
        """The reply to the request is on its way to the client, or held back."""
        return isinstance(self.state, Replying | Streaming)

    # events

    def start(self, request: Request, forward: Forward, now_ns: int) -> ReplyEnding | None:
        """Relay one request."""
        call = RelayedCall(request, forward, now_ns, forward.ask)
        self.progress_ns = now_ns
        self._outbox.size = 0
        if isinstance(self.state, Idle):
            elsewhere = request.header.name != GOODBYE and self._reaching.better_elsewhere(self.state.endpoint)
            if elsewhere or self._reaching.names_another:
                self._close_link()
        if forward.offline is not None and self._endpoints.all_sick:
            return self._answer_offline(call, forward.offline)
        if isinstance(self.state, Idle):
            return self._ask(call, self.state.endpoint)
        if request.header.name == GOODBYE:
            return self._over(call, forward.outcome, forward.reason)
        return self._open(call)

    def opened(self, now_ns: int) -> ReplyEnding | None:
        """The connection to the endpoint is open."""
        state = self.state
        assert isinstance(state, Opening)
        self.progress_ns = now_ns
        return self._go_on(self._reaching.opened(state))

    def refused(self, detail: str, why: Unopened) -> ReplyEnding | None:
        """The connection to the endpoint could not be opened."""
        state = self.state
        assert isinstance(state, Opening)
        self._trouble("connect", detail)
        self._endpoints.unopened(state.endpoint, detail, why)
        return self._go_on(self._reaching.failed(state, detail))

    def busy(self, detail: str) -> ReplyEnding:
        """The limit of upstream connections left no place for a connection to the endpoint."""
        state = self.state
        assert isinstance(state, Opening)
        return self._fail(state.call, "upstream_busy", detail)

    def release(self) -> None:
        """Close the connection if it is idle and the client's session can begin again on another."""
        if isinstance(self.state, Idle) and self.calls.complete:
            self._close_link()

    def received(self, data: bytes, now_ns: int, *, closing: bool = False) -> ReplyEnding | None:
        """Bytes from the metastore. `closing`: nothing more can be sent over the connection."""
        self.progress_ns = now_ns
        self._closing = closing
        state = self.state
        if not isinstance(state, Closed):
            state.endpoint.heard_ns = now_ns
        try:
            if isinstance(state, Answering):
                return self._take(state, data, now_ns)
            if isinstance(state, Questioning):
                return self._take_answer(state, data, now_ns)
            if isinstance(state, Replaying):
                step = self._reaching.received(state, data)
                return None if step is None else self._go_on(step)
            raise WireError("the metastore sent bytes without a request")
        except WireError as error:
            if isinstance(error, LimitError) and error.limit == "spool_bytes" and isinstance(self.state, Sent):
                return self._fail(self.state.call, error.limit, str(error))
            return self._lose("protocol", str(error), now_ns)

    def lost(self, kind: UpstreamFailure, detail: str, now_ns: int, *, orderly: bool = False) -> ReplyEnding | None:
        """The metastore closed the connection (`orderly`), or it broke, or was ended because of what it sent."""
        if isinstance(self.state, Idle):
            self._close_link()
            return None
        return self._lose(kind, detail, now_ns, orderly=orderly)

    def timed_out(self, now_ns: int) -> ReplyEnding | None:
        """Nothing moved on the upstream side for the request timeout."""
        return self._lose("timeout", "the request timed out", now_ns)

    def overdue(self, now_ns: int) -> ReplyEnding | None:
        """Nothing has arrived for a while: probe the metastore, and leave it if it does not answer probes."""
        state = self.state
        assert isinstance(state, Replaying | Sent)
        self._endpoints.suspect(state.endpoint)
        offline = state.call.forward.offline if isinstance(state, Asking) else None
        if offline is not None and self._endpoints.all_sick:
            self._trouble("timeout", state.endpoint.problem)
            return self._answer_offline(state.call, offline)  # its effect, if any, ends with the connection
        if not self._reaching.better_elsewhere(state.endpoint):
            return self._give_up(state, now_ns)
        if isinstance(state, Replaying):
            return self._lose("timeout", state.endpoint.problem, now_ns)
        if not may_ask_again(state, len(self._endpoints.all)):
            return None
        self._trouble("timeout", state.endpoint.problem)
        return self._ask_again(state)

    def _give_up(self, state: Replaying | Sent, now_ns: int) -> ReplyEnding | None:
        """There is no other metastore. If this one hangs, end a call that may end without its word."""
        if not may_give_up(state) or not hangs(state.endpoint, self.progress_ns, now_ns):
            return None
        self._trouble("timeout", state.endpoint.problem)
        return self._fail(state.call, "upstream_timeout", f"{state.endpoint.uri} hangs: {state.endpoint.problem}")

    def pump(self) -> ReplyEnding | None:
        """The metastore can take more of a large request. A oneway call ends with its last byte."""
        state = self.state
        spool = state.call.request.spool if isinstance(state, Sent) else None
        if spool is None or not spool.left or self.blocked:
            return None
        self._commands.append(SendUpstream(spool.read()))
        if spool.left:
            self._commands.append(Again())
        elif isinstance(state, Asking) and not state.call.request.answered:
            return self._sent_oneway(state.call, state.endpoint)
        return None

    def client_gone(self) -> None:
        """The client is gone. A write continues, because its outcome must be known; other calls end."""
        state = self.state
        if not isinstance(state, Sent) or state.call.forward.retry:
            self.abort()
            return
        state.call.discarded = True
        self._outbox.drop()
        self._commands.append(ReadingUpstream(True))

    def abort(self) -> None:
        """End at once. The outcome of a request that was sent is unknown."""
        state = self.state
        if isinstance(state, Closed):
            return
        if isinstance(state, Idle):
            self._close_link()
            return
        state.call.request.close()
        self._close_link()
        state.call.forward.pending.failed(was_sent(state.call, state))

    # on the way to a metastore

    def _ask_again(self, state: Sent) -> ReplyEnding | None:
        self._close_link()
        state.call.attempt += 1
        return self._open(state.call, last=state.endpoint)

    def _open(self, call: RelayedCall, *, last: Endpoint | None = None) -> ReplyEnding | None:
        if not self.calls.complete:
            call.request.close()
            call.forward.pending.failed(call.attempt > 1)
            return MustClose(Why.SESSION, self.calls.problem)
        return self._go_on(self._reaching.begin(call, last))

    def _go_on(self, step: ReachingStep) -> ReplyEnding | None:
        """The next step on the way to a metastore, or its end."""
        if isinstance(step, Reached):
            return self._ask(step.call, step.endpoint)
        if isinstance(step, Opening):
            self.state = step
            self._commands.append(OpenUpstream(step.endpoint))
            return None
        if isinstance(step, Replaying):
            self.state = step
            self._commands.append(SendUpstream(step.message))
            return None
        if isinstance(step, SessionRefused):
            self.abort()
            return MustClose(Why.SESSION, "the metastore refuses a session call that it accepted before")
        self.state, call = CLOSED, step.call
        if call.forward.offline is not None:
            return self._answer_offline(call, call.forward.offline)
        return self._fail(call, "no_upstream", f"no metastore can be reached: {call.problem}")

    def _answer_offline(self, call: RelayedCall, reply: bytes) -> ReplyEnding:
        """No metastore answers: answer the session call here, and make it on the next connection."""
        if not isinstance(self.state, Closed):
            self._close_link()
        self.calls.remember(call.request.header, call.request.message)
        call.forward.pending.reply_done(self._session, reply, self.progress_ns)
        self._outbox.whole(reply)
        return self._over(call, call.forward.outcome, "outage")

    # asking

    def _ask(self, call: RelayedCall, endpoint: Endpoint, *, last: bool = False) -> ReplyEnding | None:
        request, forward, question = call.request, call.forward, call.question
        call.asked_ns = call.asked_ns or self.progress_ns
        forward.pending.sending()
        memory, for_write = self._memory, forward.outcome != "miss"
        if question is not None:
            reply = Reply(question.header, REPLY_LIMITS, question.hold_bytes, memory, for_write=for_write)
            self.state = Questioning(call, endpoint, reply)
            self._commands.append(SendUpstream(question.message))
            return None
        hold = max(forward.hold_bytes, MAX_REPLY_BYTES) if forward.replay else forward.hold_bytes
        other = bridged_call.choose(request, endpoint.lacks)
        if other is not None:
            reply = Reply(other.asked, REPLY_LIMITS, max(hold, bridged_call.HOLD_BYTES), memory, must=True)
            self.state = Asking(call, endpoint, reply, other, last)
            self._commands.append(SendUpstream(other.message))
            return None
        reply = Reply(request.header, REPLY_LIMITS, hold, memory, for_write=for_write)
        self.state = Asking(call, endpoint, reply, None, last)
        if request.spool is not None:
            request.spool.rewind()
            return self.pump()
        self._commands.append(SendUpstream(forward.instead or request.message))
        return None if request.answered else self._sent_oneway(call, endpoint)

    def _sent_oneway(self, call: RelayedCall, endpoint: Endpoint) -> ReplyEnding:
        forward, spool = call.forward, call.request.spool
        forward.pending.failed(True)  # its outcome stays unknown
        self.state = Idle(endpoint)
        if not call.request.known or (spool is not None and spool.left):
            self._close_link()  # it sends a reply to a method that it does not know, or would wait for the rest
        return self._over(call, forward.outcome, forward.reason)

    def _take(self, state: Answering, data: bytes, now_ns: int) -> ReplyEnding | None:
        reply = state.reply
        parts = reply.take(data)
        if reply.header is None:
            return None
        refusal: bytes | None = None
        if isinstance(state, Asking):
            if reply.header.type is _EXCEPTION and not parts:
                if not reply.complete:
                    return None  # only a complete reply shows whether it is the answer
                if lacks_method(state):
                    if self._note_lack(state):
                        return self._ask(state.call, state.endpoint, last=True)
                    refusal = bridged_call.refusal(state.call.request.header, state.call.request.message)
            state = self._reply_began(state, now_ns)
        if parts:
            state = self._pass_on(state, parts, now_ns)
        return self._complete(state, refusal, now_ns) if reply.complete else None

    def _note_lack(self, state: Asking) -> bool:
        """The metastore lacks the method. True if the request, or its twin, can be sent instead."""
        request, lacks = state.call.request, state.endpoint.lacks
        if state.twin is not None:
            lacks.discard(request.header.name)
            return True
        lacks.add(request.header.name)
        return bridged_call.choose(request, state.endpoint.lacks) is not None

    def _take_answer(self, state: Questioning, data: bytes, now_ns: int) -> ReplyEnding | None:
        """Part of the reply to a question that was asked instead of the request."""
        call, reply = state.call, state.reply
        too_long = bool(reply.take(data))
        if reply.header is None or not (reply.complete or too_long):
            return None
        step = call.forward.pending.answered(None if too_long else reply.held)
        if isinstance(step, bytes):
            self.state = Idle(state.endpoint)
            if reply.extra or call.discarded or too_long or self._closing:
                self._close_link()
            if not call.discarded:
                self._outbox.whole(step)
            return self._over(call, call.forward.outcome, call.forward.reason)
        call.question = step
        if too_long or reply.extra or self._closing:  # the rest is still to come, or nothing can be sent any more
            self._close_link()
            return self._open(call)
        return self._ask(call, state.endpoint)

    def _reply_began(self, state: Asking, now_ns: int) -> Replying:
        replying = self.state = Replying(state.call, state.endpoint, state.reply, state.twin)
        state.call.forward.pending.reply_began(self._session, now_ns)
        return replying

    def _pass_on(self, state: Replying | Streaming, parts: list[bytes], now_ns: int) -> Streaming:
        call = state.call
        if state.twin is not None:
            parts = state.twin.stream(parts)
        if isinstance(state, Replying):
            state = self.state = Streaming(call, state.endpoint, state.reply, state.twin)
            if call.forward.hold_bytes:  # it is too long to be held: report that before the first byte is sent
                call.forward.pending.reply_done(self._session, None, now_ns)
            self._outbox.begin()
        if not call.discarded:
            for part in parts:
                self._outbox.stream(part)
        return state

    def _complete(self, state: Replying | Streaming, refusal: bytes | None, now_ns: int) -> ReplyEnding:
        """The whole reply has arrived. `refusal`: what the client gets instead."""
        call, reply, held = state.call, state.reply, state.reply.held
        request, forward = call.request, call.forward
        if held is not None and state.twin is not None:
            held = state.twin.splice(held)
        held = refusal or held
        if forward.replay and held is not None and succeeded(held):
            self.calls.remember(request.header, request.message, whole=request.whole)
        if isinstance(state, Replying) or not forward.hold_bytes:
            wanted = held if held is not None and len(held) <= forward.hold_bytes else None
            forward.pending.reply_done(self._session, wanted, now_ns)
        self.state = Idle(state.endpoint)
        if reply.extra:
            self._trouble("protocol", "bytes after the end of a reply")
        if reply.extra or self._closing or call.discarded or (request.spool is not None and request.spool.left):
            self._close_link()
        if not call.discarded:
            if held is not None:
                self._outbox.whole(held)
            else:
                self._outbox.end()
        return self._over(call, forward.outcome, forward.reason)

    # the end

    def _lose(self, kind: UpstreamFailure, detail: str, now_ns: int, *, orderly: bool = False) -> ReplyEnding | None:
        state = self.state
        self._trouble(kind, detail)
        if kind in INSTEAD_OF_A_REPLY and isinstance(state, Replaying | Sent):
            self._endpoints.suspect(state.endpoint)
        if isinstance(state, Replaying):
            self._close_link()
            return self._go_on(self._reaching.failed(state, detail))
        if not isinstance(state, Sent):
            assert not isinstance(state, Opening), "heard from a connection that is not there"
            self._close_link()
            return None
        call, seen = state.call, state.reply.seen
        if kind in INSTEAD_OF_A_REPLY and call.forward.retry and may_ask_again(state, len(self._endpoints.all)):
            return self._ask_again(state)
        reason, text = ending_of(kind, state.endpoint.uri, detail)
        return self._fail(call, reason, text, close=orderly and not seen, sent=kind != "refused")

    def _fail(
        self, call: RelayedCall, reason: str, text: str, *, close: bool = False, sent: bool = True
    ) -> ReplyEnding:
        """The request has no answer. `close`: close the client's connection, as the metastore would. `sent`: False if
        it is known that the metastore has not done it."""
        state, request, forward = self.state, call.request, call.forward
        sent = sent and was_sent(call, state)
        if not isinstance(state, Closed):
            self._close_link()
        forward.pending.failed(sent)
        if close or closes_client(call, state, sent=sent, passed_on=self._outbox.passed_on):
            self._observe(call, "error", reason)
            request.close()
            return MustClose(Why.SESSION if forward.replay else Why.UPSTREAM, text)
        self._outbox.drop()
        if request.answered and not call.discarded:
            header = request.header
            self._outbox.whole(exception_message(header.name, header.seqid, ApplicationError.INTERNAL_ERROR, text))
        return self._over(call, "error", reason)

    def _over(self, call: RelayedCall, outcome: Outcome, reason: str) -> Finished:
        self._observe(call, outcome, reason)
        call.request.close()
        return FINISHED

    def _observe(self, call: RelayedCall, outcome: Outcome, reason: str) -> None:
        self._commands.append(observed(call, outcome, reason, self._outbox, self.progress_ns))

    def _close_link(self) -> None:
        self.state = CLOSED
        self.blocked = False
        self._commands.append(CloseUpstream())

    def _trouble(self, kind: UpstreamFailure, detail: str) -> None:
        uri = "" if isinstance(self.state, Closed) else self.state.endpoint.uri
        self._commands.append(UpstreamTrouble(kind, uri, detail))
