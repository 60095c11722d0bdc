"""Which settings the program reads: `config.limits.memory_bytes` and the like, found in the text of the package.

Job: `unread(trees, of)` gives the settings that nothing reads. It knows the class of a name that a
function annotates with it or assigns from what is known, of `self` in a section's class, of an attribute that a class
or a function of the module declares or assigns so, or that all classes of the package declare so, and of what a
function of the module returns. Must not know: what a setting does.
Invariants: an attribute of the same name of something else does not count. What only says whether settings fit each
other (functions that return `Iterator[tuple[str, str]]`), or masks them (`shown`), reads none.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Final

from hms_cache_proxy.config.fields import Section

Sections = Mapping[str, Mapping[str, str]]
"""Of each class of sections: its fields, with the class of those that are sections themselves, else an empty text."""
Known = Mapping[str, str]
"""Names, `.attributes` and `functions()`, with the class of each."""

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef
Function: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_CHECKS: Final = "Iterator[tuple[str, str]]"


def sections() -> dict[str, dict[str, str]]:
    """Those of the settings."""
    return {model.__name__: dict(_fields(model)) for model in Section.__subclasses__()}


def _fields(model: type[Section]) -> Iterator[tuple[str, str]]:
    for each in fields(model):  # type: ignore[arg-type]  # a dataclass, like every Section
        yield each.name, type(each.default).__name__ if isinstance(each.default, Section) else ""


def unread(trees: Sequence[ast.Module], of: Sections) -> list[str]:
    """The keys of settings that nothing reads: first those without a section."""
    found, keys = reads(trees, of), of["Config"]
    alone = [name for name, inner in keys.items() if not inner and name not in found["Config"]]
    inside = [(name, inner, field) for name, inner in keys.items() if inner for field in of[inner]]
    return alone + [f"{name}.{field}" for name, inner, field in inside if field not in found[inner]]


def reads(trees: Sequence[ast.Module], of: Sections) -> dict[str, set[str]]:
    """The fields of each class that are read."""
    found: dict[str, set[str]] = defaultdict(set)
    everywhere = _declared_everywhere(trees, of)
    for tree in trees:
        known = {**everywhere, **{name: owner for name, owner in _declared(tree, of) if owner}}
        _, functions = _definitions(tree)
        known |= {f"{node.name}()": owner for node in functions if (owner := _named(node.returns, of))}
        while (more := {**known, **_attributes(functions, known, of)}) != known:
            known = more
        for owner, field in _read(tree, known, of):
            found[owner].add(field)
    return found


def _declared(tree: ast.Module, of: Sections) -> Iterator[tuple[str, str]]:
    """The attributes that classes of a module declare; without a class, those of other types."""
    for place in _definitions(tree)[0]:
        for node in place.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield f".{node.target.id}", _named(node.annotation, of) or ""


def _declared_everywhere(trees: Iterable[ast.Module], of: Sections) -> dict[str, str]:
    """Attributes that every class which declares them declares with one class of sections."""
    declared: dict[str, set[str]] = defaultdict(set)
    for name, owner in (one for tree in trees for one in _declared(tree, of)):
        declared[name].add(owner)
    return {name: owner for name, (owner, *others) in declared.items() if owner and not others}


def _attributes(functions: Iterable[AnyFunction], known: Known, of: Sections) -> dict[str, str]:
    """The attributes that functions assign."""
    names = (_names(function, known, of) for function in functions)
    return {place: owner for one in names for place, owner in one.items() if place.startswith(".")}


def _names(function: AnyFunction, known: Known, of: Sections) -> dict[str, str]:
    """What is known in a function: an argument without a section's class hides a name of outside."""
    arguments, assignments = _parts(function)
    names = {**known, **{one.arg: _named(one.annotation, of) or "" for one in arguments if one.arg != "self"}}
    for node in assignments:
        if isinstance(node, ast.AnnAssign):
            pairs: Iterable[tuple[ast.expr, str | None]] = [(node.target, _named(node.annotation, of))]
        else:
            pairs = [(one, _class_of(other, names, of)) for one, other in _assigned(node)]
        names |= {place: owner for target, owner in pairs if owner and (place := _place(target))}
    return names


@cache
def _definitions(tree: ast.Module) -> tuple[list[ast.ClassDef], list[AnyFunction]]:
    nodes = list(ast.walk(tree))
    return [node for node in nodes if isinstance(node, ast.ClassDef)], [
        node for node in nodes if isinstance(node, Function)
    ]


@cache
def _parts(function: AnyFunction) -> tuple[list[ast.arg], list[ast.AnnAssign | ast.Assign]]:
    arguments = [node for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    return arguments, [node for node in ast.walk(function) if isinstance(node, ast.AnnAssign | ast.Assign)]


def _assigned(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Also of `a, b = config.limits, config.replies`."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _place(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else f".{target.attr}" if isinstance(target, ast.Attribute) else ""


def _named(annotation: ast.expr | None, of: Sections) -> str | None:
    """The section's class in it, as in `LimitsSection | None`."""
    names = (node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)) if annotation is not None else ()
    return next((name for name in names if name in of), None)


def _class_of(node: ast.expr, known: Known, of: Sections) -> str | None:
    if isinstance(node, ast.Name):
        return known.get(node.id) or None
    if isinstance(node, ast.Attribute):
        owner = _class_of(node.value, known, of)
        return of[owner].get(node.attr) or None if owner else known.get(f".{node.attr}")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id if node.func.id in of else known.get(f"{node.func.id}()")
    return None


def _read(node: ast.AST, known: Known, of: Sections) -> Iterator[tuple[str, str]]:
    """The class and the field of each read."""
    if isinstance(node, Function):
        if node.name == "shown" or (node.returns is not None and ast.unparse(node.returns) == _CHECKS):
            return
        known = _names(node, known, of)
    elif isinstance(node, ast.ClassDef) and node.name in of:
        known = {**known, "self": node.name}
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        if owner := _class_of(node.value, known, of):
            yield owner, node.attr
    for inner in ast.iter_child_nodes(node):
        yield from _read(inner, known, of)
