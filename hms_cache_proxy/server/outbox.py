"""Sends replies to one client: frames them, and keeps them while the client is slow.

Job: turn parts of a reply into Send commands, or keep them in a bounded spool while they cannot be sent. A framed reply
begins with its length, so its parts are spooled until it is complete. Must not know: where a reply comes from.
Invariants: bytes leave in order; memory is bounded by the spool's window and the transport's high-water mark. When
`limits.spool_bytes` is used up, a source that can be paused waits until its client has read (`waits`).
Owner: one ClientConnection.
"""

from __future__ import annotations

from hms_cache_proxy.errors import LimitError
from hms_cache_proxy.server.commands import Again, Command, Send
from hms_cache_proxy.server.spool import SLICE_BYTES, Spool, SpoolRoom
from hms_cache_proxy.wire.framing import frame_header

MAX_REPLY_BYTES = 2**31 - 1  # the largest length of a frame; for a spool also a limit on disk space
HEAD_BYTES = 128  # of a reply, which are remembered
WHOLE_BYTES = 1 << 20  # a longer reply waits in a file if memory is short
MARGIN_BYTES = 4 << 20  # of room for files, below which a source waits; a slice is smaller


class Outbox:
    """Replies to one client, one after the other."""

    __slots__ = (
        "_commands",
        "_ended",
        "_room",
        "_spool",
        "blocked",
        "for_write",
        "framed",
        "head",
        "passed_on",
        "size",
        "waits",
    )

    def __init__(self, commands: list[Command], room: SpoolRoom | None = None) -> None:
        self._commands = commands
        self._room = room or SpoolRoom()
        self._spool: Spool | None = None
        self._ended = True
        self.framed = False
        self.for_write = False  # the reply is to a write
        self.waits = False  # until the client takes what is in the spool: there is no room for more
        self.blocked = False  # the transport's buffer is above its high-water mark
        self.passed_on = False  # bytes of the current reply have gone to the client
        self.size = 0  # bytes of the current reply so far
        self.head = b""  # its beginning

    @property
    def busy(self) -> bool:
        """Bytes wait in the spool."""
        return self._spool is not None

    def whole(self, reply: bytes, rest: bytes = b"") -> None:
        """A complete reply; `rest`: the second part of a large one."""
        assert self._spool is None
        size = len(reply) + len(rest)
        if size > WHOLE_BYTES and self._belongs_in_file(size) and self._kept_whole(reply + rest):
            return
        self.size, self.head = size, reply[:HEAD_BYTES]
        self._commands.append(Send(self._before(size) + reply))
        if rest:
            self._commands.append(Send(rest))

    def _before(self, size: int) -> bytes:
        """What stands in front of a reply of this size."""
        return frame_header(size) if self.framed else b""

    def _belongs_in_file(self, size: int) -> bool:
        """Is memory short, and is there room for a file? Without room the reply is sent: it is in memory already."""
        memory, files = self._room.budgets.memory, self._room.budgets.spool
        return not memory.has(size, for_write=self.for_write) and files.has(size, for_write=self.for_write)

    def _kept_whole(self, reply: bytes) -> bool:
        """Put the reply into a file; False if there is no room."""
        self.begin()
        try:
            for at in range(0, len(reply), SLICE_BYTES):
                self._keep(reply[at : at + SLICE_BYTES])
        except LimitError:  # a full disk
            self.drop()
            return False
        self.size, self.head = len(reply), reply[:HEAD_BYTES]
        self.end()
        return True

    def make_room(self) -> bool:
        """Is there room for the next part of a source that can wait? If not, it waits until `pump` clears `waits`."""
        if not self.waits and self._spool is not None and not self.framed:
            self.waits = not self._room.budgets.spool.has(MARGIN_BYTES, for_write=self.for_write)
        if self.waits:
            self.pump()
        return not self.waits

    def begin(self) -> None:
        """A reply follows in parts."""
        assert self._spool is None
        self._ended = False
        self.passed_on = False
        self.size, self.head = 0, b""

    def stream(self, part: bytes) -> None:
        """The next part of a reply whose source can be paused: passed on even if the client is slow."""
        self._counted(part)
        if self.framed:
            self._keep(part)
        else:
            self._send(part)

    def write(self, part: bytes) -> None:
        """The next part of a reply whose source must not wait. Raises LimitError if it cannot be kept."""
        self._counted(part)
        if self._spool is None and not self.framed and not self.blocked:
            self._send(part)
        else:
            self._keep(part)

    def _counted(self, part: bytes) -> None:
        self.size += len(part)
        if len(self.head) < HEAD_BYTES:
            self.head += part[: HEAD_BYTES - len(self.head)]

    def _send(self, part: bytes) -> None:
        self.passed_on = True
        self._commands.append(Send(part))

    def _keep(self, part: bytes) -> None:
        if self._spool is None:
            self._spool = Spool(limit=MAX_REPLY_BYTES, limit_name="reply", room=self._room, for_write=self.for_write)
        self._spool.write(part)

    def end(self) -> None:
        """The reply is complete."""
        self._ended = True
        if self._spool is None:
            return
        if self.framed:
            self._commands.append(Send(self._before(self._spool.size)))
        self.pump()

    def pump(self) -> None:
        """Send the next slice of the spool if the client can take it."""
        if self._spool is None or self.blocked or not (self._ended or self.waits):
            return
        self._send(self._spool.read())
        if self._spool.left:
            self._commands.append(Again())
        else:
            self.drop()

    def drop(self) -> None:
        """Discard what has not been sent."""
        self.waits = False
        if self._spool is not None:
            self._spool.close()
            self._spool = None
