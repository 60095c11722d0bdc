"""Connections with TLS for tests of a worker, and a client's first bytes."""

from __future__ import annotations

import socket
import ssl

from tests.testbed.processes import SOON_S
from tests.testbed.raw import RawConnection


def over_tls(context: ssl.SSLContext, port: int, *, framed: bool = False, source: str = "") -> RawConnection:
    """A connection that speaks bytes, after its handshake with the worker at this port."""
    plain = socket.create_connection(("127.0.0.1", port), SOON_S, (source, 0) if source else None)
    try:
        connection = RawConnection.accepted(context.wrap_socket(plain, server_hostname="localhost"))
    except OSError:
        plain.close()
        raise
    connection.framed = framed
    return connection


def version(context: ssl.SSLContext, number: ssl.TLSVersion) -> ssl.SSLContext:
    """The same context, for this version alone."""
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # which OpenSSL needs for versions before 1.2
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = number
    return context


def hello(context: ssl.SSLContext) -> bytes:
    """What a client sends first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()
