"""Cuts the bytes of one client into requests.

Job: detect the transport, cut the stream into messages of any size, keep bytes that arrive early. Must not know: the
loop, what a request means.
Invariants: a request is returned when it is complete, because the names in it must be fenced before it leaves. Up to
WINDOW_BYTES it is returned as bytes. Beyond that, or beyond HEAD_BYTES if the worker's memory is used up, it is a Spool
(a file) and its first HEAD_BYTES. A frame holds exactly one message; any other frame is refused, because a second call
in it would go unnoticed. Owner: one ClientConnection.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hms_cache_proxy.budget import Charge
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.server.spool import Spool, SpoolRoom
from hms_cache_proxy.wire.framing import Transport, detect, parse_frame
from hms_cache_proxy.wire.message import (
    NAMES,
    NEED_MORE,
    Header,
    MessageLimits,
    MessageType,
    NeedMore,
    is_answered,
    parse_header,
)
from hms_cache_proxy.wire.scan import MessageScanner, end_of_struct

WINDOW_BYTES = 8 << 20  # a call with 1,000 partitions of 50 columns has 3 MB
HEAD_BYTES = 1 << 16  # of a larger request: the header and the names, for all known methods
SERVED = (Transport.BINARY, Transport.FRAMED)
"""The transports of plain Thrift."""
_FROM_CLIENTS = (MessageType.CALL, MessageType.ONEWAY)
_BAD_FRAME = "a frame does not hold exactly one message"


class TransportRefused(WireError):
    """The first bytes belong to a transport that is not supported, or not allowed."""

    def __init__(self, transport: Transport) -> None:
        if transport in (*SERVED, Transport.TLS, Transport.SASL, Transport.HTTP):
            why = "security.transports does not allow it"
        else:
            why = "only the Thrift binary protocol, framed or unframed, is supported"
        super().__init__(f"the first bytes are {transport.value}; {why}")
        self.transport = transport


@dataclass(slots=True)
class Request:
    """One message, without its frame. `spool` has all of it when `message` is only its beginning."""

    header: Header
    message: bytes
    spool: Spool | None = None
    charge: Charge | None = field(default=None, compare=False)  # for the memory of a message, unless it is small

    @property
    def whole(self) -> bool:
        """Is `message` all of it?"""
        return self.spool is None or self.spool.size == len(self.message)

    @property
    def known(self) -> bool:
        """Does some Hive have this method?"""
        return self.header.name in NAMES

    @property
    def answered(self) -> bool:
        """Will there be a reply?"""
        return is_answered(self.header)

    def close(self) -> None:
        """Free the spool."""
        if self.charge is not None:
            self.charge.close()
        if self.spool is not None:
            self.spool.close()


class Partial:
    """A message of which only the beginning has arrived."""

    __slots__ = ("_memory", "scanner", "spool")

    def __init__(self, limits: MessageLimits, room: SpoolRoom) -> None:
        self.scanner = MessageScanner(limits)
        self._memory = room.budgets.memory
        self.spool = Spool(limit=limits.message_bytes, limit_name="max_message_bytes", room=room, for_write=True)

    def take(self, data: bytes) -> int | NeedMore:
        """Take more bytes. When the message is complete, returns how many bytes of data belong to it."""
        end = self.scanner.feed(data)
        self.spool.write(data if end is NEED_MORE else data[:end])
        return end

    def request(self) -> Request:
        header = self.scanner.header
        assert header is not None
        charge = Charge(self._memory, for_write=True)  # it may be a write
        size = self.spool.size
        large = size > WINDOW_BYTES or not (charge.grow(size) or size <= HEAD_BYTES)  # so much is read in any case
        message = self.spool.read(HEAD_BYTES if large else WINDOW_BYTES)
        self.spool.rewind()
        if large:
            return Request(header, message, self.spool)
        self.spool.close()
        return Request(header, message, charge=charge)


class Inbox:
    """Bytes in, requests out."""

    __slots__ = ("_at", "_buffer", "_frame_left", "_limits", "_partial", "_room", "framed", "transport")

    def __init__(self, limits: MessageLimits, room: SpoolRoom | None = None) -> None:
        self._limits = limits
        self._room = room or SpoolRoom()
        self._buffer = b""
        self._at = 0  # the bytes before it in the buffer have been returned
        self._frame_left = 0  # bytes of the current frame that are still to come
        self._partial: Partial | None = None
        self.transport: Transport | None = None
        self.framed = False  # the transport is FRAMED

    @property
    def waiting_bytes(self) -> int:
        """Bytes that have arrived and have not been read yet."""
        return len(self._buffer) - self._at

    @property
    def empty(self) -> bool:
        """No byte of a further request has arrived."""
        return self._at == len(self._buffer) and self._partial is None

    def add(self, data: bytes) -> None:
        """Bytes from the client."""
        self._buffer = self._buffer[self._at :] + data if self._at < len(self._buffer) else data
        self._at = 0

    def skip(self, size: int) -> None:
        """The next bytes have been answered as they are."""
        self._at += size

    def next(self) -> Request | None:
        """The next complete request. WireError (LimitError, TransportRefused) if the client breaks the protocol."""
        if self._at == len(self._buffer):
            return None
        if self.transport is None and not self._detect():
            return None
        request = self._framed() if self.framed else self._plain()
        if request is not None and request.header.type not in _FROM_CLIENTS:
            request.close()
            raise WireError(f"a message of type {request.header.type.name} from a client")
        return request

    def close(self) -> None:
        """Forget everything."""
        self._buffer = b""
        self._at = 0
        if self._partial is not None:
            self._partial.spool.close()
            self._partial = None

    def _detect(self) -> bool:
        found = detect(self._buffer)
        if found is NEED_MORE:
            return False
        if found not in SERVED:
            raise TransportRefused(found)
        self.transport = found
        self.framed = found is Transport.FRAMED
        return True

    def _plain(self) -> Request | None:
        if self._partial is None:
            request = self._whole()
            if request is not None:
                return request
            self._partial = Partial(self._limits, self._room)
        return self._take(self._buffer[self._at :] if self._at else self._buffer)

    def _framed(self) -> Request | None:
        if self._partial is None:
            frame = parse_frame(self._buffer, self._at, self._limits)
            if frame is NEED_MORE:
                return None
            self._at = frame.start
            if frame.end <= len(self._buffer):
                request = self._whole()
                if request is None or self._at != frame.end:
                    raise WireError(_BAD_FRAME)
                return request
            self._frame_left = frame.end - frame.start
            self._partial = Partial(self._limits, self._room)
        data = self._buffer[self._at : self._at + self._frame_left]
        self._frame_left -= len(data)
        if not data:
            return None
        request = self._take(data)
        if (request is None) != bool(self._frame_left):
            raise WireError(_BAD_FRAME)
        return request

    def _whole(self) -> Request | None:
        """The message at the current position if it ends within the buffer."""
        buffer, start = self._buffer, self._at
        header = parse_header(buffer, start, self._limits)
        if header is NEED_MORE:
            return None
        end = end_of_struct(buffer, header.body, self._limits)
        if end is NEED_MORE:
            return None
        self._at = end
        if start == 0 and end == len(buffer):
            return Request(header, buffer)
        return Request(header._replace(body=header.body - start), buffer[start:end])

    def _take(self, data: bytes) -> Request | None:
        """Give data, which begins at the current position, to the message whose beginning has arrived before."""
        assert self._partial is not None
        end = self._partial.take(data)
        self._at += len(data) if end is NEED_MORE else end
        if end is NEED_MORE:
            return None
        request = self._partial.request()
        self._partial = None
        return request
