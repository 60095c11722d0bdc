"""Sends replies to one HTTP client: with their length if it is known, otherwise in chunks as they arrive.

Job: put heads and chunks around what an Outbox sends. A client of HTTP/1.0 does not understand chunks, so its replies
are spooled until they are complete, like those for framed clients. Must not know: where a reply comes from.
Owner: one HttpConnection.
"""

from __future__ import annotations

from hms_cache_proxy.server.commands import Command, Send
from hms_cache_proxy.server.outbox import Outbox
from hms_cache_proxy.server.spool import SpoolRoom
from hms_cache_proxy.wire.http import LAST_CHUNK, Head, chunk, reply_head


class HttpOutbox(Outbox):
    """Replies to one client. `answered`: a reply to the present request has begun."""

    __slots__ = ("_head", "_sized", "answered")

    def __init__(self, commands: list[Command], room: SpoolRoom) -> None:
        super().__init__(commands, room)
        self._head: Head | None = None
        self._sized = False  # the length of the reply was sent before it
        self.answered = False

    def answer(self, head: Head) -> None:
        """What follows is the reply to this request."""
        self._head = head
        self.framed = head.old
        self.answered = self._sized = False

    def whole(self, reply: bytes, rest: bytes = b"") -> None:
        self.answered = True
        super().whole(reply, rest)

    def begin(self) -> None:
        self.answered, self._sized = True, False
        super().begin()

    def end(self) -> None:
        self._ended = True
        if self._spool is not None and not self.passed_on:
            self._sized = True
            self._commands.append(Send(self._before(self._spool.size)))
        if self._spool is None:
            self._end_chunks()
        self.pump()

    def pump(self) -> None:
        had = self._spool is not None
        super().pump()
        if had and self._spool is None and self._ended:
            self._end_chunks()

    def _before(self, size: int) -> bytes:
        assert self._head is not None
        return reply_head(self._head, size)

    def _send(self, part: bytes) -> None:
        if not self._sized and part:
            assert self._head is not None
            part = chunk(part) if self.passed_on else reply_head(self._head, None) + chunk(part)
        super()._send(part)

    def _end_chunks(self) -> None:
        if not self._sized:
            assert self.passed_on, "a reply has at least one byte"
            self._commands.append(Send(LAST_CHUNK))
