"""`python -m benchmarks.pipeline [--partitions N,...] [--connections N,...]`: a proxy that reads everything from the
database, beside one that fills its cache from a snapshot, and what making the snapshot takes.

One table of so many partitions (tests/store/bulk.py) in a Hive 4.2 metastore on PostgreSQL. Of each phase seconds, CPU
seconds, those of the database's server, and the most memory of its own that the follower, or Spark with its JVM and
Python workers, held. The load of the machine stands above the table.
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

from hive_metastore.ttypes import Database

from benchmarks import kept
from benchmarks.measure import cpu_seconds, family, private_bytes
from benchmarks.servers import postgres_pid
from hms_cache_proxy.pipeline.query import newest
from tests.proxy import Proxy
from tests.store import bulk
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

PAUSE_S = 0.05
TIMEOUT_S = 3600.0


@dataclass
class Phase:
    """One row of the table."""

    name: str
    seconds: float = 0.0
    cpu_s: float = 0.0
    database_cpu_s: float = 0.0
    memory_bytes: int = 0
    result: str = ""

    def row(self) -> list[str]:
        spent = [f"{seconds:.1f} s" for seconds in (self.seconds, self.cpu_s, self.database_cpu_s)]
        return [self.name, *spent, f"{self.memory_bytes / 1e6:,.0f} MB", self.result]


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


def fill(name: str, directory: Path, metastore: Metastore, postgres: int, **settings: str) -> Phase:
    """A proxy with an empty data directory, from its start until everything is in its cache and may be served."""
    assert metastore.database is not None
    proxy = Proxy(directory, metastore.uri, metastore.database.reader_url, settings)
    pids: list[int] = []

    def follower() -> int | None:
        if not pids and proxy.process is not None:
            pids.extend(proxy.children()["follower"])
        return pids[0] if pids else None

    try:
        with measured(name, postgres, follower) as phase:
            proxy.start()
            proxy.wait_prewarmed(TIMEOUT_S)
        log = proxy.log.read_text()
        done = re.findall(r"(?:bootstrap|prewarm) done.*", log)
        if settings and "bootstrap done" not in log:
            raise SystemExit(f"the snapshot was not used:\n{log}")
        phase.result = f"cache of {proxy.status()['cache_bytes'] / 1e6:,.0f} MB"
        print(name, *done, flush=True)
    finally:
        proxy.close()
    return phase


def build(out: Path, metastore: Metastore, postgres: int, connections: int) -> Phase:
    """The snapshot, by the command, on local Spark."""
    assert metastore.database is not None
    command = ["snapshot", "build", "--out", str(out), "--connections", str(connections)]
    process = subprocess.Popen(
        [sys.executable, "-m", "hms_cache_proxy", *command],
        env={**os.environ, "HMS_CACHE_PROXY_STORE_URL": metastore.database.reader_url},
    )
    with measured(f"`snapshot build --connections {connections}`", postgres, lambda: process.pid) as phase:
        if process.wait(TIMEOUT_S):
            raise SystemExit("the build failed")
    made = newest(str(out))[1]
    phase.result = f"{len(made.files)} files, {sum(file.bytes for file in made.files) / 1e6:,.1f} MB"
    return phase


def run(bed: Bed, partitions: int, connections: list[int]) -> list[Phase]:
    """All phases, for one size of the catalog."""
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as name:
        directory = Path(name)
        metastore = bed.private_metastore("hive42")
        assert metastore.database is not None
        bulk.fill(metastore.database, partitions)
        with metastore.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("analyze")  # as in any database that was not filled a moment ago
        with MetastoreClient(*metastore.address) as client:
            client.create_database(Database(name="logged"))  # a snapshot is told from others by its newest event
        postgres = postgres_pid(bed.postgres)
        phases = [build(directory / f"s{number}", metastore, postgres, number) for number in connections]
        phases.append(fill("`serve`: prewarm", directory / "a", metastore, postgres))
        uri = (directory / f"s{connections[-1]}").as_uri()
        phases.append(fill("`serve --bootstrap`", directory / "b", metastore, postgres, BOOTSTRAP=uri))
        bed.release(metastore)
    return phases


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__)
    parser.add_argument("--partitions", metavar="N,...", default="100000,1000000")
    parser.add_argument("--connections", metavar="N,...", default="2,4")
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    connections = [int(number) for number in options.connections.split(",")]
    bed, tables = Bed(), []
    try:
        for partitions in map(int, options.partitions.split(",")):
            phases = run(bed, partitions, connections)
            head = ["", "time", "CPU", "CPU of PostgreSQL", "memory", ""]
            rows = [phase.row() for phase in phases]
            print(f"\n{partitions:,} partitions", *map(" | ".join, [head, *rows]), sep="\n", flush=True)
            tables.append(kept.table(f"{partitions:,} partitions:", head, rows, text=1))
    finally:
        bed.close()
    if options.keep:
        kept.keep("single/pipeline", *tables, command="python -m benchmarks.pipeline --keep", of=of)


if __name__ == "__main__":
    main()
