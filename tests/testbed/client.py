"""A Thrift client of the metastore for tests: every method of pyiceberg's generated client.

Job: `MetastoreClient` is one connection, unframed or framed. Bytes instead of objects: see raw.
Must not know: hms_cache_proxy. Importing it also lets Python attach tracebacks to the generated exceptions:
thrift makes them immutable, and an immutable exception that passes a generator-based context manager turns
into a TypeError.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

from hive_metastore import ThriftHiveMetastore, ttypes  # type: ignore[import-untyped]  # generated
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport, TTransportException

from tests.testbed.closing import Closing
from tests.testbed.raw import EndOfStream, RawConnection

TIMEOUT_S = 120.0


def _make_exceptions_mutable() -> None:
    for generated in vars(ttypes).values():
        if isinstance(generated, type) and issubclass(generated, TException):
            for name in ("__setattr__", "__delattr__"):
                setattr(generated, name, getattr(Exception, name))


_make_exceptions_mutable()


class MetastoreClient(ThriftHiveMetastore.Client, Closing):  # type: ignore[misc]  # generated without types
    """One connection, opened at once. Use as a context manager, or close()."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        framed: bool = False,
        timeout_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._socket = TSocket(host, port) if tls is None else TSSLSocket(host, port, ssl_context=tls)
        self._socket.setTimeout(timeout_s * 1000)
        wrap = TFramedTransport if framed else TBufferedTransport
        self._transport: Any = wrap(self._socket)
        super().__init__(TBinaryProtocolAccelerated(self._transport))
        self._transport.open()

    def close(self) -> None:
        """Close the connection; the server notices the end of the stream."""
        self._transport.close()

    def call(self, message: bytes) -> bytes:
        """Send a message of any method on this connection, which is not framed, and return the reply message.
        TTransportException if the server closes instead."""
        try:
            return RawConnection.accepted(self._socket.handle).call(message)
        except EndOfStream as closed:
            raise TTransportException(TTransportException.END_OF_FILE, str(closed)) from closed

    def reconnect(self) -> None:
        """Begin again on a new connection, after the server has closed this one."""
        self._transport.close()
        self._transport.open()


def answers(host: str, port: int, *, framed: bool = False, tls: ssl.SSLContext | None = None) -> bool:
    """Does a metastore answer get_all_databases here?"""
    try:
        socket.create_connection((host, port), timeout=1).close()  # thrift logs a refusal as an error
        with MetastoreClient(host, port, framed=framed, timeout_s=5, tls=tls) as client:
            client.get_all_databases()
    except (TException, OSError):
        return False
    return True
