"""`python -m benchmarks.store_partitions [--partitions N] [--chunk N]`: partitions a second out of PostgreSQL.

A table of ORC partitions with 6 parameters, 2 keys and 20 columns each, read in chunks, a snapshot for each, as prewarm
does it. Two figures: partitions per second of this process's CPU time, and of PostgreSQL's.
"""

from __future__ import annotations

import argparse
import gc
import time
from pathlib import Path

from benchmarks import kept
from hms_cache_proxy.store.sql.store import SqlStore, open_sql_store
from tests.store import bulk
from tests.testbed.bed import Bed

NS = 1e9


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store_partitions", description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--chunk", type=int, default=10_000, help="partitions in one snapshot")
    parser.add_argument("--rounds", type=int, default=3)
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    bed = Bed()
    try:
        database = bed.postgres.create_metastore_database("bench")
        bulk.fill(database, options.partitions)
        store = open_sql_store(database.reader_url)
        gc.freeze()
        rows = [_round(store, options.partitions, options.chunk) for _ in range(options.rounds)]
        store.close()
    finally:
        bed.close()
    if options.keep:
        head = ["partitions", "a second of this process's CPU time", "of PostgreSQL's", "by the clock"]
        command = "python -m benchmarks.store_partitions --keep"
        kept.keep("single/store_partitions", kept.table("", head, rows, text=0), command=command, of=of)


def _round(store: SqlStore, partitions: int, chunk: int) -> list[float]:
    server = int(store.database.rows("SELECT pg_backend_pid()")[0][0])
    began, cpu, server_cpu = time.perf_counter(), time.process_time(), _cpu_s(server)
    count, after = 0, None
    while count < partitions:
        with store.snapshot() as snapshot:
            table = snapshot.tables(b"hive", bulk.DATABASE, [bulk.TABLE])[bulk.TABLE]
            found = snapshot.partitions(table, after=after, limit=chunk)
        count, after = count + len(found), found[-1].name
    wall, cpu, server_cpu = time.perf_counter() - began, time.process_time() - cpu, _cpu_s(server) - server_cpu
    print(
        f"{count} partitions: {count / cpu:,.0f}/s of our CPU, {count / server_cpu:,.0f}/s of PostgreSQL's,"
        f" {count / wall:,.0f}/s by the clock"
    )
    return [count, count / cpu, count / server_cpu, count / wall]


def _cpu_s(process: int) -> float:
    """CPU time of a process on this machine."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / NS


if __name__ == "__main__":
    main()
