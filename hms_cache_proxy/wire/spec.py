"""Struct classes for the C++ codec, built at their first use from the generated fact table.

Job: return the class with its `thrift_spec` for a name; decode and encode one struct. It must not know sockets,
messages, or what methods mean. Invariants: strings are bytes (not all are UTF-8); there are no defaults: an absent
field is None, and stays absent; a class exists once. A metastore's bytes are never encoded again, because a codec drops
fields that it does not know: splice them (spans.py).

If versions disagree on a field, the newest wins. `variant="2.3"` selects a struct as it is in this version (or in the
newest that begins so). Fields whose wire types differ: AddDynamicPartitions 2, 4, 5, InsertEventRequestData 1,
GetOpenTxnsResponse 2 and Table 16 (2.3), CreateDatabaseRequest 11 (4.0.0), and the first exception of
get_partition_names (2.3). The codec silently skips a field whose wire type is not that of its spec. `create_ischema` of
3.1 has an exception with id -1, which the codec cannot read, so it is never decoded.

Owned by any process. The caches are filled idempotently, so threads may share them.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from thrift.protocol.TProtocol import TProtocolException

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire.facts import CONSTANTS as CONSTANTS  # "as": callers find the facts here too
from hms_cache_proxy.wire.facts import ENUMS
from hms_cache_proxy.wire.facts import METHODS as METHODS
from hms_cache_proxy.wire.facts import ONEWAY as ONEWAY
from hms_cache_proxy.wire.facts import STRUCTS as STRUCTS
from hms_cache_proxy.wire.facts import VERSIONS as VERSIONS
from hms_cache_proxy.wire.facts import FieldFact as FieldFact
from hms_cache_proxy.wire.facts import MethodFact as MethodFact
from hms_cache_proxy.wire.facts import Requirement as Requirement
from hms_cache_proxy.wire.facts import enum as enum
from hms_cache_proxy.wire.facts import fields as fields
from hms_cache_proxy.wire.facts import struct_versions as struct_versions

try:
    from thrift.protocol import fastbinary
except ImportError as missing:  # the codec in Python is 10 to 15 times slower: refuse to start
    raise ImportError(
        "the C++ extension thrift.protocol.fastbinary is missing: install a wheel of thrift >= 0.25"
    ) from missing

#: Structs and containers, leaves included, may nest this deep. It is compiled into fastbinary, so it is no setting.
NESTING_DEPTH = 64
#: The limit of the protocol, whose lengths are signed 32-bit integers. Callers pass the configured limit.
MAX_LENGTH = 2**31 - 1


class TType:
    """Wire type codes of the binary protocol."""

    STOP, BOOL, I8, DOUBLE, I16, I32, I64 = 0, 2, 3, 4, 6, 8, 10
    STRING, STRUCT, MAP, SET, LIST, UUID = 11, 12, 13, 14, 15, 16


_SCALARS = {
    "bool": TType.BOOL,
    "i8": TType.I8,
    "i16": TType.I16,
    "i32": TType.I32,
    "i64": TType.I64,
    "double": TType.DOUBLE,
}
_CONTAINERS = {"list": TType.LIST, "set": TType.SET, "map": TType.MAP}


class Struct(SimpleNamespace):
    """The base of all generated classes: constructed from keywords in C, with a class attribute None for every field.

    Equality compares the fields, so an explicit None equals an absent field.
    """

    thrift_spec: ClassVar[tuple[Any, ...]] = ()
    _typeargs: ClassVar[list[Any]] = []
    _names: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:  # fields exist only at run time; Any because their types come from the fact table

        def __getattr__(self, name: str) -> Any: ...

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._names)

    def __ne__(self, other: object) -> bool:  # otherwise the base's, which compares instances of any two classes
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        known = ((name, getattr(self, name)) for name in self._names)
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in known if v is not None)})"


S = TypeVar("S", bound=Struct)


def struct(name: str, *, variant: str | None = None) -> type[Struct]:
    """The class of a struct, union or exception. KeyError if no version has it."""
    return _class(name, fields(name), _pick_version(variant))


def args(method: str, *, variant: str | None = None) -> type[Struct]:
    """The class of a method's arguments. KeyError if no version has the method."""
    return _class(f"{method}_args", METHODS[method].args, _pick_version(variant))


def result(method: str, *, variant: str | None = None) -> type[Struct]:
    """The class of a method's result: `success` unless void, and its declared exceptions."""
    return _class(f"{method}_result", METHODS[method].result, _pick_version(variant))


def _pick_version(variant: str | None) -> str | None:
    if variant is None:
        return None
    matching = [v for v in VERSIONS if v == variant or v.startswith(variant + ".")]
    if not matching:
        raise KeyError(f"no version {variant}")
    return matching[-1]


_classes: dict[tuple[str, str | None], type[Struct]] = {}
_building: dict[tuple[str, str | None], type[Struct]] = {}
_build_lock = threading.RLock()


def _class(name: str, rows: tuple[FieldFact, ...], version: str | None) -> type[Struct]:
    known = _classes.get((name, version))
    if known is not None:
        return known
    with _build_lock:
        outermost = not _building
        try:
            cls = _building.get((name, version)) or _build(name, rows, version)
            if outermost:  # only complete classes become visible to other threads
                _classes.update(_building)
        finally:
            if outermost:
                _building.clear()
    return cls


def _build(name: str, rows: tuple[FieldFact, ...], version: str | None) -> type[Struct]:
    known = _classes.get((name, version))
    if known is not None:
        return known
    chosen: dict[int, FieldFact] = {}
    for row in rows:
        if row.id >= 0 and (version is None or version in row.versions):
            chosen.setdefault(row.id, row)
    names = tuple(row.name for row in chosen.values())
    suffix = f"@{version}" if version else ""
    body: dict[str, Any] = {**dict.fromkeys(names), "_names": names, "__module__": __name__}
    cls: type[Struct] = type(name + suffix, (Struct,), body)
    # One list of type arguments per class, which is known before it is filled, because some structs contain themselves.
    cls._typeargs = [cls, ()]
    _building[name, version] = cls
    spec: list[Any] = [None] * (max(chosen, default=-1) + 1)
    for row in chosen.values():
        ttype, inner = _wire(row.type, version)
        spec[row.id] = (row.id, ttype, row.name, inner, None)
    cls.thrift_spec = cls._typeargs[1] = tuple(spec)
    return cls


def _wire(type_name: str, version: str | None, *, key: bool = False) -> tuple[int, Any]:
    """(type code, fastbinary's type arguments); a list used as a map key becomes a tuple."""
    scalar = _SCALARS.get(type_name)
    if scalar is not None:
        return scalar, None
    if type_name in ("string", "binary"):
        return TType.STRING, "BINARY"
    if type_name in ENUMS:
        return TType.I32, None
    if type_name.endswith(">"):
        outer, _, inner = type_name[:-1].partition("<")
        if outer == "map":
            left, right = _split_pair(inner)
            return TType.MAP, (*_wire(left, version, key=True), *_wire(right, version), False)
        return _CONTAINERS[outer], (*_wire(inner, version, key=key), key)
    return TType.STRUCT, _class(type_name, fields(type_name), version)._typeargs


def _split_pair(inner: str) -> tuple[str, str]:
    depth = 0
    for at, char in enumerate(inner):
        depth += (char == "<") - (char == ">")
        if char == "," and not depth:
            return inner[:at], inner[at + 1 :]
    raise AssertionError(f"not a map: {inner}")


class StructSource:
    """The source for fastbinary, in both roles that it needs: protocol and transport.

    After a read, the buffer's position is the exact end. `refill(partial, wanted)` is called when the buffer has only
    `partial` of the `wanted` bytes, and returns the buffer to continue with. Counts of containers must not exceed
    `count`.
    """

    __slots__ = (
        "container_length_limit",
        "cstringio_buf",
        "cstringio_refill",
        "string_length_limit",
        "trans",
    )

    def __init__(
        self, buffer: io.BytesIO, refill: Callable[[bytes, int], io.BytesIO], string_limit: int, count: int
    ) -> None:
        self.cstringio_buf = buffer
        self.cstringio_refill = refill
        self.string_length_limit = string_limit
        self.container_length_limit = count
        self.trans: StructSource | None = None

    def read(self, into: object, typeargs: list[Any]) -> Any:
        """Decodes one struct into `into`, or into a new instance if that is None. Raises CODEC_ERRORS."""
        self.trans = self
        try:
            return fastbinary.decode_binary(into, self, typeargs)
        finally:
            self.trans = None  # leave no reference cycle: the buffer may be large


def reader(buf: bytes | bytearray | memoryview, offset: int) -> io.BytesIO:
    """A buffer for StructSource, which shares the memory of `bytes`. WireError for an offset outside of it.

    The check is necessary: fastbinary 0.25 crashes the process if the position of a buffer is beyond its end.
    """
    if not 0 <= offset <= len(buf):
        raise WireError(f"truncated: nothing at {offset} of {len(buf)} bytes", offset=offset)
    buffer = io.BytesIO(buf)
    buffer.seek(offset)
    return buffer


def no_more(_partial: bytes, _wanted: int) -> NoReturn:
    """The `refill` for a complete buffer."""
    raise EOFError


#: What fastbinary raises for bytes that are truncated, malformed or beyond its limits.
CODEC_ERRORS = (EOFError, TypeError, ValueError, OverflowError, TProtocolException)


def wire_error(cause: BaseException, *, offset: int, size: int) -> WireError:
    """The WireError for one of CODEC_ERRORS, from a struct at `offset` in a buffer of `size` bytes."""
    if isinstance(cause, EOFError):
        return WireError(f"truncated: the struct at {offset} does not end within {size} bytes", offset=offset)
    if isinstance(cause, TProtocolException):
        return LimitError(f"nested deeper than {NESTING_DEPTH}", offset=offset, limit="nesting_depth")
    return WireError(f"malformed: {cause}", offset=offset)


def decode(
    cls: type[S],
    buf: bytes | bytearray | memoryview,
    offset: int = 0,
    *,
    string_limit: int = MAX_LENGTH,
    container_limit: int = MAX_LENGTH,
) -> tuple[S, int]:
    """Decodes the struct at `offset`; returns it, and the offset after it.

    Fields that the class does not know are skipped. WireError for truncated or malformed bytes, LimitError beyond a
    limit. No count may exceed the number of remaining bytes, so memory is proportional to the buffer.
    """
    buffer = reader(buf, offset)
    source = StructSource(buffer, no_more, string_limit, min(container_limit, max(len(buf) - offset, 0)))
    try:
        value: S = source.read(None, cls._typeargs)
    except OverflowError as cause:  # also for a negative length: only the text differs
        raise LimitError(f"a length or count: {cause}", limit="max_string_bytes", offset=offset) from cause
    except CODEC_ERRORS as cause:
        raise wire_error(cause, offset=offset, size=len(buf)) from cause
    return value, buffer.tell()


def encode(obj: Struct) -> bytes:
    """Encodes a struct; `str` values become UTF-8. WireError if a value cannot be encoded."""
    try:
        encoded: bytes = fastbinary.encode_binary(obj, obj._typeargs)
    except (*CODEC_ERRORS, AttributeError) as cause:
        raise WireError(f"cannot encode {type(obj).__name__}: {cause}") from cause
    return encoded
