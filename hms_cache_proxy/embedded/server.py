"""Connections of the embedded metastore: each has a thread, which answers its requests in order.

Job: accept, detect the transport, read requests, send replies; stop in order. Must not know: methods.

Invariants: a request is decoded from the socket as it arrives, up to MAX_REQUEST_BYTES. Bytes that are not a request
end only their connection. After `stop`, nothing new is accepted, running calls are finished and answered, and idle
connections are closed. Owner: the metastore's process; each connection belongs to its thread.
"""

from __future__ import annotations

import io
import socket
import struct
import threading
import time
from typing import NoReturn

import structlog

from hms_cache_proxy.embedded.call import MetastoreSession
from hms_cache_proxy.embedded.service import Service
from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire import framing, spec
from hms_cache_proxy.wire.framing import Transport
from hms_cache_proxy.wire.message import (
    NEED_MORE,
    ONEWAY,
    ApplicationError,
    Header,
    exception_message,
    parse_header,
)
from hms_cache_proxy.wire.scan import HOLLOW, SKIP
from hms_cache_proxy.wire.spec import CODEC_ERRORS, Struct, StructSource, wire_error

log = structlog.get_logger()

MAX_REQUEST_BYTES = 100 << 20  # metastore.server.max.message.size
CHUNK_BYTES = 64 << 10
BACKLOG = 1024
STACK_BYTES = 1 << 20  # a handler needs a tenth of it


class Ended(Exception):
    """The peer closed between two requests, or the server stops."""


class ThriftServer:
    """Threads that serve one listening socket."""

    def __init__(self, service: Service, listener: socket.socket) -> None:
        self._service = service
        self._listener = listener
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()

    def serve(self) -> None:
        """Accept until `stop`."""
        threading.stack_size(STACK_BYTES)
        self._listener.listen(BACKLOG)
        while not self._stopping.is_set():
            try:
                sock, address = self._listener.accept()
            except OSError as error:
                if self._stopping.is_set():
                    return
                log.error("cannot accept", error=str(error))
                time.sleep(0.1)
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(self._service, sock, address[0])
            with self._lock:
                self._connections.add(connection)
            thread = threading.Thread(target=self._keep, args=(connection,), name=f"client {address[0]}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no memory for its stack, or a limit of processes
                log.error("cannot serve a connection", peer=address[0], error=str(error))
                self._end(connection)

    def _keep(self, connection: Connection) -> None:
        try:
            connection.run()
        except (Ended, ConnectionError):
            pass
        except WireError as error:
            log.warning("not a request", peer=connection.session.peer, error=str(error))
        except Exception:
            log.exception("a connection failed", peer=connection.session.peer)
        finally:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        connection.close()
        with self._lock:
            self._connections.discard(connection)

    def stop(self, timeout_s: float) -> bool:
        """Stop accepting and let running calls end; False if some did not end in time."""
        self._stopping.set()
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # not listening yet
        self._listener.close()
        deadline = time.monotonic() + timeout_s
        while True:
            with self._lock:
                left = list(self._connections)
            for connection in left:
                connection.end_when_idle()
            if not left or time.monotonic() > deadline:
                return not left
            time.sleep(0.01)


class Connection:
    """One client."""

    def __init__(self, service: Service, sock: socket.socket, peer: str) -> None:
        self.session = MetastoreSession(peer)
        self._service = service
        self._socket = sock
        self._buffer = io.BytesIO()
        self._left = 0  # bytes of the request that may still arrive
        self._framed = False
        self._busy = False
        self._ending = False
        self._lock = threading.Lock()

    def run(self) -> NoReturn:
        """Answer requests until the peer closes. Raises Ended, WireError or ConnectionError."""
        transport = self._transport()
        if transport not in (Transport.BINARY, Transport.FRAMED):
            raise WireError(f"{transport.value} is not served, only the binary protocol, framed or not")
        self._framed = transport is Transport.FRAMED
        while True:
            self._wait_for_request()
            self._answer()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def end_when_idle(self) -> None:
        """From another thread: end the connection if it waits for a request, else let it finish its call."""
        with self._lock:
            self._ending = True
            if not self._busy:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # the peer closed

    def _transport(self) -> Transport:
        first = b""
        while True:
            found = framing.detect(first)
            if isinstance(found, Transport):
                self._buffer = io.BytesIO(first)
                return found
            data = self._socket.recv(CHUNK_BYTES)
            if not data:
                raise Ended
            first += data

    def _wait_for_request(self) -> None:
        with self._lock:
            self._busy = False
            if self._ending:
                raise Ended
        at = self._buffer.tell()
        rest = self._buffer.getbuffer().nbytes - at
        if not rest:
            data = self._socket.recv(CHUNK_BYTES)
            if not data:
                raise Ended
            self._buffer = io.BytesIO(data)
        with self._lock:
            self._busy = True

    def _answer(self) -> None:
        self._left = MAX_REQUEST_BYTES
        if self._framed:
            size = struct.unpack("!i", self._exactly(4))[0]
            if not 0 <= size <= MAX_REQUEST_BYTES:
                raise LimitError(f"a frame of {size} bytes", limit="max_message_bytes")
        header = self._header()
        method = self._service.find(header.name)
        reply: bytes
        if method is None:
            self._decode(HOLLOW, SKIP)
            text = f"Invalid method name: '{header.name.decode('utf-8', 'replace')}'"
            reply = exception_message(header.name, header.seqid, ApplicationError.UNKNOWN_METHOD, text)
        else:
            args = self._decode(None, spec.args(header.name.decode())._typeargs)
            reply = self._service.call(self.session, header.name, method, header.seqid, args)
        if header.name not in ONEWAY:  # whatever the type of the message, as Hive's servers
            self._socket.sendall(framing.frame_header(len(reply)) + reply if self._framed else reply)

    def _header(self) -> Header:
        data = b""
        while True:
            header = parse_header(data)
            if header is not NEED_MORE:
                assert isinstance(header, Header)
                return header
            wanted = 8 if len(data) < 8 else 8 + struct.unpack_from("!i", data, 4)[0] + 4
            data += self._exactly(wanted - len(data))

    def _exactly(self, count: int) -> bytes:
        data = self._buffer.read(count)
        if len(data) < count:
            self._buffer = self._refill(data, count)
            data = self._buffer.read(count)
        return data

    def _decode(self, into: object, typeargs: list[object]) -> Struct:
        try:
            source = StructSource(self._buffer, self._refill, MAX_REQUEST_BYTES, MAX_REQUEST_BYTES)
            decoded: Struct = source.read(into, typeargs)
        except CODEC_ERRORS as cause:
            raise wire_error(cause, offset=0, size=0) from cause
        return decoded

    def _refill(self, partial: bytes, wanted: int) -> io.BytesIO:
        """Called by the codec when it needs more: `wanted` bytes, of which it has `partial`."""
        parts = [partial]
        have = len(partial)
        while have < wanted:
            data = self._socket.recv(max(CHUNK_BYTES, min(wanted - have, 4 << 20)))
            if not data:
                raise ConnectionResetError("closed within a request")
            self._left -= len(data)
            if self._left < 0:
                raise LimitError("a request is too long", limit="max_message_bytes")
            parts.append(data)
            have += len(data)
        self._buffer = io.BytesIO(b"".join(parts))
        return self._buffer
