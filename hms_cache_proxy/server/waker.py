"""Wakes the follower, and is told when its step has ended.

Job: send a datagram to the follower's socket, so that it begins a step, when a write has ended or a read waits. When
that step has ended, the follower sends a datagram back. Must not know: why.
Invariant: it never blocks and never fails. A lost datagram (no follower, a full queue) or a socket that cannot be bound
costs at most one poll interval. Owner: one worker.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path


class Waker:
    """Sends datagrams to the follower's unix socket, and receives its answers."""

    __slots__ = ("_own", "_path", "_socket")

    def __init__(self, path: Path, own: Path | None = None) -> None:
        """`own`: where answers come to; None: there are none."""
        self._path = str(path)
        self._own = own
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        if own is not None:
            with contextlib.suppress(OSError):  # no room on the disk, or too long a path
                own.unlink(missing_ok=True)
                self._socket.bind(str(own))
                os.chmod(own, 0o600)

    def wake(self) -> None:
        """Make the follower begin a step now."""
        with contextlib.suppress(OSError):  # there is no follower, or its queue is full of such datagrams
            self._socket.sendto(b"!", self._path)

    def fileno(self) -> int:
        """Readable when an answer has come."""
        return self._socket.fileno()

    def heard(self) -> None:
        """Take all answers."""
        with contextlib.suppress(OSError):
            while self._socket.recv(16):
                pass

    def close(self) -> None:
        """Free the socket."""
        self._socket.close()
        if self._own is not None:
            with contextlib.suppress(OSError):
                self._own.unlink()
