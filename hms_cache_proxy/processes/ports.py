"""Binds the ports of a proxy before any child runs, so that a port in use ends the start with a one-line error.

Job: make the sockets. Must not know: what is served on them. Raises ConfigError, which names the setting, if a port is
not available.
Owner: the supervisor.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Final

from hms_cache_proxy.config import Address
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.processes.port_holder import holder_of

BACKLOG: Final = 128


def shared(address: Address) -> socket.socket:
    """The one socket on which all workers accept; `::` includes IPv4.

    The first worker makes it listen. Until then clients are refused; after that, connections wait in its queue while
    workers end and start.
    """
    with _refused_as(address, "listen"):
        family, where = min(_resolved(address))  # IPv4 if a name has both
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and address.host == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(where)
    return listener


def bound(address: Address, key: str, *, listening: bool = True) -> list[socket.socket]:
    """A bound socket for each address of the host's name; `::` includes IPv4. It listens at once, so that no other
    program can take the port before it is served; until then, connections wait. Not `listening`: they are refused."""
    sockets: list[socket.socket] = []
    with contextlib.ExitStack() as given_up, _refused_as(address, key):
        for family, where in _resolved(address):
            taken = given_up.enter_context(socket.socket(family, socket.SOCK_STREAM))
            sockets.append(taken)
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address.host != "::"))
            taken.bind(where)
            if listening:
                taken.listen(BACKLOG)
        given_up.pop_all()
    return sockets


def _resolved(address: Address) -> list[tuple[int, tuple[object, ...]]]:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(row[0], row[4]) for row in found]


@contextlib.contextmanager
def _refused_as(address: Address, key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror
        if error.errno == errno.EADDRINUSE:
            holder = holder_of(address.port)
            why = f"the port is in use{f' by {holder}' if holder else ''}; set {key} to another, or stop that program"
        elif error.errno == errno.EACCES:
            why = f"{why}; ports below 1024 need root or CAP_NET_BIND_SERVICE"
        raise ConfigError(f"{key}: cannot listen on {address}: {why}") from error
