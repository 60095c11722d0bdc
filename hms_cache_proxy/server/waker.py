"""The way to wake the follower.

Job: a datagram to its socket that says "look now": a write has just been done, or a reader waits. Must not know why.
Invariant: it never blocks and never fails: a datagram that is lost (no follower, its queue full) costs one poll
interval at most. Owner: one worker.
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
        """Have the follower look now."""
        with contextlib.suppress(OSError):  # it is away, or has been woken so often that its queue is full
            self._socket.sendto(b"!", self._path)

    def close(self) -> None:
        """Free the socket."""
        self._socket.close()
