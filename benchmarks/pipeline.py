"""`python -m benchmarks.pipeline [--partitions N,...] [--connections N,...]`: a proxy that reads everything from the
database, beside one that fills its cache from a snapshot, and what making the snapshot takes: in full, as an increment
after CHANGED partitions were altered, and resumed after it was killed (if it has more than one round).

One table of so many partitions (tests/store/bulk.py) in a Hive 4.2 metastore on PostgreSQL. Of each phase seconds, CPU
seconds, those of the database's server, and the most memory of its own that the follower, or Spark with its JVM and
Python workers, held. The load of the machine stands above the table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hive_metastore.ttypes import Database, EnvironmentContext

from benchmarks import kept
from benchmarks.measure import cpu_seconds
from benchmarks.servers import postgres_pid
from benchmarks.watched import PAUSE_S, watched
from hms_cache_proxy.pipeline.publish import new_name
from hms_cache_proxy.snapshots.place import newest
from tests.proxy import Proxy
from tests.store import bulk
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

TIMEOUT_S = 3600.0
CHANGED = 1000


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
    phase, before = Phase(name), cpu_seconds((postgres,))
    began_s = time.monotonic()
    with watched(root) as used:
        yield phase
    phase.seconds = time.monotonic() - began_s
    phase.cpu_s, phase.memory_bytes = used.cpu_s, used.memory_bytes
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


@dataclass(frozen=True)
class Snapshots:
    """The commands that make snapshots of one metastore, below `directory`."""

    directory: Path
    metastore: Metastore
    postgres: int

    def uri(self, name: str) -> str:
        """Of a snapshot, or of a directory of published ones."""
        return (self.directory / name).as_uri()

    def start(self, command: str, name: str) -> subprocess.Popen[bytes]:
        """`hms-cache-proxy snapshot COMMAND`, in a process group of its own."""
        assert self.metastore.database is not None
        return subprocess.Popen(
            [sys.executable, "-m", "hms_cache_proxy", "snapshot", *command.split(), "--out", self.uri(name)],
            env={**os.environ, "HMS_CACHE_PROXY_STORE_URL": self.metastore.database.reader_url},
            start_new_session=True,
        )

    def make(self, command: str, name: str, partitions: int) -> Phase:
        """The command, from start to end. The snapshot has to have so many partitions."""
        process = self.start(command, name)
        with measured(f"`snapshot {command}`", self.postgres, lambda: process.pid) as phase:
            if process.wait(TIMEOUT_S):
                raise SystemExit(f"snapshot {command} failed")
        made = newest(self.uri(name))[1]
        if made.counts["partitions"] != partitions:
            raise SystemExit(f"snapshot {command}: {made.counts}")
        phase.result = f"{len(made.files)} files, {sum(file.bytes for file in made.files) / 1e6:,.1f} MB"
        return phase

    def kill(self, command: str, name: str) -> str | None:
        """Begin a build, and kill all its processes after half of its rounds of partitions; says after how many. None
        if it has only one."""
        process, progress = self.start(command, name), self.directory / name / "_build"
        plan = progress / "partitions.json"
        try:
            while not plan.exists():
                _still(process)
            rounds = len(json.loads(plan.read_bytes()))
            while rounds > 1 and len(list(progress.glob("partitions-*.done"))) < rounds // 2:
                _still(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return f"killed after {rounds // 2} of {rounds} rounds" if rounds > 1 else None


def _still(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        raise SystemExit("a build that was to be killed has ended")
    time.sleep(PAUSE_S)


def alter(client: MetastoreClient) -> None:
    """Change a parameter of CHANGED partitions."""
    database, table = bulk.DATABASE.decode(), bulk.TABLE.decode()
    names = client.get_partition_names(database, table, CHANGED)
    found = client.get_partitions_by_names(database, table, names)
    for one in found:
        one.parameters["changed"] = "yes"
    no_files = EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})  # there are none to be listed
    client.alter_partitions_with_environment_context(database, table, found, no_files)


def run(bed: Bed, partitions: int, connections: list[int]) -> list[Phase]:
    """All phases, for one size of the catalog."""
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as name:
        directory = Path(name)
        metastore = bed.private_metastore("hive42")
        assert metastore.database is not None
        bulk.fill(metastore.database, partitions)
        with metastore.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("analyze")  # as in any database that was not filled a moment ago
        postgres = postgres_pid(bed.postgres)
        snapshots = Snapshots(directory, metastore, postgres)
        with MetastoreClient(*metastore.address) as client:
            client.create_database(Database(name="logged"))  # a snapshot is told from others by its newest event
            phases = [
                snapshots.make(f"build --connections {number}", f"published/{new_name()}", partitions)
                for number in connections
            ]
            phases.append(fill("`serve`: prewarm", directory / "a", metastore, postgres))
            published = snapshots.uri("published")
            phases.append(fill("`serve --bootstrap`", directory / "b", metastore, postgres, BOOTSTRAP=published))
            command = f"build --connections {connections[0]}"
            killed = snapshots.kill(command, "killed")
            if killed is not None:
                phases.append(snapshots.make(f"{command} --resume", "killed", partitions))
                phases[-1].result += f"; {killed}"
            alter(client)
            phases.append(snapshots.make("publish --increment", "published", partitions))
            phases[-1].result += f"; {CHANGED:,} changed partitions"
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
    bed = Bed()
    try:
        for partitions in map(int, options.partitions.split(",")):
            phases = run(bed, partitions, connections)
            head = ["", "time", "CPU", "CPU of PostgreSQL", "memory", ""]
            rows = [phase.row() for phase in phases]
            print(f"\n{partitions:,} partitions", *map(" | ".join, [head, *rows]), sep="\n", flush=True)
            if options.keep:
                given = f"--partitions {partitions} --connections {options.connections} --keep"
                command = f"python -m benchmarks.pipeline {given}"
                table = kept.table(f"{partitions:,} partitions:", head, rows, text=1)
                kept.keep(f"pipeline/{partitions:08}", table, command=command, of=of)
    finally:
        bed.close()


if __name__ == "__main__":
    main()
