"""`python -m benchmarks.following [--rates 100,200,300] [--round-trip-ms 1] [--databases 1,20]`.

How many changes a second a follower follows if each is on another table, and its database is at a distance. Changes are
made by SQL in the test bed's own database, objects and log row in one transaction, faster than a metastore makes them.
The follower's steps run in a process of their own, at the pace of the real one. Must not know: how a step works.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import kept
from benchmarks.changes import Changes
from benchmarks.measure import cpu_seconds
from benchmarks.prewarm import collect_like_a_follower, fill, void
from hms_cache_proxy.follower.pace import Pace
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.follower.stepping import Stepping
from tests.testbed.bed import Bed
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.postgres import MetastoreDatabase, Schema

KINDS = ("ALTER_TABLE", "ADD_PARTITION", "ALTER_TABLE", "CREATE_TABLE")

_DATABASES = """
INSERT INTO "DBS" ("DB_ID", "NAME", "DB_LOCATION_URI", "OWNER_NAME", "OWNER_TYPE", "CTLG_NAME", "CREATE_TIME", "TYPE")
  SELECT 10 + n, 'big' || n, 'file:/wh/big.db', 'me', 'USER', 'hive', 1600000000, 'NATIVE'
  FROM generate_series(1, {databases} - 1) n;
UPDATE "TBLS" SET "DB_ID" = 10 + "TBL_ID" % {databases}"""


def writer(url: str, rate: float, seconds: float, tables: int, databases: int) -> None:
    """Makes changes at a steady rate; prints [event id, time of the commit] of each."""
    made = []
    with Changes(url) as changes:
        first = changes.next_event
        began = time.monotonic()
        for number in range(int(rate * seconds)):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            if time.monotonic() > began + seconds:
                break
            table_id = 1 + (first + number) % tables
            of = table_id % databases
            database = f"big{of}" if of else "big"
            event_id = changes.make(KINDS[number % len(KINDS)], first + number, table_id, database)
            made.append([event_id, time.monotonic()])
    print(json.dumps({"made": made, "seconds": time.monotonic() - began}))


def follower(url: str, seconds: float) -> None:
    """Fills a cache, says so, and follows until nothing comes any more; prints what it took, and [event id, time] of
    each step."""
    answers = count()
    store = open_sql_store(url, answered=lambda: void(next(answers)))
    server = int(store.database.rows("SELECT pg_backend_pid()")[0][0])
    collect_like_a_follower()
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory, Stepping(Path(directory), store) as stepping:
        stepping.settle()
        first = stepping.writer.meta.cursor
        print("ready", flush=True)
        pace = Pace.of(20, 125, freshness_ms=10_000)
        began = quiet = time.monotonic()
        reached: list[tuple[int, float]] = []  # event id and time of each step that found changes
        spent: list[tuple[float, float, int]] = []  # so far, before and after each of them
        while time.monotonic() < quiet + 2 or (not reached and time.monotonic() < began + 60 + seconds):
            before = time.process_time(), cpu_seconds((server,)), next(answers)
            outcome = stepping.step()
            if outcome.rows:
                quiet = time.monotonic()
                reached.append((outcome.event_id, quiet))
                spent += [before, (time.process_time(), cpu_seconds((server,)), next(answers))]
            time.sleep(pace.after(changed=outcome.changed, more=outcome.more, quiet_s=0))
        took = [after - before for before, after in zip(spent[0], spent[-1], strict=True)]
        print(json.dumps({"reached": reached, "rows": stepping.writer.meta.cursor - first, "took": took}))


def measure(database: MetastoreDatabase, rate: float, options: argparse.Namespace, databases: int) -> list[float]:
    """One rate."""
    with FaultProxy(database.host, database.port) as proxy:
        far = database
        if options.round_trip_ms:
            proxy.delay(options.round_trip_ms / 1000, Direction.UP)
            far = database.behind(*proxy.address)
        command = [sys.executable, "-m", "benchmarks.following"]
        follow = [*command, "--follower", far.reader_url, "--seconds", str(options.seconds)]
        with subprocess.Popen(follow, stdout=subprocess.PIPE, text=True) as following:
            assert following.stdout is not None and following.stdout.readline() == "ready\n"
            write = [*command, "--writer", database.store_url, "--rates", str(rate)]
            write += ["--seconds", str(options.seconds), "--tables", str(options.tables), "--databases", str(databases)]
            wrote = json.loads(subprocess.run(write, check=True, stdout=subprocess.PIPE, timeout=3600).stdout)
            found = json.loads(following.stdout.read())
    made: list[list[float]] = wrote["made"]
    assert found["rows"] == len(made), (found["rows"], len(made))
    delays, steps = [], iter(found["reached"])
    event_id, at = next(steps)
    for event, committed in made:
        while event_id < event:
            event_id, at = next(steps)
        delays.append(1000 * (at - committed))
    rows = len(made)
    cpu_s, database_cpu_s, statements = found["took"]
    return [
        rows / wrote["seconds"],
        statistics.median(delays),
        sorted(delays)[int(0.95 * rows)],
        max(delays),
        rows / len(found["reached"]),
        statements / rows,
        1e6 * cpu_s / rows,
        1e6 * database_cpu_s / rows,
    ]


HEAD = ["databases", "changes a second, wanted", "made", "median ms", "95 % ms", "worst ms", "changes a step"]
HEAD += ["statements a change", "follower's CPU us a change", "PostgreSQL's"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.following", description=__doc__)
    parser.add_argument("--tables", type=int, default=20_000)
    parser.add_argument("--databases", default="1,20", help="over which the tables are spread")
    parser.add_argument("--rates", default="100,200,300")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--round-trip-ms", type=float, default=1)
    parser.add_argument("--follower", help=argparse.SUPPRESS)
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    kept.option(parser)
    options = parser.parse_args()
    if options.follower:
        follower(options.follower, options.seconds)
        return
    if options.writer:
        writer(options.writer, float(options.rates), options.seconds, options.tables, int(options.databases))
        return
    of = kept.origin()
    rows: list[list[Any]] = []
    bed = Bed()
    try:
        for databases in map(int, options.databases.split(",")):
            database = bed.postgres.create_metastore_database(f"bench_{databases}", Schema.HIVE42)
            fill(database, options.tables, 2)
            with database.connect() as connection, connection.cursor() as cursor:
                cursor.execute(_DATABASES.format(databases=databases))
                cursor.execute("VACUUM ANALYZE")
            for rate in map(float, options.rates.split(",")):
                rows.append([f"{databases}", f"{rate:g}", *measure(database, rate, options, databases)])
                print(*(one if isinstance(one, str) else f"{one:.4g}" for one in rows[-1]), sep="\t", flush=True)
    finally:
        bed.close()
    if options.keep:
        title = f"{options.tables:,} tables, {options.round_trip_ms:g} ms of round trip"
        command = f"python -m benchmarks.following {' '.join(sys.argv[1:])}"
        kept.keep("single/following", kept.table(title, HEAD, rows, text=2), command=command, of=of)


if __name__ == "__main__":
    main()
