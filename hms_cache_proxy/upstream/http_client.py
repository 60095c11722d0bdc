"""Connections to metastores over HTTP, for code that speaks Thrift and knows nothing of HTTP.

Job: `HttpStream` is for the event loop; it is the protocol of the connection and the transport of an inner protocol.
`HttpSocket` is a socket for code without an event loop. Both write messages as requests, and pass on the bodies of the
answers. Must not know: who the user is, what a message means.
Invariants: an answer that is not a reply ends the connection: the inner protocol's `connection_lost` gets an
HttpFailure. A caller waits for the reply to a call before it writes the next one. Owner: one connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.upstream.link import HttpFailure
from hms_cache_proxy.wire.http_calls import HttpAnswerError, HttpCalls


def _failure(cause: WireError) -> HttpFailure:
    if not isinstance(cause, HttpAnswerError):
        return HttpFailure(str(cause), "protocol")
    return HttpFailure(str(cause), "refused" if cause.refused else "status")


class HttpStream(asyncio.Protocol, asyncio.Transport):
    """`head`: makes the head of each request."""

    def __init__(self, head: Callable[[], bytes], inner: asyncio.Protocol) -> None:
        super().__init__()
        self._calls = HttpCalls(head)
        self._inner = inner
        self._trouble: WireError | None = None

    # the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has its own classes
        self._inner.connection_made(self)

    def data_received(self, data: bytes) -> None:
        try:
            pieces = self._calls.receive(data)
            while pieces:
                if self._calls.closes:
                    self._transport.close()  # first: the inner protocol must not use it again
                for piece in pieces:
                    self._inner.data_received(piece)
                pieces = self._calls.receive(b"")
        except WireError as error:
            self._break(error)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self._trouble is None:
            try:
                for piece in self._calls.end():
                    self._inner.data_received(piece)
            except WireError as answer:
                self._trouble = answer
        self._inner.connection_lost(error if self._trouble is None else _failure(self._trouble))

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def _break(self, error: WireError) -> None:
        if self._trouble is None:
            self._trouble = error
            self._transport.abort()

    # what the inner protocol calls

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not data or self._trouble is not None:
            return
        try:
            self._transport.write(self._calls.send(bytes(data)))
        except WireError as error:
            self._break(error)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class HttpSocket:
    """A connected socket."""

    def __init__(self, connection: socket.socket, head: Callable[[], bytes]) -> None:
        self._connection = connection
        self._calls = HttpCalls(head)

    def sendall(self, data: bytes) -> None:
        """Send messages. ConnectionResetError if the metastore has said that it closes the connection."""
        if self._calls.closes:
            raise ConnectionResetError("the metastore closed the connection")
        self._connection.sendall(self._calls.send(data))

    def recv(self, size: int) -> bytes:
        """The next part of a reply, however long it is; nothing at the end. WireError if the answer is none."""
        self._calls.receive(b"")  # what was wrong behind the last part
        while True:
            data = self._connection.recv(size)
            pieces = self._calls.receive(data) if data else self._calls.end()
            if pieces or not data:
                return b"".join(pieces)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
