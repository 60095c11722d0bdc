"""Detects a peer's transport by its first bytes, and handles frames.

Job: name the Transport that a connection's first bytes belong to, before anything else of it is read. It must not know
sockets. One byte is never enough: a frame's length, a name's length in an old message without a version, and a SASL
negotiation may begin with the same bytes, so the two bytes after the length are examined, too. At most DETECT_BYTES are
needed. Owned by any process; no state.
"""

from enum import Enum
from struct import Struct as Packer
from typing import Final, NamedTuple

from hms_cache_proxy.errors import LimitError
from hms_cache_proxy.wire.message import DEFAULT_LIMITS, NEED_MORE, MessageLimits, NeedMore


class Transport(Enum):
    """The transport and protocol of a connection. BINARY and FRAMED are served, also within TLS."""

    BINARY = "binary"
    FRAMED = "framed binary"
    COMPACT = "compact"
    FRAMED_COMPACT = "framed compact"
    HEADER = "THeader"
    OLD_UNVERSIONED = "binary without version"
    SASL = "SASL"
    TLS = "TLS"
    HTTP = "HTTP"
    UNKNOWN = "unknown"


DETECT_BYTES: Final = 9
_USUAL_BYTES: Final = 6  # which decide nearly always

_HTTP: Final = tuple(b"GET POST PUT HEAD OPTIONS DELETE PATCH CONNECT TRACE PRI".split())
_SASL_START: Final = b"\x01\x00\x00\x00"  # status START, then the length of the mechanism's name
_TLS_HANDSHAKE: Final = b"\x16\x03"
_CLIENT_HELLO: Final = 1
_STRICT: Final = b"\x80\x01"
_THEADER: Final = b"\x0f\xff"


def detect(first: bytes) -> Transport | NeedMore:
    """The transport of a connection, by its first bytes; NEED_MORE while several are possible."""
    if not first:
        return NEED_MORE
    if first[0] >= 0x80:
        return _versioned(first)
    if len(first) < 3:
        return NEED_MORE
    if first.startswith(_HTTP):
        return Transport.HTTP
    if len(first) < _USUAL_BYTES:
        return NEED_MORE
    inner = first[4:6]
    if first.startswith(_TLS_HANDSHAKE) and first[5] == _CLIENT_HELLO:
        return _hello(first)
    if inner == _STRICT:
        return Transport.FRAMED
    if _is_compact(inner):
        return Transport.FRAMED_COMPACT
    if inner == _THEADER:
        return Transport.HEADER
    if first.startswith(_TLS_HANDSHAKE):
        return Transport.TLS
    if first.startswith(_SASL_START) and _is_word(first[5:6]):
        return Transport.SASL
    if first.startswith(b"\x00\x00") and _is_word(inner):
        return Transport.OLD_UNVERSIONED
    return Transport.UNKNOWN


def _versioned(first: bytes) -> Transport | NeedMore:
    head = first[:2]
    if head == _STRICT:
        return Transport.BINARY
    if _is_compact(head):
        return Transport.COMPACT
    return NEED_MORE if first in (b"\x80", b"\x82") else Transport.UNKNOWN


def _hello(first: bytes) -> Transport | NeedMore:
    """TLS, unless it is a frame of 369 MB: the length of a hello may end with the byte that a message begins with. Then
    the length of the method's name follows, which is short, or the end of the same length, four less than 0x80."""
    if first[4:6] != _STRICT:
        return Transport.TLS
    if len(first) < DETECT_BYTES:
        return NEED_MORE
    return Transport.FRAMED if first[8] == 0 else Transport.TLS


def _is_compact(head: bytes) -> bool:
    return len(head) == 2 and head[0] == 0x82 and head[1] & 0x1F == 1


def _is_word(text: bytes) -> bool:
    return all(byte == 0x5F or chr(byte).isalnum() for byte in text) and text.isascii()


class Frame(NamedTuple):
    """The span of a frame's payload."""

    start: int
    end: int


_LENGTH: Final = Packer("!i")


def parse_frame(buf: bytes | bytearray, offset: int = 0, limits: MessageLimits = DEFAULT_LIMITS) -> Frame | NeedMore:
    """The payload of the frame whose length is at `offset`. `end` may be beyond the end of the buffer.

    LimitError for a negative length or one above limits.message_bytes.
    """
    if len(buf) - offset < _LENGTH.size:
        return NEED_MORE
    size: int = _LENGTH.unpack_from(buf, offset)[0]
    if not 0 <= size <= limits.message_bytes:
        raise LimitError(f"a frame of {size} bytes", limit="max_message_bytes")
    return Frame(offset + _LENGTH.size, offset + _LENGTH.size + size)


def frame_header(size: int) -> bytes:
    """The four bytes before a payload of this size."""
    return _LENGTH.pack(size)
