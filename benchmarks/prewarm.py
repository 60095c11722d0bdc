"""`python -m benchmarks.prewarm [--tables N --partitions N] [--round-trips-ms 0,1] [--collations c,en_us_icu]`.

How long it takes to fill an empty cache from PostgreSQL: many partitioned tables (`catalog.sql`), or with `--tables 1`
one large one, at a distance, and where the database orders text by a language. The follower's steps run in a process
of their own, one after the other as fast as they go. Must not know: how a step works.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import kept
from benchmarks.measure import cpu_seconds
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.follower.stepping import Stepping
from tests.testbed.bed import Bed
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.postgres import Collation, MetastoreDatabase, Schema

CATALOG = Path(__file__).with_name("catalog.sql")
AT_ONCE = 300_000  # partitions that one statement makes


def child(url: str, chunk: int) -> None:
    """Fills a cache; prints what it took."""
    answers = count()
    store = open_sql_store(url, answered=lambda: void(next(answers)))
    server = int(store.database.rows("SELECT pg_backend_pid()")[0][0])
    gc.freeze()  # as the follower's process does
    gc.set_threshold(50_000, 20, 20)
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory:
        with Stepping(Path(directory), store, chunk=chunk, max_bytes=8 << 30) as stepping:
            begun = next(answers)
            began, cpu, server_cpu = time.monotonic(), time.process_time(), cpu_seconds((server,))
            steps, worst = 0, 0.0
            more = True
            while more:
                step_began = time.monotonic()
                more = stepping.cycle.step(chunk).more
                stepping.cycle.collect()
                steps += 1
                worst = max(worst, time.monotonic() - step_began)
            took = {
                "seconds": time.monotonic() - began,
                "cpu_s": time.process_time() - cpu,
                "database_cpu_s": cpu_seconds((server,)) - server_cpu,
                "statements": next(answers) - begun - 1,
                "steps": steps,
                "longest_step_ms": worst * 1000,
            }
            print(json.dumps({**took, **stepping.writer.counts()}))


def void(_: int) -> None:
    """Only counted."""


def fill(database: MetastoreDatabase, tables: int, partitions: int) -> None:
    """So many tables, of so many partitions each."""
    script = CATALOG.read_text()
    step = max(1, AT_ONCE // max(1, partitions))
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # the rows are right: no look-up of foreign keys
        for first in range(0, tables, step):
            some = {"first": first, "tables": min(step, tables - first), "partitions": partitions}
            cursor.execute(script, some)
        cursor.execute("VACUUM ANALYZE")


def measure(database: MetastoreDatabase, round_trip_ms: float, chunk: int) -> dict[str, Any]:
    """One prewarm at that distance."""
    with FaultProxy(database.host, database.port) as proxy:
        if round_trip_ms:
            proxy.delay(round_trip_ms / 1000, Direction.UP)
            database = database.behind(*proxy.address)
        command = [sys.executable, "-m", "benchmarks.prewarm", "--child", database.reader_url, "--chunk", str(chunk)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=3600)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prewarm", description=__doc__)
    parser.add_argument("--tables", type=int, default=20_600)
    parser.add_argument("--partitions", type=int, default=26, help="of each table")
    parser.add_argument("--round-trips-ms", default="0,1")
    parser.add_argument("--collations", default="c")
    parser.add_argument("--chunk", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    kept.option(parser)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.chunk)
        return
    of = kept.origin()
    rows: list[list[Any]] = []
    bed = Bed()
    try:
        for collation in map(Collation, options.collations.split(",")):
            database = bed.postgres.create_metastore_database(f"bench_{collation.value}", Schema.HIVE42, collation)
            fill(database, options.tables, options.partitions)
            for distance in map(float, options.round_trips_ms.split(",")):
                for _ in range(options.rounds):
                    found = measure(database, distance, options.chunk)
                    keys = ("seconds", "cpu_s", "database_cpu_s", "statements", "steps", "longest_step_ms")
                    rate = found["partitions"] / found["seconds"]
                    rows.append([collation.value, f"{distance:g}", *(found[key] for key in keys), rate])
                    print(found["tables"], found["partitions"], *rows[-1], sep="\t", flush=True)
    finally:
        bed.close()
    if options.keep:
        head = ["collation", "round trip, ms", "seconds", "CPU s", "PostgreSQL's CPU s", "statements", "steps"]
        head += ["longest step, ms", "partitions a second"]
        title = f"{options.tables:,} tables with {options.partitions:,} partitions each"
        command = f"python -m benchmarks.prewarm {' '.join(sys.argv[1:])}"
        kept.keep("single/prewarm", kept.table(title, head, rows, text=2), command=command, of=of)


if __name__ == "__main__":
    main()
