"""`python -m benchmarks.sidecar [--tables N] [--partitions N] [--include N] [--rounds N]`: how long a sidecar takes to
start from a snapshot of the whole catalog, of which it caches the tables of its job.

A catalog of many partitioned tables (catalog.sql) in PostgreSQL, a published snapshot of it, and `serve` with one
worker (docs/howto/sidecar.md) and an empty data directory, installed by pip into an environment of its own: what else
is installed would be imported, too. Of each start: the time until a client gets its first
answer, and until `get_table_req` is a hit, which is when the cache has caught up; CPU time of all processes of the
proxy until then; the files of partitions that it needed. With `include` of some tables and without, with the snapshot
and without. The median of the rounds is shown. Two rows are for comparison: an interpreter that imports what a worker
imports, and a start with the cache of the last run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hive_metastore.ttypes import Database

from benchmarks import kept
from benchmarks.contents import get_table
from benchmarks.measure import cpu_seconds
from benchmarks.million import asking, hits
from benchmarks.prewarm import fill
from hms_cache_proxy.config import load
from hms_cache_proxy.config.selection import Selection
from hms_cache_proxy.pipeline import publish
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.session import in_process
from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.place import newest
from hms_cache_proxy.snapshots.reading import Reading
from tests.packaging.environment import installed
from tests.packaging.requirements import ROOT
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

TIMEOUT_S = 600.0
DATABASE = "big"
HEAD = ["", "first answer, s", "first hit, s", "CPU s", "tables", "partitions", "files of partitions read"]


@dataclass(frozen=True)
class Started:
    """Seconds are those since the process was started."""

    first_reply_s: float
    first_hit_s: float
    cpu_s: float
    tables: int
    partitions: int


def start(programs: Path, directory: Path, metastore: Metastore, table: str, settings: dict[str, str]) -> Started:
    """One start, until some calls about the table were hits."""
    assert metastore.database is not None
    proxy = Proxy(directory, metastore.uri, metastore.database.reader_url, {"WORKERS": "1", **settings})
    proxy.command = (str(programs / "hms-cache-proxy"), "serve")
    began_s = time.monotonic()
    try:
        with asking(proxy, get_table(table, DATABASE)) as client:
            proxy.start()
            proxy.wait_prewarmed(TIMEOUT_S)
            assert proxy.process is not None
            cpu_s = cpu_seconds((proxy.process.pid,))
            proxy.wait(lambda: hits(proxy) > 10, "answering from the cache", TIMEOUT_S)
        found, objects = hits(proxy), proxy.status()["objects"]
        if "BOOTSTRAP" in settings and "bootstrap done" not in proxy.log.read_text():
            raise SystemExit(f"the snapshot was not used:\n{proxy.log_tail()}")
    finally:
        proxy.close()
    first_hit_s = client.times[-found][0] - began_s  # all later calls of the connection were hits, too
    return Started(client.times[0][0] - began_s, first_hit_s, cpu_s, objects["tables"], objects["partitions"])


def importing(programs: Path) -> float:
    """Seconds of CPU time that an interpreter takes to import a worker's modules."""
    before = os.times()
    subprocess.run([programs / "python", "-P", "-c", "import hms_cache_proxy.server.worker"], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def needed(uri: str, include: str) -> str:
    """How many files of partitions a proxy with these settings reads."""
    place, manifest = newest(uri)
    selection = Selection(tuple(filter(None, include.split(","))), ())
    reading = Reading(place, manifest, None if selection.everything else selection.admits)
    files = manifest.of_kind(rows.PARTITIONS)
    return f"{sum(map(reading.needed, files))} of {len(files)}"


def measure(directory: Path, bed: Bed, tables: int, partitions: int, include: int, rounds: int) -> Iterator[list[Any]]:
    """The rows of the table."""
    programs = installed(directory, ("bootstrap",), "-c", str(ROOT / "constraints.txt"))
    metastore = bed.private_metastore("embedded-postgresql")
    assert metastore.database is not None
    fill(metastore.database, tables, partitions // tables)
    with MetastoreClient(*metastore.address) as client:
        client.create_database(Database(name="logged"))  # a snapshot is told from others by its newest event
    config = load(cli={"store_url": metastore.database.reader_url})
    uri, made = publish.publish(in_process, config, (directory / "p").as_uri(), 1, 2, LineReport(print))
    print(uri, made.counts, flush=True)
    names = [f"t_{1 + number * tables // include:07}" for number in range(include)]
    some, table = ",".join(f"{DATABASE}.{name}" for name in names), names[0]
    yield ["imports of a worker", "", "", median(importing(programs) for _ in range(rounds)), "", "", ""]
    for title, settings in (
        (f"snapshot, {include} tables", {"BOOTSTRAP": uri, "INCLUDE": some}),
        ("snapshot, everything", {"BOOTSTRAP": uri}),
        (f"no snapshot, {include} tables", {"INCLUDE": some}),
        ("no snapshot, everything", {}),
    ):
        places = [directory / f"{title} {number}" for number in range(rounds)]
        found = [start(programs, place, metastore, table, settings) for place in places]
        files = needed(uri, settings.get("INCLUDE", "")) if "BOOTSTRAP" in settings else ""
        yield [title, *_times(found), found[0].tables, found[0].partitions, files]
    again = [start(programs, place, metastore, table, {}) for place in places]
    yield ["restart, everything", *_times(again), again[0].tables, again[0].partitions, ""]
    bed.release(metastore)


def _times(found: list[Started]) -> Iterator[float]:
    return (median(getattr(one, name) for one in found) for name in ("first_reply_s", "first_hit_s", "cpu_s"))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sidecar", description=__doc__)
    parser.add_argument("--tables", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=50_000)
    parser.add_argument("--include", type=int, default=5, help="tables of the job")
    parser.add_argument("--rounds", type=int, default=3)
    kept.option(parser)
    options = parser.parse_args()
    of, bed, found = kept.origin(), Bed(), list[list[Any]]()
    try:
        with tempfile.TemporaryDirectory(prefix="hms-bench-") as name:
            given = options.tables, options.partitions, options.include, options.rounds
            for row in measure(Path(name), bed, *given):
                found.append(row)
                print(*row, sep="\t", flush=True)
    finally:
        bed.close()
    if options.keep:
        title = f"{options.tables:,} tables with {options.partitions:,} partitions:"
        command = f"python -m benchmarks.sidecar {' '.join(sys.argv[1:])}"
        kept.keep("single/sidecar", kept.table(title, HEAD, found, text=1), command=command, of=of)


if __name__ == "__main__":
    main()
