"""Offsets of fields and list elements in a complete struct, for splicing.

Job: find the offsets of values, so that the bytes of a Partition, Table or StorageDescriptor can be cut, kept and
joined without decoding. It must not know what the fields mean. The struct must be complete; otherwise WireError. Limits
as in scan.py; every count and length is checked against the buffer. Owned by any process; no state.

With the struct's class, the codec walks over the fields (6 us for a Partition of 50 columns), and its position after
each field is noted. Without the class, or if the bytes have a field that the class does not know, the walk is in
Python.
"""

import io
from collections.abc import Callable
from struct import Struct as Packer
from struct import error as PackerError
from typing import Any, Final, TypeAlias

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.scan import HOLLOW, SKIP
from hms_cache_proxy.wire.spec import (
    CODEC_ERRORS,
    NESTING_DEPTH,
    Struct,
    StructSource,
    TType,
    no_more,
    reader,
    wire_error,
)

#: (field id, wire type, offset of the value, offset after it). The field's 3-byte header is before the value,
#: the struct's stop byte after the last field.
FieldSpan: TypeAlias = tuple[int, int, int, int]
#: (offset of the element, offset after it)
Span: TypeAlias = tuple[int, int]

_FIELD: Final = Packer("!Bh")
_LIST: Final = Packer("!Bi")
_MAP: Final = Packer("!BBi")
_LENGTH: Final = Packer("!i")
_SIZES: Final = {
    TType.BOOL: 1,
    TType.I8: 1,
    TType.I16: 2,
    TType.I32: 4,
    TType.I64: 8,
    TType.DOUBLE: 8,
    TType.UUID: 16,
}


def fields_of(buf: bytes, start: int = 0, cls: type[Struct] | None = None) -> list[FieldSpan]:
    """The fields of the struct at `start`, in the order on the wire.

    `cls` only makes this faster. The struct ends one byte after the last field.
    """
    if cls is not None:
        found = _fields_by_codec(buf, start, cls)
        if found is not None:
            return found
    walker = _Walker(buf)
    spans: list[FieldSpan] = []
    at = start
    while True:
        ttype, field_id = walker.field_header(at)
        if ttype == TType.STOP:
            return spans
        end = walker.end_of_value(at + 3, ttype, 1)
        spans.append((field_id, ttype, at + 3, end))
        at = end


def list_spans(buf: bytes, start: int) -> list[Span]:
    """The elements of the list or set whose header (element type, count) is at `start`."""
    walker = _Walker(buf)
    ttype, count = walker.list_header(start)
    spans: list[Span] = []
    at = start + _LIST.size
    for _ in range(count):
        end = walker.end_of_value(at, ttype, 1)
        spans.append((at, end))
        at = end
    return spans


def end_of_value(buf: bytes, start: int, ttype: int) -> int:
    """The offset after the value of this wire type at `start`."""
    return _Walker(buf).end_of_value(start, ttype, 0)


class _Walker:
    """Walks over values of one buffer; structs are skipped by the codec."""

    __slots__ = ("_buf", "_buffer", "_source")

    def __init__(self, buf: bytes) -> None:
        self._buf = buf
        self._buffer = io.BytesIO(buf)
        self._source = StructSource(self._buffer, no_more, spec.MAX_LENGTH, len(buf))

    def field_header(self, at: int) -> tuple[int, int]:
        """(wire type, id) at this offset; (STOP, 0) at the end of the struct."""
        try:
            if self._buf[at] == TType.STOP:
                return TType.STOP, 0
            ttype, field_id = _FIELD.unpack_from(self._buf, at)
        except (IndexError, PackerError) as cause:
            raise self._truncated(at) from cause
        return ttype, field_id

    def list_header(self, at: int) -> tuple[int, int]:
        """(element type, count) at this offset."""
        try:
            ttype, count = _LIST.unpack_from(self._buf, at)
        except PackerError as cause:
            raise self._truncated(at) from cause
        self._check_count(count)
        return ttype, count

    def end_of_value(self, at: int, ttype: int, depth: int) -> int:
        """The offset after a value. `depth`: the number of containers around it."""
        size = _SIZES.get(ttype)
        if size is not None:
            end = at + size
        elif ttype == TType.STRING:
            end = self._end_of_string(at)
        elif ttype == TType.STRUCT:
            return self._end_of_struct(at)
        elif depth >= NESTING_DEPTH:
            raise LimitError(f"nested deeper than {NESTING_DEPTH}", limit="nesting_depth")
        elif ttype in (TType.LIST, TType.SET):
            element, count = self.list_header(at)
            end = self._end_of_many(at + _LIST.size, (element,), count, depth + 1)
        elif ttype == TType.MAP:
            end = self._end_of_map(at, depth + 1)
        else:
            raise WireError(f"malformed: wire type {ttype}")
        if end > len(self._buf):
            raise self._truncated(at)
        return end

    def _end_of_string(self, at: int) -> int:
        try:
            length: int = _LENGTH.unpack_from(self._buf, at)[0]
        except PackerError as cause:
            raise self._truncated(at) from cause
        self._check_count(length)
        return at + _LENGTH.size + length

    def _end_of_struct(self, at: int) -> int:
        if not 0 <= at <= len(self._buf):  # as in spec.reader: such a position would crash the codec
            raise self._truncated(at)
        self._buffer.seek(at)
        try:
            self._source.read(HOLLOW, SKIP)
        except CODEC_ERRORS as cause:
            raise wire_error(cause, offset=at, size=len(self._buf)) from cause
        return self._buffer.tell()

    def _end_of_map(self, at: int, depth: int) -> int:
        try:
            key, value, count = _MAP.unpack_from(self._buf, at)
        except PackerError as cause:
            raise self._truncated(at) from cause
        self._check_count(count)
        return self._end_of_many(at + _MAP.size, (key, value), count, depth)

    def _end_of_many(self, at: int, ttypes: tuple[int, ...], count: int, depth: int) -> int:
        sizes = [_SIZES.get(ttype) for ttype in ttypes]
        if None not in sizes:
            return at + count * sum(size for size in sizes if size is not None)
        for _ in range(count):
            for ttype in ttypes:
                at = self.end_of_value(at, ttype, depth)
        return at

    def _check_count(self, count: int) -> None:
        if not 0 <= count <= len(self._buf):
            raise WireError(f"a length or count of {count} in {len(self._buf)} bytes")

    def _truncated(self, at: int) -> WireError:
        return WireError(f"truncated: the value at {at} does not end within {len(self._buf)} bytes")


class _Marks:
    """A target for decoding that notes name and end of each field that the codec sets."""

    __slots__ = ("_mark",)
    _mark: Callable[[str], None]

    def __init__(self, mark: Callable[[str], None]) -> None:
        object.__setattr__(self, "_mark", mark)

    def __setattr__(self, name: str, _value: object) -> None:
        self._mark(name)


_hollow_args_of: Final[dict[type, list[Any]]] = {}


def _hollow_args(cls: type[Struct]) -> list[Any]:
    """Type arguments with which the codec builds no inner structs."""
    known = _hollow_args_of.get(cls)
    if known is not None:
        return known
    rows = (row and (row[0], row[1], row[2], _hollow(row[1], row[3]), None) for row in cls.thrift_spec)
    return _hollow_args_of.setdefault(cls, [_Marks, tuple(rows)])


def _hollow(ttype: int, inner: Any) -> Any:
    if ttype == TType.STRUCT:
        return SKIP
    if ttype in (TType.LIST, TType.SET):
        return (inner[0], _hollow(inner[0], inner[1]), inner[2])
    if ttype == TType.MAP:
        return (inner[0], _hollow(inner[0], inner[1]), inner[2], _hollow(inner[2], inner[3]), inner[4])
    return inner


def _fields_by_codec(buf: bytes, start: int, cls: type[Struct]) -> list[FieldSpan] | None:
    """The fields, or None if a field was skipped, because the class does not have it, or has it with another type."""
    buffer = reader(buf, start)
    marks: list[tuple[str, int]] = []
    into = _Marks(lambda name: marks.append((name, buffer.tell())))
    args = _hollow_args(cls)
    rows = args[1]
    try:
        StructSource(buffer, no_more, spec.MAX_LENGTH, len(buf)).read(into, args)
    except TypeError:
        return None  # a list with other elements than the class has; the walk in Python handles it
    except CODEC_ERRORS as cause:
        raise wire_error(cause, offset=start, size=len(buf)) from cause
    spans: list[FieldSpan] = []
    at = start
    for name, end in marks:
        ttype, field_id = _FIELD.unpack_from(buf, at)
        row = rows[field_id] if 0 <= field_id < len(rows) else None
        if row is None or row[1] != ttype or row[2] != name:
            return None
        spans.append((field_id, ttype, at + 3, end))
        at = end
    return spans if at + 1 == buffer.tell() else None
