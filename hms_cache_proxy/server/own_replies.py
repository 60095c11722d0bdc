"""Sends the replies that the proxy makes itself to one client.

Job: hand what the dispatcher serves to the outbox, whole or in slices, and report the call. Pure: commands are appended
to the owner's list. Must not know: how a reply is made, what the metastore says, sockets, the clock.

Invariants
- The next slice is made only when the outbox has room for it, one in each turn of the loop.
- If a reply cannot be finished and none of it was sent, an exception replaces it. If some of it was sent, the client's
  connection is closed: there is no other way to tell the client.
- Each reply is reported once, when it has been handed over or broken off.
Owner: one ClientConnection.
"""

from __future__ import annotations

from dataclasses import replace

from hms_cache_proxy.errors import CacheError, LimitError
from hms_cache_proxy.methods.decision import Serve
from hms_cache_proxy.server.client_states import Serving
from hms_cache_proxy.server.commands import Again, Command, Observe, Why
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.server.outbox import Outbox
from hms_cache_proxy.server.reply_ending import FINISHED, MustClose, ReplyEnding
from hms_cache_proxy.wire.message import ApplicationError, exception_message


class OwnReplies:
    """The replies of the proxy to one client, one after the other."""

    __slots__ = ("_commands", "_outbox")

    def __init__(self, commands: list[Command], outbox: Outbox) -> None:
        self._commands = commands
        self._outbox = outbox

    def begin(self, serve: Serve, request: Request, arrived_ns: int) -> Serving | None:
        """Send a reply. If it comes in slices, returns the state in which `next_slice` sends them; None if it is
        whole: then it has been sent."""
        chunks = serve.chunks
        if isinstance(chunks, bytes | tuple):
            self._outbox.whole(*((chunks,) if isinstance(chunks, bytes) else chunks))
            self._observe(serve, request, arrived_ns)
            return None
        self._outbox.begin()
        return Serving(request, arrived_ns, serve, chunks)

    def next_slice(self, state: Serving) -> ReplyEnding | None:
        """Send the next slice if there is room; None while there are more."""
        try:
            if not self._outbox.make_room():
                return None
            part = next(state.slices, None)
            if part is not None:
                self._outbox.write(part)
                self._commands.append(Again())
                return None
        except (CacheError, LimitError) as error:
            return self._break_off(state, error)
        self._outbox.end()
        self._observe(state.serve, state.request, state.arrived_ns)
        return FINISHED

    def _break_off(self, state: Serving, error: CacheError | LimitError) -> ReplyEnding:
        problem, reason = str(error), error.limit if isinstance(error, LimitError) else "cache"
        request, failed = state.request, replace(state.serve, outcome="error", reason=reason)
        if self._outbox.passed_on:
            self._observe(failed, request, state.arrived_ns)
            return MustClose(Why.CACHE, problem)
        self._outbox.drop()
        name, seqid = request.header.name, request.header.seqid
        self._outbox.whole(exception_message(name, seqid, ApplicationError.INTERNAL_ERROR, problem))
        self._observe(failed, request, state.arrived_ns)
        return FINISHED

    def _observe(self, serve: Serve, request: Request, began_ns: int) -> None:
        self._commands.append(
            Observe(
                serve.label,
                serve.outcome,
                serve.reason,
                began_ns=began_ns,
                reply_bytes=self._outbox.size,
                request=request,
                reply=self._outbox.head,
            )
        )
