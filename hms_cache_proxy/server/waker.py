"""Wakes the follower.

Job: send a datagram to its socket, which makes it begin a step: a write has ended, or a read waits. Must not know: why.
Invariant: it never blocks and never fails. A datagram that is lost (no follower, queue full) costs at most one poll
interval. Owner: one worker.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path


class Waker:
    """Sends a datagram to the follower's unix socket."""

    __slots__ = ("_path", "_socket")

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def wake(self) -> None:
        """Make the follower begin a step now."""
        with contextlib.suppress(OSError):  # there is no follower, or its queue is full of such datagrams
            self._socket.sendto(b"!", self._path)

    def close(self) -> None:
        """Free the socket."""
        self._socket.close()
