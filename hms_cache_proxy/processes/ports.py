"""The ports of a proxy, taken before any child runs, so that one that is taken ends the start with one line.

Job: sockets only. Must not know what is served on them. ConfigError, naming the setting, when a port is not available.
Owner: the supervisor.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from hms_cache_proxy.config import Address
from hms_cache_proxy.errors import ConfigError


@contextlib.contextmanager
def reserved(address: Address) -> Iterator[Address]:
    """Keep the port that the workers share, so that port 0 is one port for all; ConfigError when it is taken.

    SO_REUSEPORT would let a second proxy take half of the connections unnoticed, so a socket without it looks first.
    The socket that stays is bound but does not listen, so it gets no connection.
    """
    with _refused_as(address, "listen"):
        family, where = _resolved(address)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
        holder = socket.socket(family, socket.SOCK_STREAM)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(where)
    with holder:
        yield Address(address.host, holder.getsockname()[1])


def bound(address: Address, key: str) -> list[socket.socket]:
    """A socket for each address that the host's name stands for; listening is the HTTP server's."""
    sockets: list[socket.socket] = []
    with _refused_as(address, key):
        for family, where in _resolved(address):
            taken = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(taken)
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            taken.bind(where)
    return sockets


def _resolved(address: Address) -> list[tuple[int, tuple[object, ...]]]:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(row[0], row[4]) for row in found]


@contextlib.contextmanager
def _refused_as(address: Address, key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{key}: cannot listen on {address}: {error.strerror}", key=key) from error
