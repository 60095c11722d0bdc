"""Accepts new connections on the listening socket that all workers of a proxy share.

Job: accept a connection, or leave it to a worker that has fewer. The supervisor owns the socket, so connections wait in
its queue while workers end and start. Must not know: what is sent on a connection.

Every worker is woken for each connection. The one with the fewest connections accepts it at once. The others wait, the
longer the more connections they have in excess, and then accept the connection if it is still there, because the first
worker is busy or hangs.
Invariant: a connection waits at most `LONGEST_S` for a worker with fewer connections.
Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from hms_cache_proxy.server.worker_states import Member

BACKLOG: Final = 1024
LONGEST_S: Final = 0.1
LONGEST_EXCESS: Final = 0.2  # of its own connections: a larger excess does not prolong the wait
NO_ROOM_S: Final = 1.0  # pause of a worker without free descriptors or memory

log = structlog.get_logger()


class Acceptor:
    """Accepts from `start` to `close`; `admit` begins each connection, in a task made by `spawn`."""

    def __init__(
        self,
        listener: socket.socket,
        member: Member,
        admit: Callable[[socket.socket], Coroutine[Any, Any, None]],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._listener, self._member = listener, member
        self._admit, self._spawn = admit, spawn
        self._loop = asyncio.get_running_loop()
        self._beginning = 0  # accepted, but not counted yet
        self._later: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        """Begin to accept; the first worker that does makes the socket listen."""
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        self._watch()

    def close(self) -> None:
        """Accept nothing more; the other workers go on."""
        if self._closed:
            return
        self._closed = True
        if self._later is not None:
            self._later.cancel()
        else:
            self._loop.remove_reader(self._listener)
        self._listener.close()

    def _watch(self) -> None:
        self._later = None
        self._loop.add_reader(self._listener, self._waiting)

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listener)
        self._later = self._loop.call_later(seconds, then)

    def _waiting(self) -> None:
        """A connection is in the queue."""
        excess = self._member.excess(self._beginning)
        if excess > 0:
            self._pause(LONGEST_S * min(1.0, excess / LONGEST_EXCESS), self._left_over)
        else:
            self._accept()

    def _left_over(self) -> None:
        """The workers with fewer connections have had time to accept."""
        self._watch()
        self._accept()

    def _accept(self) -> None:
        try:
            taken, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker was faster, or the client has gone
        except OSError as error:
            if error.errno == errno.EINVAL:  # the supervisor has ended the listening
                self.close()
                return
            log.error("cannot accept", error=error.strerror, again_in_s=NO_ROOM_S)
            self._pause(NO_ROOM_S, self._watch)
            return
        self._beginning += 1
        taken.setblocking(False)
        self._spawn(self._begin(taken), "accept")

    async def _begin(self, taken: socket.socket) -> None:
        try:
            await self._admit(taken)
        finally:
            self._beginning -= 1
