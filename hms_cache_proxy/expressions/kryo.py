"""Reads Kryo's bytes into objects of the classes in classes.py, and no others.

Job: `read(data)` returns the object. Must not know: what the objects mean. An object is an `Instance`; numbers,
booleans and strings are Python's; boxed numbers are `Boxed`, with the name of Java's type; a list is a list; a
LocalDate is a date, and a LocalDateTime a datetime.

Everything that is not fully understood raises NotUnderstood: unknown classes and class numbers; references forward, to
an object of another class, or to an incomplete one; lengths and numbers out of range; invalid UTF-16; bytes after the
end; too much depth. Source: Kryo 5.5.0 as configured by Hive 4 (references on, registration not required). Owner: any
thread; no state.
"""

from __future__ import annotations

import struct
from datetime import date, datetime, time
from typing import Any, Final, NamedTuple

from .classes import (
    CALENDAR,
    DECIMAL_RESULT,
    FIELDS,
    FUNCTION,
    LIST,
    LOCAL_DATE,
    LOCAL_MOMENT,
    REGISTERED,
    TRUTH,
    WAYS,
    Kind,
)
from .tree import NotUnderstood

MAX_BYTES: Final = 64 << 10
MAX_DEPTH: Final = 100
_PACKED: Final = {
    "byte": struct.Struct("<b"),
    "short": struct.Struct("<h"),
    "float": struct.Struct("<f"),
    "double": struct.Struct("<d"),
}
_ZONE: Final = "UTC"
_CHANGES: Final = frozenset((-1 << 63, -12_219_292_800_000))
"""When a calendar changes to the Gregorian one: never, as it has always been Gregorian, or in 1582. Expressions with
earlier dates are not evaluated here."""
_BOXED: Final = frozenset(("int", "boolean", "byte", "short", "long", "double"))
_STRING: Final = "string"
_ONCE: Final = frozenset((FUNCTION, LIST))
"""References to these are refused: with them, a few bytes could mean any number of conditions."""


class Boxed(NamedTuple):
    """A boxed number or boolean, and its primitive type in Java."""

    kind: str
    value: bool | int | float


class Instance(NamedTuple):
    """An object of a class with fields, by their names."""

    cls: str
    fields: dict[str, Any]


class _Unfinished:
    """An object that is being read."""


_UNFINISHED: Final = _Unfinished()


def read(data: bytes) -> Any:
    """The object that all these bytes encode. Raises NotUnderstood."""
    if len(data) > MAX_BYTES:
        raise NotUnderstood("too long")
    reader = _Reader(data)
    found = reader.any_object(0)
    if reader.at != len(data):
        raise NotUnderstood("bytes are left over")
    return found


class _Reader:
    __slots__ = ("_classes", "_data", "_objects", "at")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._classes: list[str] = []
        self._objects: list[tuple[str, Any]] = []

    # -- numbers and text ----------------------------------------------------------------------------------------
    def _byte(self) -> int:
        at = self.at
        if at >= len(self._data):
            raise NotUnderstood("too short")
        self.at = at + 1
        return self._data[at]

    def _take(self, count: int) -> bytes:
        at = self.at
        if at + count > len(self._data):
            raise NotUnderstood("too short")
        self.at = at + count
        return self._data[at : at + count]

    def _number(self, bits: int = 32) -> int:
        """A number with seven bits in each byte, the lowest first; the top bit says that more follow. In a long, the
        ninth byte has eight bits."""
        value = shift = 0
        while True:
            byte = self._byte()
            if bits == 64 and shift == 56:
                return value | byte << shift
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                break
            shift += 7
            if shift >= bits:
                raise NotUnderstood("a number is too long")
        if value >> bits:
            raise NotUnderstood("a number is too large")
        return value

    def _signed(self, bits: int = 32) -> int:
        value = self._number(bits)
        return (value >> 1) ^ -(value & 1)

    def _flagged(self) -> tuple[bool, int]:
        """A flag and a number: the first byte has the flag in its top bit, and six bits of the number."""
        byte = self._byte()
        flag, value, more, shift = byte >= 0x80, byte & 0x3F, byte & 0x40, 6
        while more:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            more = byte & 0x80
            shift += 7
            if shift > 27:
                raise NotUnderstood("a length is too long")
        return flag, value

    def _flag(self) -> bool:
        byte = self._byte()
        if byte > 1:
            raise NotUnderstood("a boolean is neither")
        return byte == 1

    def _text(self) -> str:
        """A text. Short ASCII ends with a byte whose top bit is set; any other text has its length before it."""
        data, at = self._data, self.at
        if at < len(data) and data[at] < 0x80:
            end = at
            while end < len(data) and data[end] < 0x80:
                end += 1
            raw = self._take(end + 1 - at)
            return raw[:-1].decode("ascii") + chr(raw[-1] & 0x7F)
        _, count = self._flagged()
        if count == 0:
            raise NotUnderstood("a text is null")
        return self._units(count - 1)

    def _units(self, count: int) -> str:
        """A text of so many UTF-16 units, each in one to three bytes."""
        if count > len(self._data):
            raise NotUnderstood("a text is too long")
        units = bytearray()
        for _ in range(count):
            byte = self._byte()
            if byte >> 4 == 0xE:
                byte = (byte & 15) << 12 | self._tail() << 6 | self._tail()
            elif byte >> 5 == 6:
                byte = (byte & 31) << 6 | self._tail()
            elif byte >= 0x80:
                raise NotUnderstood("a text is no UTF-16")
            units += byte.to_bytes(2, "little")
        try:
            return units.decode("utf-16-le")
        except UnicodeDecodeError:
            raise NotUnderstood("a text is no UTF-16") from None

    def _tail(self) -> int:
        byte = self._byte()
        if byte >> 6 != 2:
            raise NotUnderstood("a text is no UTF-16")
        return byte & 63

    # -- objects -------------------------------------------------------------------------------------------------
    def _class(self) -> str | None:
        """The class of an object; None if the object is null."""
        number = self._number()
        if number == 0:
            return None
        if number > 1:
            known = REGISTERED.get(number - 2)
            if known is None:
                raise NotUnderstood(f"class number {number - 2}")
            return known
        number = self._number()
        if number < len(self._classes):
            return self._classes[number]
        if number > len(self._classes):
            raise NotUnderstood("a class that was not named")
        name = self._text()
        if name not in FIELDS and name != LIST:
            raise NotUnderstood(f"class {name[:200]!r}")
        self._classes.append(name)
        return name

    def any_object(self, depth: int) -> Any:
        """A class and an object of it; None for null."""
        name = self._class()
        return None if name is None else self._object(name, depth)

    def _object(self, name: str, depth: int, *, nullable: bool = False) -> Any:
        """An object of this class, or a reference to one."""
        if depth > MAX_DEPTH:
            raise NotUnderstood("too deep")
        if name in _BOXED:
            return self._boxed(name, nullable=nullable)
        number = self._number()
        if number == 0:
            if nullable:
                return None
            raise NotUnderstood("a null without a class")
        if number > 1:
            return self._referenced(number - 2, name)
        slot = len(self._objects)
        self._objects.append((name, _UNFINISHED))
        found = self._content(name, depth)
        self._objects[slot] = name, found
        return found

    def _referenced(self, number: int, name: str) -> Any:
        if number >= len(self._objects):
            raise NotUnderstood("a reference to nothing")
        cls, found = self._objects[number]
        if cls != name or found is _UNFINISHED or cls in _ONCE:
            raise NotUnderstood("a reference to something else")
        return found

    def _boxed(self, name: str, *, nullable: bool) -> Boxed | None:
        if nullable:
            number = self._number()
            if number > 1:
                raise NotUnderstood("a number is neither there nor null")
            if number == 0:
                return None
        if name == "boolean":
            return Boxed(name, self._flag())
        if name == "int":
            return Boxed(name, self._signed())
        if name == "long":
            return Boxed(name, self._signed(64))
        packed = _PACKED[name]
        value: int | float = packed.unpack(self._take(packed.size))[0]
        return Boxed(name, value)

    def _content(self, name: str, depth: int) -> Any:
        if name == _STRING:
            return self._text()
        if name == LIST:
            return self._list(None, depth)
        if name == LOCAL_DATE:
            return self._date()
        if name == LOCAL_MOMENT:
            return self._moment()
        if name == CALENDAR:
            return self._calendar()
        return Instance(name, {field: self._field(kind, depth + 1) for field, kind in FIELDS[name]})

    def _field(self, kind: Kind, depth: int) -> Any:
        if kind == "any":
            return self.any_object(depth)
        if kind == "string":
            return self._object(_STRING, depth, nullable=True)
        if kind == "flag":
            return self._flag()
        if kind == "null":
            if self._number():
                raise NotUnderstood("a field has a value that is not known")
            return None
        if kind in ("int", "long"):
            return self._signed(32 if kind == "int" else 64)
        if kind == "date":
            return self._object(LOCAL_DATE, depth, nullable=True)
        if kind == "moment":
            return self._object(LOCAL_MOMENT, depth, nullable=True)
        if kind == "truth":
            return self._result(depth)
        if kind == "way":
            return self._way()
        if kind == "calendar":
            return self._of_class(CALENDAR, depth)
        if kind == "decimal":
            return self._object(DECIMAL_RESULT, depth, nullable=True)
        if kind in _PACKED:
            return _PACKED[kind].unpack(self._take(_PACKED[kind].size))[0]
        return self._listed(_STRING if kind == "words" else None, depth)

    def _result(self, depth: int) -> Any:
        """Where a function of Hive puts its result: without it, it cannot be evaluated."""
        found = self._of_class(TRUTH, depth)
        if found is None:
            raise NotUnderstood("a function without a place for its result")
        return found

    def _of_class(self, wanted: str, depth: int) -> Any:
        found = self._class()
        if found is None:
            return None
        if found != wanted:
            raise NotUnderstood(f"another class than {wanted}")
        return self._object(found, depth)

    def _calendar(self) -> None:
        """A calendar, of which only the time zone and the calendar change matter."""
        zone, _time, lenient = self._text(), self._number(64), self._flag()
        self._number(), self._number()
        if zone != _ZONE or not lenient or self._signed(64) not in _CHANGES:
            raise NotUnderstood("another calendar")

    def _way(self) -> int | None:
        there = self._number()
        if there > 1:
            raise NotUnderstood("a way to compare is neither there nor null")
        way = self._number() if there else 0
        if way > WAYS:
            raise NotUnderstood("a way to compare that is not known")
        return way or None

    def _listed(self, element: str | None, depth: int) -> list[Any] | None:
        name = self._class()
        if name is None:
            return None
        if name != LIST:
            raise NotUnderstood("a list that is none")
        if element is None:
            found: list[Any] = self._object(LIST, depth)
            return found
        if self._number() != 1:
            raise NotUnderstood("a list that is not new")
        slot = len(self._objects)
        self._objects.append((LIST, _UNFINISHED))
        found = self._list(element, depth)
        self._objects[slot] = LIST, found
        return found

    def _list(self, element: str | None, depth: int) -> list[Any]:
        """Elements with a class each, or all of one class. `element`: the class that the field declares."""
        flag, count = self._flagged()
        count -= 1
        if count < 0 or count > len(self._data):
            raise NotUnderstood("a list without a length")
        if count == 0:
            return []
        if element is not None:
            nullable = not flag
        elif not flag:
            return [self.any_object(depth + 1) for _ in range(count)]
        else:
            element = self._class()
            if element is None:
                raise NotUnderstood("a list of nulls")
            nullable = self._flag()
        return [self._object(element, depth + 1, nullable=nullable) for _ in range(count)]

    def _date(self) -> date:
        year, month, day = self._number(), self._byte(), self._byte()
        try:
            return date(year, month, day)
        except (ValueError, OverflowError):
            raise NotUnderstood("a date that is none") from None

    def _moment(self) -> datetime:
        """A date, then hours, minutes and seconds; the last of them that is not 0 is inverted, and nothing follows,
        unless there are nanoseconds."""
        day, parts = self._date(), [0, 0, 0]
        nanos = 0
        for at in range(len(parts)):
            byte = self._byte()
            if byte >= 0x80:
                parts[at] = byte ^ 0xFF
                break
            parts[at] = byte
        else:
            nanos = self._number()
        if nanos % 1000:
            raise NotUnderstood("a part of a microsecond")
        try:
            return datetime.combine(day, time(parts[0], parts[1], parts[2], nanos // 1000))
        except ValueError:
            raise NotUnderstood("a time that is none") from None
