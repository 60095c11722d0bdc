"""Message headers of the strict binary protocol, limits for messages from a peer, and TApplicationException.

Job: read and write the bytes around a struct. It must not know sockets, or what a method means.

    strict header: 80 01 xx TT | i32 length, name | i32 seqid | struct      (Thrift binary protocol, "strict")

Old headers without a version are refused: their first four bytes are the name's length, which looks like the length of
a frame (framing.py tells them apart where possible). The third byte is ignored, as in Thrift's own servers. Owned by
any process; no state.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from struct import Struct as Packer
from typing import Final, Literal, NamedTuple, TypeAlias

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire import facts, spec


class _NeedMore(Enum):
    NEED_MORE = "need more"


#: The buffer ends before the value does.
NEED_MORE: Final = _NeedMore.NEED_MORE
NeedMore: TypeAlias = Literal[_NeedMore.NEED_MORE]


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """Limits for messages from a peer. The codec itself limits nesting, to spec.NESTING_DEPTH."""

    message_bytes: int = 1 << 30  # Hive's own client accepts replies of 1 GiB, its server requests of 100 MB
    string_bytes: int = 100 << 20
    method_bytes: int = 256  # the longest of Hive's 308 names has 49


DEFAULT_LIMITS: Final = MessageLimits()
UNLIMITED: Final = MessageLimits(message_bytes=2**31 - 1, string_bytes=2**31 - 1)
"""All that the protocol can express: for messages that are trusted, or that are limited elsewhere."""


class MessageType(IntEnum):
    """The type byte of a message."""

    CALL = 1
    REPLY = 2
    EXCEPTION = 3
    ONEWAY = 4


_TYPES: Final = {int(kind): kind for kind in MessageType}


class Header(NamedTuple):
    """A parsed header; `body` is the offset of the struct. (It is a tuple because one is made for every message.)"""

    name: bytes
    type: MessageType
    seqid: int
    body: int


_VERSION: Final = b"\x80\x01"
_I32: Final = Packer("!i")
_HEAD: Final = Packer("!BBBBi")
_FIXED = _HEAD.size


def message_header(name: bytes, kind: MessageType, seqid: int) -> bytes:
    """The bytes before a message's struct."""
    return _HEAD.pack(0x80, 0x01, 0, kind, len(name)) + name + _I32.pack(seqid)


NAMES: Final = frozenset(map(str.encode, facts.METHODS))
ONEWAY: Final = frozenset(map(str.encode, facts.ONEWAY))
"""Methods whose calls have no reply."""

_KNOWN: Final = {
    message_header(name, kind, 0)[:-4]: (name, kind) for name in NAMES for kind in (MessageType.CALL, MessageType.REPLY)
}
"""Headers without their sequence ids of calls and replies of Hive's methods: most messages begin with one of these."""


def parse_header(buf: bytes | bytearray, offset: int = 0, limits: MessageLimits = DEFAULT_LIMITS) -> Header | NeedMore:
    """Parses the header at `offset`.

    WireError as soon as the bytes cannot be a strict header, LimitError for a name that is too long.
    """
    have = len(buf) - offset
    if have > _FIXED:
        size = buf[offset + 7]
        at = offset + _FIXED + size
        known = _KNOWN.get(bytes(buf[offset:at]))
        if known is not None and at + 4 <= len(buf) and size <= limits.method_bytes:
            return Header(*known, _I32.unpack_from(buf, at)[0], at + 4)
    if have < _FIXED:
        if have > 0 and not _VERSION.startswith(bytes(buf[offset : offset + 2])):
            raise WireError("not a strict binary message")
        return NEED_MORE
    first, second, _, kind, length = _HEAD.unpack_from(buf, offset)
    if first != 0x80 or second != 0x01:
        raise WireError("not a strict binary message")
    if kind not in _TYPES:
        raise WireError(f"unknown message type {kind}")
    if not 0 <= length <= limits.method_bytes:
        raise LimitError(f"a method name of {length} bytes", limit="method_bytes")
    name_end = offset + _FIXED + length
    body = name_end + 4
    if len(buf) < body:
        return NEED_MORE
    return Header(bytes(buf[offset + _FIXED : name_end]), _TYPES[kind], _I32.unpack_from(buf, name_end)[0], body)


def is_answered(header: Header) -> bool:
    """Will there be a reply to this call? Of known methods, servers look at the method, not at the message's type."""
    return header.name not in ONEWAY if header.name in NAMES else header.type is not MessageType.ONEWAY


class ApplicationError(IntEnum):
    """The types of TApplicationException that Hive's servers and this proxy send."""

    UNKNOWN = 0
    UNKNOWN_METHOD = 1
    INVALID_MESSAGE_TYPE = 2
    WRONG_METHOD_NAME = 3
    BAD_SEQUENCE_ID = 4
    MISSING_RESULT = 5
    INTERNAL_ERROR = 6
    PROTOCOL_ERROR = 7


class TApplicationException(spec.Struct):
    """The struct of an EXCEPTION message. Both fields may be absent."""

    message: bytes | None = None
    type: int | None = None
    _names = ("message", "type")
    thrift_spec = (
        None,
        (1, spec.TType.STRING, "message", "BINARY", None),
        (2, spec.TType.I32, "type", None, None),
    )


TApplicationException._typeargs = [TApplicationException, TApplicationException.thrift_spec]


def exception_message(name: bytes, seqid: int, kind: ApplicationError, text: str) -> bytes:
    """A whole EXCEPTION message."""
    body = spec.encode(TApplicationException(message=text, type=int(kind)))
    return message_header(name, MessageType.EXCEPTION, seqid) + body


def parse_exception(buf: bytes, body: int) -> TApplicationException:
    """Decodes the struct of a complete EXCEPTION message, which begins at `body`."""
    return spec.decode(TApplicationException, buf, body)[0]
