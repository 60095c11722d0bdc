"""SASL as Thrift frames it: the messages of a negotiation, their order, and what GSSAPI agrees on at the end.

Job: turn bytes into messages and back; do the server's part of a negotiation, except the mechanism. A message is one
byte of status, four bytes of length and a payload (TSaslTransport). After the negotiation, each Thrift message is in a
frame (framing.py), which is wrapped if a layer was agreed on. Must not know sockets, mechanisms, keys.
Invariants: no part of a payload is kept before its length is known to be allowed. After `done` or an error, the
negotiation takes no more bytes: those that follow belong to frames. Owner: one connection.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import Struct as Packer
from typing import Final, NamedTuple

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire.message import NEED_MORE, NeedMore

MESSAGE_BYTES: Final = 1 << 16  # of a payload: a Kerberos ticket with many groups has some 10 kB
_HEADER: Final = Packer("!BI")
_MECHANISM_BYTES: Final = 20  # RFC 4422, section 3.1
_MECHANISM_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_CHOICE_BYTES: Final = 4


class Status(IntEnum):
    """The first byte of a message."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class Layers(IntFlag):
    """What protects messages after the negotiation (RFC 4752): nothing, a checksum, or encryption."""

    AUTH = 1
    AUTH_INT = 2
    AUTH_CONF = 4


EVERY_LAYER: Final = Layers.AUTH | Layers.AUTH_INT | Layers.AUTH_CONF


class Message(NamedTuple):
    """One message; `end` is the offset behind it."""

    status: Status
    payload: bytes
    end: int


def parse_message(buf: bytes | bytearray, offset: int = 0, limit: int = MESSAGE_BYTES) -> Message | NeedMore:
    """The message at `offset`. WireError for an unknown status, LimitError for a payload over `limit` bytes."""
    if offset < len(buf) and not Status.START <= buf[offset] <= Status.COMPLETE:
        raise WireError(f"{buf[offset]} is not a status of SASL")
    if len(buf) - offset < _HEADER.size:
        return NEED_MORE
    status, size = _HEADER.unpack_from(buf, offset)
    if size > limit:
        raise LimitError(f"a SASL message of {size} bytes", limit="sasl_message")
    start = offset + _HEADER.size
    if len(buf) - start < size:
        return NEED_MORE
    return Message(Status(status), bytes(buf[start : start + size]), start + size)


def check_turn(said: Message, *, begun: bool) -> None:
    """WireError if a client cannot say this now: it begins with START, and goes on with responses."""
    if not begun and said.status is not Status.START:
        raise WireError(f"a SASL negotiation that begins with {said.status.name}")
    if begun and said.status not in (Status.OK, Status.COMPLETE):
        raise WireError(f"the client ends the negotiation with {said.status.name}: {text_of(said.payload)}")


def text_of(payload: bytes) -> str:
    """The words of a message that ends a negotiation, for people."""
    return payload[:200].decode("utf-8", "replace")


def message(status: Status, payload: bytes = b"") -> bytes:
    """A message as bytes."""
    return _HEADER.pack(status, len(payload)) + payload


class Negotiation:
    """The server's side. Give it bytes, and answer each response with `challenge`, `complete` or `refuse`.

    `mechanism` is known with the first response. `done`: the client is let in, or refused.
    """

    __slots__ = ("_answering", "_buffer", "_limit", "done", "mechanism")

    def __init__(self, limit: int = MESSAGE_BYTES) -> None:
        self._limit = limit
        self._buffer = b""
        self._answering = False
        self.mechanism = ""
        self.done = False

    def add(self, data: bytes) -> None:
        """Bytes from the client. LimitError if it sends more than one message can have while it is to wait."""
        self._buffer += data
        if len(self._buffer) > 2 * (_HEADER.size + self._limit):
            raise LimitError(f"{len(self._buffer)} bytes in a SASL negotiation", limit="sasl_message")

    def next(self) -> bytes | NeedMore:
        """The client's next response. WireError if a message is out of order, or the client gives up."""
        assert not self.done and not self._answering, "the client has not been answered"
        while True:
            found = parse_message(self._buffer, 0, self._limit)
            if found is NEED_MORE:
                return NEED_MORE
            self._buffer = self._buffer[found.end :]
            check_turn(found, begun=bool(self.mechanism))
            if self.mechanism:
                self._answering = True
                return found.payload
            self.mechanism = _mechanism(found.payload)  # the first response follows in a message of its own

    def challenge(self, payload: bytes) -> bytes:
        """Ask for another response."""
        self._answered()
        return message(Status.OK, payload)

    def complete(self, payload: bytes = b"") -> bytes:
        """The client is who it says."""
        self._answered()
        self.done = True
        return message(Status.COMPLETE, payload)

    def refuse(self, why: str) -> bytes:
        """The client is not let in; the connection ends after these bytes."""
        self.done = True
        return message(Status.BAD, why.encode())

    def rest(self) -> bytes:
        """What came behind the negotiation: the first frames."""
        assert self.done
        rest, self._buffer = self._buffer, b""
        return rest

    def _answered(self) -> None:
        assert self._answering and not self.done, "there is nothing to answer"
        self._answering = False


def offer(layers: Layers, size: int = MESSAGE_BYTES) -> bytes:
    """What a server offers at the end of GSSAPI, before it is wrapped (RFC 4752, section 3.2)."""
    return bytes([layers]) + (0 if layers == Layers.AUTH else size).to_bytes(3, "big")


class LayerChoice(NamedTuple):
    """What a client chose: one layer, the most bytes of a frame that it takes, and whom it wants to act as."""

    layer: Layers
    size: int
    authzid: str


def parse_choice(payload: bytes, offered: Layers) -> LayerChoice:
    """The client's answer to `offer`, unwrapped. WireError unless it is exactly one of the layers."""
    if len(payload) < _CHOICE_BYTES:
        raise WireError(f"a choice of {len(payload)} bytes at the end of GSSAPI")
    chosen = payload[0]
    if chosen not in (1, 2, 4) or not chosen & offered:
        raise WireError(f"the client chose the protection {chosen} of {int(offered)}")
    try:
        authzid = payload[_CHOICE_BYTES:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("an authorization id that is not UTF-8") from error
    return LayerChoice(Layers(chosen), int.from_bytes(payload[1:_CHOICE_BYTES], "big"), authzid)


class Offer(NamedTuple):
    """What a server offers at the end of GSSAPI: layers, and the most bytes of a frame that it takes."""

    layers: Layers
    size: int


def parse_offer(payload: bytes) -> Offer:
    """A server's offer, unwrapped. WireError if it is none."""
    if len(payload) != _CHOICE_BYTES:
        raise WireError(f"an offer of {len(payload)} bytes at the end of GSSAPI")
    return Offer(Layers(payload[0] & int(EVERY_LAYER)), int.from_bytes(payload[1:], "big"))


def choice(layer: Layers, size: int = MESSAGE_BYTES) -> bytes:
    """The answer to an offer, before it is wrapped; to act as oneself, the authorization id stays empty."""
    return offer(layer, size)


def named_layers(layers: Layers) -> str:
    """As the settings name them."""
    return ", ".join(str(one.name).lower().replace("_", "-") for one in Layers if one & layers) or "none"


def _mechanism(payload: bytes) -> str:
    name = text_of(payload)
    if not 0 < len(payload) <= _MECHANISM_BYTES or not set(name) <= _MECHANISM_LETTERS:
        raise WireError(f"{name!r} is not the name of a mechanism")
    return name
