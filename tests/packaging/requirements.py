"""The requirements that pyproject.toml names.

Job: `runtime` and the extras, with an extra that names others of the package resolved; `lowest` of them.
Must not know: how something is installed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]


def project() -> dict[str, Any]:
    """The table [project]."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def runtime() -> list[Requirement]:
    """What the package needs."""
    return [Requirement(text) for text in project()["dependencies"]]


def extra(name: str) -> Iterator[Requirement]:
    """What an extra adds."""
    for text in project()["optional-dependencies"][name]:
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) != project()["name"]:
            yield requirement
            continue
        for other in sorted(requirement.extras):
            yield from extra(other)


def lowest(requirement: Requirement) -> str:
    """It, with the lowest version that it allows: >= becomes ==. AssertionError if it has no such bound."""
    bounds = [one for one in requirement.specifier if one.operator == ">="]
    assert len(bounds) == 1, f"{requirement} has no lowest version"
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}=={bounds[0].version}"
