"""The documents tell the truth: every setting, metric, reason, command, path, status key and method is in them."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import re
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.cache.ttl import EntryKind
from hms_cache_proxy.cli.main import commands
from hms_cache_proxy.config import settings
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.metric_table import TABLE
from hms_cache_proxy.status import words
from hms_cache_proxy.status.other_reasons import OTHERS
from hms_cache_proxy.status.reasons import MISSES
from tests import figures
from tests.served_status import keys_of, served
from tests.written_figures import MAY_STAND, key_of, written_figures

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PACKAGES = sorted((ROOT / "hms_cache_proxy").glob("*/README.md"))
BLOB = "https://github.com/hms-cache-proxy/hms-cache-proxy/blob/main/"


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_generated_parts_are_up_to_date(path: Path) -> None:
    text = path.read_text("utf-8")
    assert build().built(text) == text, "run: make docs"


def test_every_setting() -> None:
    text = page("docs/configuration.md")
    for setting in settings():
        assert f"| `{setting.key}` |" in text and f"`{setting.env}`" in text
        assert setting.description.endswith("."), setting.key


def test_every_reason_that_a_decision_names_has_words() -> None:
    """Those that are written out where a call is decided: positional, or by name."""
    found = {kind.value for kind in MethodKind}
    for path in sorted((ROOT / "hms_cache_proxy").rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\b(Forward|Serve)\(", text) else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Forward", "Serve"):
                named = [word.value for word in node.keywords if word.arg == "reason"]
                at = 2 if ast.unparse(node.func) == "Forward" else 3
                for value in (*node.args[at : at + 1], *named):
                    found |= {str(value.value)} if isinstance(value, ast.Constant) else set()
    assert len(found) > len(MethodKind) and found <= words.REASONS.keys(), found - words.REASONS.keys()


def test_every_metric_reason_and_outcome() -> None:
    text = page("docs/metrics.md")
    for metric in TABLE:
        assert f"| `{metric.name}` |" in text
    assert {one.label for one in MISSES} == set(Reason) and all(one.remedy for one in MISSES)
    assert len(words.REASONS) == len(MISSES) + len(OTHERS) + 1, "no reason has two texts"
    for reason in words.REASONS.keys() - {""}:
        assert f'<a id="reason-{reason}"></a>`{reason}`' in text, f"{reason}: the status page links to this place"
    sources = "".join(p.read_text("utf-8") for p in (ROOT / "hms_cache_proxy" / "server").glob("*.py"))
    for reason in re.findall(r'"(no_upstream|upstream_\w+)"', sources):
        assert f"`{reason}`" in text, reason
    for mode in ModeReason:
        assert f"| `{mode.label}` |" in text, mode
    for outcome in ("hit", "miss", "relay", "write", "error"):
        assert f"| `{outcome}` |" in text


def test_every_method() -> None:
    text = page("docs/methods.md")
    for name in METHODS:
        assert f"`{name}`" in text, name


def test_every_command_path_and_status_key(tmp_path: Path) -> None:
    text = page("docs/operations.md")
    for command in commands.commands:
        assert f"| `{command}` |" in text, command
    found = asyncio.run(served(tmp_path))
    assert {"/", "/status", "/metrics", "/admin/flush"} < found.paths
    for route in found.paths:
        assert f"`{route}`" in text or f"{route}?" in text, route
    section = text.partition("### /status\n")[2].partition("### /history")[0]
    keys = set(keys_of(found.status)) - {kind.label for kind in EntryKind}
    assert {"mode", "tables_done", "usable", "file", "entries", "restarts"} < keys
    for key in keys:
        assert f"`{key}`" in section, key


def test_every_make_target_of_the_readme_exists() -> None:
    makefile = page("Makefile")
    for target in ("help", "install", "run", "lint", "test", "bench", "idl", "docs"):
        assert re.search(rf"^{target}:.*## ", makefile + page("idl/Makefile.inc"), re.MULTILINE), target
    for target in re.findall(r"`?make (\w+)", page("README.md")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text("utf-8")):
        assert target.startswith("https://") or (path.parent / target).exists(), target


def test_links_of_the_readme_are_absolute_and_lead_to_files() -> None:
    """It is also the long description of the package, where nothing is beside it."""
    text = page("README.md")
    assert re.findall(r"\]\((?!https://)[^)]*\)", text) == []
    defined = dict(re.findall(r"^\[(\w+)\]: (\S+)$", text, re.MULTILINE))
    used = set(re.findall(r"\]\[(\w+)\]", text))
    assert used == defined.keys()
    for target in defined.values():
        assert target.startswith(BLOB), target
        assert (ROOT / target.removeprefix(BLOB)).is_file(), target


def test_the_index_lists_every_page() -> None:
    """The README says that it does."""
    listed = set(re.findall(r"\]\(([^)#]+\.md)", page("docs/index.md")))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES if path.is_relative_to(ROOT / "docs")}
    assert pages - listed == {"index.md"}


def test_what_the_readme_says_first() -> None:
    first = page("README.md").split("\n\n")[1]
    assert "today's Spark and PyIceberg work on a Hive 4 metastore" in " ".join(first.split())


def test_files_that_are_named_exist() -> None:
    for path in PAGES:
        for name in re.findall(
            r"`((?:conf|docker|docs|tests|hms_cache_proxy|idl|benchmarks)/[\w./-]*)`", path.read_text()
        ):
            assert (ROOT / name).exists(), f"{path.name}: {name}"


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_a_package_says_what_its_files_are(path: Path) -> None:
    """Files that a package's README names exist, in the package or below the whole one."""
    for name in re.findall(r"`([\w/]+\.(?:py|html|md))`", path.read_text("utf-8")):
        places = (path.parent / name, path.parents[1] / name, ROOT / name, *path.parent.rglob(name))
        assert any(place.exists() for place in places), f"{path.parent.name}: {name}"


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_every_module_is_in_the_readme_of_its_package(path: Path) -> None:
    """Or in that of its folder. `cli/README.md` says of all commands where they are, `embedded/README.md` of all
    handlers and rows."""
    alike = ("cli", "handlers", "rows")
    named = re.findall(r"`(?:[\w/]+/)?([\w*]+\.py)`", path.read_text("utf-8"))
    for module in path.parent.rglob("*.py"):
        if module.name != "__init__.py" and module.parent.name not in alike:
            assert any(fnmatch(module.name, name) for name in named), f"{module.relative_to(ROOT)} is not in {path}"


def test_every_package_has_a_readme() -> None:
    packages = {path.parent for path in (ROOT / "hms_cache_proxy").glob("*/__init__.py")}
    assert packages == {path.parent for path in PACKAGES}
    named = page("docs/architecture.md")
    for package in packages:
        assert f"(../hms_cache_proxy/{package.name}/README.md)" in named, package.name


def test_every_task_of_the_architecture_names_files() -> None:
    section = page("docs/architecture.md").partition("## Where to change what")[2]
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]
    assert len(rows) >= 10
    for row in rows:
        assert re.search(r"`(?:hms_cache_proxy|tests)/", row), row


@pytest.mark.parametrize("path", [*PAGES, *PACKAGES], ids=key_of)
def test_measured_figures_are_generated(path: Path) -> None:
    """A figure that somebody wrote into a page has no commit, and nobody knows when it stops being true."""
    may_stand = MAY_STAND.get(key_of(path), {})
    for figure, line in written_figures(path.read_text("utf-8")):
        assert any(part in line for part in may_stand), (
            f"{figure!r} in: {line}\n"
            "Generate it (docs/pages.py), leave the number out, or, where it is a setting or a fact, add it to"
            " MAY_STAND in tests/written_figures.py"
        )


def test_what_may_stand_is_there() -> None:
    for name, parts in MAY_STAND.items():
        (path,) = (path for path in (*PAGES, *PACKAGES) if key_of(path) == name)
        lines = [line for _, line in written_figures(path.read_text("utf-8"))]
        for part in parts:
            assert any(part in line for line in lines), f"{name} has no figure in {part!r} any more"


def test_written_figures_are_found() -> None:
    text = "It takes 5 ms.\n\n```\n7 ms\n```\n`8 ms` and 99.9 % of 3 of 4, 12,000/s\n\n"
    text += "<!-- begin x -->\n9 ms\n<!-- end x -->\n2026-01-02, Hive 4.2, 3 tables, 1.5 MB, 445 times, v2s\n"
    found = [figure for figure, _ in written_figures(text)]
    assert found == ["5 ms", "99.9 %", "12,000/s", "3 of 4", "2026-01-02", "1.5 MB", "445 times"]


def test_a_generated_part_that_nobody_makes_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such generated part: nothing"):
        build().built("<!-- begin nothing -->\n<!-- end nothing -->")


def test_generated_figures_come_from_their_file() -> None:
    """Each page of figures names its commit; a part without a file says what makes one."""
    from docs import pages

    shown = set(re.findall(r"<!-- begin (figures .+?) -->", "".join(path.read_text("utf-8") for path in PAGES)))
    assert shown == pages.PARTS.keys()
    for name, part in pages.PARTS.items():
        text = part()
        commits = {figures.read(kept).commit for kept in figures.names()}
        assert any(commit in text for commit in commits) or text.startswith("No figures are kept here: `"), name
