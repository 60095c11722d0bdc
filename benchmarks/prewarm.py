"""`python -m benchmarks.prewarm [--catalogs 20600x26,1x1000000] [--round-trips-ms 0,1] [--collations c,en_us_icu]
[--connections 1,2]`.

How long it takes to fill an empty cache from PostgreSQL: so many tables of so many partitions each (`catalog.sql`), at
a distance, where the database orders text by a language, and with one connection or two. The follower's steps run in a
process of their own, one after the other as fast as they go. A time that is close to the larger of both CPU times shows
that follower and database work at the same time. Must not know: how a step works.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

from benchmarks import kept
from benchmarks.measure import cpu_seconds
from hms_cache_proxy.plurals import counted
from hms_cache_proxy.store.sql.store import SqlStore, open_sql_store
from tests.follower.stepping import Stepping
from tests.testbed.bed import Bed
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.postgres import Collation, MetastoreDatabase, Schema

CATALOG = Path(__file__).with_name("catalog.sql")
AT_ONCE = 300_000  # partitions that one statement makes


_SERVERS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user"


def child(url: str, chunk: int, connections: int) -> None:
    """Fills a cache; prints what it took. The statements of a second connection are not counted."""
    answers = count()
    store = open_sql_store(url, answered=lambda: void(next(answers)), two=connections == 2)
    servers: dict[int, float] = {}  # by process: its CPU time, as it was when it was last seen
    collect_like_a_follower()
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory:
        with Stepping(Path(directory), store, chunk=chunk, max_bytes=8 << 30) as stepping:
            begun = next(answers)
            began, cpu = time.monotonic(), time.process_time()
            steps, worst, unseen = 0, 0.0, seen(store, servers)
            more = True
            while more:
                step_began = time.monotonic()
                more = stepping.cycle.step(chunk).more
                stepping.cycle.collect()
                steps += 1
                worst = max(worst, time.monotonic() - step_began)
                seen(store, servers)
            took = {
                "seconds": time.monotonic() - began,
                "cpu_s": time.process_time() - cpu,
                "database_cpu_s": sum(servers.values()) - unseen,
                "statements": next(answers) - begun - 2 - steps,
                "steps": steps,
                "longest_step_ms": worst * 1000,
            }
            print(json.dumps({**took, **stepping.writer.counts()}))


def collect_like_a_follower() -> None:
    """Garbage, as seldom as the follower's process does."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def seen(store: SqlStore, servers: dict[int, float]) -> float:
    """Look at the server's processes for this account; returns their CPU time so far."""
    for (pid,) in store.database.rows(_SERVERS):
        servers[pid] = cpu_seconds((int(pid),)) or servers.get(pid, 0.0)
    return sum(servers.values())


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


def measure(database: MetastoreDatabase, round_trip_ms: float, chunk: int, connections: int) -> dict[str, Any]:
    """One prewarm at that distance."""
    with FaultProxy(database.host, database.port) as proxy:
        if round_trip_ms:
            proxy.delay(round_trip_ms / 1000, Direction.UP)
            database = database.behind(*proxy.address)
        command = [sys.executable, "-m", "benchmarks.prewarm", "--child", database.reader_url]
        command += ["--chunk", str(chunk), "--connections", str(connections)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=3600)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def told(found: dict[str, Any]) -> list[Any]:
    """The figures of a row."""
    seconds, cpu_s, database_cpu_s = found["seconds"], found["cpu_s"], found["database_cpu_s"]
    times = [seconds, cpu_s, database_cpu_s, seconds / max(cpu_s, database_cpu_s)]
    return [*times, found["statements"], found["steps"], found["longest_step_ms"], found["partitions"] / seconds]


HEAD = ["collation", "round trip, ms", "connections", "seconds", "CPU s", "PostgreSQL's CPU s"]
HEAD += ["seconds / larger CPU", "statements", "steps", "longest step, ms", "partitions a second"]


def measured(bed: Bed, tables: int, partitions: int, options: argparse.Namespace) -> Iterator[list[Any]]:
    """The rows of one catalog."""
    for collation in map(Collation, options.collations.split(",")):
        database = bed.postgres.create_metastore_database(f"bench_{tables}_{collation.value}", Schema.HIVE42, collation)
        fill(database, tables, partitions)
        distances, counts = options.round_trips_ms.split(","), options.connections.split(",")
        for distance, _, connections in product(map(float, distances), range(options.rounds), map(int, counts)):
            row = [collation.value, f"{distance:g}", connections]
            row += told(measure(database, distance, options.chunk, connections))
            print(tables, partitions, *row, sep="\t", flush=True)
            yield row
        bed.postgres.drop_database(database.name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prewarm", description=__doc__)
    parser.add_argument("--catalogs", default="20600x26,1x1000000", help="tables x partitions of each")
    parser.add_argument("--round-trips-ms", default="0,1")
    parser.add_argument("--collations", default="c,en_us_icu")
    parser.add_argument("--connections", default="2")
    parser.add_argument("--chunk", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    kept.option(parser)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.chunk, int(options.connections))
        return
    of = kept.origin()
    tables = []
    bed = Bed()
    try:
        for catalog in options.catalogs.split(","):
            number, partitions = map(int, catalog.split("x"))
            title = f"{counted(number, 'table')} with {partitions:,} partitions each:"
            tables.append(kept.table(title, HEAD, list(measured(bed, number, partitions, options)), text=3))
    finally:
        bed.close()
    if options.keep:
        kept.keep("single/prewarm", *tables, command=f"python -m benchmarks.prewarm {' '.join(sys.argv[1:])}", of=of)


if __name__ == "__main__":
    main()
