"""The way of reply bytes to one client: framing, and what to do when the client is slow.

Job: turn parts of a reply into Send commands or, while they cannot be sent, keep them in a bounded spool. A framed
reply begins with its length, so one that comes in parts is spooled until it is whole. Must not know where a reply
comes from. Invariants: bytes leave in order; memory is bounded by the spool's window and the transport's high water.
Owner: one ClientConnection.
"""

from __future__ import annotations

from hms_cache_proxy.server.commands import Again, Command, Send
from hms_cache_proxy.server.spool import Spool
from hms_cache_proxy.wire.framing import frame_header

MAX_REPLY_BYTES = 2**31 - 1  # what a frame's length can say; for a spool also a guard of the disk


class Outbox:
    """Replies to one client, one after the other."""

    __slots__ = ("_commands", "_ended", "_spool", "_spool_directory", "blocked", "framed", "passed_on", "size")

    def __init__(self, commands: list[Command], spool_directory: str | None = None) -> None:
        self._commands = commands
        self._spool_directory = spool_directory
        self._spool: Spool | None = None
        self._ended = True
        self.framed = False
        self.blocked = False  # the transport's buffer is above its high water
        self.passed_on = False  # bytes of the current reply have gone to the client
        self.size = 0  # bytes of the current reply so far

    @property
    def busy(self) -> bool:
        """Bytes wait in the spool."""
        return self._spool is not None

    def whole(self, reply: bytes) -> None:
        """A reply that is complete."""
        assert self._spool is None
        self.size = len(reply)
        self._commands.append(Send(frame_header(len(reply)) + reply if self.framed else reply))

    def begin(self) -> None:
        """A reply follows in parts."""
        assert self._spool is None
        self._ended = False
        self.passed_on = False
        self.size = 0

    def stream(self, part: bytes) -> None:
        """The next part of a reply whose source can be paused: it is passed on though the client is slow."""
        self.size += len(part)
        if self.framed:
            self._keep(part)
        else:
            self._send(part)

    def write(self, part: bytes) -> None:
        """The next part of a reply whose source must not wait for the client; LimitError if it cannot be kept."""
        self.size += len(part)
        if self._spool is None and not self.framed and not self.blocked:
            self._send(part)
        else:
            self._keep(part)

    def _send(self, part: bytes) -> None:
        self.passed_on = True
        self._commands.append(Send(part))

    def _keep(self, part: bytes) -> None:
        if self._spool is None:
            self._spool = Spool(limit=MAX_REPLY_BYTES, limit_name="reply", directory=self._spool_directory)
        self._spool.write(part)

    def end(self) -> None:
        """The reply is complete."""
        self._ended = True
        if self._spool is None:
            return
        if self.framed:
            self._commands.append(Send(frame_header(self._spool.size)))
        self.pump()

    def pump(self) -> None:
        """Send the next slice of the spool if the client takes it."""
        if self._spool is None or self.blocked or not self._ended:
            return
        self.passed_on = True
        self._commands.append(Send(self._spool.read()))
        if self._spool.left:
            self._commands.append(Again())
        else:
            self.drop()

    def drop(self) -> None:
        """Forget what waits."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None
