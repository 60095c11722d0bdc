"""constraints.txt fits pyproject.toml, and is what `make install` uses."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.requirements import ROOT, extra, project, runtime

REMEDY = "run: make constraints"


def pins() -> dict[str, str]:
    """Name -> version."""
    found: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        pinned = re.fullmatch(r"([\w.-]+)==([\w.!+]+)", line)
        assert pinned, f"{line!r} pins nothing"
        name = canonicalize_name(pinned[1])
        assert name not in found, f"{name} is pinned twice"
        found[name] = pinned[2]
    return found


def wanted() -> list[Requirement]:
    extras = project()["optional-dependencies"]
    return [*runtime(), *(requirement for name in extras for requirement in extra(name))]


def test_every_requirement_is_pinned_to_a_version_that_it_allows() -> None:
    pinned = pins()
    for requirement in wanted():
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in constraints.txt; {REMEDY}"
        assert requirement.specifier.contains(version, prereleases=True), f"{version} is not {requirement}; {REMEDY}"


def test_what_they_require_is_pinned() -> None:
    """Transitive requirements, as far as they are installed here."""
    pinned = pins()
    for name in pinned:
        try:
            texts = requires(name) or []
        except PackageNotFoundError:
            continue
        for text in texts:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed = canonicalize_name(requirement.name)
                assert needed in pinned, f"{name} requires {needed}, which is not in constraints.txt; {REMEDY}"
                assert requirement.specifier.contains(pinned[needed], prereleases=True), f"{name}: {text}; {REMEDY}"


def test_pre_commit_runs_the_same_version_of_ruff() -> None:
    (ruff,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert ruff["rev"] == f"v{pins()['ruff']}", "write the version of constraints.txt into .pre-commit-config.yaml"


def test_make_installs_with_them() -> None:
    """Each line of the Makefile that installs, but those that are for the newest versions."""
    installing = re.findall(r"^\t(.*pip install.*|\$\(PIP\).*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert len(installing) >= 3
    for line in installing:
        assert line.startswith(("$(PIP) ", ".venv-constraints/")), line
