"""A raw connection to a metastore: arguments in as this project's structs, the reply's bytes out.

Job: ask a real metastore anything, odd arguments included, and keep its answer as on the wire.
Must not know: the cache, readers.
"""

from __future__ import annotations

import struct as packer
from dataclasses import dataclass
from typing import Any

from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import MessageType, message_header, parse_exception, parse_header
from tests.codecs import agree
from tests.comparison import settled
from tests.testbed.raw import RawConnection


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply: its type and the bytes of its struct."""

    method: str
    type: MessageType
    body: bytes

    @property
    def value(self) -> Any:
        """The decoded result struct, or the TApplicationException."""
        if self.type is MessageType.EXCEPTION:
            return parse_exception(self.body, 0)
        return spec.decode(spec.result(self.method), self.body)[0]

    @property
    def plain(self) -> Any:
        """The result as plain values, for comparison and printing: what is absent is left out."""
        return plain(self.value)


def plain(value: Any) -> Any:
    """Structs as (class name, fields that are set)."""
    if isinstance(value, spec.Struct):
        fields = {name: plain(getattr(value, name)) for name in value._names if getattr(value, name) is not None}
        return (type(value).__name__, fields)
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, dict):
        return {plain(key): plain(element) for key, element in value.items()}
    return settled(value)


def request(method: str, arguments: dict[str, Any], seqid: int = 1) -> bytes:
    """A whole call message."""
    body = spec.encode(spec.args(method)(**arguments))
    message = message_header(method.encode(), MessageType.CALL, seqid) + body
    agree(message)
    return message


def parsed(method: str, message: bytes) -> Reply:
    """A reply message of this method, as all decoders read it."""
    agree(message)
    header = parse_header(message)
    assert isinstance(header, tuple) and header.name == method.encode()
    return Reply(method, header.type, message[header.body :])


class Oracle(RawConnection):
    """One unframed connection to a metastore."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        super().__init__(host, int(port))

    def ask(self, method: str, **arguments: Any) -> Reply:
        """Call a method."""
        return parsed(method, self.call(request(method, arguments)))

    def read(self, method: str, **arguments: Any) -> Reply:
        """Call a method that changes nothing."""
        return parsed(method, self.call_again(request(method, arguments)))

    def call_again(self, message: bytes) -> bytes:
        """The reply to a read, over a new connection if the metastore has closed this one, as it does after what it
        cannot read. EndOfStream if it closes instead of answering."""
        try:
            return self.call(message)
        except ConnectionError:
            self.reconnect()
            return self.call(message)

    def do(self, method: str, **arguments: Any) -> Any:
        """Call a method that must succeed; its return value."""
        reply = self.ask(method, **arguments)
        value = reply.value
        problems = [getattr(value, name) for name in value._names if name != "success"]
        assert reply.type is MessageType.REPLY and not any(problems), f"{method}: {reply.plain}"
        return getattr(value, "success", None)


def seqid_of(message: bytes) -> int:
    """The sequence id of a whole message."""
    length = packer.unpack_from("!i", message, 4)[0]
    return int(packer.unpack_from("!i", message, 8 + length)[0])
