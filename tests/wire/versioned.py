"""Structs as one version of Hive has them. The program reads each field as the newest version declares it."""

from __future__ import annotations

from typing import Any

from hms_cache_proxy.wire import facts, facts_generated, spec
from hms_cache_proxy.wire.facts import FieldFact
from hms_cache_proxy.wire.spec import Struct, TType

_classes: dict[tuple[str, str], type[Struct]] = {}


def structs(version: str) -> list[str]:
    """The names of the structs that this version has."""
    bit = facts.VERSIONS.index(version)
    return [name for name, (_, versions, _) in facts_generated.STRUCTS.items() if versions >> bit & 1]


def struct(name: str, version: str) -> type[Struct]:
    return _class(name, facts.fields(name), version)


def args(method: str, version: str) -> type[Struct]:
    return _class(f"{method}_args", facts.METHODS[method].args, version)


def result(method: str, version: str) -> type[Struct]:
    return _class(f"{method}_result", facts.METHODS[method].result, version)


def _class(name: str, rows: tuple[FieldFact, ...], version: str) -> type[Struct]:
    known = _classes.get((name, version))
    if known is not None:
        return known
    rows = tuple(row for row in rows if row.id >= 0 and version in row.versions)
    names = tuple(row.name for row in rows)
    cls: type[Struct] = type(f"{name}@{version}", (Struct,), {**dict.fromkeys(names), "_names": names})
    cls._typeargs = [cls, ()]
    _classes[name, version] = cls  # before its fields: some structs contain themselves
    fields: list[Any] = [None] * (max((row.id for row in rows), default=-1) + 1)
    for row in rows:
        ttype, inner = _wire(row.type, version)
        fields[row.id] = (row.id, ttype, row.name, inner, None)
    cls.thrift_spec = cls._typeargs[1] = tuple(fields)
    return cls


def _wire(type_name: str, version: str, *, key: bool = False) -> tuple[int, Any]:
    if type_name in facts.STRUCTS:
        return TType.STRUCT, struct(type_name, version)._typeargs
    outer, bracket, inner = type_name.removesuffix(">").partition("<")
    if not bracket:
        return spec._wire(type_name)
    if outer == "map":
        left, right = spec._split_pair(inner)
        return TType.MAP, (*_wire(left, version, key=True), *_wire(right, version), False)
    return spec._CONTAINERS[outer], (*_wire(inner, version, key=key), key)
