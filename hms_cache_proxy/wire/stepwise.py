"""Decodes one struct in many short steps, for requests that would block an event loop for too long.

Job: decode in a generator that pauses after each PIECE_BYTES of the struct. The C++ codec runs in a greenlet, which is
suspended, with its C stack, when its piece is used up (as in scan.py). Must not know: clocks, methods. Limits: a
container may have `most` elements, and a step decodes at most PIECE_BYTES of small elements. Owned by one thread: the
generator must continue in the thread that began it.
"""

from __future__ import annotations

import io
from collections.abc import Generator
from typing import Final, TypeVar

from greenlet import getcurrent, greenlet

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.spec import CODEC_ERRORS, StructSource, wire_error

PIECE_BYTES: Final = 2 << 10
"""An empty struct has one byte; two thousand are built in 1.5 ms. Each further piece costs 2 us."""

S = TypeVar("S", bound=spec.Struct)


class _Pieces:
    """The bytes of the struct, for the suspended codec. It lives in the greenlet, and must not refer to it."""

    __slots__ = ("_at", "_buf")

    def __init__(self, buf: bytes, offset: int) -> None:
        self._buf = buf
        self._at = offset

    def run(self, cls: type[S], most: int) -> S:
        """Decodes the struct."""
        source = StructSource(io.BytesIO(self._take(PIECE_BYTES)), self.refill, spec.MAX_LENGTH, most)
        value: S = source.read(None, cls._typeargs)
        return value

    def refill(self, partial: bytes, wanted: int) -> io.BytesIO:
        """Called by the codec when it needs `wanted` bytes and has only `partial`."""
        missing = wanted - len(partial)
        if missing > len(self._buf) - self._at:
            raise EOFError
        parent = getcurrent().parent
        assert parent is not None
        parent.switch(None)
        return io.BytesIO(partial + self._take(max(missing, PIECE_BYTES)))

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        return self._buf[begin : self._at]


def decode(cls: type[S], buf: bytes, offset: int, most: int) -> Generator[None, None, S]:
    """Like spec.decode, in steps; returns the struct. LimitError if a list or map has more than `most` elements."""
    if not 0 <= offset <= len(buf):
        raise WireError(f"truncated: nothing at {offset} of {len(buf)} bytes")
    codec = greenlet(_Pieces(buf, offset).run)
    try:
        value = codec.switch(cls, min(most, len(buf) - offset))
        while value is None:
            yield
            value = codec.switch()
    except OverflowError as cause:
        raise LimitError(f"a length or count: {cause}", limit="elements") from cause
    except CODEC_ERRORS as cause:
        raise wire_error(cause, offset=offset, size=len(buf)) from cause
    found: S = value
    return found
