"""No option that does nothing: the program reads every setting; one that it does not read is found."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from hms_cache_proxy.config import settings
from tests.settings_read import reads, sections, unread

PACKAGE = Path(__file__).parents[1] / "hms_cache_proxy"
GENERATED = "facts_generated.py"
OF = {"Config": {"listen": "", "limits": "Limits"}, "Limits": {"files": "", "memory": ""}}


@functools.cache
def trees() -> list[ast.Module]:
    return [ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py")) if path.name != GENERATED]


def test_every_setting_is_read_somewhere() -> None:
    of = sections()
    assert {setting.key.rpartition(".")[0] for setting in settings()} - {""} == {
        name for name, inner in of["Config"].items() if inner
    }
    assert unread(trees(), of) == []


def test_a_setting_that_nothing_reads_is_found() -> None:
    """Under names that attributes of other things have, too."""
    of = sections()
    of["Config"] |= {"directory": "", "files": ""}
    of["SlowLogSection"] |= {"url": "", "sample": ""}
    of["TlsSection"] |= {"user": ""}
    assert unread(trees(), of) == ["directory", "files", "tls.user", "slow_log.url", "slow_log.sample"]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f(config: Config): return config.limits.files", {"limits", "files"}),
        ("async def f(config: Config): return config.limits.files", {"limits", "files"}),
        ("def f(limits: Limits | None): return limits.files", {"files"}),
        ("def f(config: Config):\n    limits, x = config.limits, 1\n    return limits.files", {"limits", "files"}),
        (
            "class A:\n    def __init__(self, limits: Limits): self._limits = limits\n"
            "    def f(self): return self._limits.files",
            {"files"},
        ),
        ("class A:\n    limits: Limits\n\ndef f(a): return a.limits.files", {"files"}),
        ("class Limits:\n    @property\n    def g(self): return self.files", {"files"}),
        ("def g() -> Config: ...\n\ndef f(): return g().limits.files", {"limits", "files"}),
        ("def f(other): return other.files", set()),
        ("def f(limits: Limits):\n    def g(limits): return limits.files\n    return g", set()),
        ("class A:\n    limits: Limits\n\nclass B:\n    files: int\n\ndef f(b: B): return b.files", set()),
        ("def f(limits: Limits) -> Iterator[tuple[str, str]]: yield limits.files", set()),
        ("class Config:\n    def shown(self): return self.limits.files", set()),
        ("def f(limits: Limits): limits.files = 1", set()),
    ],
)
def test_what_counts_as_read(code: str, found: set[str]) -> None:
    assert set().union(*reads([ast.parse(code)], OF).values()) == found
