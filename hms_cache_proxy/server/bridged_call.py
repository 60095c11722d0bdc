"""One bridged call: its twin is called instead, and the twin's reply is made into the old one.

Job: the state of one bridged request; methods/bridge.py knows what the calls mean. Must not know: sockets.
A reply up to HOLD_BYTES is held and spliced exactly. A longer one is spliced as it passes: the old result is the
response's first field without the struct around it, so the head is rewritten and the last byte, one of two stop bytes,
is dropped. (Any further field of the response, such as isStatsCompliant, is passed on too; old clients skip it.)
Owner: one Exchange.
"""

from __future__ import annotations

from collections.abc import Container

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.methods import bridge
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.wire.message import (
    NEED_MORE,
    Header,
    MessageType,
    message_header,
    parse_header,
)

HOLD_BYTES = 4 << 20
_RESPONSE = b"\x0c\x00\x00"  # field 0, a struct
_FIRST_FIELD = b"\x00\x01"


class BridgedCall:
    """The twin of one request."""

    __slots__ = ("_header", "_kept", "_started", "asked", "message")

    def __init__(self, header: Header, message: bytes) -> None:
        self._header = header  # of the request
        self._kept = b""
        self._started = False
        self.message = message
        self.asked = header._replace(name=bridge.TWINS[header.name])

    def splice(self, reply: bytes) -> bytes:
        """The old reply, made of the twin's whole reply."""
        return bridge.splice(self._header, reply)

    def stream(self, parts: list[bytes]) -> list[bytes]:
        """The part of a longer reply that may be passed on. The first call has at least its first HOLD_BYTES."""
        data = b"".join((self._kept, *parts))
        if not self._started:
            self._started = True
            data = self._first(data)
        self._kept = data[-1:]  # the last byte of the reply is dropped
        return [data[:-1]]

    def _first(self, data: bytes) -> bytes:
        answer = parse_header(data)
        assert answer is not NEED_MORE
        at = answer.body
        if data[at : at + 3] != _RESPONSE or data[at + 4 : at + 6] != _FIRST_FIELD:
            raise WireError(f"a reply to {answer.name!r} that is no response")
        head = message_header(self._header.name, MessageType.REPLY, self._header.seqid)
        return head + data[at + 3 : at + 4] + b"\0\0" + data[at + 6 :]


def choose(request: Request, lacks: Container[bytes]) -> BridgedCall | None:
    """The twin of a request whose method the metastore lacks; None if there is none, or the method is there."""
    if request.header.name not in lacks or request.spool is not None:
        return None
    return twin_of(request.header, request.message)


def twin_of(header: Header, message: bytes) -> BridgedCall | None:
    """The twin to call; None if these arguments have none."""
    try:
        request = bridge.twin_request(header, message)
    except WireError:
        return None
    return None if request is None else BridgedCall(header, request)


def refusal(header: Header, message: bytes) -> bytes | None:
    """The old method's reply to arguments that have no twin."""
    try:
        return bridge.refusal(header, message)
    except WireError:
        return None


def is_bridged(header: Header) -> bool:
    """Is this one of the methods that new metastores lack?"""
    return header.name in bridge.TWINS
