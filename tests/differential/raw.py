"""Raw exchange with a metastore, and a schema-less decoder of replies for comparison.

Job: send one call, keep the reply's exact bytes; decode them into plain values (field id -> value), so that a field
that no schema knows still takes part in a comparison.
Must not know: hms_cache_proxy.
"""

from __future__ import annotations

import struct
from typing import Any

from hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TMemoryBuffer, TTransportException

TIMEOUT_MS = 120_000


class TapSocket(TSocket):  # type: ignore[misc]  # thrift has no types
    """A socket that keeps what was read since the last `take`."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.setTimeout(TIMEOUT_MS)
        self._chunks: list[bytes] = []

    def read(self, size: int) -> bytes:
        chunk: bytes = super().read(size)
        self._chunks.append(chunk)
        return chunk

    def take(self) -> bytes:
        data = b"".join(self._chunks)
        self._chunks.clear()
        return data


class Skipped:
    """A struct without known fields: the C++ decoder skips to its end."""

    thrift_spec = ()


def encode_call(method: str, arguments: dict[str, Any], *, seqid: int = 1) -> bytes:
    """The unframed message of one call; `arguments` by their IDL names, absent ones stay unset."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocolAccelerated(buffer)
    protocol.writeMessageBegin(method, TMessageType.CALL, seqid)
    args_class = getattr(ThriftHiveMetastore, f"{method}_args")
    args_class(**arguments).write(protocol)
    protocol.writeMessageEnd()
    data: bytes = buffer.getvalue()
    return data


class RawClient:
    """One connection that exchanges whole messages."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self.connect()

    def connect(self) -> None:
        self._socket = TapSocket(*self._address)
        self._transport = TBufferedTransport(self._socket, 1 << 16)
        self._protocol = TBinaryProtocolAccelerated(self._transport)
        self._transport.open()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def exchange(self, message: bytes) -> bytes:
        """Send one message, return the whole reply; b"" when the server closed instead (and connect again)."""
        try:
            return self._exchange(message)
        except TTransportException as closed:
            if closed.type != TTransportException.END_OF_FILE:
                raise
            self.close()
            self.connect()
            return b""

    def _exchange(self, message: bytes) -> bytes:
        self._socket.take()
        self._transport.write(message)
        self._transport.flush()
        self._protocol.readMessageBegin()
        self._protocol._fast_decode(Skipped(), self._protocol, [Skipped, ()])
        return self._socket.take()

    def call(self, method: str, **arguments: Any) -> Any:
        return reply_value(self.exchange(encode_call(method, arguments)))


def reply_value(reply: bytes) -> tuple[str, int, dict[int, Any]]:
    """(method, message type, fields of the result) of a reply message."""
    name_length = struct.unpack_from("!i", reply, 4)[0]
    name = reply[8 : 8 + name_length].decode()
    fields, _ = _struct(reply, 12 + name_length)
    return name, reply[3], fields


_FIXED = {
    TType.BOOL: ("!b", 1),
    TType.BYTE: ("!b", 1),
    TType.I16: ("!h", 2),
    TType.I32: ("!i", 4),
    TType.I64: ("!q", 8),
    TType.DOUBLE: ("!8s", 8),  # bits, so that NaN compares
}


def _value(kind: int, data: bytes, at: int) -> tuple[Any, int]:
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return struct.unpack_from(fixed[0], data, at)[0], at + fixed[1]
    if kind == TType.STRING:
        (length,) = struct.unpack_from("!i", data, at)
        return data[at + 4 : at + 4 + length], at + 4 + length
    if kind == TType.STRUCT:
        return _struct(data, at)
    if kind in (TType.LIST, TType.SET):
        element, count = struct.unpack_from("!bi", data, at)
        at += 5
        items = []
        for _ in range(count):
            item, at = _value(element, data, at)
            items.append(item)
        return (sorted(items, key=repr) if kind == TType.SET else items), at
    if kind == TType.MAP:
        key_kind, value_kind, count = struct.unpack_from("!bbi", data, at)
        at += 6
        pairs = []
        for _ in range(count):
            key, at = _value(key_kind, data, at)
            value, at = _value(value_kind, data, at)
            pairs.append((key, value))
        return ("map", sorted(pairs, key=repr)), at
    raise ValueError(f"type {kind} at offset {at}")


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    while True:
        kind = data[at]
        if kind == TType.STOP:
            return fields, at + 1
        (field_id,) = struct.unpack_from("!h", data, at + 1)
        fields[field_id], at = _value(kind, data, at + 3)
