"""Reads the numbers of many encoded column statistics at once, and writes one.

Job: turn the bytes after the head of a `ColumnStatisticsObj` (store/protocol.py: `ColumnStatistics.data`) into lists of
values by field name, and values into such bytes. Must not know: what is done with them. Anything that is not laid out
as Hive does it (a bit vector, a histogram, an unknown field) gives None.

Most statistics of a column have all their fields, and therefore the same length. Those are read together, in a third of
a microsecond each. Owner: any process; no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from struct import Struct
from typing import Any, Final, NamedTuple

Value = Any
"""int, float, Decimal, or None where the field is not set."""

_STOPS = b"\0\0\0"  # ends the struct in the union, the union, and ColumnStatisticsObj
_I64, _F64, _STRUCT = b"\x0a\0", b"\x04\0", b"\x0c\0"
_NESTED_HEADER = b"\x0a\0\x01"
_MOST_BYTES, _MOST_DIGITS = 160, 400  # of a decimal; Hive's have 38 digits
_EXACT = Context(prec=2000)
_LOW_DECIMAL = b"\x0c\0\x01\x0b\0\x01\0\0\0"  # up to the last byte of its size
_BETWEEN, _AFTER_HIGH = Struct(">3sh10s"), Struct(">3sh4sq3sq3s")
_AROUND_DECIMALS = (
    *(b"\x06\0\x03", b"\0\x0c\0\x02\x0b\0\x01\0\0\0", b"\x06\0\x03"),
    *(b"\0\x0a\0\x03", b"\x0a\0\x04", _STOPS),
)
_LONG, _DOUBLE, _SCALE, _SIZE = Struct(">q"), Struct(">d"), Struct(">h"), Struct(">i")


class _Form(NamedTuple):
    """The layout of a field: the first bytes of its header, and for fixed sizes the format after the header."""

    header: bytes
    layout: str
    size: int


_FORMS: Final = {
    "i64": _Form(_I64, "q", 8),
    "f64": _Form(_F64, "d", 8),
    "nested": _Form(_STRUCT, "3sqc", 12),  # Date, Timestamp: a struct with one i64
    "decimal": _Form(_STRUCT, "", 0),
}


class UnionMember(NamedTuple):
    """A member of the union `ColumnStatisticsData`: names and forms of its fields, in order of their ids from 1 on."""

    fields: tuple[tuple[str, str], ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of the fields."""
        return frozenset(name for name, _ in self.fields)


def _bounded(form: str) -> UnionMember:
    return UnionMember((("low", form), ("high", form), ("nulls", "i64"), ("distinct", "i64")))


_LENGTHS = (("longest", "i64"), ("average", "f64"), ("nulls", "i64"))
KINDS: Final[Mapping[int, UnionMember]] = {
    1: UnionMember((("trues", "i64"), ("falses", "i64"), ("nulls", "i64"))),
    2: _bounded("i64"),
    3: _bounded("f64"),
    4: UnionMember((*_LENGTHS, ("distinct", "i64"))),
    5: UnionMember(_LENGTHS),
    6: _bounded("decimal"),
    7: _bounded("nested"),
    8: _bounded("nested"),
}
"""By the field id in the union: boolean, long, double, string, binary, decimal, date, timestamp."""
DOUBLES: Final = 3
DECIMALS: Final = 6
OPTIONAL: Final = frozenset(("low", "high"))


class _Layout:
    """All fields of a kind, each with its header, as one Struct; None for kinds of no fixed size."""

    def __init__(self, kind: UnionMember) -> None:
        layout, self.constants = ">", []
        position = 0
        self.values: dict[str, int] = {}
        for number, (name, form) in enumerate(kind.fields, 1):
            expected: list[bytes | None] = [_FORMS[form].header + bytes((number,)), None]
            if form == "nested":
                expected = [expected[0], _NESTED_HEADER, None, b"\0"]
            self.values[name] = position + expected.index(None)
            self.constants += [(position + at, value) for at, value in enumerate(expected) if value is not None]
            layout += "3s" + _FORMS[form].layout
            position += len(expected)
        self.constants.append((position, _STOPS))
        self.struct = Struct(layout + "3s")


_LAYOUTS: Final = {number: _Layout(kind) for number, kind in KINDS.items() if number != DECIMALS}


def read(number: int, data: Sequence[bytes]) -> dict[str, Sequence[Value]] | None:
    """The values of each field, in the order of `data`; None if any of them has another layout."""
    layout = _LAYOUTS.get(number)
    if layout is not None and data:
        size = layout.struct.size
        if set(map(len, data)) == {size}:
            found = tuple(zip(*layout.struct.iter_unpack(b"".join(data)), strict=True))
            if all(found[at].count(value) == len(data) for at, value in layout.constants):
                return {name: found[at] for name, at in layout.values.items()}
    kind = KINDS[number]
    if number == DECIMALS:
        decimals = list(map(_decimals, data))
        if None not in decimals:
            columns = zip(*decimals, strict=True)
            return dict(zip((name for name, _ in kind.fields), columns, strict=True))
    rows = []
    for one in data:
        row = _row(kind, one)
        if row is None:
            return None
        rows.append(row)
    return {name: [row.get(name) for row in rows] for name, _ in kind.fields}


def _decimals(data: bytes) -> tuple[Decimal, Decimal, int, int] | None:
    """Low, high, nulls, distinct values of a decimal column that has all four. Takes half of the time of `_row`."""
    if not data.startswith(_LOW_DECIMAL):
        return None
    low = 10 + data[9]
    high = low + 16 + data[low + 15]
    size = len(data) - high
    if size != _AFTER_HIGH.size:
        return None
    a, low_scale, b = _BETWEEN.unpack_from(data, low)
    c, high_scale, d, nulls, e, distinct, f = _AFTER_HIGH.unpack_from(data, high)
    if (a, b, c, d, e, f) != _AROUND_DECIMALS or max(abs(low_scale), abs(high_scale)) > _MOST_DIGITS:
        return None
    number = int.from_bytes
    return (
        Decimal(number(data[10:low], "big", signed=True)).scaleb(-low_scale, _EXACT),
        Decimal(number(data[low + 16 : high], "big", signed=True)).scaleb(-high_scale, _EXACT),
        nulls,
        distinct,
    )


def _row(kind: UnionMember, data: bytes) -> dict[str, Value] | None:
    at = 0
    row: dict[str, Value] = {}
    for number, (name, form) in enumerate(kind.fields, 1):
        if not data.startswith(_FORMS[form].header + bytes((number,)), at):
            if name not in OPTIONAL:
                return None
            continue
        at += 3
        if form == "decimal":
            value, at = _decimal(data, at)
            if value is None:
                return None
        elif form == "nested":
            if data[at : at + 3] != _NESTED_HEADER or data[at + 11 : at + 12] != b"\0":
                return None
            (value,) = _LONG.unpack_from(data, at + 3)
            at += 12
        else:
            (value,) = (_LONG if form == "i64" else _DOUBLE).unpack_from(data, at)
            at += 8
        row[name] = value
    return row if data[at:] == _STOPS else None


def _decimal(data: bytes, at: int) -> tuple[Decimal | None, int]:
    if data[at : at + 3] != b"\x0b\0\x01":
        return None, at
    (size,) = _SIZE.unpack_from(data, at + 3)
    end = at + 7 + size
    if data[end : end + 3] != b"\x06\0\x03" or data[end + 5 : end + 6] != b"\0":
        return None, at
    (scale,) = _SCALE.unpack_from(data, end + 3)
    if size > _MOST_BYTES or abs(scale) > _MOST_DIGITS:
        return None, at
    unscaled = int.from_bytes(data[at + 7 : end], "big", signed=True)
    return Decimal(unscaled).scaleb(-scale, _EXACT), end + 6


def write(number: int, values: Mapping[str, Value]) -> bytes:
    """The bytes of one statistics object. A field that is None is left out; a decimal has no scale below 0."""
    pieces = []
    for at, (name, form) in enumerate(KINDS[number].fields, 1):
        if values[name] is not None:
            pieces += [_FORMS[form].header, bytes((at,)), *_written(form, values[name])]
    return b"".join((*pieces, _STOPS))


def _written(form: str, value: Value) -> Iterable[bytes]:
    if form == "f64":
        return (_DOUBLE.pack(value),)
    if form == "i64":
        return (_LONG.pack(value),)
    if form == "nested":
        return _NESTED_HEADER, _LONG.pack(value), b"\0"
    scale = max(-value.as_tuple().exponent, 0)
    unscaled = int(value.scaleb(scale, _EXACT))
    size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8
    number = unscaled.to_bytes(size, "big", signed=True)
    return b"\x0b\0\x01", _SIZE.pack(size), number, b"\x06\0\x03", _SCALE.pack(scale), b"\0"
