"""What a metastore answers, decoded without any knowledge of types: the oracle of the store's bytes.

Job: call any method of the 4.2 interface by name and give its reply as plain values with set and unset kept apart:
a struct is a dict of field id -> (wire type, value), a map a dict, a set a frozenset.
Must not know: hms_cache_proxy (nothing of what it judges).
"""

from __future__ import annotations

import io
import socket
import struct
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, BinaryIO

import thriftpy2
from thriftpy2.utils import serialize


def interface(version: str) -> ModuleType:
    """The structs and methods of a version of Hive."""
    path = Path(__file__).parents[2] / "idl" / f"hive_metastore-{version}.thrift"
    return thriftpy2.load(str(path), module_name=f"oracle_{version.replace('.', '_')}_thrift")


hms = interface("4.2.0")

_FIXED = {2: ">b", 3: ">b", 4: ">d", 6: ">h", 8: ">i", 10: ">q"}
_STRING, _STRUCT, _MAP, _SET, _LIST = 11, 12, 13, 14, 15
_STRICT_CALL = 0x80010001
_EXCEPTION = 3
TIMEOUT_S = 120


class Refused(Exception):
    """The metastore answered with an exception: its struct's name and fields, or an application error's text."""


def read_value(source: BinaryIO, kind: int) -> Any:
    """One value of a wire type. Any: what the bytes say."""
    if kind in _FIXED:
        (number,) = struct.unpack(_FIXED[kind], _exactly(source, struct.calcsize(_FIXED[kind])))
        return bool(number) if kind == 2 else number
    if kind == _STRING:
        return _exactly(source, struct.unpack(">i", _exactly(source, 4))[0])
    if kind == _STRUCT:
        return _read_struct(source)
    if kind == _MAP:
        key, value, count = struct.unpack(">bbi", _exactly(source, 6))
        return {_hashable(read_value(source, key)): read_value(source, value) for _ in range(count)}
    item, count = struct.unpack(">bi", _exactly(source, 5))
    items = [read_value(source, item) for _ in range(count)]
    return frozenset(map(_hashable, items)) if kind == _SET else items


def _read_struct(source: BinaryIO) -> dict[int, tuple[int, Any]]:
    fields: dict[int, tuple[int, Any]] = {}
    while kind := _exactly(source, 1)[0]:
        (number,) = struct.unpack(">h", _exactly(source, 2))
        if number in fields:
            raise AssertionError(f"field {number} twice")
        fields[number] = (kind, read_value(source, kind))
    return fields


def decode_struct(data: bytes) -> dict[int, tuple[int, Any]]:
    """A whole struct, nothing left over."""
    source = io.BytesIO(data)
    fields = _read_struct(source)
    left = source.read()
    if left:
        raise AssertionError(f"{len(left)} bytes after the struct")
    return fields


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple(sorted((key, _hashable(item)) for key, item in value.items()))
    return value


def _exactly(source: BinaryIO, count: int) -> bytes:
    data = source.read(count)
    if len(data) != count:
        raise ConnectionError("the reply ended early")
    return data


class Oracle:
    """A connection to a metastore. `oracle.get_database(name="x")` returns the decoded success field or None.

    `version` says which methods there are; arguments may be structs of another version.
    """

    def __init__(self, host: str, port: int, version: str = "4.2.0") -> None:
        self._service = interface(version).ThriftHiveMetastore
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = self._socket.makefile("rb")

    def __enter__(self) -> Oracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._replies.close()
        self._socket.close()

    def __getattr__(self, method: str) -> Any:
        return lambda *args, **kwargs: self.call(method, *args, **kwargs)

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method; the decoded result. Raises Refused."""
        arguments = getattr(self._service, method + "_args")(*args, **kwargs)
        name = method.encode()
        head = struct.pack(">Ii", _STRICT_CALL, len(name)) + name + struct.pack(">i", 7)
        self._socket.sendall(head + serialize(arguments))
        version, length = struct.unpack(">Ii", _exactly(self._replies, 8))
        _exactly(self._replies, length + 4)
        fields = _read_struct(self._replies)
        if version & 0xFF == _EXCEPTION:
            raise Refused(fields.get(1, (0, b""))[1].decode())
        for number, (_, value) in fields.items():
            if number != 0:
                raise Refused(self._exception_name(method, number), value)
        return fields[0][1] if fields else None

    def _exception_name(self, method: str, number: int) -> str:
        result = getattr(self._service, method + "_result")
        return str(result.thrift_spec[number][2].__name__)
