"""Requests that no generated class can write: fields left out, unknown, twice, or of another type; strings and numbers
that mean something to somebody.

Job: a message of a generated request to the message of a changed one. A struct is a list of [number, wire type, value]
here, because the order of its fields, and fields that occur twice, matter; a list is (wire type, values).
Must not know: what an answer should be. The fields that a struct may have come from the fact table.
"""

from __future__ import annotations

import random
import struct
from typing import Any

from hms_cache_proxy.wire import facts
from tests.differential.contents import World
from tests.differential.wire import encode
from tests.testbed.untyped import BOOL, BYTE, DOUBLE, FIXED_BYTES, I16, I32, I64, LIST, MAP, SET, STRING, STRUCT

_INTEGERS = {BYTE: ">b", I16: ">h", I32: ">i", I64: ">q"}
_KINDS = {"bool": BOOL, "i8": BYTE, "i16": I16, "i32": I32, "i64": I64, "double": DOUBLE}
_KINDS |= {"string": STRING, "binary": STRING}
NUMBERS = [
    *(-1, 0, 1, 2, 3, 5, -2, 100),
    *(sign * 2**bits - low for bits in (7, 15, 31, 63) for sign, low in ((1, 1), (-1, 0))),
]
# No NUL: what PostgreSQL refuses makes Hive tell the number of a savepoint. tests/consistency/test_names.py has it.
STRINGS = [
    *(b"", b" ", b"@hive#", b"@hive#x", b"@", b"#", b"!", b"\xff\xfe", "\u212a".encode(), "İ".encode()),
    *(b"%", b"_", b"*", b".*", b".", b"|", b"a|", b"x" * 800, b"hive", b"HIVE", b"null", b"default", b"'", b"\\", b'"'),
    *(b"=", b"/", b"dt=", b"-1", b"__HIVE_DEFAULT_PARTITION__", b"\n", b"\x7f", "\U0001f600".encode(), b"\xed\xa0\x80"),
]  # fmt: skip
Fields = list[list[Any]]


def read(kind: int, data: bytes, at: int) -> tuple[Any, int]:
    """A value, and where it ends."""
    if kind == STRUCT:
        fields: Fields = []
        while field := data[at]:
            (number,) = struct.unpack_from(">h", data, at + 1)
            value, at = read(field, data, at + 3)
            fields.append([number, field, value])
        return fields, at + 1
    if kind in (LIST, SET):
        element, count = struct.unpack_from(">bi", data, at)
        at, values = at + 5, []
        for _ in range(count):
            value, at = read(element, data, at)
            values.append(value)
        return (element, values), at
    if kind in _INTEGERS:
        return struct.unpack_from(_INTEGERS[kind], data, at)[0], at + FIXED_BYTES[kind]
    if kind == STRING:
        end = at + 4 + int(struct.unpack_from(">i", data, at)[0])
        return data[at + 4 : end], end
    if kind == MAP:  # no read has one that is not empty
        assert data[at + 2 : at + 6] == bytes(4), "an empty map"
        return data[at : at + 6], at + 6
    return data[at : at + FIXED_BYTES[kind]], at + FIXED_BYTES[kind]


def written(kind: int, value: Any) -> bytes:
    """The bytes of a value."""
    if kind == STRUCT:
        fields = (struct.pack(">bh", field, number) + written(field, each) for number, field, each in value)
        return b"".join(fields) + b"\0"
    if kind in (LIST, SET):
        element, values = value
        return struct.pack(">bi", element, len(values)) + b"".join(written(element, each) for each in values)
    if kind in _INTEGERS:
        return struct.pack(_INTEGERS[kind], value)
    if kind == STRING:
        return struct.pack(">i", len(value)) + bytes(value)
    return bytes(value)


def _kind(name: str) -> int:
    outer = name.partition("<")[0]
    found = {"list": LIST, "set": SET, "map": MAP}.get(outer) or _KINDS.get(name)
    return found or (STRUCT if name in facts.STRUCTS else I32)


class Mutations:
    """Changes requests; deterministic in its seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = world

    def encode(self, method: str, arguments: dict[str, Any], seqid: int) -> bytes:
        """The message of a call that is changed in a few places, or not at all."""
        message = encode(method, arguments, seqid)
        body = 12 + int(struct.unpack_from(">i", message, 4)[0])
        fields, _ = read(STRUCT, message, body)
        for _ in range(self.rng.choice([0, 1, 1, 1, 1, 2, 2, 3])):
            self._change(method, fields)
        return message[:body] + written(STRUCT, fields)

    def _change(self, method: str, fields: Fields) -> None:
        rng = self.rng
        places = list(_structs(fields, facts.METHODS[method].args))
        place, rows = rng.choice(places[1:] or places) if rng.random() < 0.9 else places[0]
        roll = rng.random()
        if roll < 0.3:
            missing = [fact for fact in rows if fact.id not in {field[0] for field in place}]
            for fact in rng.sample(missing, min(len(missing), 1)):
                place.append([fact.id, _kind(fact.type), self._value(_kind(fact.type), fact.type)])
        elif roll < 0.34:
            kind = rng.choice([STRING, I32, BOOL, LIST, STRUCT, MAP, SET, DOUBLE, BYTE, I16, I64])
            place.append([rng.choice([0, -1, 99, 32767]), kind, self._value(kind)])
        elif roll < 0.36:
            rng.shuffle(place)
        elif place and roll < 0.5:
            place.remove(rng.choice(place))
        elif place and roll < 0.52:
            place.append(list(rng.choice(place)))
        elif place and roll < 0.53:
            field = rng.choice(place)
            field[1] = rng.choice([STRING, I32, BOOL, I64, I16])
            field[2] = self._value(field[1])
        elif place:
            field = rng.choice(place)
            field[2] = self._other(field[1], field[2])

    def _other(self, kind: int, value: Any) -> Any:
        rng = self.rng
        if kind == STRING:
            return self._string(value)
        if kind not in (LIST, SET):
            return value if kind == STRUCT else self._value(kind)
        element, values = value[0], list(value[1])
        if values and rng.random() < 0.7:
            at = rng.randrange(len(values))
            values[at : at + 1] = rng.choice([[], [values[at]] * 2, [self._other(element, values[at])]])
        else:
            values.append(self._value(element))
        return element, values

    def _string(self, old: bytes) -> bytes:
        rng = self.rng
        if old and rng.random() < 0.4:
            spelled = [old.upper(), old + b" ", b"\t" + old, old[:-1], old + b"%", old + b"\xff"]
            spelled += [b"@hive#" + old, b"@HIVE #" + old, old + "é".encode(), old + b"/", b"`" + old + b"`"]
            return rng.choice([*spelled, old + b"#", old + b"!", old.swapcase(), old * 3])
        if rng.random() < 0.5:
            return rng.choice(STRINGS)
        note = rng.choice(self.world.tables)
        known = [note.database, note.name, f"@hive#{note.database}", *(key for key, _ in note.keys)]
        return rng.choice([*known, *(value for values in note.partitions[:3] for value in values)]).encode()

    def _value(self, kind: int, name: str = "") -> Any:
        """Any value of a wire type; `name`: of the type in the fact table."""
        rng = self.rng
        if kind == STRING:
            return self._string(b"")
        if kind in _INTEGERS:
            bits = 8 * FIXED_BYTES[kind]
            return rng.choice([number for number in NUMBERS if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)])
        if kind == STRUCT:
            rows = facts.fields(name) if name in facts.STRUCTS else ()
            chosen = [fact for fact in rows if rng.random() < 0.4]
            return [[fact.id, _kind(fact.type), self._value(_kind(fact.type), fact.type)] for fact in chosen]
        if kind in (LIST, SET):
            element = name.partition("<")[2].removesuffix(">") or "string"
            return _kind(element), [self._value(_kind(element), element) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        if kind == MAP:
            return bytes((STRING, STRING, 0, 0, 0, 0))
        return bytes((rng.randint(0, 1),)) if kind == BOOL else struct.pack(">d", rng.random())


def _structs(fields: Fields, rows: tuple[facts.FieldFact, ...]) -> Any:
    """Every struct in the arguments, with the fields that it may have; the arguments first."""
    yield fields, rows
    types = {fact.id: fact.type for fact in rows}
    for number, kind, value in fields:
        inner = types.get(number, "").removeprefix("list<").removesuffix(">")
        if inner in facts.STRUCTS and (kind == STRUCT or (kind == LIST and value[0] == STRUCT)):
            for each in [value] if kind == STRUCT else value[1]:
                yield from _structs(each, facts.fields(inner))
