"""A connection with SASL, for the event loop: first the negotiation, then frames around the bytes of another protocol.

Job: be the protocol of the connection and, after `open`, the transport of an inner protocol that knows nothing of SASL.
The inner protocol gets and writes a stream: a message may be in several frames, as Thrift's own transports allow.
Without a layer, frames of any size are passed on as they arrive; with one, a frame must be complete before it is
unwrapped. Must not know: mechanisms, Thrift.
Invariants
- Bytes keep their order; nothing is passed to the inner protocol while it has paused reading, unless the connection is
  lost.
- No turn of the loop wraps or unwraps more than about 128 kB: longer writes are wrapped piece by piece, longer frames
  are unwrapped in a thread. Meanwhile nothing is wrapped, because the library's contexts may not be used in two
  threads.
- A frame that is longer than `limit_bytes`, not wrapped as agreed, or too long for the budget `memory`, ends the
  connection: `told` and the inner protocol's `connection_lost` get the reason.
Owner: one connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, Literal, cast

from hms_cache_proxy.budget import UNBOUNDED, Budget, Charge
from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.security.mechanism import Protection
from hms_cache_proxy.wire.framing import Frame, frame_header, parse_frame
from hms_cache_proxy.wire.message import NEED_MORE, UNLIMITED, MessageLimits
from hms_cache_proxy.wire.sasl import Layers

UNREAD_BYTES: Final = 1 << 18  # of a negotiation, beyond which the other side is not read from
AT_ONCE_BYTES: Final = 1 << 16  # of a frame that is unwrapped in the loop
PIECE_BYTES: Final = 1 << 18  # of an unwrapped frame that are passed on at once
_LENGTH_BYTES: Final = 4


def closed_during_login(other_side: str) -> ConnectionResetError:
    """The error of a login that ends because the client or the metastore has closed the connection."""
    return ConnectionResetError(f"the {other_side} closed the connection during the login")


class SaslStream(asyncio.Protocol, asyncio.Transport):
    """`other_side`: for errors. `limit_bytes`: of a wrapped frame. `threads`: where long ones are unwrapped. `memory`:
    for long frames, until they are unwrapped; None: without a budget."""

    def __init__(
        self,
        other_side: Literal["client", "metastore"],
        limit_bytes: int,
        threads: Executor,
        told: Callable[[WireError], None] = lambda error: None,
        memory: Budget | None = None,
    ) -> None:
        super().__init__()
        self._other_side = other_side
        self._told = told
        self._memory = Charge(memory or Budget("", UNBOUNDED), for_write=True)  # a frame may be a write
        self._limits = MessageLimits(message_bytes=limit_bytes, string_bytes=limit_bytes)
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._inner: asyncio.Protocol | None = None
        self._protection: Protection | None = None
        self._plain = False  # frames without a layer: they need not be whole
        self._received = bytearray()
        self._news = asyncio.Event()
        self._frame_left = 0  # bytes of the present frame that are still to come
        self._ready: deque[bytes] = deque()  # unwrapped, for the inner protocol
        self._unwrapping = 0  # bytes of the frame that a thread unwraps
        self._more_due = False  # more frames will be unwrapped in the next turn
        self._paused = False  # by the inner protocol
        self._ended = False  # the other side sends no more
        self._told_end = False
        self._outgoing: deque[memoryview] = deque()  # to be wrapped
        self._outgoing_bytes = 0
        self._wrap_due = False
        self._stuck = False  # the transport is above its high-water mark
        self._told_stuck = False
        self._high_bytes = UNREAD_BYTES
        self._closing = False
        self._lost = False
        self._trouble: WireError | None = None

    # the negotiation

    async def more(self) -> bytes:
        """The next bytes of the other side. ConnectionResetError if it has closed."""
        while not self._received:
            if self._ended or self._lost:
                raise closed_during_login(self._other_side)
            self._news.clear()
            await self._news.wait()
        data = bytes(self._received)
        self._received.clear()
        if not self._transport.is_closing():
            self._transport.resume_reading()
        return data

    def send(self, data: bytes) -> None:
        """A message of the negotiation."""
        if not self._lost:
            self._transport.write(data)

    def check_open(self) -> None:
        """ConnectionResetError if the connection is closing, as it may be when the last step of a login took a while:
        `open` cannot begin on a transport that has gone."""
        if self.is_closing():
            raise closed_during_login(self._other_side)

    def open(self, inner: asyncio.Protocol, protection: Protection, rest: bytes) -> None:
        """The negotiation is over: from now on everything is for `inner`. `rest`: what came behind it. Call
        `check_open` first."""
        self._inner, self._protection = inner, protection
        self._plain = protection.layer is Layers.AUTH
        inner.connection_made(self)
        self._continue(rest)

    def _continue(self, rest: bytes) -> None:
        """Give the inner protocol what has come before it."""
        lost, ended, data = self._lost, self._ended, rest + bytes(self._received)
        self._received.clear()
        self._lost = self._ended = False
        if data:
            self.data_received(data)
        if ended:
            self.eof_received()
        if lost:
            self.connection_lost(None)

    # the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has its own classes

    def data_received(self, data: bytes) -> None:
        if self._inner is None:
            self._received += data
            if len(self._received) > UNREAD_BYTES:
                self._transport.pause_reading()
            self._news.set()
        elif self._plain and not self._frame_left and not self._received and not self._ready:
            if int.from_bytes(data[:_LENGTH_BYTES], "big") == len(data) - _LENGTH_BYTES > 0:
                self._inner.data_received(data[_LENGTH_BYTES:])  # the usual case
            else:
                self._take(data)
        else:
            self._take(data)

    def eof_received(self) -> bool:
        self._ended = True
        self._news.set()
        if self._inner is None:
            return False
        return self._tell_end()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._news.set()
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self._memory.close()
        if self._inner is None:
            return
        while self._ready:
            self._inner.data_received(self._ready.popleft())
        if self._trouble is not None:
            error = ConnectionAbortedError(str(self._trouble))
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._stuck = True
        self._tell()

    def resume_writing(self) -> None:
        self._stuck = False
        self._wrap()
        self._tell()

    # reading

    def _take(self, data: bytes) -> None:
        self._received += data
        try:
            if self._plain:
                self._pass_frames()
            else:
                self._unwrap_frames()
        except WireError as error:
            self._break(error)

    def _pass_frames(self) -> None:
        """Without a layer: only the lengths are taken out."""
        at, buffer = 0, self._received
        while at < len(buffer):
            if not self._frame_left:
                frame = parse_frame(buffer, at, UNLIMITED)
                if frame is NEED_MORE:
                    break
                at, self._frame_left = frame.start, frame.end - frame.start
                continue
            part = bytes(buffer[at : at + self._frame_left])
            at += len(part)
            self._frame_left -= len(part)
            self._ready.append(part)
        del buffer[:at]
        self._deliver()

    def _unwrap_frames(self) -> None:
        """Unwrap what is whole, as far as one turn allows."""
        assert self._protection is not None
        at, turn_bytes, buffer = 0, 0, self._received
        while not self._unwrapping and turn_bytes <= AT_ONCE_BYTES:
            frame = parse_frame(buffer, at, self._limits)
            if not isinstance(frame, Frame) or frame.end > len(buffer):
                break
            payload, at = bytes(buffer[frame.start : frame.end]), frame.end
            turn_bytes += len(payload)
            if len(payload) <= AT_ONCE_BYTES:
                self._ready.append(self._protection.unwrap(payload))
                continue
            self._unwrapping = len(payload)
            done = self._loop.run_in_executor(self._threads, self._protection.unwrap, payload)
            done.add_done_callback(self._unwrapped)
        del buffer[:at]
        self._charge(len(buffer) + self._unwrapping)
        if turn_bytes > AT_ONCE_BYTES and not self._unwrapping and not self._more_due:
            self._more_due = True
            self._loop.call_soon(self._unwrap_more)
        self._deliver()

    def _charge(self, held: int) -> None:
        """Account for this many bytes of frames. Few are not worth it."""
        if held <= AT_ONCE_BYTES:
            self._memory.close()
        elif held > self._memory.size and not self._memory.grow(held - self._memory.size):
            raise LimitError(f"{held} bytes of a frame, and limits.memory_bytes is used up", limit="memory_bytes")

    def _unwrap_more(self) -> None:
        self._more_due = False
        if not self._lost and not self._unwrapping:
            self._take(b"")

    def _unwrapped(self, done: asyncio.Future[bytes]) -> None:
        """The thread has ended."""
        self._unwrapping = 0
        if self._lost or done.cancelled():
            return
        self._wrap_soon()
        try:
            message = done.result()
        except WireError as error:
            self._break(error)
            return
        self._ready += (message[at : at + PIECE_BYTES] for at in range(0, len(message), PIECE_BYTES))
        self._take(b"")

    @property
    def _busy(self) -> bool:
        """Is something on its way to the inner protocol?"""
        return bool(self._ready or self._unwrapping or self._more_due)

    def _deliver(self) -> None:
        """Pass on what is ready, as far as the inner protocol reads."""
        assert self._inner is not None
        while self._ready and not self._paused and not self._lost:
            self._inner.data_received(self._ready.popleft())
        if self._lost:
            return
        if self._busy:
            self._hold()
            return
        if not self._paused and not self._transport.is_closing():
            self._transport.resume_reading()
        if self._ended and not self._tell_end():
            self.close()

    def _tell_end(self) -> bool:
        """Tell the inner protocol that the other side sends no more; False: it wants to close."""
        if self._busy or self._told_end:
            return True  # it learns of it behind these
        self._told_end = True
        assert self._inner is not None
        return bool(self._inner.eof_received())

    def _hold(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def _break(self, error: WireError) -> None:
        if self._trouble is None:
            self._trouble = error
            self._told(error)
            self._transport.abort()

    # what the inner protocol calls

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self._closing or self._lost or not data:
            return
        if self._plain:
            if len(data) <= AT_ONCE_BYTES:
                self._transport.write(frame_header(len(data)) + data)
            else:
                self._transport.write(frame_header(len(data)))
                self._transport.write(data)
            return
        assert self._protection is not None
        if not self._outgoing and not self._unwrapping and len(data) <= self._protection.most_bytes:
            self._wrap_one(bytes(data))
            return
        self._outgoing.append(memoryview(data))
        self._outgoing_bytes += len(data)
        self._wrap_soon()
        self._tell()

    def _wrap_one(self, piece: bytes) -> None:
        assert self._protection is not None
        try:
            payload = self._protection.wrap(piece)
        except WireError as error:
            self._break(error)
            return
        self._transport.write(frame_header(len(payload)) + payload)

    def _wrap_soon(self) -> None:
        if not self._wrap_due:
            self._wrap_due = True
            self._loop.call_soon(self._wrap)

    def _wrap(self) -> None:
        """Wrap one piece of what was written."""
        self._wrap_due = False
        if self._lost:
            return
        ready = not self._stuck and not self._unwrapping
        if self._outgoing and ready:
            assert self._protection is not None
            most, first = self._protection.most_bytes, self._outgoing.popleft()
            if len(first) > most:
                self._outgoing.appendleft(first[most:])
                first = first[:most]
            self._outgoing_bytes -= len(first)
            self._wrap_one(bytes(first))
            self._tell()
        if self._outgoing and ready:
            self._wrap_soon()
        elif self._closing and not self._outgoing:
            self._transport.close()

    def _tell(self) -> None:
        """Tell the inner protocol when to write and when not."""
        stuck = self._stuck or self._outgoing_bytes > self._high_bytes
        if self._inner is None or stuck is self._told_stuck or self._lost:
            return
        if not stuck and self._outgoing:
            return  # until all is wrapped
        self._told_stuck = stuck
        if stuck:
            self._inner.pause_writing()
        else:
            self._inner.resume_writing()

    def pause_reading(self) -> None:
        self._paused = True
        self._hold()

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            if self._busy:
                self._loop.call_soon(self._deliver_later)
            elif not self._transport.is_closing():
                self._transport.resume_reading()

    def _deliver_later(self) -> None:
        if not self._lost:
            self._deliver()

    def is_reading(self) -> bool:
        return not self._paused

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = UNREAD_BYTES if high is None else high
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._outgoing_bytes + self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._closing or self._lost or self._transport.is_closing()

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Close after everything was sent."""
        self._closing = True
        if not self._outgoing:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()
