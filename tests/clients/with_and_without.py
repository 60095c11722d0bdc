"""`python -m tests.clients.with_and_without [--figures]`: the Iceberg job of Spark on Hive 4.2, through the proxy and
without it.

Job: start Hive 4.2 on PostgreSQL and a proxy, have Spark do the steps of tests/clients/iceberg_job.py through the proxy
and then at the metastore itself, and count the steps that gave what they should. The exit status is 1 if one failed
through the proxy. --figures keeps both counts in docs/figures/with-and-without.json, for the README.
Must not know: how the proxy works, what the steps are.
Invariants: both runs are of one Spark on one metastore; the run through the proxy is first, and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests import figures
from tests.clients.lakehouse import JOBS, run_job
from tests.proxy import Proxy
from tests.testbed.artifacts import ICEBERG_SPARK, PYSPARK41
from tests.testbed.bed import Bed

COMMAND: Final = "python -m tests.clients.with_and_without --figures"
FLAVOUR: Final = "hive42"


def told(through: Mapping[str, str], without: Mapping[str, str]) -> dict[str, Any]:
    """The figures of two runs of the same steps. AssertionError if the steps are others."""
    assert through.keys() == without.keys()
    return {
        "steps": len(through),
        "through": sum(text == "ok" for text in through.values()),
        "without": sum(text == "ok" for text in without.values()),
        "spark": PYSPARK41.name,
        "iceberg": ICEBERG_SPARK.name,
        "hive": FLAVOUR,
    }


def run(stack: ExitStack) -> tuple[dict[str, str], dict[str, str]]:
    """What each step gave, through the proxy and without it."""
    (job,) = (job for job in JOBS if job.name == "iceberg")
    bed = Bed()
    stack.callback(bed.close)
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hms-with-and-without-")))
    metastore = bed.private_metastore(FLAVOUR)
    assert metastore.database is not None
    proxy = Proxy(directory / "proxy", metastore.uri, metastore.database.reader_url)
    stack.callback(proxy.close)
    proxy.start(prewarmed=True)
    through = run_job(job, proxy.uri, directory / "through")
    proxy.close()
    return through, run_job(job, metastore.uri, directory / "without")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.with_and_without")
    parser.add_argument("--figures", action="store_true", help="keep the counts in docs/figures/with-and-without.json")
    given = parser.parse_args()
    of = figures.origin("hms_cache_proxy", "tests/clients")
    with ExitStack() as stack:
        through, without = run(stack)
    for where, steps in (("through the proxy", through), ("without it", without)):
        failures = [f"{where}: {step}: {text}" for step, text in steps.items() if text != "ok"]
        print("\n".join([*failures, f"{where}: {len(steps) - len(failures)} of {len(steps)} steps"]), flush=True)
    found = told(through, without)
    if given.figures:
        figures.write("with-and-without", found, command=COMMAND, of=of)
    return int(found["through"] < found["steps"])


if __name__ == "__main__":
    sys.exit(main())
