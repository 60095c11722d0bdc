"""Inside TLS, waits for a client's first bytes, and then hands the connection to the protocol that they belong to.

Job: do inside TLS what MSG_PEEK does on a plain socket. Must not know: what the bytes mean (handshakes.py). Owner: the
worker's loop.
"""

from __future__ import annotations

import asyncio
from typing import cast


class FirstBytes(asyncio.Protocol):
    """Give it to the transport, await `more`, then call `pass_on` or `abort`."""

    def __init__(self) -> None:
        self._data = b""
        self._ended = False
        self._moved = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._transport.pause_reading()  # a read is enough for the first bytes, and others wait in the socket
        self._moved.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._moved.set()

    async def more(self) -> bytes:
        """All bytes so far, once there are more than at the last call. ConnectionError: the client has gone."""
        await self._moved.wait()
        self._moved.clear()
        if self._ended:
            raise ConnectionAbortedError("the client has gone")
        self._transport.resume_reading()
        return self._data

    def pass_on(self, protocol: asyncio.Protocol) -> None:
        """The connection is this one's, with what has been received."""
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if not self._transport.is_closing():
            self._transport.resume_reading()
            protocol.data_received(self._data)

    def abort(self) -> None:
        """End the connection."""
        self._transport.abort()
