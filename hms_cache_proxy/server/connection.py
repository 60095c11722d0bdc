"""The logic of one client connection: turns events into commands for the driver.

Job: take requests one at a time and in order, and have each answered here (own_replies.py) or relayed (exchange.py). It
also applies back-pressure, limits, idle time and the drain. Pure: each method stands for an event (with the time in ns)
and returns commands, in order. Must not know: sockets, loop, clock.

Invariants
- A request is examined only when the previous reply has left the outbox. Bytes that arrive meanwhile wait. While more
  than PIPELINE_BYTES wait, the connection is not read. After REQUESTS_PER_TURN requests that came together, other
  connections have their turn.
- `mode` tells the driver whether a whole chunk may be tried on the dispatcher's hot path: no partial request, nothing
  in flight, and the client reads.
- After Close no command follows. Owner: the worker's event loop.
"""

from __future__ import annotations

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Decision, Dispatcher, Forward, Serve, Wait, Work
from hms_cache_proxy.metrics import UpstreamFailure
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.server.client_states import (
    LISTENING,
    RELAYING,
    ClientState,
    HotPathUse,
    Listening,
    Over,
    Relaying,
    Serving,
    WaitingForLook,
    WaitingForPeers,
    WaitingForStep,
    Working,
)
from hms_cache_proxy.server.commands import (
    Again,
    AskPeers,
    Await,
    Close,
    Command,
    ReadingUpstream,
    Send,
    SetReading,
    Why,
)
from hms_cache_proxy.server.connection_settings import ConnectionSettings
from hms_cache_proxy.server.exchange import Exchange
from hms_cache_proxy.server.inbox import Inbox, Request, TransportRefused
from hms_cache_proxy.server.outbox import Outbox
from hms_cache_proxy.server.own_replies import OwnReplies
from hms_cache_proxy.server.reply_ending import MustClose, ReplyEnding
from hms_cache_proxy.server.upstream_states import Closed, Idle
from hms_cache_proxy.upstream.endpoints import Endpoints, Unopened
from hms_cache_proxy.upstream.replay import calls_of, naming

PIPELINE_BYTES = 1 << 18  # of requests that wait while one is answered
REQUESTS_PER_TURN = 32  # from one packet, before other connections have their turn
PATIENCE_NS = 10_000_000_000  # for a client that reads nothing of a listing while the worker's files are full
SUSPICIOUS_NS = 1_000_000_000  # without a byte from the metastore: then it is probed


class ClientConnection:
    """The logic of one client connection."""

    speaks = "plain"  # to a client that has not logged in

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        endpoints: Endpoints,
        settings: ConnectionSettings,
        peer: str,
        now_ns: int,
        login: Admitted | None = None,
    ) -> None:
        """`login`: of a client that has logged in."""
        self.session = ClientSession(peer=peer)
        self.mode = HotPathUse.GENERAL
        self.last_ns = now_ns  # when something last moved on the client's side; the driver writes it too
        self._dispatcher = dispatcher
        self._endpoints = endpoints
        self._settings = settings
        self._commands: list[Command] = []
        self._inbox, self._outbox = self._boxes()
        self._own = OwnReplies(self._commands, self._outbox)
        self._state: ClientState = LISTENING
        self._cold = False  # the next request has been tried on the hot path already
        self._reading, self._draining = True, False
        self._ended = False  # the client sends no more
        self._gone = False  # the client's connection is lost
        self._held: list[Command] | None = None  # a reply that waits for other proxies, and what follows it
        self._log_in(login)

    def _boxes(self) -> tuple[Inbox, Outbox]:
        return Inbox(self._settings.limits, self._settings.room), Outbox(self._commands, self._settings.room)

    def _log_in(self, login: Admitted | None) -> None:
        """From now on, calls come from this user."""
        if login is not None:
            self.session.identity, self.session.login = naming(login.user).identity, login
        self._exchange = self._new_exchange(None if login is None else login.user)

    def _new_exchange(self, user: str | None) -> Exchange:
        """A metastore is told the user, but not where the proxy itself has logged in."""
        return Exchange(
            session=self.session,
            endpoints=self._endpoints,
            outbox=self._outbox,
            commands=self._commands,
            memory=self._settings.room.budgets.memory,
            calls=calls_of(user if self._endpoints.hear_users else None),
        )

    # events of the client

    def received(self, data: bytes, now_ns: int, *, cold: bool = False) -> list[Command]:
        """Bytes from the client. `cold`: the hot path does not know them as one request."""
        self.last_ns = now_ns
        self._cold = cold
        if not isinstance(self._state, Over) and not self._gone:
            self._inbox.add(data)
        return self._settle(now_ns)

    def wait_for_look(self, data: bytes, now_ns: int) -> Wait | None:
        """Bytes from the client in mode HOT. If the hot path can answer them after a look, they wait for it unread, and
        `looked` or `moved` is to be called after it. None: they have not been taken."""
        wait = self._dispatcher.hot_wait(self.session, data, now_ns)
        if wait is not None:
            self.last_ns = now_ns
            self.mode = HotPathUse.GENERAL
            self._inbox.add(data)
            self._state = WaitingForLook(data, now_ns, wait.until_ns)
        return wait

    def looked(self) -> bytes | None:
        """There was a look: the reply to the request that waits for it, if there is nothing else to do. None: call
        `moved`."""
        state = self._state
        busy = self._draining or self._ended or self._outbox.blocked
        if not isinstance(state, WaitingForLook) or self._inbox.waiting_bytes != len(state.data) or busy:
            return None
        reply = self._dispatcher.hot(self.session, state.data, state.arrived_ns)
        if reply is not None:
            self._inbox.skip(len(state.data))
            self._state = LISTENING
            self.mode = HotPathUse.HOT
        return reply

    def ended(self, now_ns: int) -> list[Command]:
        """The client will send no more; its requests are still answered."""
        self._ended = True
        return self._settle(now_ns)

    def gone(self, now_ns: int) -> list[Command]:
        """The client's connection is lost."""
        self._gone = self._ended = True
        self._inbox.close()
        self._outbox.drop()
        if isinstance(self._state, Relaying):
            self._exchange.client_gone()
        self._take_back()
        if not isinstance(self._state, Relaying) or isinstance(self._exchange.state, Closed):
            self._state = Over()
            self._exchange.abort()
        return self._settle(now_ns)

    def client_blocked(self) -> list[Command]:
        """The transport's buffer to the client is full. Called while commands are carried out."""
        self._outbox.blocked = True
        self.mode = HotPathUse.GENERAL
        return [ReadingUpstream(False)] if self._exchange.replying else []

    def client_writable(self, now_ns: int) -> list[Command]:
        """The client reads again."""
        self.last_ns = now_ns
        self._outbox.blocked = False
        if self._exchange.replying:
            self._exchange.progress_ns = now_ns
            self._commands.append(ReadingUpstream(True))
        if self._outbox.waits:
            self._commands.append(Again())
        self._outbox.pump()
        return self._settle(now_ns)

    # events of the metastore

    def upstream_opened(self, now_ns: int) -> list[Command]:
        """The connection that OpenUpstream asked for is open."""
        self._handle_ending(self._exchange.opened(now_ns), now_ns)
        return self._settle(now_ns)

    def upstream_refused(self, detail: str, now_ns: int, why: Unopened = "refused") -> list[Command]:
        """The connection that OpenUpstream wanted was not opened."""
        self._handle_ending(self._exchange.refused(detail, why), now_ns)
        return self._settle(now_ns)

    def upstream_busy(self, detail: str, now_ns: int) -> list[Command]:
        """The limit of upstream connections left no place for the connection that OpenUpstream asked for."""
        self._handle_ending(self._exchange.busy(detail), now_ns)
        return self._settle(now_ns)

    def release_upstream(self, now_ns: int) -> list[Command]:
        """Another client needs the upstream connection: release it if it is idle."""
        self._exchange.release()
        return self._settle(now_ns)

    def upstream_received(self, data: bytes, now_ns: int, *, closing: bool = False) -> list[Command]:
        """Bytes from the metastore. `closing`: nothing more can be sent over the connection."""
        self._handle_ending(self._exchange.received(data, now_ns, closing=closing), now_ns)
        return self._settle(now_ns)

    def upstream_lost(
        self, detail: str, now_ns: int, kind: UpstreamFailure = "closed", *, orderly: bool = False
    ) -> list[Command]:
        """The metastore closed the connection (`orderly`), or it broke, or was ended because of what it sent."""
        self._handle_ending(self._exchange.lost(kind, detail, now_ns, orderly=orderly), now_ns)
        return self._settle(now_ns)

    def upstream_blocked(self) -> list[Command]:
        """The transport's buffer to the metastore is full. Called while commands are carried out."""
        self._exchange.blocked = True
        return []

    def upstream_writable(self, now_ns: int) -> list[Command]:
        """The metastore reads again."""
        self._exchange.blocked = False
        self._exchange.progress_ns = now_ns
        self._handle_ending(self._exchange.pump(), now_ns)
        return self._settle(now_ns)

    # events of the worker

    def turn(self, now_ns: int) -> list[Command]:
        """Another turn of the loop, as Again asked for."""
        state = self._state
        if isinstance(state, Serving):
            self._handle_ending(self._own.next_slice(state), now_ns)
        elif isinstance(state, Working):
            self._work_on(state, now_ns)
        elif not isinstance(state, Over):
            self._handle_ending(self._exchange.pump(), now_ns)
            self._outbox.pump()
        return self._settle(now_ns)

    def moved(self, now_ns: int) -> list[Command]:
        """A waiting request may be decided again, as Await asked for."""
        state = self._state
        if isinstance(state, WaitingForLook | WaitingForStep):
            self._state = LISTENING
            request = state.request if isinstance(state, WaitingForStep) else self._inbox.next()
            assert request is not None, "the hot path waits for whole requests only"
            if not self._answered_hot(request, state.arrived_ns):
                self._decide(request, now_ns, arrived_ns=state.arrived_ns, patient=now_ns < state.until_ns)
        return self._settle(now_ns)

    def peers_agreed(self, now_ns: int) -> list[Command]:
        """The other proxies know what AskPeers has told."""
        if self._held is not None:
            self._commands[:0] = self._held  # the list is the outbox's and the exchange's, too
            self._held = None
            if self._exchange.replying and not self._outbox.blocked:
                self._exchange.progress_ns = now_ns
                self._commands.append(ReadingUpstream(True))
        elif isinstance(self._state, WaitingForPeers):
            request, forward = self._state.request, self._state.forward
            self._state = RELAYING
            self._handle_ending(self._exchange.start(request, forward, now_ns), now_ns)
        return self._settle(now_ns)

    def _take_back(self) -> None:
        """A request that waits for other proxies does not leave any more."""
        if isinstance(self._state, WaitingForPeers):
            waited, self._state = self._state, LISTENING
            waited.forward.pending.failed(False)
            waited.request.close()

    def drain(self, now_ns: int) -> list[Command]:
        """The worker stops: finish what is in flight or on its way in, then close."""
        self._draining = True
        return self._settle(now_ns)

    def abandon(self) -> None:
        """End the connection after an internal error; the outcome of a call in flight is unknown."""
        self._take_back()
        self._state = Over()
        self._exchange.abort()
        self._inbox.close()
        self._outbox.drop()
        self._commands.clear()

    def expire(self, now_ns: int) -> list[Command]:
        """End whatever has waited for too long."""
        settings, exchange = self._settings, self._exchange
        if settings.upstream_idle_ns and now_ns - exchange.progress_ns > settings.upstream_idle_ns:
            exchange.release()
        unread = self._outbox.blocked or self._outbox.busy
        if exchange.waiting and not (exchange.replying and self._outbox.blocked):  # then the metastore waits, too
            if now_ns - exchange.progress_ns > settings.request_timeout_ns:
                self._handle_ending(exchange.timed_out(now_ns), now_ns)
            elif now_ns - exchange.progress_ns > SUSPICIOUS_NS:
                self._handle_ending(exchange.overdue(now_ns), now_ns)
        elif self._outbox.waits and now_ns - self.last_ns > PATIENCE_NS:
            self._close(
                Why.LIMIT, "its client does not read, and there is no room for the rest of the reply", "spool_bytes"
            )
        elif settings.idle_timeout_ns and now_ns - self.last_ns > settings.idle_timeout_ns:
            if isinstance(self._state, Listening) or unread:
                self._close(Why.IDLE, "the connection was idle for longer than its limit")
        return self._settle(now_ns)

    @property
    def upstream_idle(self) -> bool:
        """Is there an idle connection to the metastore?"""
        return isinstance(self._exchange.state, Idle)

    @property
    def closed(self) -> bool:
        """Is nothing left to do?"""
        return isinstance(self._state, Over)

    # requests

    def _settle(self, now_ns: int) -> list[Command]:
        """Continue with the bytes that have arrived; returns the commands of this event."""
        session, inbox, outbox, ending = self.session, self._inbox, self._outbox, self._ended or self._draining
        listening, held = isinstance(self._state, Listening), self._held is not None or session.passing is not None
        if listening and not held and (ending or not inbox.empty):
            self._next_requests(now_ns)
            listening, held = isinstance(self._state, Listening), session.passing is not None
        free = listening and not outbox.blocked and not outbox.busy
        if not free or held or ending or inbox.transport is None or not inbox.empty:
            self.mode = HotPathUse.GENERAL
        else:
            self.mode = HotPathUse.HOT_FRAMED if inbox.framed else HotPathUse.HOT
        wanted = inbox.waiting_bytes <= PIPELINE_BYTES
        if wanted is not self._reading and not isinstance(self._state, Over):
            self._reading = wanted
            self._commands.append(SetReading(wanted))
        commands = self._commands[:]
        self._commands.clear()
        return commands if self._held is None and session.passing is None else self._passable(commands)

    def _passable(self, commands: list[Command]) -> list[Command]:
        """Holds back what goes to the client, while other proxies do not know what the reply tells."""
        asked, self.session.passing = self.session.passing, None
        if asked is not None and self._held is None:
            self._held = []
            commands.insert(0, AskPeers(asked))
            if self._exchange.replying:  # the rest of a long reply waits at the metastore
                commands.append(ReadingUpstream(False))
        assert self._held is not None
        self._held += [one for one in commands if isinstance(one, Send | Close)]
        return [one for one in commands if not isinstance(one, Send | Close)]

    def _next_requests(self, now_ns: int) -> None:
        for _ in range(REQUESTS_PER_TURN):
            if not isinstance(self._state, Listening) or self._outbox.blocked or self._outbox.busy:
                return
            try:
                request = self._inbox.next()
                if request is None:
                    break
                self._handle(request, now_ns)
            except WireError as error:
                self._refuse(error)
        else:
            self._commands.append(Again())
            return
        if self._ended or (self._draining and self._inbox.empty):
            self._close(Why.FINISHED)

    def _handle_ending(self, ending: ReplyEnding | None, now_ns: int) -> None:
        """Handle the end of a request; None: it continues."""
        if isinstance(ending, MustClose):
            self._close(ending.why, ending.detail)
        elif ending is not None:
            self._finished(now_ns)

    def _handle(self, request: Request, now_ns: int) -> None:
        self._outbox.framed = self._inbox.framed
        if not self._cold and self._answered_hot(request, now_ns):
            return
        self._cold = False
        self._decide(request, now_ns, arrived_ns=now_ns, patient=True)

    def _answered_hot(self, request: Request, arrived_ns: int) -> bool:
        """Try the hot path."""
        if request.spool is not None:
            return False
        reply = self._dispatcher.hot(self.session, request.message, arrived_ns)
        if reply is None:
            return False
        request.close()
        self._outbox.whole(reply)
        return True

    def _decide(self, request: Request, now_ns: int, *, arrived_ns: int, patient: bool) -> None:
        session, complete = self.session, request.spool is None
        call = ClientCall.of(session, request.header, request.message, arrived_ns, complete=complete, patient=patient)
        self._handle_decision(self._dispatcher.decide(call), request, now_ns, arrived_ns)

    def _handle_decision(self, decision: Decision, request: Request, now_ns: int, arrived_ns: int) -> None:
        if isinstance(decision, Wait):
            self._state = WaitingForStep(request, arrived_ns, decision.until_ns)
            self._commands.append(Await(decision))
        elif isinstance(decision, Work):
            self._state = Working(request, arrived_ns, decision)
            self._commands.append(Again())
        else:
            self._carry_out(decision, request, now_ns, arrived_ns)

    def _work_on(self, state: Working, now_ns: int) -> None:
        decision = state.work.step()
        if decision is None:
            self._commands.append(Again())
            return
        self._state = LISTENING
        self._handle_decision(decision, state.request, now_ns, state.arrived_ns)

    def _carry_out(self, decision: Serve | Forward, request: Request, now_ns: int, arrived_ns: int) -> None:
        self._outbox.for_write, self._outbox.head = decision.outcome == "write", b""
        if isinstance(decision, Forward):
            asked = decision.pending.leaving()
            if asked is not None:
                self._state = WaitingForPeers(request, decision)
                self._commands.append(AskPeers(asked))
                return
            self._state = RELAYING
            self._handle_ending(self._exchange.start(request, decision, now_ns), now_ns)
            return
        assert request.spool is None or decision.outcome == "error", "what was not looked at cannot be answered here"
        request.close()
        serving = self._own.begin(decision, request, arrived_ns)
        if serving is not None:
            self._state = serving
            self._handle_ending(self._own.next_slice(serving), now_ns)

    def _finished(self, now_ns: int) -> None:
        """The request is over."""
        self.last_ns = now_ns
        self._state = LISTENING
        if self._gone:
            self._state = Over()
            self._exchange.abort()

    # the end

    def _refuse(self, error: WireError) -> None:
        if isinstance(error, TransportRefused):
            self._close(Why.TRANSPORT, str(error), error.transport.name.lower())
        elif isinstance(error, LimitError):
            self._close(Why.LIMIT, str(error), error.limit)
        else:
            self._close(Why.WIRE, str(error))

    def _close(self, why: Why, detail: str = "", key: str = "") -> None:
        if isinstance(self._state, Over):
            return
        self._take_back()
        self._state = Over()
        self._inbox.close()
        self._outbox.drop()
        self._exchange.abort()
        self._commands.append(Close(why, detail, key))
