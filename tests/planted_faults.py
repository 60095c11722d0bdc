"""A fault in each package, and the test of `make test` that sees it.

    python -m tests.planted_faults [--near] [PACKAGE ...]

Job: plant one fault at a time in a copy of the tree, run the tests of tier `test` until one fails, the likeliest first
(`near`), then all others (not with --near); write docs/figures/planted-faults.json when every package was tried.
Must not know: how a test sees it.
Invariants: the tree itself is never changed. Every run has the same seed, and uses no server that an earlier command
left running, as that would run without the fault. A test has caught a fault only if it passes without it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import figures
from tests.testbed.artifacts import cache_directory

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "hms_cache_proxy"
TIER: Final = "test"
FAULTS_SEED: Final = 14
TEST_TIMEOUT_S: Final = 150
OWN_TEST: Final = "tests/test_planted_faults.py"
"""It looks for the text that a fault replaces."""
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s\[]+(?:\[.*?\])?(?:@\S+)?)(?= - |$)", re.MULTILINE)
"""In pytest's summary. The parameters of a test may have blanks."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`old`, which the file holds once, becomes `new`; `near`: where it is likeliest seen."""

    file: str
    old: str
    new: str
    breaks: str
    near: tuple[str, ...]

    @property
    def package(self) -> str:
        return self.file.partition("/")[0]


FAULTS: Final = (
    Fault(
        "cache/sets.py",
        "seen = [record for record in upserts if record.name <= end]",
        "seen = [record for record in upserts if record.name < end]",
        "a change of the last partition that chunks have loaded does not reach the set that is being filled",
        ("tests/cache",),
    ),
    Fault(
        "cli/flush.py",
        "if everything == bool(query):",
        "if not everything and not query:",
        "`flush --all --db NAME` is carried out, whichever of the two was meant",
        ("tests/ops/test_cli.py",),
    ),
    Fault(
        "config/load.py",
        "in [*_from_env(env or {}), *_from_cli(cli or {})]:",
        "in [*_from_cli(cli or {}), *_from_env(env or {})]:",
        "the environment wins over the command line",
        ("tests/ops/test_config.py",),
    ),
    Fault(
        "consistency/fences.py",
        "for key, fence in fences_in(txn) if fence.lifted_by <= last_ticket]",
        "for key, fence in fences_in(txn) if fence.lifted_by <= last_ticket + 1]",
        "a fence is lifted one step of the follower too early",
        ("tests/consistency",),
    ),
    Fault(
        "doctor/metastores.py",
        'level = Severity.ERROR if one.level == "refusal" else Severity.WARNING',
        "level = Severity.WARNING",
        "the doctor finds nothing wrong with a metastore that `serve` refuses",
        ("tests/ops/test_doctor_embedded.py", "tests/ops/test_doctor.py"),
    ),
    Fault(
        "embedded/events.py",
        "catalog=after.catName, database=after.dbName, table=after.tableName)",
        "catalog=before.catName, database=before.dbName, table=before.tableName)",
        "the log's row of a rename carries the old name",
        ("tests/embedded/test_rename_rows.py", "tests/embedded"),
    ),
    Fault(
        "expressions/selection.py",
        "negated = node.negated",
        "negated = not node.negated",
        "IS NULL over the names of partitions selects those that are not null",
        ("tests/expressions", "tests/methods/test_expressions.py"),
    ),
    Fault(
        "filters/values.py",
        "lambda values: values[at] != DEFAULT_PARTITION and compare(values)",
        "compare",
        "the default partition is compared with a date as if its name were one",
        ("tests/methods/test_filter_walk.py", "tests/methods", "tests/embedded"),
    ),
    Fault(
        "follower/events.py",
        "partitions=dict.fromkeys(keys), targets=touched | lists, renamed=renamed)",
        "partitions=dict.fromkeys(keys), targets=touched, renamed=renamed)",
        "a rename does not raise the version of the lists of tables that it changes",
        ("tests/follower/test_events.py", "tests/follower"),
    ),
    Fault(
        "methods/dispatch.py",
        "reason = self._gate.held_back(depends, request.session.floors)",
        "reason = self._gate.held_back(depends, None)",
        "a read may show an older state than an earlier relayed reply of the same connection",
        ("tests/methods/test_dispatch.py", "tests/consistency", "tests/methods"),
    ),
    Fault(
        "peers/following.py",
        "        self._records.owe((UNKNOWN,))\n",
        "",
        "a lock that was granted at another proxy during an interruption is forgotten",
        ("tests/peers",),
    ),
    Fault(
        "pipeline/ranges.py",
        "    if some:\n        found.append(PartitionStretch(len(found), tuple(some), PARTITIONS_PER_STRETCH - room))\n"
        "    return found",
        "    return found",
        "the partitions of the last tables are not in a snapshot",
        ("tests/pipeline/test_stretches.py", "tests/pipeline"),
    ),
    Fault(
        "recording/replay.py",
        "if known is None or place.recorded_ms >= known.recorded_ms:",
        "if known is None or place.recorded_ms < known.recorded_ms:",
        "a replay gives the first answer to a request, not the last one",
        ("tests/recording",),
    ),
    Fault(
        "security/tls.py",
        "    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\n",
        "    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\n    context.check_hostname = False\n",
        "a metastore's certificate may be that of any other host",
        ("tests/upstream/test_tls.py", "tests/security"),
    ),
    Fault(
        "server/hub.py",
        "deadline = monotonic_ns() + int(timeout_s * 1e9)",
        "deadline = monotonic_ns() + int(timeout_s * 1e6)",
        "a drain does not wait for calls that are under way",
        ("tests/ops/test_drain.py", "tests/ops/test_supervisor.py", "tests/server"),
    ),
    Fault(
        "snapshots/rows.py",
        "        record.sd_tail_single,\n        record.sd_tail_filter,\n",
        "        record.sd_tail_single,\n        None,\n",
        "a snapshot drops how a partition looks in answers to filters",
        ("tests/snapshots",),
    ),
    Fault(
        "status/flush.py",
        "            self._fences.ticket(names)\n",
        "",
        "a flush waits for the next step of the follower, which does not read the objects again",
        ("tests/ops/test_http.py", "tests/ops/test_cli.py"),
    ),
    Fault(
        "store/sql/partition_rows.py",
        'name > bindparam("after")',
        'name >= bindparam("after")',
        "the last partition of a page is read again with the next page",
        ("tests/pipeline/test_stretches.py", "tests/store/test_contract.py", "tests/store"),
    ),
    Fault(
        "processes/watchdog.py",
        "if seen != self._seen or",
        "if pid != self._seen[0] or",
        "a child that works is killed once it has run for as long as one may hang",
        ("tests/ops/test_watchdog.py", "tests/ops"),
    ),
    Fault(
        "upstream/replay.py",
        'return reply[at] == 0 or reply[at + 1 : at + 3] == b"\\0\\0"',
        "return True",
        "a session call that the metastore refused is repeated on each new connection",
        ("tests/server",),
    ),
    Fault(
        "wire/scan.py",
        "self.rest = piece[len(piece) - (have - wanted) :]",
        "self.rest = piece[-(have - wanted) :]",
        "a message is scanned wrongly if a long string ends where a piece of it ends",
        ("tests/wire",),
    ),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`by`: the test that saw it, None if none did; `tried`: what was run."""

    fault: Fault
    by: str | None
    seconds: float
    tried: str


def copy_tree(target: Path) -> None:
    """What git tracks, or would track, as it is here."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def environment(tree: Path) -> dict[str, str]:
    """In which Python imports the package and its tests from `tree`."""
    state = str(tree / "no-servers.json")
    own = {"PYTHONPATH": str(tree), "HMS_TESTBED_CACHE": str(cache_directory()), "HMS_TESTBED_STATE": state}
    return {**os.environ, **own, "SEED": str(FAULTS_SEED), "PYTHONDONTWRITEBYTECODE": ""}


def first_failure(tree: Path, *arguments: str) -> str | None:
    """Run tests until one fails; its id. RuntimeError if pytest itself fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command += [f"--timeout={TEST_TIMEOUT_S}", f"--ignore={OWN_TEST}", "--tier", TIER, *arguments]
    done = subprocess.run(command, cwd=tree, env=environment(tree), capture_output=True, text=True)
    if done.returncode in (0, 5):
        return None
    failed = _FAILED.search(done.stdout)
    if failed is None:
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return failed[1]


def plant(fault: Fault, tree: Path) -> None:
    """Change the file in `tree`."""
    path = tree / PACKAGE / fault.file
    text = path.read_text()
    assert text.count(fault.old) == 1, f"{fault.file} does not hold once what the fault replaces"
    path.write_text(text.replace(fault.old, fault.new))


def seek(fault: Fault, sound: Path, *, near: bool) -> Outcome:
    """Which test sees it? `sound`: a copy without faults."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hms-planted-") as scratch:
        broken = Path(scratch) / "broken"
        shutil.copytree(sound, broken)
        plant(fault, broken)
        _check_imports(broken)
        by, tried = _caught(broken, sound, [("-n", "0", place) for place in fault.near]), "near"
        if by is None and not near:
            by, tried = _caught(broken, sound, [("-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")]), "all"
        seconds = round(time.monotonic() - began_s, 1)
    return Outcome(fault, by, seconds, tried)


def _caught(broken: Path, sound: Path, runs: Sequence[Sequence[str]]) -> str | None:
    """The first test that fails with the fault, and not without it. The runs are separate: of a file and its folder
    pytest sees only the folder."""
    left_out: list[str] = []
    for arguments in runs:
        while (by := first_failure(broken, *arguments, *left_out)) is not None:
            by = by.partition("@")[0]
            if first_failure(sound, "-n", "0", by) is None:
                return by
            print(f"{by} fails without the fault, too", file=sys.stderr)
            left_out.append(f"--deselect={by}")
    return None


def _check_imports(tree: Path) -> None:
    """Children of the proxy are started with -P: they, too, must run what is in the copy."""
    code = f"import {PACKAGE}; print({PACKAGE}.__file__)"
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd="/", env=environment(tree), capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tree)), f"the package is imported from {done.stdout}"


def told(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The figures."""
    faults = [
        {
            "package": one.fault.package,
            "fault": one.fault.breaks,
            "caught": one.by is not None,
            "by": one.by,
            "seconds": one.seconds,
        }
        for one in outcomes
    ]
    return {"tier": TIER, "seed": FAULTS_SEED, "caught": sum(one.by is not None for one in outcomes), "faults": faults}


def main() -> int:
    """The command line; 1 if a fault was not caught."""
    packages = [fault.package for fault in FAULTS]
    parser = argparse.ArgumentParser(prog="python -m tests.planted_faults", description=__doc__.splitlines()[0])
    parser.add_argument("--near", action="store_true", help="only the tests that are likeliest to see each fault")
    parser.add_argument("package", nargs="*", help=", ".join(packages))
    options = parser.parse_args()
    if unknown := set(options.package) - set(packages):
        parser.error(f"no fault is known for {', '.join(sorted(unknown))}")
    of = figures.origin(PACKAGE, "tests")
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="hms-sound-") as scratch:
        sound = Path(scratch) / "sound"
        copy_tree(sound)  # once, so that the tree may change meanwhile
        for fault in FAULTS:
            if options.package and fault.package not in options.package:
                continue
            outcome = seek(fault, sound, near=options.near)
            outcomes.append(outcome)
            seen = f"caught by {outcome.by}" if outcome.by else f"NOT CAUGHT ({outcome.tried} tests)"
            print(f"{fault.package:12} {outcome.seconds:6.1f} s  {fault.breaks}: {seen}", flush=True)
    caught = all(outcome.by for outcome in outcomes)
    if len(outcomes) == len(FAULTS):
        command = "python -m tests.planted_faults" + " --near" * options.near
        figures.write("planted-faults", told(outcomes), command=command, of=of)
    return 0 if caught else 1


if __name__ == "__main__":
    sys.exit(main())
