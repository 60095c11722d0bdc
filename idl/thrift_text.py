"""Reads the .thrift files of this folder: one declaration, field or method per line, as Derive.java prints.

Job: text in, declarations out. It is not a Thrift parser and refuses any line that it does not know, so a
file edited by hand into another shape stops the merge instead of losing a field.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TYPE = r"[A-Za-z_][A-Za-z0-9_.]*(?:<[A-Za-z0-9_.<>,]+>)?"
_OPEN = re.compile(rf"(enum|struct|union|exception|service) ({_NAME})(?: extends {_NAME}\.{_NAME})? {{")
_MEMBER = re.compile(rf"  ({_NAME}) = (-?\d+),")
_FIELD = re.compile(rf"(-?\d+): (?:(required|optional) )?({_TYPE}) ({_NAME})(?: = .+)?")
_CONST = re.compile(rf'const ({_NAME}) ({_NAME}) = ("(?:[^"\\]|\\.)*"|-?\d+)')
_METHOD = re.compile(rf"  (oneway )?({_TYPE}) ({_NAME})\((.*?)\)(?: throws \((.*)\))?,")
_STRUCTS = ("struct", "union", "exception")


@dataclass(frozen=True, slots=True)
class Field:
    """One field as declared; requirement is "required", "optional" or "default"."""

    id: int
    requirement: str
    type: str
    name: str


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct, union or exception."""

    kind: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its arguments, and its result's fields (0 is the return value)."""

    oneway: bool
    args: tuple[Field, ...]
    result: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Idl:
    """All declarations of one file, in the order of the file."""

    enums: dict[str, dict[str, int]]
    constants: dict[str, str | int]
    structs: dict[str, Struct]
    methods: dict[str, Method]


def read(path: Path) -> Idl:
    """Read one file; ValueError names the line that is not understood."""
    idl = Idl({}, {}, {}, {})
    kind = name = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("include ") or line.startswith("//"):
            continue
        if opened := _OPEN.fullmatch(line):
            kind, name = opened[1], opened[2]
            if kind == "enum":
                idl.enums[name] = {}
            elif kind != "service":
                idl.structs[name] = Struct(kind, ())
        elif line == "}":
            kind = ""
        elif not _inside(idl, kind, name, line):
            raise ValueError(f"{path.name}:{number}: not understood: {line}")
    return idl


def _inside(idl: Idl, kind: str, name: str, line: str) -> bool:
    if kind == "enum" and (member := _MEMBER.fullmatch(line)):
        idl.enums[name][member[1]] = int(member[2])
    elif kind in ("struct", "union", "exception") and (field := _FIELD.fullmatch(line.strip().removesuffix(","))):
        known = idl.structs[name]
        idl.structs[name] = Struct(kind, (*known.fields, _field(field)))
    elif kind == "service" and (method := _METHOD.fullmatch(line)):
        result = _fields(method[5] or "")
        if method[2] != "void":
            result = (Field(0, "default", method[2], "success"), *result)
        idl.methods[method[3]] = Method(bool(method[1]), _fields(method[4]), result)
    elif not kind and (const := _CONST.fullmatch(line)):
        value = const[3]
        idl.constants[const[2]] = value[1:-1] if value.startswith('"') else int(value)
    else:
        return False
    return True


def _fields(text: str) -> tuple[Field, ...]:
    parts = [part for part in text.split(", ") if part]
    found = [_FIELD.fullmatch(part) for part in parts]
    if not all(found):
        raise ValueError(f"not a field list: {text}")
    return tuple(_field(match) for match in found if match)


def _field(match: re.Match[str]) -> Field:
    return Field(int(match[1]), match[2] or "default", match[3], match[4])
