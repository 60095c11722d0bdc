"""The hooks of these tests: compiled, and the settings that give them to a metastore."""

from __future__ import annotations

from pathlib import Path

from tests.clients.statements import compile_java
from tests.testbed import artifacts

SOURCES = [Path(__file__).with_name(name) for name in ("RulesHook.java", "RulesListener.java")]


def compiled(directory: Path) -> str:
    """The directory of their classes."""
    classes = directory / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    compile_java(classes, f"{artifacts.install(artifacts.HIVE40_DRIVER)}/*", SOURCES)  # for a compiler of Java 17
    return str(classes)


def settings(rules: Path) -> dict[str, str]:
    """Of a metastore whose hooks read this file."""
    return {
        "metastore.filter.hook": "RulesHook",
        "metastore.server.filter.enabled": "true",
        "metastore.pre.event.listeners": "RulesListener",
        "test.rules": str(rules),
    }
