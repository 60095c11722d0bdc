"""Structs as handlers see them: strings are `str`, and numbers that a client left out have Java's defaults.

Job: `arguments()` converts what the codec decoded (bytes, None for absent); `copy()` copies; `as_json()` writes a
struct as Thrift's TJSONProtocol does, the form of objects in events. Must not know: what methods mean.

If a number or boolean that is not optional is not sent, a Java server keeps 0 or false and returns it; so does this
one. Strings that are not UTF-8 get replacement characters, as in Java. Converters are compiled once for each type.
Owner: any thread; caches are filled idempotently.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

from hms_cache_proxy.wire import facts, spec
from hms_cache_proxy.wire.facts import FieldFact, Requirement
from hms_cache_proxy.wire.spec import Struct, TType

Convert = Callable[[Any], Any]

_ZERO: dict[str, Any] = {"bool": False, "i8": 0, "i16": 0, "i32": 0, "i64": 0, "double": 0.0}
_DEFAULTS = {"max_parts": -1, "max_tables": -1}
"""Arguments with a default other than zero, the same in every method."""
_JSON_NAMES = {
    TType.BOOL: "tf",
    TType.I8: "i8",
    TType.I16: "i16",
    TType.I32: "i32",
    TType.I64: "i64",
    TType.DOUBLE: "dbl",
    TType.STRING: "str",
    TType.STRUCT: "rec",
    TType.MAP: "map",
    TType.SET: "set",
    TType.LIST: "lst",
}


def new(struct_name: str, /, **fields: Any) -> Struct:
    """A struct of the interface."""
    return spec.struct(struct_name)(**fields)


def arguments(method: str, decoded: Struct) -> Struct:
    """The decoded arguments of a method, converted in place, with defaults for numbers that were left out."""
    for name, number in _DEFAULTS.items():
        if getattr(decoded, name, number) is None:
            setattr(decoded, name, number)
    _fill(decoded, _plan(facts.METHODS[method].args))
    return decoded


def text(value: bytes) -> str:
    """Bytes of the wire as a string."""
    return value.decode("utf-8", "replace")


def copy(value: Any) -> Any:
    """A deep copy of a struct or container; strings and numbers are not copied."""
    if isinstance(value, Struct):
        return type(value)(**{name: copy(field) for name, field in value.__dict__.items()})
    if isinstance(value, list):
        return [copy(item) for item in value]
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    return value


_Plan = tuple[tuple[tuple[str, Convert], ...], tuple[tuple[str, Any], ...]]


@cache
def _plan(rows: tuple[FieldFact, ...]) -> _Plan:
    """(fields to convert, numbers to fill in) of a struct."""
    chosen: dict[int, FieldFact] = {}
    for row in rows:
        if row.id >= 0:
            chosen.setdefault(row.id, row)
    converted = []
    filled = []
    for row in chosen.values():
        convert = _converter(row.type)
        if convert is not None:
            converted.append((row.name, convert))
        elif row.type in _ZERO and row.requirement is not Requirement.OPTIONAL:
            filled.append((row.name, _ZERO[row.type]))
    return tuple(converted), tuple(filled)


def _fill(value: Struct, plan: _Plan) -> None:
    held = value.__dict__
    for name, convert in plan[0]:
        found = held.get(name)
        if found is not None:
            held[name] = convert(found)
    for name, zero in plan[1]:
        if held.get(name) is None:
            held[name] = zero


@cache
def _converter(type_name: str) -> Convert | None:
    """The converter of values of this type; None if they stay unchanged."""
    if type_name == "string":
        return text
    if type_name in _ZERO or type_name == "binary" or type_name in facts.ENUMS:
        return None
    if type_name.startswith("map<"):
        return _map(*spec._split_pair(type_name[4:-1]))
    if type_name.endswith(">"):
        return _list(type_name.partition("<")[2][:-1])

    union = facts.is_union(type_name)

    def convert(value: Struct) -> Struct:  # the plan is made on first use: some structs contain themselves
        converted, filled = _plan(facts.fields(type_name))
        _fill(value, (converted, () if union else filled))
        return value

    return convert


def _list(inner: str) -> Convert | None:
    convert = _converter(inner)
    if convert is None:
        return None
    return lambda items: type(items)(convert(item) for item in items)


def _map(left: str, right: str) -> Convert:
    key, value = (_converter(side) or _same for side in (left, right))
    return lambda items: {key(k): value(v) for k, v in items.items()}


def _same(value: Any) -> Any:
    return value


def as_json(value: Struct) -> str:
    """A struct in TJSONProtocol: `{"field id":{"type":value},...}`, absent fields left out."""
    fields = []
    for entry in value.thrift_spec:
        if entry is not None:
            number, kind, name, inner, _ = entry
            found = getattr(value, name)
            if found is not None:
                fields.append(f'"{number}":{{"{_JSON_NAMES[kind]}":{_json(found, kind, inner)}}}')
    return "{" + ",".join(fields) + "}"


def _json(value: Any, kind: int, inner: Any) -> str:
    if kind == TType.STRING:
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode().rstrip("=")
        return json.dumps(value, ensure_ascii=False)
    if kind == TType.BOOL:
        return str(int(value))
    if kind == TType.STRUCT:
        return as_json(value)
    if kind in (TType.LIST, TType.SET):
        element, element_inner = inner[0], inner[1]
        items = [_json(item, element, element_inner) for item in value]
        return "[" + ",".join([f'"{_JSON_NAMES[element]}"', str(len(items)), *items]) + "]"
    if kind == TType.MAP:
        left, left_inner, right, right_inner = inner[:4]
        pairs = [f"{_key(_json(k, left, left_inner), left)}:{_json(v, right, right_inner)}" for k, v in value.items()]
        return f'["{_JSON_NAMES[left]}","{_JSON_NAMES[right]}",{len(pairs)},{{{",".join(pairs)}}}]'
    return _double(value) if kind == TType.DOUBLE else str(int(value))


def _double(value: float) -> str:
    """JSON has no such numbers as NaN: the protocol writes their names as strings."""
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _key(written: str, kind: int) -> str:
    """A key of a map: numbers are quoted, because JSON needs names; lists are not (as in TJSONProtocol)."""
    return written if kind in (TType.STRING, TType.LIST, TType.STRUCT) else f'"{written}"'
