"""Encodes metastore structs in the Thrift binary protocol, from columns of the database.

Job: write field headers, strings, lists and maps of the binary protocol by hand: a generic encoder takes ten times as
long, and decides by itself which fields are set. Must not know: SQL, what a column means. A field whose value is None
stays unset.

Source: the Thrift binary protocol (strict), field numbers of Hive's interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from struct import Struct
from struct import error as StructError
from typing import ParamSpec, TypeVar

from hms_cache_proxy.errors import StoreError

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")

BOOL, I32, I64, STRING, STRUCT, MAP, SET, LIST = 2, 8, 10, 11, 12, 13, 14, 15
STOP = b"\x00"

_HEADER = Struct(">bh")
_BOOL_FIELD = Struct(">bhb")
_I32_FIELD = Struct(">bhi")
_I64_FIELD = Struct(">bhq")
_STRING_FIELD = Struct(">bhi")
_COUNT = Struct(">i")
_I32_SPAN = 1 << 32
_STRING_LIST = b"\x0b"
_STRING_MAP = b"\x0b\x0b"
EMPTY_STRINGS = _STRING_LIST + _COUNT.pack(0)
EMPTY_STRUCTS = bytes((STRUCT,)) + _COUNT.pack(0)
EMPTY_MAP = _STRING_MAP + _COUNT.pack(0)


def encoding(read: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """For a method that encodes what it reads: a value that its field has no room for is the database's fault, and
    becomes a StoreError. The cache, which is read in the same step, raises the same error if it is damaged."""

    @wraps(read)
    def told(*args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        try:
            return read(*args, **kwargs)
        except StructError as error:
            raise StoreError(f"the metastore's database has a value that a metastore cannot return: {error}") from error

    return told


def header(kind: int, number: int) -> bytes:
    """A field's type and number; its value follows."""
    return _HEADER.pack(kind, number)


def string_field(number: int, value: bytes | None) -> bytes:
    """A string field; empty for None."""
    if value is None:
        return b""
    return _STRING_FIELD.pack(STRING, number, len(value)) + value


def bool_field(number: int, value: bool) -> bytes:
    """A bool field."""
    return _BOOL_FIELD.pack(BOOL, number, value)


def i32_field(number: int, value: int | None) -> bytes:
    """An i32 field; empty for None. A wider value is cut as Java's (int) does."""
    if value is None:
        return b""
    return _I32_FIELD.pack(I32, number, (value + _I32_SPAN // 2) % _I32_SPAN - _I32_SPAN // 2)


def i64_field(number: int, value: int) -> bytes:
    """An i64 field."""
    return _I64_FIELD.pack(I64, number, value)


def strings(values: Sequence[bytes]) -> bytes:
    """The value of a list<string> (or set<string>)."""
    return _STRING_LIST + _COUNT.pack(len(values)) + b"".join(map(string, values))


def structs(values: Sequence[bytes]) -> bytes:
    """The value of a list of structs. Each item has its stop byte."""
    return bytes((STRUCT,)) + _COUNT.pack(len(values)) + b"".join(values)


def lists(values: Sequence[bytes]) -> bytes:
    """The value of a list of lists."""
    return bytes((LIST,)) + _COUNT.pack(len(values)) + b"".join(values)


def list_keyed_map(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The value of a map<list<string>, string>, from pairs of an encoded list and a string."""
    items = list(pairs)
    body = b"".join(key + string(value) for key, value in items)
    return bytes((LIST, STRING)) + _COUNT.pack(len(items)) + body


def string(value: bytes) -> bytes:
    """A bare string: its length and bytes."""
    return _COUNT.pack(len(value)) + value


def string_map(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The value of a map<string,string>."""
    items = list(pairs)
    return _STRING_MAP + _COUNT.pack(len(items)) + b"".join(string(k) + string(v) for k, v in items)


def read_map(value: bytes) -> dict[bytes, bytes]:
    """The pairs of a map<string,string> value that this package encoded."""
    pairs, position = _read_strings(value, 6, 2 * _COUNT.unpack_from(value, 2)[0])
    assert position == len(value), "a map value with something behind it"
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _read_strings(value: bytes, position: int, count: int) -> tuple[list[bytes], int]:
    found = []
    for _ in range(count):
        end = position + 4 + _COUNT.unpack_from(value, position)[0]
        found.append(value[position + 4 : end])
        position = end
    return found, position
