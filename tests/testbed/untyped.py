"""A decoder of Thrift values that knows no schema: what the bytes say, set and unset kept apart.

Job: make two structs comparable field by field, fields that no schema knows included. A struct is a dict of field
id -> (wire type, value), a list a list, a set a frozenset, a map a dict, a double its eight bytes (so that NaN equals
itself), a string bytes. Fields and map entries, whose order on the wire means nothing, come sorted: equal structs have
equal reprs.
Must not know: hms_cache_proxy (nothing of what it judges).
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

STOP, BOOL, BYTE, DOUBLE, I16, I32, I64 = 0, 2, 3, 4, 6, 8, 10
STRING, STRUCT, MAP, SET, LIST, UUID = 11, 12, 13, 14, 15, 16
FIXED_BYTES = {BOOL: 1, BYTE: 1, DOUBLE: 8, I16: 2, I32: 4, I64: 8, UUID: 16}
VERSION_1 = 0x80010000

_INTEGERS = {BYTE: ">b", I16: ">h", I32: ">i", I64: ">q"}

Fields = dict[int, tuple[int, Any]]


class Message(NamedTuple):
    """A whole strict binary message; `type` as Thrift numbers them: 1 call, 2 reply, 3 exception, 4 oneway."""

    method: str
    type: int
    seqid: int
    fields: Fields


def decode_message(data: bytes) -> Message:
    """A message with nothing left over. ValueError for anything else."""
    version, length = struct.unpack_from(">Ii", data)
    if version & 0xFFFF0000 != VERSION_1:
        raise ValueError(f"not a strict binary message: {version:#x}")
    name, at = _bytes(data, 8, length)
    (seqid,) = struct.unpack_from(">i", data, at)
    return Message(name.decode(), version & 0xFF, seqid, decode_struct(data[at + 4 :]))


def decode_struct(data: bytes) -> Fields:
    """A struct with nothing left over. ValueError for anything else."""
    try:
        fields, end = _struct(data, 0)
    except (IndexError, struct.error) as error:
        raise ValueError(f"the struct ends early: {error}") from error
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes after the struct")
    return fields


def end_of_value(kind: int, data: bytes, at: int) -> int:
    """Where a value of this type ends that begins there."""
    return _value(kind, data, at)[1]


def _struct(data: bytes, at: int) -> tuple[Fields, int]:
    fields: Fields = {}
    while kind := data[at]:
        (number,) = struct.unpack_from(">h", data, at + 1)
        if number in fields:
            raise ValueError(f"field {number} twice")
        value, at = _value(kind, data, at + 3)
        fields[number] = (kind, value)
    return dict(sorted(fields.items())), at + 1


def _value(kind: int, data: bytes, at: int) -> tuple[Any, int]:
    if kind == STRING:
        return _bytes(data, at + 4, struct.unpack_from(">i", data, at)[0])
    if kind in _INTEGERS:
        return struct.unpack_from(_INTEGERS[kind], data, at)[0], at + FIXED_BYTES[kind]
    if kind == BOOL:
        return _bool(data[at]), at + 1
    if kind in FIXED_BYTES:
        return _bytes(data, at, FIXED_BYTES[kind])
    if kind == STRUCT:
        return _struct(data, at)
    if kind == MAP:
        return _map(data, at)
    if kind not in (LIST, SET):
        raise ValueError(f"type {kind} at offset {at}")
    element, count = struct.unpack_from(">bi", data, at)
    at += 5
    items = []
    for _ in range(count):
        item, at = _value(element, data, at)
        items.append(item)
    return (frozenset(map(hashable, items)) if kind == SET else items), at


def _map(data: bytes, at: int) -> tuple[dict[Any, Any], int]:
    key_kind, value_kind, count = struct.unpack_from(">bbi", data, at)
    at += 6
    pairs = {}
    for _ in range(count):
        key, at = _value(key_kind, data, at)
        pairs[hashable(key)], at = _value(value_kind, data, at)
    if len(pairs) != count:
        raise ValueError(f"a key twice in a map that ends at offset {at}")
    return dict(sorted(pairs.items())), at


def _bool(byte: int) -> bool:
    if byte > 1:
        raise ValueError(f"{byte} as a boolean")
    return byte == 1


def _bytes(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    end = at + length
    if length < 0 or end > len(data):
        raise ValueError(f"a string of {length} bytes at offset {at} of {len(data)}")
    return data[at:end], end


def hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(hashable, value))
    if isinstance(value, dict):
        return tuple((key, hashable(item)) for key, item in value.items())
    return value
