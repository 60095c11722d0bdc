"""`python -m tests.clients.lakehouse [--figures]`, or `make lakehouse`: Iceberg and Delta on Spark through a proxy.

Job: for each of JOBS start Hive 4.2 on PostgreSQL and a proxy, have Spark do the job's steps through the proxy, and say
which of them did not give what they should. The exit status is 1 if there is one. --figures keeps what was found in
docs/figures/lakehouse.json.
Must not know: how the proxy works, what the steps are.
Invariants: each step says itself which rows are right. Spark is another one than that of the other tests, as neither
Iceberg nor Delta has a release for it: a directory of packages of its own, which only the job's process sees.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import figures
from tests.clients import calls
from tests.proxy import Proxy
from tests.testbed import artifacts, ledger
from tests.testbed.artifacts import ArtifactSet
from tests.testbed.bed import Bed

ROOT: Final = Path(__file__).parents[2]
JOB_S: Final = 900.0
FAILURE_CHARACTERS: Final = 4000


@dataclass(frozen=True, slots=True)
class Job:
    """A module of tests.clients, and what it needs besides Spark."""

    name: str
    module: str
    jars: ArtifactSet


JOBS: Final = (
    Job("iceberg", "iceberg_job", artifacts.ICEBERG_SPARK),
    Job("delta", "delta_job", artifacts.DELTA_SPARK),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One job: step -> ok or the failure, and what the proxy was asked."""

    name: str
    steps: dict[str, str]
    seconds: float
    requests: calls.Requests

    @property
    def failures(self) -> dict[str, str]:
        """Steps that are not as they should be."""
        return {step: text for step, text in self.steps.items() if text != "ok"}

    def text(self) -> str:
        """For a terminal."""
        failures = [f"{self.name}: {step}: {text}" for step, text in self.failures.items()]
        count = f"{self.name}: {len(self.steps)} steps in {self.seconds:.0f} s, {len(failures)} not as they should be"
        return "\n".join([*failures, calls.table(self.requests), calls.summary(self.requests), count])

    def figures(self) -> dict[str, Any]:
        """For docs/figures/."""
        return {
            "steps": len(self.steps),
            "failures": self.failures,
            "seconds": round(self.seconds, 1),
            **calls.figures(self.requests),
        }


def run_job(job: Job, uri: str, directory: Path) -> dict[str, str]:
    """The outcome of each step. AssertionError with Spark's last words if it does not come to its end."""
    packages = artifacts.install_packages(artifacts.PYSPARK41)
    jars = ",".join(str(jar) for jar in sorted(artifacts.install(job.jars).glob("*.jar")))
    directory.mkdir(parents=True)
    ledger.note(ledger.SPARK)
    finished = subprocess.run(
        [sys.executable, "-m", f"tests.clients.{job.module}", uri, str(directory), jars],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}", "SPARK_HOME": str(packages / "pyspark")},
        capture_output=True,
        text=True,
        timeout=JOB_S,
    )
    assert finished.returncode == 0, finished.stderr[-FAILURE_CHARACTERS:]
    steps: dict[str, str] = json.loads(finished.stdout.strip().splitlines()[-1])
    return steps


def run(stack: ExitStack, job: Job) -> Outcome:
    """Start all, and have the job done."""
    bed = Bed()
    stack.callback(bed.close)
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hms-lakehouse-")))
    metastore = bed.private_metastore("hive42")
    assert metastore.database is not None
    proxy = Proxy(directory / "proxy", metastore.uri, metastore.database.reader_url)
    stack.callback(proxy.close)
    proxy.start(prewarmed=True)
    before, began = proxy.requests(), time.monotonic()
    steps = run_job(job, proxy.uri, directory / "spark")
    seconds = time.monotonic() - began
    return Outcome(job.name, steps, seconds, calls.since(before, proxy.requests()))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.lakehouse", description=__doc__.splitlines()[0])
    names = [job.name for job in JOBS]
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(names)}; without: all")
    parser.add_argument("--figures", action="store_true", help="keep the figures in docs/figures/lakehouse.json")
    given = parser.parse_args()
    if unknown := set(given.jobs) - set(names):
        parser.error(f"no such job: {', '.join(sorted(unknown))}")
    jobs: Sequence[Job] = [job for job in JOBS if not given.jobs or job.name in given.jobs]
    if given.figures and len(jobs) < len(JOBS):
        parser.error("figures are of a whole run")
    of = figures.origin("hms_cache_proxy", "tests/clients")
    outcomes = []
    for job in jobs:
        with ExitStack() as stack:
            outcomes.append(run(stack, job))
        print(outcomes[-1].text(), flush=True)
    if given.figures:
        found = {outcome.name: outcome.figures() for outcome in outcomes}
        figures.write("lakehouse", found, command="make lakehouse FIGURES=1", of=of)
    return int(any(outcome.failures for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
