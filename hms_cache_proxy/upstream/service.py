"""A service connection, for the proxy's own calls to a metastore (version, database id, settings, event id).

Job: one blocking call at a time over one connection, in a thread or process that may wait. Clients' calls never use it.
It must not know what the answers mean. Invariants: every wait is limited by `timeout_s`; after any failure the
connection is closed, and the next call opens it again; there are no session calls, so the answers must not depend on
the user.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from hms_cache_proxy.config.address import Address
from hms_cache_proxy.errors import LimitError, UpstreamError, WireError
from hms_cache_proxy.security.metastore_security import PLAIN, MetastoreSecurity
from hms_cache_proxy.security.tls import problem
from hms_cache_proxy.upstream.sasl_client import ThriftSocket, opened_socket
from hms_cache_proxy.wire import facts, spec
from hms_cache_proxy.wire.message import (
    DEFAULT_LIMITS,
    ApplicationError,
    Header,
    MessageLimits,
    MessageType,
    message_header,
    parse_exception,
    parse_header,
)
from hms_cache_proxy.wire.scan import MessageScanner

_READ_BYTES = 1 << 16
_LIMITS = MessageLimits(string_bytes=DEFAULT_LIMITS.message_bytes)
"""The message of one event can have hundreds of megabytes (follower/messages.py)."""

Decoded = TypeVar("Decoded")


class LongReply(UpstreamError):
    """The reply is longer than what is read of one."""


class UnknownMethod(UpstreamError):
    """This metastore does not have the method."""


class Declared(UpstreamError):
    """The metastore answered with a declared exception, which is `struct`."""

    def __init__(self, message: str, *, struct: Any) -> None:
        super().__init__(message, sent=True)
        self.struct = struct


class ServiceConnection:
    """One metastore. It is connected to at the first call. `connect_timeout_s`: how long one of its addresses may take
    to accept the connection (None: `timeout_s`). `secured`: with TLS, with a login. `limits`: of its replies. A context
    manager."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_s: float,
        connect_timeout_s: float | None = None,
        secured: MetastoreSecurity = PLAIN,
        limits: MessageLimits = _LIMITS,
    ) -> None:
        self._where = (host, port)
        self._limits = limits
        self._secured = secured
        self.uri = Address(host, port).uri
        self._timeout_s = timeout_s
        self._connect_timeout_s = timeout_s if connect_timeout_s is None else min(connect_timeout_s, timeout_s)
        self._socket: ThriftSocket | None = None
        self._seqid = 0

    def call(self, method: str, **arguments: Any) -> Any:
        """Field 0 of the method's result (None if it has none).

        Raises Declared for a declared exception, UnknownMethod, LongReply, UpstreamError for any other failure.
        """
        return success_in(self.uri, method, *self._answer(method, arguments))

    def reply(self, method: str, **arguments: Any) -> tuple[bytes, int]:
        """The same, not decoded: the reply message, and the offset in it of the value of field 0, which must be set.

        Raises as `call` does.
        """
        data, body = self._answer(method, arguments)
        if data[body + 1 : body + 3] != b"\0\0" or not data[body]:
            success_in(self.uri, method, data, body)
            raise UpstreamError(f"{self.uri}: {method}: an answer without a result", sent=True)
        return data, body + 3

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> ServiceConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, method: str, arguments: dict[str, Any]) -> tuple[bytes, int]:
        """A reply that is not an application exception, and the offset of its result struct."""
        self._seqid = self._seqid % 0x7FFFFFFF + 1
        header, data = self._exchange(method, request_of(method, self._seqid, arguments))
        return data, result_in(self.uri, method, header, data)

    def _exchange(self, method: str, request: bytes) -> tuple[Header, bytes]:
        """One request and its reply. Sent again if the metastore had closed an idle connection."""
        idle = self._socket is not None
        while True:
            try:
                if self._socket is None:
                    self._socket = self._connect()
                self._socket.sendall(request)
                return self._read(self._socket)
            except (OSError, WireError) as error:
                self.close()
                if idle and isinstance(error, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError):
                    idle = False
                    continue
                why = problem(error) if isinstance(error, ssl.SSLError) else error
                reason = "the request timed out" if isinstance(error, TimeoutError) else why
                kind = LongReply if isinstance(error, LimitError) else UpstreamError
                raise kind(f"{self.uri}: {method}: {reason}") from error

    def _connect(self) -> ThriftSocket:
        connection, (host, _) = socket.create_connection(self._where, self._connect_timeout_s), self._where
        tls = self._secured.tls
        try:
            connection.settimeout(self._timeout_s)
            if tls is not None:
                tls.renew()
                connection = tls.context.wrap_socket(connection, server_hostname=tls.server_name(host))
            return opened_socket(connection, self._secured, host, self.uri.partition("://")[2])
        except (OSError, WireError):
            connection.close()
            raise

    def _read(self, connection: ThriftSocket) -> tuple[Header, bytes]:
        scanner = MessageScanner(self._limits)
        received = bytearray()
        while True:
            piece = connection.recv(_READ_BYTES)
            if not piece:
                raise ConnectionResetError("the metastore closed the connection")
            received += piece
            if isinstance(scanner.feed(piece), int):
                break
        data = bytes(received)
        return header_of(data, self._seqid), data


def request_of(method: str, seqid: int, arguments: dict[str, Any]) -> bytes:
    """The message of a call."""
    return message_header(method.encode(), MessageType.CALL, seqid) + spec.encode(spec.args(method)(**arguments))


def header_of(data: bytes, seqid: int) -> Header:
    """The header of a whole reply to the request with this sequence id. WireError if it has another."""
    header = parse_header(data)
    assert isinstance(header, Header), "a whole message has a header"
    if header.seqid != seqid:
        raise WireError(f"the reply has sequence id {header.seqid}, the request {seqid}")
    return header


def result_in(uri: str, method: str, header: Header, data: bytes) -> int:
    """The offset of a reply's result struct. UnknownMethod, or UpstreamError, if it is an application exception."""
    if header.type is MessageType.EXCEPTION:
        error = _understood(uri, method, partial(parse_exception, data, header.body))
        text = (error.message or b"").decode("utf-8", "replace")
        kind = UnknownMethod if error.type == ApplicationError.UNKNOWN_METHOD else UpstreamError
        raise kind(f"{uri}: {method}: {text}", sent=True)
    return header.body


def success_in(uri: str, method: str, data: bytes, body: int) -> Any:
    """Field 0 of the result struct at this offset, None if it has none. Raises Declared."""
    result, _ = _understood(uri, method, partial(spec.decode, spec.result(method), data, body))
    for field in facts.METHODS[method].result:
        value = getattr(result, field.name, None)
        if field.id != 0 and value is not None:
            raise Declared(f"{uri}: {method}: {field.type}: {_text(value)}", struct=value)
    return getattr(result, "success", None)


def _understood(uri: str, method: str, decode: Callable[[], Decoded]) -> Decoded:
    try:
        return decode()
    except WireError as error:
        raise UpstreamError(f"{uri}: {method}: {error}", sent=True) from error


def _text(value: Any) -> str:
    message = getattr(value, "message", None)
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else repr(value)
