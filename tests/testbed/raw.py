"""Thrift messages as bytes: build a call, send it, receive exactly one reply message, decode it.

Job: let a test compare replies byte for byte, send messages in pieces, pipelined or broken. The one connection of the
tests that is not a generated client; `untyped` decodes what it receives without a schema.
Must not know: hms_cache_proxy; the scanner that finds a message's end is a second, simple one on purpose.
Invariant: `receive` returns the message's bytes without a frame header and leaves what follows in the buffer.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

from fb303 import FacebookService  # type: ignore[import-untyped]  # generated
from hive_metastore import ThriftHiveMetastore  # type: ignore[import-untyped]  # generated
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from tests.testbed.closing import Closing
from tests.testbed.untyped import FIXED_BYTES, LIST, MAP, SET, STOP, STRING, STRUCT, VERSION_1

CHUNK_BYTES = 1 << 18
TIMEOUT_S = 120.0


class EndOfStream(ConnectionError):
    """The peer closed; `received` is what came of the message."""

    def __init__(self, received: bytes) -> None:
        super().__init__(f"connection closed after {len(received)} bytes of a message")
        self.received = received


class RawConnection(Closing):
    """A socket to a Thrift server, seen as bytes. Use as a context manager, or close()."""

    def __init__(
        self, host: str, port: int, *, framed: bool = False, timeout_s: float = TIMEOUT_S, source: str = ""
    ) -> None:
        self._peer = (host, port)
        self._source = (source, 0) if source else None  # an address of this machine; "": the one that is usual
        self._use(socket.create_connection(self._peer, timeout_s, self._source), framed)

    @classmethod
    def accepted(cls, sock: socket.socket) -> Self:
        """An unframed connection that is there: the server's side of one, or a client's that has nothing unread."""
        connection = cls.__new__(cls)
        connection._use(sock, False)
        return connection

    def _use(self, sock: socket.socket, framed: bool) -> None:
        self.socket = sock
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.framed = framed
        self._buffer = bytearray()
        self._at = 0

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def reconnect(self) -> None:
        """Begin again on a new connection; what was received is forgotten."""
        timeout_s = self.socket.gettimeout()
        self.close()
        self._use(socket.create_connection(self._peer, timeout_s, self._source), self.framed)

    def send(self, message: bytes) -> None:
        """Send a message, with a frame header where the connection is framed."""
        self.socket.sendall(struct.pack(">I", len(message)) + message if self.framed else message)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """The next whole message. EndOfStream if the peer closes first; TimeoutError if it stays silent."""
        if self.framed:
            (size,) = struct.unpack(">I", self._take_new(4))
            return self._take_new(size)
        self._at = 0
        self._scan_message()
        message = bytes(self._buffer[: self._at])
        del self._buffer[: self._at]
        return message

    def call(self, message: bytes) -> bytes:
        """Send a message and return the reply message."""
        self.send(message)
        return self.receive()

    def at_end(self) -> bool:
        """Wait for the peer: True when it closes, False when it sends something."""
        try:
            data = self.socket.recv(CHUNK_BYTES)
        except ConnectionResetError:
            return True
        self._buffer += data
        return not data

    def shutdown_write(self) -> None:
        """Say that nothing more will be sent."""
        self.socket.shutdown(socket.SHUT_WR)

    def drain(self) -> bytes:
        """Everything until the peer closes or resets the connection."""
        while not self.at_end():
            pass
        return bytes(self._buffer)

    def _take_new(self, size: int) -> bytes:
        self._at = 0
        self._skip(size)
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _skip(self, size: int) -> int:
        """Move over `size` bytes, receiving as needed; the offset where they begin."""
        begin = self._at
        self._at += size
        while len(self._buffer) < self._at:
            data = self.socket.recv(CHUNK_BYTES)
            if not data:
                raise EndOfStream(bytes(self._buffer))
            self._buffer += data
        return begin

    def _integer(self, form: str) -> int:
        begin = self._skip(struct.calcsize(form))
        return int(struct.unpack_from(form, self._buffer, begin)[0])

    def _scan_message(self) -> None:
        version = self._integer(">I")
        if version & 0xFFFF0000 != VERSION_1:
            raise ValueError(f"not a strict binary message: {version:#x}")
        self._skip(self._integer(">i"))
        self._skip(4)
        self._scan(STRUCT)

    def _scan(self, kind: int) -> None:
        if kind in FIXED_BYTES:
            self._skip(FIXED_BYTES[kind])
        elif kind == STRING:
            self._skip(self._integer(">i"))
        elif kind == STRUCT:
            while (field := self._integer(">b")) != STOP:
                self._skip(2)
                self._scan(field)
        elif kind == MAP:
            key, value = self._integer(">b"), self._integer(">b")
            for _ in range(self._integer(">i")):
                self._scan(key)
                self._scan(value)
        elif kind in (SET, LIST):
            element, count = self._integer(">b"), self._integer(">i")
            if element in FIXED_BYTES:
                self._skip(FIXED_BYTES[element] * count)
            else:
                for _ in range(count):
                    self._scan(element)
        else:
            raise ValueError(f"unknown type {kind} in a message")


def encode_call(method: str, /, *arguments: object, seqid: int = 0, oneway: bool = False, **named: object) -> bytes:
    """The message of a call; arguments in the method's order, or by their IDL names; absent ones stay unset."""
    struct_class = getattr(ThriftHiveMetastore, f"{method}_args", None)
    if struct_class is None:  # inherited from fb303
        struct_class = getattr(FacebookService, f"{method}_args")
    names = [field[2] for field in struct_class.thrift_spec or () if field is not None]
    if len(arguments) > len(names):
        raise TypeError(f"{method} takes {names}")
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocolAccelerated(buffer)
    protocol.writeMessageBegin(method, TMessageType.ONEWAY if oneway else TMessageType.CALL, seqid)
    struct_class(**dict(zip(names, arguments, strict=False)), **named).write(protocol)
    protocol.writeMessageEnd()
    return bytes(buffer.getvalue())


def decode_reply(message: bytes) -> tuple[str, int, Any]:
    """(method, seqid, result struct or TApplicationException) of a reply (generated classes: Any)."""
    protocol = TBinaryProtocolAccelerated(TMemoryBuffer(message))
    method, kind, seqid = protocol.readMessageBegin()
    if kind == TMessageType.EXCEPTION:
        error = TApplicationException()
        error.read(protocol)
        return method, seqid, error
    result = getattr(ThriftHiveMetastore, f"{method}_result")()
    result.read(protocol)
    return method, seqid, result
