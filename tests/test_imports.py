"""The import graph: modules import downwards only, and sockets and event loops live where the design says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "hms_cache_proxy"

# From the bottom to the top; a module may import from its own layer and from those below.
LAYERS = (
    {"config", *"budget errors metrics metric_files metric_table plurals rate_limited_log retry __init__".split()},
    {"wire"},
    {"security"},
    {"upstream"},
    {"cache", "store"},
    {"filters"},
    {"expressions"},
    {"snapshots"},
    {"consistency"},
    {"peers"},
    {"methods"},
    {"recording"},
    {"server", "follower", "embedded"},
    {"status"},
    {"processes"},
    {"doctor", "pipeline"},
    {"cli"},
    {"__main__"},
)
MAY_WAIT = (
    *("server", "upstream", "follower.runner", "status", "processes", "embedded.server", "embedded.runner"),
    *("peers.driver", "peers.connections"),
)
WAITING = {"asyncio", "socket", "selectors", "uvloop", "aiohttp", "select"}


@cache
def modules() -> dict[str, Path]:
    """Dotted name below the package -> file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def imports(name: str, path: Path) -> set[str]:
    """Absolute names of what a module imports, anywhere in it; type-only imports count too."""
    package = ["hms_cache_proxy", *name.split(".")]
    if path.name != "__init__.py":
        package = package[:-1]
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def layer(name: str) -> int:
    top = name.split(".")[0]
    return next(number for number, names in enumerate(LAYERS) if top in names)


def not_down(name: str, imported: set[str]) -> Iterator[str]:
    """What is wrong with the imports of a module."""
    for one in sorted(imported):
        target = one.removeprefix("hms_cache_proxy.")
        if target in (one, "__version__"):
            continue
        if layer(target) > layer(name):
            yield f"{name} imports {target}, which lies above it"
        elif layer(target) == layer(name) and layer(name) not in (0, 4):
            if name.split(".")[0] != target.split(".")[0]:
                yield f"{name} imports its neighbour {target}"


def test_imports_point_down() -> None:
    found = [wrong for name, path in modules().items() for wrong in not_down(name, imports(name, path))]
    assert not found, found


@pytest.mark.parametrize(
    ("name", "imported", "wrong"),
    [
        ("wire.scan", "errors", []),
        ("wire.scan", "wire.reader", []),
        ("wire.scan", "upstream.pool", ["wire.scan imports upstream.pool, which lies above it"]),
        ("server.hub", "follower.step", ["server.hub imports its neighbour follower.step"]),
        ("store.sql", "cache.sets", []),
        ("store.sql", "__version__", []),
    ],
)
def test_which_imports_point_down(name: str, imported: str, wrong: list[str]) -> None:
    assert list(not_down(name, {f"hms_cache_proxy.{imported}", "json"})) == wrong


def test_only_the_command_line_knows_the_pipeline() -> None:
    importers = {
        name.split(".")[0]
        for name, path in modules().items()
        if any(imported.startswith("hms_cache_proxy.pipeline") for imported in imports(name, path))
    }
    assert importers <= {"cli", "pipeline"}


def test_only_some_modules_wait() -> None:
    waiting = {}
    for name, path in modules().items():
        if not any(name == place or name.startswith(f"{place}.") for place in MAY_WAIT):
            waiting[name] = {imported.split(".")[0] for imported in imports(name, path)} & WAITING
    assert len(waiting) > 100 and not any(waiting.values()), {name: found for name, found in waiting.items() if found}


def test_the_documents_name_those_that_may_wait() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
    sentence = page.partition("Only the packages ")[2].partition("`tests/test_imports.py`")[0]
    named = {name.removesuffix(".py").replace("/", ".") for name in re.findall("`([^`]+)`", sentence)}
    assert named == set(MAY_WAIT)


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, path in modules().items() if not ast.get_docstring(parsed(path))] == []


def named_types(tree: ast.Module) -> Iterator[str]:
    """Public classes, and other names of types, that a module defines."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp()):
                pass
            case _:
                continue
        if name[0].isupper() and not name.isupper():
            yield name


def test_one_name_for_one_type() -> None:
    """A reader who searches for a class finds one."""
    places: dict[str, list[str]] = {}
    for module, path in modules().items():
        for name in named_types(parsed(path)):
            places.setdefault(name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
    assert len(places) > 500, "the search finds too few"


def test_which_names_are_types() -> None:
    source = """
class Class: pass
class _Own: pass
Alias: TypeAlias = bytes
Pair = tuple[int, int]
Either = Class | Pair
Made = make(1)
FIRST = TABLE[1]
first = table[1]
"""
    assert set(named_types(ast.parse(source))) == {"Class", "Alias", "Pair", "Either"}


def test_every_module_has_a_layer() -> None:
    assert {name.split(".")[0] for name in modules()} <= set().union(*LAYERS)


SQL = {"sqlalchemy", "sqlite3", "psycopg2"}


@pytest.mark.parametrize(
    ("module", "others"),
    [
        ("server.worker", SQL),
        ("follower.runner", SQL),
        ("follower.runner, hms_cache_proxy.store.sql.sqlite", {"psycopg2"}),
        ("embedded.runner", {"psycopg2", "prometheus_client"}),
    ],
)
def test_a_process_imports_only_what_it_uses(module: str, others: set[str]) -> None:
    # Megabytes and tenths of a second in each process, for what only the supervisor and the command line do.
    # What is there before any of it, coverage.py has imported.
    code = f"import sys; before = {{*sys.modules}}; import hms_cache_proxy.processes.child, hms_cache_proxy.{module}; "
    code += f"print(*{ ({'pydantic', 'aiohttp', 'click', 'pyarrow'} | others)!r} & sys.modules.keys() - before)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == ""


def loaded(code: str) -> list[str]:
    """The modules of this package that a new interpreter has loaded after this code; and which packages of others that
    take long to load."""
    slow = {"aiohttp", "asyncio", "lmdb", "prometheus_client", "pydantic", "rich", "sqlalchemy", "structlog", "thrift"}
    code += f"; print(*[name for name in sys.modules if name.startswith('hms_cache_proxy.') or name in {slow!r}])"
    told = subprocess.run([sys.executable, "-c", f"import sys, {code}"], capture_output=True, text=True, check=True)
    return told.stdout.split()


LIGHT = ("", "progress", "ready_questions")  # of the pipeline


def test_a_command_imports_what_it_needs_when_it_runs() -> None:
    # A third of a second of CPU time before `serve` begins, and before `--help` answers.
    for name in loaded("hms_cache_proxy.cli"):
        package, _, module = name.removeprefix("hms_cache_proxy.").partition(".")
        light = package in ("cli", "config", "errors", "plurals") or (package == "pipeline" and module in LIGHT)
        assert light, name


def test_the_supervisor_does_not_import_what_reads_calls() -> None:
    found = loaded("hms_cache_proxy.processes.supervisor")
    assert "hms_cache_proxy.status.view" in found
    for package in (
        "methods.method_plan",
        "methods.table",
        "methods.decision",
        "follower",
        "embedded",
        "server.connection",
    ):
        assert f"hms_cache_proxy.{package}" not in found


def test_a_child_imports_nothing_before_it_is_tied_to_its_parent() -> None:
    code = "import sys, hms_cache_proxy.processes.child; print(*{'structlog', 'asyncio', 'ssl'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == ""
