"""Every message read by three decoders that share no code: the product's, thriftpy2 over idl/, and `untyped`.

Job: `agree(message)` reads a whole request or reply with each of them and compares field by field, so that a field
which one of them drops, or takes for another, is seen; tests that compare replies pass them through here first.
Must not know: what a method means.
Invariants: `untyped` comes first, since it alone is safe with any bytes and knows no schema: what it finds on the wire
is what both others must have found. A struct is a dict of field id -> (wire type, value), as there. thriftpy2 cannot
read a map whose keys are lists (SkewedInfo has one): it gets the message with that map emptied, the others as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from thriftpy2.protocol.cybin import TCyBinaryProtocol  # type: ignore[attr-defined]  # compiled
from thriftpy2.thrift import TPayload
from thriftpy2.transport.memory import TCyMemoryBuffer  # type: ignore[attr-defined]  # compiled

from hms_cache_proxy.wire import spec
from tests.comparison import first_difference
from tests.testbed.interface import interface
from tests.testbed.untyped import (
    DOUBLE,
    LIST,
    MAP,
    SET,
    STRING,
    STRUCT,
    Fields,
    Message,
    decode_message,
    decode_struct,
    end_of_value,
    hashable,
)
from tests.wire import versioned

NEWEST: Final = "4.2.0"
_CALL, _REPLY, _EXCEPTION, _ONEWAY = 1, 2, 3, 4
_APPLICATION_EXCEPTION: Final = {1: STRING, 2: 8}
_BINARY = 18  # thriftpy2's own code for a string of bytes
_LISTS_TO_STRINGS: Final = bytes((MAP, 0, 3, LIST, STRING))
"""Type and number of the field, types of its keys and values. No text in the tests has these bytes."""
_OLDER: Final = ("4.1.0", "4.0.1", "4.0.0", "3.1.3", "2.3.10")

Decode = Callable[[type[spec.Struct], bytes], tuple[spec.Struct, int]]


class Disagreement(AssertionError):
    """Two decoders read one message differently."""


def agree(message: bytes, version: str = NEWEST, *, decode: Decode = spec.decode) -> Message:
    """The decoded message. Disagreement if the decoders differ; ValueError for what is no message.

    `version`: of the metastore. `decode`: the product's, or a broken one in a test.
    """
    read = decode_message(message)
    if read.type == _EXCEPTION:
        kinds = {number: kind for number, (kind, _) in read.fields.items()}
        if not kinds.items() <= _APPLICATION_EXCEPTION.items():
            raise Disagreement(f"{read.method}: an application exception with the fields {kinds}")
        return read
    body = message[12 + len(read.method.encode()) :]
    if read.type != _REPLY:
        version = NEWEST  # a client may have newer structs than the metastore that it asks
    _same(read, "hms_cache_proxy.wire", _ours(read, body, version, decode))
    shown = _emptied(body)
    known = read if shown is body else read._replace(fields=decode_struct(shown))
    found = _theirs(known, shown, version)
    if read.type != _REPLY and found != known.fields:  # ... or older ones
        older = (_theirs(known, shown, one) for one in _OLDER)
        found = next((fields for fields in older if fields == known.fields), found)
    _same(known, "thriftpy2", found)
    return read


def _emptied(body: bytes) -> bytes:
    """The struct with each map<list<string>, string> emptied; itself where it has none with an entry."""
    at = body.find(_LISTS_TO_STRINGS)
    while at >= 0:
        begin = at + len(_LISTS_TO_STRINGS)
        (count,) = struct.unpack_from(">i", body, begin)
        if 0 < count < 1000:
            end = begin + 4
            for _ in range(count):
                end = end_of_value(LIST, body, end)
                end = end_of_value(STRING, body, end)
            body = body[:begin] + bytes(4) + body[end:]
        at = body.find(_LISTS_TO_STRINGS, begin)
    return body


def _same(read: Message, name: str, fields: Fields) -> None:
    if read.fields != fields:
        where = first_difference(read.fields, fields)
        raise Disagreement(f"{read.method}, type {read.type}: the wire has other fields than {name} finds, {where}")


def _ours(read: Message, body: bytes, version: str, decode: Decode) -> Fields:
    name = "result" if read.type == _REPLY else "args"
    cls = getattr(spec, name)(read.method) if version == NEWEST else getattr(versioned, name)(read.method, version)
    value, end = decode(cls, body)
    if end != len(body):
        raise Disagreement(f"{read.method}: hms_cache_proxy.wire ends after {end} of {len(body)} bytes")
    return _of_ours(value)


def _of_ours(value: spec.Struct) -> Fields:
    found: Fields = {}
    for row in value.thrift_spec:
        if row is not None and (held := getattr(value, row[2])) is not None:
            found[row[0]] = (row[1], _our_value(row[1], row[3], held))
    return found


def _our_value(kind: int, inner: Any, value: Any) -> Any:
    if kind == STRUCT:
        return _of_ours(value)
    if kind in (LIST, SET):
        items = [_our_value(inner[0], inner[1], item) for item in value]
        return items if kind == LIST else frozenset(map(hashable, items))
    if kind == MAP:
        pairs = [
            (hashable(_our_value(inner[0], inner[1], _unlocked(key))), _our_value(inner[2], inner[3], item))
            for key, item in value.items()
        ]
        return dict(sorted(pairs))
    return struct.pack(">d", value) if kind == DOUBLE else value


def _unlocked(key: Any) -> Any:
    """A list that is a key comes as a tuple."""
    return list(key) if isinstance(key, tuple) else key


def _theirs(read: Message, body: bytes, version: str) -> Fields:
    value = payload(read.method, "result" if read.type == _REPLY else "args", version)()
    TCyBinaryProtocol(TCyMemoryBuffer(body), decode_response=False).read_struct(value)
    return _of_theirs(value, read.fields)


def _of_theirs(value: TPayload, wire: Any) -> Fields:
    """`wire`: what there is; thriftpy2 fills in the defaults of the IDL for what there is not."""
    wire = wire if isinstance(wire, dict) else {}
    defaults = dict(type(value).default_spec)
    found: Fields = {}
    for number, row in type(value).thrift_spec.items():
        kind, name, inner = row[0], row[1], row[2] if len(row) == 4 else None
        held = getattr(value, name)
        if held is None or number not in wire and held == defaults.get(name):
            continue
        kind = STRING if kind == _BINARY else kind
        found[number] = (kind, _their_value(kind, inner, held, wire.get(number, (0, None))[1]))
    return dict(sorted(found.items()))


def _their_value(kind: int, inner: Any, value: Any, wire: Any) -> Any:
    if kind == STRUCT:
        return _of_theirs(value, wire)
    if kind in (LIST, SET):
        element = _element(inner)
        known = wire if isinstance(wire, list) and len(wire) == len(value) else [None] * len(value)
        items = [_their_value(*element, item, there) for item, there in zip(value, known, strict=True)]
        return items if kind == LIST else frozenset(map(hashable, items))
    if kind == MAP:
        key_type, value_type = _element(inner[0]), _element(inner[1])
        pairs = {}
        for key, item in value.items():
            plain = hashable(_their_value(*key_type, _unlocked(key), None))
            there = wire.get(plain) if isinstance(wire, dict) else None
            pairs[plain] = _their_value(*value_type, item, there)
        return dict(sorted(pairs.items()))
    return struct.pack(">d", value) if kind == DOUBLE else value


def _element(inner: Any) -> tuple[int, Any]:
    kind, more = inner if isinstance(inner, tuple) else (inner, None)
    return (STRING if kind == _BINARY else kind), more


@cache
def payload(method: str, part: str, version: str) -> Any:
    """thriftpy2's class of a method's args or result; of the newest version that has the method, over the structs of
    the wanted one, if that has it no more."""
    for known in (version, *_OLDER, NEWEST):
        service = interface(known).ThriftHiveMetastore
        while service is not object:
            found = getattr(service, f"{method}_{part}", None)
            if found is not None:
                return found if known == version else _moved(found, version)
            service = service.__mro__[1]
    raise KeyError(method)


def _moved(found: Any, version: str) -> Any:
    rows = {number: tuple(_newer(cell, version) for cell in row) for number, row in found.thrift_spec.items()}
    return type(found.__name__, (found,), {"thrift_spec": rows})


def _newer(cell: Any, version: str) -> Any:
    if isinstance(cell, tuple):
        return tuple(_newer(one, version) for one in cell)
    return getattr(interface(version), cell.__name__, cell) if isinstance(cell, type) else cell
