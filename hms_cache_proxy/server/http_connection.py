"""The logic of one HTTP client's connection: a ClientConnection whose requests come as POSTs, each from a user.

Job: add to connection.py what HTTP needs: the user of each request, statuses for requests that are refused, empty
answers to calls without a reply, the end of a connection that the client does not keep open, and time limits for heads
and bodies. Must not know: sockets, the loop, the clock, how a user is proved.
Invariants: the upstream connection belongs to one user. If a request comes from another user than the one before it,
that connection is closed and the session is forgotten, before the request is looked at. The metastore is told the user
as after any login (connection.py). A call that gets no reply is answered with a Thrift exception, even where a plain
connection would be closed.
Owner: the worker's event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.methods.decision import Dispatcher
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.server.client_states import Listening
from hms_cache_proxy.server.commands import Command, LoggedIn, RequestRefused, Send, Why
from hms_cache_proxy.server.connection import ClientConnection
from hms_cache_proxy.server.connection_settings import ConnectionSettings
from hms_cache_proxy.server.http_inbox import HttpInbox
from hms_cache_proxy.server.http_outbox import HttpOutbox
from hms_cache_proxy.server.inbox import Inbox, Request
from hms_cache_proxy.server.outbox import Outbox
from hms_cache_proxy.server.reply_ending import MustClose, ReplyEnding
from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.wire.http import Head, HttpError, refusal
from hms_cache_proxy.wire.message import ApplicationError, Header, exception_message


@dataclass(frozen=True, slots=True)
class HttpSide:
    """What the HTTP connections of a worker share. `admit`: whom a request from this address comes from; HttpError if
    it is refused. `slow_ns`: time for a head, between two pieces of a body, and without a request that is let in."""

    admit: Callable[[Head, str], Admitted]
    slow_ns: int


class HttpConnection(ClientConnection):
    """The logic of one client connection."""

    speaks = "http"

    def __init__(
        self,
        *,
        side: HttpSide,
        dispatcher: Dispatcher,
        endpoints: Endpoints,
        settings: ConnectionSettings,
        peer: str,
        now_ns: int,
    ) -> None:
        self._side = side
        self._address = peer.rpartition(":")[0]
        self._sender: Admitted | None = None  # whom the upstream connection and the session belong to
        self._asked: Header | None = None  # the present request
        self._head_ns = 0  # when the present head began; 0: there is none
        super().__init__(dispatcher=dispatcher, endpoints=endpoints, settings=settings, peer=peer, now_ns=now_ns)

    def _boxes(self) -> tuple[Inbox, Outbox]:
        room = self._settings.room
        self._http_inbox = HttpInbox(self._commands, self._admit, self._settings.limits, room)
        self._http_outbox = HttpOutbox(self._commands, room)
        return self._http_inbox, self._http_outbox

    def _admit(self, head: Head) -> Admitted:
        return self._side.admit(head, self._address)

    def received(self, data: bytes, now_ns: int, *, cold: bool = False) -> list[Command]:
        if self._answered_again(data, now_ns):
            commands = self._commands[:]
            self._commands.clear()
            return commands
        commands = super().received(data, now_ns)
        if not self._http_inbox.in_head:
            self._head_ns = 0
        elif not self._head_ns:
            self._head_ns = now_ns
        return commands

    def _answered_again(self, data: bytes, now_ns: int) -> bool:
        """Try the hot path with a request that has the head of an earlier one, from the same user; a head that is not
        believed any more is read as any other."""
        known = self._http_inbox.again(data) if self._at_rest else None
        if known is None:
            return False
        head, message = known
        try:
            sender = self._admit(head)
        except HttpError:
            return False
        reply = self._dispatcher.hot(self.session, message, now_ns) if sender == self._sender else None
        if reply is None:
            return False
        self.last_ns = now_ns
        self._http_outbox.answer(head)
        self._outbox.whole(reply)
        return True

    @property
    def _at_rest(self) -> bool:
        """Is there nothing to do but to wait for a request?"""
        held = self._held is not None or self.session.passing is not None
        return self._free and not held and not (self._ended or self._draining or self._gone)

    @property
    def _free(self) -> bool:
        """Are all requests before the next one answered, and have the answers left?"""
        return isinstance(self._state, Listening) and not self._outbox.blocked and not self._outbox.busy

    def expire(self, now_ns: int) -> list[Command]:
        if self._free and self._held is None:
            began_ns = self._head_ns or self.last_ns
            late = now_ns - began_ns > self._side.slow_ns
            if late and self._http_inbox.arriving:
                self._refuse(HttpError(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time"))
            elif late and self._sender is None:
                self._close(Why.LIMIT, "none of its requests was let in", "handshake_timeout_s")
        return super().expire(now_ns)

    def _handle(self, request: Request, now_ns: int) -> None:
        head, sender = self._http_inbox.head, self._http_inbox.sender
        assert head is not None and sender is not None, "a request was returned"
        self._asked = request.header
        self._http_outbox.answer(head)
        if not head.keeps:
            self._ended = True
        if self._sender is None or sender.user != self._sender.user:
            self._become(sender)
        elif sender.bearer != self._sender.bearer:
            self._exchange.abort()  # its connection has shown the other token
            self._sender = self.session.login = sender
        if not self._answered_hot(request, now_ns):
            self._decide(request, now_ns, arrived_ns=now_ns, patient=True)

    def _become(self, sender: Admitted) -> None:
        self._sender = sender
        self._exchange.abort()
        self._log_in(sender)
        self.session.relay_for_good = False
        self._commands.append(LoggedIn(sender.user, sender.how))

    def _handle_ending(self, ending: ReplyEnding | None, now_ns: int) -> None:
        if not isinstance(ending, MustClose) or self._http_outbox.answered or self._gone:
            super()._handle_ending(ending, now_ns)
            return
        asked, sender = self._asked, self._sender
        assert asked is not None and sender is not None, "a request was under way"
        self._exchange.abort()
        if ending.why is Why.SESSION:
            self._exchange = self._new_exchange(sender.user)
        self._outbox.whole(exception_message(asked.name, asked.seqid, ApplicationError.INTERNAL_ERROR, ending.detail))
        self._finished(now_ns)

    def _finished(self, now_ns: int) -> None:
        if not self._http_outbox.answered and not self._gone:
            self._outbox.whole(b"")  # a call without a reply
        super()._finished(now_ns)

    def _refuse(self, error: WireError) -> None:
        refused = error if isinstance(error, HttpError) else HttpError(HTTPStatus.BAD_REQUEST, str(error))
        head = self._http_inbox.head
        self._commands.append(RequestRefused(refused.status.value, str(refused), refused.detail))
        self._commands.append(Send(refusal(refused, head)))
        if refused.closes or head is None or not head.keeps:
            self._close(Why.FINISHED)
