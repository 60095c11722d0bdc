"""Finds the ends of structs and messages, without building objects.

Job: find offsets. It must not know sockets, methods, or what the bytes mean. The C++ codec does the work: it decodes
into a class without fields, which skips about 1 MB in 1 ms. Python would take ten times as long.

- Complete buffers: `end_of_struct`; for the inside of a struct, spans.py.
- Streams: `StreamScanner` and `MessageScanner` take a message in pieces of any size, and keep none of them. The C++
  codec runs in a greenlet, which is suspended, with its C stack, when a piece is used up. So nothing is scanned twice,
  and only the partial bytes of one value are kept; the content of a long string is counted, not kept.

Limits: at most `limits.message_bytes` of a struct are scanned; the codec limits nesting (spec.NESTING_DEPTH); the
length of a string is checked if the string does not fit into its first piece, before any more of it is awaited. Owned
by one thread: a scanner must be fed by the thread (and greenlet) that made it.
"""

import io
from typing import Final

from greenlet import getcurrent, greenlet

from hms_cache_proxy.errors import LimitError
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import DEFAULT_LIMITS, NEED_MORE, Header, MessageLimits, NeedMore, parse_header
from hms_cache_proxy.wire.spec import CODEC_ERRORS, StructSource, reader, wire_error

#: Longer strings are counted, not collected.
COUNTED_BYTES: Final = 64 << 10
#: A first piece up to this size is first scanned as a whole: a greenlet costs 10 us, scanning 16 KiB 20 us.
WHOLE_BYTES: Final = 16 << 10


class Hollow:
    """A target for decoding with an empty spec, so the codec skips every field."""

    __slots__ = ()


HOLLOW: Final = Hollow()
SKIP: Final = [Hollow, ()]


def end_of_struct(buf: bytes | bytearray, start: int = 0, limits: MessageLimits = DEFAULT_LIMITS) -> int | NeedMore:
    """The offset after the struct at `start`, or NEED_MORE if the struct does not end in the buffer.

    WireError for malformed bytes. After NEED_MORE use a StreamScanner: repeated calls take quadratic time.
    """

    def no_more(_partial: bytes, wanted: int) -> io.BytesIO:
        _check_string(wanted, limits)
        raise EOFError

    buffer = reader(buf, start)
    try:
        StructSource(buffer, no_more, spec.MAX_LENGTH, limits.message_bytes).read(HOLLOW, SKIP)
    except EOFError:
        _check_message(len(buf) - start, limits)
        return NEED_MORE
    except CODEC_ERRORS as cause:
        raise wire_error(cause, offset=start, size=len(buf)) from cause
    end = buffer.tell()
    _check_message(end - start, limits)
    return end


def _check_message(size: int, limits: MessageLimits) -> None:
    if size > limits.message_bytes:
        raise LimitError(f"a message of {size} bytes or more", limit="max_message_bytes")


def _check_string(size: int, limits: MessageLimits) -> None:
    if size > limits.string_bytes:
        raise LimitError(f"a string of {size} bytes", limit="max_string_bytes")


class _Feed:
    """The pieces of one struct, for the suspended codec.

    It lives in the greenlet, and must not refer to it: the garbage collector cannot look into a suspended greenlet, so
    a scanner that is dropped in the middle of a message would never be freed.
    """

    __slots__ = ("buffer", "limits", "rest", "seen")

    def __init__(self, limits: MessageLimits) -> None:
        self.limits = limits
        self.buffer = io.BytesIO()
        self.rest = b""  # what follows a counted string in its last piece
        self.seen = 0  # bytes of all pieces so far

    def run(self, piece: bytes, start: int) -> int:
        """Skips one struct; returns how many bytes of the last piece are not part of it."""
        self.buffer = reader(piece, start)
        self.seen = len(piece) - start
        try:
            StructSource(self.buffer, self.refill, spec.MAX_LENGTH, self.limits.message_bytes).read(HOLLOW, SKIP)
        except CODEC_ERRORS as cause:
            raise wire_error(cause, offset=start, size=self.seen) from cause
        end = self.buffer.tell()
        left = self.buffer.seek(0, io.SEEK_END) - end + len(self.rest)
        _check_message(self.seen - left, self.limits)
        return left

    def refill(self, partial: bytes, wanted: int) -> io.BytesIO:
        """Called by the codec when it needs `wanted` bytes and has only `partial`."""
        have = len(partial) + len(self.rest)
        _check_string(wanted, self.limits)
        _check_message(self.seen - have + wanted, self.limits)
        if wanted > COUNTED_BYTES:
            return self._count_off(have, wanted)
        parts = [partial, self.rest]
        self.rest = b""
        while have < wanted:
            parts.append(self._next())
            have += len(parts[-1])
        self.buffer = io.BytesIO(b"".join(parts))
        return self.buffer

    def _count_off(self, have: int, wanted: int) -> io.BytesIO:
        piece = self.rest
        while have < wanted:
            piece = self._next()
            have += len(piece)
        self.rest = piece[len(piece) - (have - wanted) :]
        # The codec moves its position over these bytes without reading them, so the kernel never allocates their pages.
        self.buffer = io.BytesIO(bytes(wanted))
        return self.buffer

    def _next(self) -> bytes:
        parent = getcurrent().parent
        assert parent is not None
        piece: bytes = parent.switch(None)
        self.seen += len(piece)
        return piece


class StreamScanner:
    """Finds the end of one struct that arrives in pieces."""

    __slots__ = ("_greenlet", "_started")

    def __init__(self, limits: MessageLimits = DEFAULT_LIMITS) -> None:
        self._greenlet = greenlet(_Feed(limits).run)
        self._started = False

    def feed(self, piece: bytes, start: int = 0) -> int | NeedMore:
        """Takes piece[start:]; returns the offset in `piece` after the struct, or NEED_MORE if all was used.

        After a WireError, or the end of the struct, the scanner must not be fed again.
        """
        assert not self._greenlet.dead, "fed after the end"
        if self._started:
            left: int | None = self._greenlet.switch(piece[start:] if start else piece)
        else:
            self._started = True
            left = self._greenlet.switch(piece, start)
        return NEED_MORE if left is None else len(piece) - left


class MessageScanner:
    """Finds header and end of one message that arrives in pieces."""

    __slots__ = ("_held", "_limits", "_struct", "header")

    def __init__(self, limits: MessageLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._held = b""  # an incomplete header
        self._struct: StreamScanner | None = None
        self.header: Header | None = None

    def feed(self, piece: bytes, start: int = 0) -> int | NeedMore:
        """Takes piece[start:]; returns the offset in `piece` after the message, or NEED_MORE if all was used.

        `header` is set when it is complete; its `body` is an offset from the message's first byte.
        """
        if self._struct is not None:
            return self._struct.feed(piece, start)
        shift = 0  # from an offset in the joined bytes to one in piece
        if self._held:
            shift = start - len(self._held)
            piece, start = self._held + piece[start:], 0
        header = parse_header(piece, start, self._limits)
        if header is NEED_MORE:
            self._held = piece[start:]
            return NEED_MORE
        self.header = header._replace(body=header.body - start)
        self._held = b""
        end: int | NeedMore = NEED_MORE
        if len(piece) - header.body <= WHOLE_BYTES:
            end = end_of_struct(piece, header.body, self._limits)
        if end is NEED_MORE:
            self._struct = StreamScanner(self._limits)
            end = self._struct.feed(piece, header.body)
        return NEED_MORE if end is NEED_MORE else end + shift
