"""The files and the functions of the package are short, and functions take few parameters.

A file has at most FILE_LINES lines, unless it is GENERATED. A function has at most LINES lines, from `def` to its end,
its docstring counted, and at most PARAMETERS parameters, keyword-only ones counted, `self` and `cls` not. One with a
reason says "Length:" or "Parameters:" and the reason in its docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "hms_cache_proxy"
FILE_LINES = 500
GENERATED = {"wire/facts_generated.py"}
LINES = 60
PARAMETERS = 6
EXCEPTIONS = 3


@dataclass(frozen=True)
class Found:
    """What a function is too much of without a reason; whether it has reasons."""

    name: str
    breaches: tuple[str, ...]
    excused: bool


def looked_at(source: str) -> Iterator[Found]:
    for name, function in _functions(ast.parse(source), ""):
        said = ast.get_docstring(function) or ""
        breaches = ["lines"] if _lines(function) > LINES and "Length:" not in said else []
        breaches += ["parameters"] if _parameters(function) > PARAMETERS and "Parameters:" not in said else []
        yield Found(name, tuple(breaches), "Length:" in said or "Parameters:" in said)


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        inner = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{prefix}.{node.name}"
            if not isinstance(node, ast.ClassDef):
                yield inner[1:], node
        yield from _functions(node, inner)


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    named = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    gathered = [each for each in (given.vararg, given.kwarg) if each is not None]
    return len([name for name in named if name not in ("self", "cls")]) + len(gathered)


@cache
def found() -> list[tuple[str, Found]]:
    """The functions of the package, each with its name as `path:function`."""
    return [
        (f"{path.relative_to(PACKAGE).as_posix()}:{one.name}", one)
        for path in sorted(PACKAGE.rglob("*.py"))
        for one in looked_at(path.read_text("utf-8"))
    ]


def test_no_function_is_too_much() -> None:
    assert [name for name, one in found() if one.breaches] == []


def too_long(directory: Path) -> set[str]:
    """The Python files below it that have too many lines, blank ones counted."""
    files = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*.py")}
    return {name for name, path in files.items() if path.read_text("utf-8").count("\n") > FILE_LINES}


def test_no_file_is_too_long() -> None:
    assert too_long(PACKAGE) == GENERATED


def test_which_files_are_too_long(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "just.py").write_text("a\n" * FILE_LINES)
    (tmp_path / "inner" / "long.py").write_text("\n" * (FILE_LINES + 1))
    (tmp_path / "page.html").write_text("a\n" * (FILE_LINES + 1))
    assert too_long(tmp_path) == {"inner/long.py"}


def test_exceptions_are_few() -> None:
    excused = [name for name, one in found() if one.excused]
    assert len(excused) <= EXCEPTIONS, excused


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a, b, c, d, e, *, g): pass", []),
        ("def f(a, b, c, d, e, *, g, h): pass", [("f", "parameters")]),
        ("class C:\n    def m(self, a, b, c, d, e, *g, **h): pass", [("C.m", "parameters")]),
        ("def f(a, b, c, d, e, g, h):\n    'Parameters: they are.'", []),
        ("async def f():\n" + "    a\n" * 59, []),
        ("async def f():\n" + "    a\n" * 60, [("f", "lines")]),
        ("def f():\n    'Length: it is.'\n" + "    a\n" * 60, []),
    ],
)
def test_what_is_counted(source: str, expected: list[tuple[str, str]]) -> None:
    assert [(one.name, what) for one in looked_at(source) for what in one.breaches] == expected
