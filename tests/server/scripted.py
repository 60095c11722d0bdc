"""A server that answers Thrift calls as a test says: huge replies, replies that stop in the middle, wrong seqids.

Job: what a real metastore cannot be made to do at a given moment. Real ones are used wherever they can be.
"""

from __future__ import annotations

import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterator

from tests.testbed.closing import Closing
from tests.testbed.raw import EndOfStream, RawConnection

Answer = Callable[[bytes, "Call"], Iterator[bytes]]
"""(request message, call) -> the bytes to send, in pieces; ending the generator with `return` keeps the connection."""


class Hangup(Exception):
    """Raised by an answer: close the connection now."""


class Call:
    """One request: its name, seqid and arguments' bytes."""

    def __init__(self, message: bytes) -> None:
        (size,) = struct.unpack_from(">i", message, 4)
        self.kind = message[3]
        self.name = message[8 : 8 + size].decode()
        (self.seqid,) = struct.unpack_from(">i", message, 8 + size)
        self.arguments = message[12 + size :]

    def reply(self, body: bytes, *, kind: int = 2, seqid: int | None = None) -> bytes:
        """A whole message in answer."""
        number = self.seqid if seqid is None else seqid
        return self.header(kind, number) + body

    def header(self, kind: int = 2, seqid: int | None = None) -> bytes:
        """A message's bytes before its struct."""
        name = self.name.encode()
        number = self.seqid if seqid is None else seqid
        return struct.pack(">HBBi", 0x8001, 0, kind, len(name)) + name + struct.pack(">i", number)


def string_field(number: int, value: bytes) -> bytes:
    """A field of type string."""
    return struct.pack(">Bhi", 11, number, len(value)) + value


STOP = b"\0"


class ScriptedMetastore(Closing):
    """Listens on a port of its own; `answers` maps method names to what happens, "*" being the others."""

    def __init__(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.answers: dict[str, Answer] = {"*": lambda message, call: iter([call.reply(string_field(0, b"ok") + STOP)])}
        self.calls: list[tuple[int, Call]] = []  # (number of the connection, call) in the order of their arrival
        self.connections = 0
        self._mutex = threading.Lock()
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; connections that are open end with the test."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def named(self, name: str) -> list[Call]:
        """The calls of a method so far."""
        return [call for _, call in self.calls if call.name == name]

    def _serve(self, sock: socket.socket) -> None:
        with self._mutex:
            self.connections += 1
            number = self.connections
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
            connection = RawConnection.accepted(sock)
            while True:
                message = connection.receive()
                call = Call(message)
                self.calls.append((number, call))
                for piece in self.answers.get(call.name, self.answers["*"])(message, call):
                    sock.sendall(piece)
        except (EndOfStream, OSError, Hangup):
            sock.close()
