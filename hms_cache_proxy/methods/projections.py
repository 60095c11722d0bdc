"""Classes that decode only some fields of a call's arguments, of its result, or of a struct.

Job: make for each method one class with the fields that its rules (shapes.py) read, so that the other fields, as of
1,000 partitions in an add_partitions, are skipped and not built. Must not know: what is read, and why.
Owner: any process; the classes are cached, building them is idempotent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from hms_cache_proxy.wire import facts, spec

Path = str
"""Dotted field names of the newest IDL that has them; a step into a list means each of its elements."""


@cache
def projection(method: str, paths: tuple[Path, ...]) -> type[spec.Struct]:
    """The class that decodes these paths of a method's arguments. KeyError for an unknown field."""
    return _project(f"{method}_args", facts.METHODS[method].args, spec.args(method), paths)


@cache
def struct_projection(name: str, paths: tuple[Path, ...]) -> type[spec.Struct]:
    """The same for a struct."""
    return _project(name, facts.fields(name), spec.struct(name), paths)


@cache
def result_projection(method: str, paths: tuple[Path, ...]) -> type[spec.Struct]:
    """The same for a method's result."""
    return _project(f"{method}_result", facts.METHODS[method].result, spec.result(method), paths)


def _project(
    name: str, rows: tuple[facts.FieldFact, ...], whole: type[spec.Struct], paths: Sequence[Path]
) -> type[spec.Struct]:
    below: dict[str, list[Path]] = {}
    for path in paths:
        step, _, rest = path.partition(".")
        below.setdefault(step, []).extend([rest] if rest else [])
    by_name = {row[2]: row for row in whole.thrift_spec if row is not None}
    types = {row.name: row.type for row in reversed(rows)}
    chosen: dict[int, Any] = {}
    for step, rests in below.items():
        field_id, ttype, _, inner, default = by_name[step]
        if rests:
            struct_name = types[step].removeprefix("list<").removesuffix(">")
            part = _project(struct_name, facts.fields(struct_name), spec.struct(struct_name), rests)
            is_list = ttype == spec.TType.LIST
            inner = (spec.TType.STRUCT, part._typeargs, False) if is_list else part._typeargs
        chosen[field_id] = (field_id, ttype, step, inner, default)
    names_ = tuple(below)
    cls: type[spec.Struct] = type(
        f"{name}[{','.join(names_)}]", (spec.Struct,), {**dict.fromkeys(names_), "_names": names_}
    )
    cls.thrift_spec = tuple(chosen.get(i) for i in range(max(chosen, default=-1) + 1))
    cls._typeargs = [cls, cls.thrift_spec]
    return cls
