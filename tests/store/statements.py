"""A TCP proxy before PostgreSQL that notes the statements which pass: what a poll costs, seen from outside.

Must not know: hms_cache_proxy.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

from tests.testbed.closing import Closing

_HEADER = struct.Struct(">cI")


class StatementProxy(Closing):
    """Listens on `port`; `statements` are the texts of the queries since the last clear(); of prepared ones,
    those that were sent to be parsed."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.statements: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(self._target)
                for each in (client, server):  # a statement is several small messages: none waits for another's receipt
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._up, args=(client, server), daemon=True).start()
                threading.Thread(target=_copy, args=(server, client), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        stream = client.makefile("rb")
        with contextlib.suppress(OSError), server:
            start = b""
            while len(start) < 8 or start[4:] == _SSL:  # an offer of encryption, then the start message
                server.sendall(start)
                start = stream.read(4)
                start += stream.read(struct.unpack(">I", start)[0] - 4)
            server.sendall(start)
            while head := stream.read(5):
                kind, length = _HEADER.unpack(head)
                body = stream.read(length - 4)
                if kind == b"Q":
                    self.statements.append(body.rstrip(b"\0").decode())
                elif kind == b"P":
                    self.statements.append(body.split(b"\0")[1].decode())
                server.sendall(head + body)


_SSL = struct.pack(">I", 80877103)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError), target:
        while data := source.recv(65536):
            target.sendall(data)
