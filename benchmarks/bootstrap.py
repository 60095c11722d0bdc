"""`python -m benchmarks.bootstrap [--partitions N]`: a new proxy that reads everything from the database, beside one
that fills its cache from a snapshot, and what making the snapshot takes.

One table with N partitions (tests/store/bulk.py) in a Hive 4.2 metastore on PostgreSQL. Seconds and CPU seconds of each
phase, of the database's server too, and the most memory of its own that the follower, or all of Spark, held.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import cpu_seconds, family, private_bytes
from benchmarks.servers import postgres_pid
from hms_cache_proxy.pipeline.query import newest
from tests.proxy import Proxy
from tests.store import bulk
from tests.testbed.bed import Bed
from tests.testbed.hive import Metastore

PAUSE_S = 0.1
TIMEOUT_S = 3600.0


@dataclass
class Phase:
    """One line of the table."""

    name: str
    seconds: float = 0.0
    cpu_s: float = 0.0
    database_cpu_s: float = 0.0
    memory_bytes: int = 0

    def line(self) -> str:
        memory = f"{self.memory_bytes / 1e6:,.0f} MB"
        return f"| {self.name} | {self.seconds:.1f} s | {self.cpu_s:.1f} s | {self.database_cpu_s:.1f} s | {memory} |"


@contextmanager
def measured(name: str, postgres: int, root: Callable[[], int | None]) -> Iterator[Phase]:
    """The phase is the block, with the largest memory and the last CPU time seen of `root` and its descendants."""
    phase, over, before = Phase(name), threading.Event(), cpu_seconds((postgres,))

    def watch() -> None:
        while not over.wait(PAUSE_S):
            pid = root()
            if pid is None:
                continue
            try:
                phase.cpu_s = max(phase.cpu_s, cpu_seconds((pid,)))
                phase.memory_bytes = max(phase.memory_bytes, sum(map(private_bytes, family(pid))))
            except (FileNotFoundError, ProcessLookupError, AssertionError):
                continue  # one of them has just ended

    thread = threading.Thread(target=watch)
    thread.start()
    began_s = time.monotonic()
    try:
        yield phase
    finally:
        phase.seconds = time.monotonic() - began_s
        over.set()
        thread.join()
        phase.database_cpu_s = cpu_seconds((postgres,)) - before


def follower(proxy: Proxy) -> int | None:
    """Its follower, once there is one."""
    return next(iter(proxy.children()["follower"]), None) if proxy.process is not None else None


def start(name: str, directory: Path, metastore: Metastore, postgres: int, **settings: str) -> Phase:
    """A proxy with an empty data directory, until everything is in its cache and may be served."""
    assert metastore.database is not None
    proxy = Proxy(directory, metastore.uri, metastore.database.reader_url, settings)
    found: dict[str, int | None] = {}
    try:
        with measured(name, postgres, lambda: found.setdefault("pid", follower(proxy)) or found.pop("pid")) as phase:
            proxy.start()
            proxy.wait_prewarmed(TIMEOUT_S)
        told = re.findall(r"bootstrap done.*", proxy.log.read_text()) or re.findall(
            r"prewarm done.*", proxy.log.read_text()
        )
        print(name, proxy.status()["objects"], *told, flush=True)
    finally:
        proxy.close()
    return phase


def build(out: Path, metastore: Metastore, postgres: int, connections: int) -> Phase:
    """The snapshot, by the command."""
    assert metastore.database is not None
    command = ["snapshot", "build", "--out", str(out), "--connections", str(connections)]
    process = subprocess.Popen(
        [sys.executable, "-m", "hms_cache_proxy", *command],
        env={**os.environ, "HMS_CACHE_PROXY_STORE_URL": metastore.database.reader_url},
    )
    with measured("snapshot build", postgres, lambda: process.pid) as phase:
        if process.wait(TIMEOUT_S):
            raise SystemExit("the build failed")
    return phase


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=2)
    options = parser.parse_args()
    bed = Bed()
    try:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            metastore = bed.private_metastore("hive42")
            assert metastore.database is not None
            bulk.fill(metastore.database, options.partitions)
            postgres = postgres_pid(bed.postgres)
            phases = [start("prewarm from the database", directory / "a", metastore, postgres)]
            phases.append(build(directory / "s", metastore, postgres, options.connections))
            made = newest(str(directory / "s"))[1]
            print(made.counts, len(made.files), "files", sum(file.bytes for file in made.files), "bytes")
            phases.append(
                start("bootstrap", directory / "b", metastore, postgres, BOOTSTRAP=(directory / "s").as_uri())
            )
    finally:
        bed.close()
    print(
        f"\n{options.partitions:,} partitions\n\n| | time | CPU | CPU of PostgreSQL | memory |\n|---|---|---|---|---|"
    )
    for phase in phases:
        print(phase.line())


if __name__ == "__main__":
    main()
