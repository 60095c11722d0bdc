"""Measured figures: one file of docs/figures/ for each command that measures, from which `make docs` writes the pages.

Job: read and write `docs/figures/NAME.json`, and tell how many commits have since touched what a file measures.
Must not know: what is measured, how a page shows it.
Invariants: a file holds the figures of one command, run once, on one commit; a name of a host or a path of a machine
is never among them (`write` refuses paths). What was measured with uncommitted changes says so, in the file and on the
page.

`python -m tests.figures` lists the files, their commits and what is stale.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from hms_cache_proxy.plurals import counted

ROOT: Final = Path(__file__).resolve().parents[1]
MOST_COMMITS: Final = 50  # behind: more is stale
_PRIVATE: Final = re.compile(r"(?<![\w./:<-])/[\w.-]+/[\w.-]")


@dataclass(frozen=True, slots=True)
class Origin:
    """What is measured: take it when the measurement begins, since a commit may be made before it ends."""

    measures: tuple[str, ...]
    commit: str
    changed: bool
    date: str


@dataclass(frozen=True, slots=True)
class Figures:
    """One file. `command` renews it; `measures` are paths of the repository; `changed`: not all of it was committed."""

    name: str
    command: str
    measures: tuple[str, ...]
    commit: str
    changed: bool
    date: str
    machine: Mapping[str, Any]
    figures: Mapping[str, Any]

    @property
    def stated(self) -> str:
        """The sentence that every generated part begins with."""
        machine = self.machine
        changed = " with uncommitted changes" if self.changed else ""
        where = f"{machine['cores']} cores of {machine['processor']}, Python {machine['python']}"
        load = f"{counted(machine['load'], 'process', 'processes')} wanted to run (mean of 15 minutes)"
        return f"Measured by `{self.command}` at commit {self.commit}{changed} on {self.date}, on {where}; {load}."


def origin(*measures: str, root: Path = ROOT) -> Origin:
    """The commit that is checked out, and whether these paths differ from it."""
    for path in measures:
        if not (root / path).exists():
            raise ValueError(f"{path} is not in the repository")
    commit = _git(root, "rev-parse", "--short=8", "HEAD") or "unknown"
    changed = bool(_git(root, "status", "--porcelain", "--", *measures))
    return Origin(measures, commit, changed, datetime.now(UTC).strftime("%Y-%m-%d"))


def machine() -> dict[str, Any]:
    """What the figures depend on; no name of the host."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": next(models, platform.machine()),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[2], 1),
    }


def write(name: str, figures: Mapping[str, Any], *, command: str, of: Origin, root: Path = ROOT) -> Path:
    """docs/figures/NAME.json, a line for each figure at the top level. Raises ValueError for a path of this machine."""
    found = Figures(name, command, of.measures, of.commit, of.changed, of.date, machine(), figures)
    document = asdict(found)
    del document["name"], document["figures"]
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
    inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in figures.items())
    text = "{\n" + ",\n".join([*lines, f'"figures": {{\n{inner}\n}}']) + "\n}\n"
    if private := _PRIVATE.search(text):
        raise ValueError(f"figures of {name} name a path of this machine: {text[private.start() :][:60]}")
    path = _path(name, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def read(name: str, root: Path = ROOT) -> Figures:
    """Raises FileNotFoundError where it was never measured."""
    document = json.loads(_path(name, root).read_text("utf-8"))
    return Figures(name=name, **{**document, "measures": tuple(document["measures"])})


def exists(name: str, root: Path = ROOT) -> bool:
    """Whether it was measured."""
    return _path(name, root).is_file()


def names(root: Path = ROOT) -> list[str]:
    """All files, without their ending; those of a folder begin with its name and a slash."""
    directory = root / "docs" / "figures"
    return sorted(path.relative_to(directory).with_suffix("").as_posix() for path in directory.rglob("*.json"))


def behind(found: Figures, root: Path = ROOT) -> int | str:
    """Commits since its own that touch what it measures; or why that cannot be told."""
    if _git(root, "rev-parse", "--is-inside-work-tree") != "true":
        return "there is no history"
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        return "the history is shallow"
    if not re.fullmatch(r"[0-9a-f]{7,40}", found.commit):
        return "it names no commit"
    if _git(root, "merge-base", "--is-ancestor", found.commit, "HEAD") is None:
        return f"commit {found.commit} is not in the history"
    count = _git(root, "rev-list", "--count", f"{found.commit}..HEAD", "--", *found.measures)
    return int(count) if count is not None else "git does not count"


def complaints(root: Path = ROOT) -> Iterator[str]:
    """A line for each file that is stale, and one for those of which that cannot be told for the same reason."""
    untold: dict[str, list[str]] = {}
    for name in names(root):
        found = read(name, root)
        since = behind(found, root)
        if isinstance(since, str):
            untold.setdefault(since, []).append(name)
        elif since > MOST_COMMITS:
            after = f"{since} commits since {found.commit} touch what it measures"
            yield f"docs/figures/{name}.json is stale: {after}; renew: {found.command}"
        elif found.changed:
            yield f"docs/figures/{name}.json was measured with uncommitted changes; renew: {found.command}"
    for why, those in untold.items():
        yield f"docs/figures: cannot tell whether these are stale, as {why}: {', '.join(those)}"


def _path(name: str, root: Path) -> Path:
    return root / "docs" / "figures" / f"{name}.json"


def _git(root: Path, *arguments: str) -> str | None:
    """What it prints, without the last newline; None if it fails or is not there."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def main() -> None:
    for name in names():
        found = read(name)
        since = behind(found)
        print(f"{name}: {found.commit}, {found.date}, {since if isinstance(since, str) else f'{since} commits behind'}")
    for line in complaints():
        print(line)


if __name__ == "__main__":
    main()
