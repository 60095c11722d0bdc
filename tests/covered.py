"""Which lines of the package the tests of a tier reach, in every process that they start.

    python -m tests.covered --run test [pytest's options]    runs the tier, keeps what it reached in .coverage-data
    python -m tests.covered --run all --after test           runs the rest of it, and counts what `test` reached, too
    python -m tests.covered quick test all                   compares tiers that were run

Job: run pytest under coverage.py, which also measures workers, followers, supervisors and embedded metastores
(pyproject.toml says how); sum up; write docs/figures/coverage.json. Must not know: what a tier takes.
Invariants: tests that fail do not keep the lines of a run from being counted; the result of `--run` is pytest's. A
process that is killed (SIGKILL) tells nothing: what only such a process has run counts as not reached. Lines of files
that have changed between the runs are not compared, and are named.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from coverage import Coverage

from tests import figures
from tests.tiers_plugin import TIERS

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "hms_cache_proxy"
KEPT: Final = ROOT / ".coverage-data"
MOST_FILES: Final = 40
REFERENCE: Final = "all"
"""The tier to which the others are compared."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Of one file: a digest of its text, its executable lines, and those that were reached."""

    digest: str
    lines: frozenset[int]
    reached: frozenset[int]


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a tier reached. `failed`: pytest's exit code. `seed`: of its choices."""

    tier: str
    origin: figures.Origin
    failed: int
    seed: str
    files: dict[str, Reached]


def measure(tier: str, options: Sequence[str], after: str | None = None, kept: Path = KEPT) -> int:
    """Run a tier; gives pytest's exit code. `after`: a tier whose last run counts as a part of this one. Raises
    ValueError if the package has changed since that run."""
    of = figures.origin("hms_cache_proxy", "tests")
    seed = os.environ.get("SEED") or str(random.SystemRandom().randrange(100_000))
    rest: list[str] = []
    if after is not None:
        before = load(after, kept)
        if any(file.digest != _digest(ROOT / name) for name, file in before.files.items()):
            raise ValueError(f"the package has changed since tier {after} was run: run that again")
        seed, rest = before.seed, ["--after", after]
    parts = kept / f"{tier}.parts"
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True)
    environment = {**os.environ, "COVERAGE_FILE": str(parts / "data"), "SEED": seed}
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={ROOT / 'pyproject.toml'}", "-m", "pytest"]
    done = subprocess.run([*command, "--tier", tier, *rest, *options], cwd=ROOT, env=environment)
    if after is not None:
        shutil.copy(kept / f"{after}.data", parts)
    keep(tier, of, done.returncode, seed, parts, kept)
    return done.returncode


def keep(
    tier: str, of: figures.Origin, code: int, seed: str, parts: Path, kept: Path = KEPT, *, below: Path = PACKAGE
) -> None:
    """Sum up what the processes of a run have left in `parts`, of the files below a directory."""
    summed = Coverage(data_file=str(kept / f"{tier}.data"), config_file=str(ROOT / "pyproject.toml"))
    summed.erase()
    found = [str(path) for path in sorted(parts.iterdir())]
    summed.combine(found, strict=True)
    summed.save()
    files = {name: asdict(reached) for name, reached in _files(summed, below)}
    document = {"tier": tier, "origin": asdict(of), "failed": code, "seed": seed, "files": files}
    (kept / f"{tier}.json").write_text(json.dumps(document, default=sorted))
    shutil.rmtree(parts)
    print(f"tier {tier}: {len(found)} processes of the package have told what they reached")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def _files(summed: Coverage, below: Path) -> Iterator[tuple[str, Reached]]:
    for path in sorted(below.rglob("*.py")):
        _, lines, _, missing, _ = summed.analysis2(str(path))
        yield (
            str(path.relative_to(ROOT)),
            Reached(_digest(path), frozenset(lines), frozenset(lines) - frozenset(missing)),
        )


def load(tier: str, kept: Path = KEPT) -> Run:
    """The last run of a tier. FileNotFoundError where there was none."""
    document = json.loads((kept / f"{tier}.json").read_text())
    files = {
        name: Reached(one["digest"], frozenset(one["lines"]), frozenset(one["reached"]))
        for name, one in document["files"].items()
    }
    of = document["origin"]
    origin = figures.Origin(**{**of, "measures": tuple(of["measures"])})
    return Run(tier, origin, document["failed"], document["seed"], files)


def comparable(runs: Sequence[Run]) -> tuple[list[str], list[str]]:
    """Files that were the same in all runs, and those that were not."""
    names = sorted(set[str]().union(*(run.files for run in runs)))
    same = [name for name in names if len({run.files[name].digest if name in run.files else "" for run in runs}) == 1]
    return same, [name for name in names if name not in same]


def package_of(name: str) -> str:
    """`cache` of hms_cache_proxy/cache/x.py; modules beside the packages are together."""
    parts = Path(name).parts
    return parts[1] if len(parts) > 2 else "(modules)"


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """The figures of docs/figures/coverage.json."""
    same, changed = comparable(runs)
    packages: dict[str, list[str]] = defaultdict(list)
    for name in same:
        packages[package_of(name)].append(name)
    reference = next((run for run in runs if run.tier == REFERENCE), None)
    told: dict[str, Any] = {"tiers": {run.tier: _of(run, same) for run in runs}}
    if reference is not None:
        others = [run for run in runs if run is not reference]
        told["share_of_all"] = {run.tier: _share(run, reference, same) for run in others}
    told["packages"] = {
        package: {run.tier: _rounded(_of(run, names)) for run in runs} for package, names in sorted(packages.items())
    }
    told["commits"] = {run.tier: run.origin.commit for run in runs}
    told["changed_between"] = changed
    return told


def _of(run: Run, names: Iterable[str]) -> dict[str, int]:
    lines = covered = 0
    for name in names:
        lines += len(run.files[name].lines)
        covered += len(run.files[name].reached)
    return {"lines": lines, "covered": covered}


def _rounded(counted: dict[str, int]) -> float:
    return round(counted["covered"] / counted["lines"], 4) if counted["lines"] else 1.0


def _share(run: Run, reference: Run, names: Iterable[str]) -> float:
    """Of the lines that the reference reaches, how many does this one reach, too?"""
    wanted = both = 0
    for name in names:
        wanted += len(reference.files[name].reached)
        both += len(reference.files[name].reached & run.files[name].reached)
    return round(both / wanted, 4) if wanted else 1.0


def missed(run: Run, reference: Run, names: Iterable[str]) -> list[tuple[str, list[int]]]:
    """Files and lines that the reference reaches and this run does not, the worst first."""
    found = [(name, sorted(reference.files[name].reached - run.files[name].reached)) for name in names]
    return sorted(((name, lines) for name, lines in found if lines), key=lambda one: (-len(one[1]), one[0]))


def ranges(lines: Iterable[int]) -> str:
    """12-14, 20."""
    spans: list[list[int]] = []
    for line in lines:
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def compare(tiers: Sequence[str], kept: Path = KEPT) -> None:
    """Print the comparison, and write the figures."""
    runs = [load(tier, kept) for tier in tiers]
    told, (same, changed) = summary(runs), comparable(runs)
    heads = [run.tier for run in runs]
    print(f"{'package':14}{'lines':>8}" + "".join(f"{head:>9}" for head in heads))
    for package, shares in told["packages"].items():
        lines = _of(runs[0], [name for name in same if package_of(name) == package])["lines"]
        print(f"{package:14}{lines:8}" + "".join(f"{shares[head]:9.1%}" for head in heads))
    total = {head: _rounded(told["tiers"][head]) for head in heads}
    print(f"{'all':14}{told['tiers'][heads[0]]['lines']:8}" + "".join(f"{total[head]:9.1%}" for head in heads))
    for run in runs:
        print(f"tier {run.tier}: at commit {run.origin.commit}" + (f", pytest said {run.failed}" * bool(run.failed)))
    if changed:
        print(f"left out, as they changed between the runs: {', '.join(changed)}")
    reference = next((run for run in runs if run.tier == REFERENCE), None)
    for run in runs if reference is not None else []:
        assert reference is not None
        if run is reference:
            continue
        found = missed(run, reference, same)
        share = told["share_of_all"][run.tier]
        print(f"\n{run.tier} reaches {share:.1%} of the lines that {REFERENCE} reaches; it misses:")
        for name, missing in found[:MOST_FILES]:
            print(f"{len(missing):5}  {name}: {ranges(missing)}")
        if len(found) > MOST_FILES:
            rest = found[MOST_FILES:]
            print(f"{sum(len(missing) for _, missing in rest):5}  in {len(rest)} other files")
    figures.write("coverage", told, command=f"python -m tests.covered {' '.join(tiers)}", of=runs[-1].origin)


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    try:
        match arguments:
            case ["--run", tier, "--after", after, *options] if {tier, after} <= TIERS.keys():
                return measure(tier, options, after)
            case ["--run", tier, *options] if tier in TIERS:
                return measure(tier, options)
            case [_, *_] if set(arguments) <= TIERS.keys():
                compare(arguments)
                return 0
    except FileNotFoundError as error:
        print(f"{error.filename} is missing: run `make coverage TIER=...` first", file=sys.stderr)
        return 1
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    usage = "usage: python -m tests.covered --run TIER [--after TIER] [options], or TIER ..."
    print(f"{usage}: {', '.join(TIERS)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
