"""Merges the .thrift files of this folder into the fact table that the package ships.

usage: python idl/merge.py [--check]

Writes hms_cache_proxy/wire/facts_generated.py; --check compares instead, and exits 1 on a difference.
The rows of a struct are those of every version: one per (id, name, wire type), with the versions that have
it. Where versions disagree on the wire type of an id the struct keeps a row for each.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from thrift_text import Field, Idl, Method, Struct, read

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "hms_cache_proxy" / "wire" / "facts_generated.py"
REQUIREMENT = {"required": "r", "optional": "o", "default": "d"}

HEADER = '''"""Wire facts of the Hive versions below, merged. Written by idl/merge.py (make idl): do not edit.

A version set is a hexadecimal bit mask over VERSIONS, lowest bit first. A field is "id requirement type name
mask", requirement being r(equired), o(ptional) or d(efault). Fields are split by ";", and where an id has
several rows the newest comes first.
"""
'''


def versions() -> dict[str, Idl]:
    """Every derived version, oldest first."""
    found = {path.stem.removeprefix("hive_metastore-"): path for path in HERE.glob("hive_metastore-*.thrift")}
    ordered = sorted(found, key=lambda version: [int(part) for part in version.split(".")])
    return {version: read(found[version]) for version in ordered}


def wire_shape(type_name: str, enums: Iterable[str]) -> str:
    """The type as the wire sees it: enums are i32, string and binary are one, structs keep their names."""
    shape = ""
    for token in _tokens(type_name):
        shape += "i32" if token in enums else "binary" if token == "string" else token
    return shape


def _tokens(type_name: str) -> list[str]:
    out = [""]
    for char in type_name:
        if char in "<>,":
            out += [char, ""]
        else:
            out[-1] += char
    return [token for token in out if token]


def merge_fields(rows: list[tuple[int, tuple[Field, ...]]], enums: Iterable[str]) -> list[tuple[Field, int]]:
    """Merge the field lists of several versions, given as (bit, fields) newest first."""
    merged: dict[tuple[int, str, str], tuple[Field, int]] = {}
    for bit, fields in rows:
        for field in fields:
            key = (field.id, field.name, wire_shape(field.type, enums))
            newest, mask = merged.get(key, (field, 0))
            merged[key] = (newest, mask | bit)
    return sorted(merged.values(), key=lambda row: row[0].id)  # stable: newest first within an id


def field_text(merged: list[tuple[Field, int]]) -> str:
    return ";".join(f"{f.id} {REQUIREMENT[f.requirement]} {f.type} {f.name} {mask:x}" for f, mask in merged)


def render() -> str:
    """The text of the fact table."""
    idls = versions()
    bits = {version: 1 << index for index, version in enumerate(idls)}
    newest_first = [(bits[version], idls[version]) for version in reversed(idls)]
    base = read(HERE / "fb303.thrift")
    every = sum(bits.values())
    enums = {name: members for _, idl in reversed(newest_first) for name, members in idl.enums.items()}
    for _, idl in reversed(newest_first):
        for name, members in idl.enums.items():
            enums[name] = enums[name] | members
    enums |= base.enums
    lines = [HEADER, f"VERSIONS = {tuple(idls)!r}", "", "STRUCTS = {"]
    for name in sorted({name for idl in idls.values() for name in idl.structs}):
        have = [(bit, idl.structs[name]) for bit, idl in newest_first if name in idl.structs]
        lines.append(_struct_line(name, have, enums))
    lines += ["}", "", "METHODS = {"]
    for name in sorted({name for idl in idls.values() for name in idl.methods}):
        lines.append(_method_line(name, [(b, i.methods[name]) for b, i in newest_first if name in i.methods], enums))
    for name, method in sorted(base.methods.items()):
        lines.append(_method_line(name, [(every, method)], enums))
    lines += ["}", "", "ENUMS = {"]
    lines += [f"    {name!r}: {members!r}," for name, members in sorted(enums.items())]
    return "\n".join([*lines, "}", ""])


def _struct_line(name: str, have: list[tuple[int, Struct]], enums: Iterable[str]) -> str:
    mask = sum(bit for bit, _ in have)
    merged = merge_fields([(bit, struct.fields) for bit, struct in have], enums)
    return f"    {name!r}: ({have[0][1].kind!r}, {mask:#x}, {field_text(merged)!r}),"


def _method_line(name: str, have: list[tuple[int, Method]], enums: Iterable[str]) -> str:
    mask = sum(bit for bit, _ in have)
    args = merge_fields([(bit, method.args) for bit, method in have], enums)
    result = merge_fields([(bit, method.result) for bit, method in have], enums)
    oneway = have[0][1].oneway
    return f"    {name!r}: ({oneway}, {mask:#x}, {field_text(args)!r}, {field_text(result)!r}),"


def main() -> int:
    text = render()
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text(encoding="utf-8") != text:
            print(f"{TARGET.name} is not what idl/*.thrift say: run make idl", file=sys.stderr)
            return 1
        return 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
