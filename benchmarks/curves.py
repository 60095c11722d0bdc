"""`python -m benchmarks.curves [--partitions 1000,...] [--tables 100,...]`: what grows with the size of the catalog.

For each size an empty cache is filled from PostgreSQL (`catalog.sql`): one table with so many partitions, or so many
tables with one partition each. Then the same is done in each: calls that were never made before, steps of the follower
after one change, a commit of nothing, a restart. All in one process without sockets, whose CPU time is counted. What
need not depend on the size is the same in each column. Must not know: how a step works, how a call is answered.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import kept
from benchmarks.backlog import peak_bytes
from benchmarks.changes import Changes
from benchmarks.plot import curves as plotted
from benchmarks.prewarm import collect_like_a_follower, fill
from hms_cache_proxy.cache import changes as commits
from hms_cache_proxy.cache.state import MODE_SERVE, Slot
from hms_cache_proxy.config import load
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Serve, Work
from hms_cache_proxy.methods.dispatch import CacheDispatcher, SharedState, WorkerLinks
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.store.sql.store import open_sql_store
from hms_cache_proxy.wire.message import Header, parse_header
from tests.follower.harness import LONG_MS
from tests.follower.stepping import Stepping
from tests.testbed.bed import Bed
from tests.testbed.postgres import MetastoreDatabase, Schema
from tests.testbed.raw import encode_call
from tests.write_ids.transactions import struct

DOCS: Final = Path(__file__).parents[1] / "docs"
DATABASE: Final = "big"
CHANGES: Final = ("ALTER_TABLE", "ADD_PARTITION", "CREATE_TABLE")
CALLS, STEPS, COMMITS = 200, 20, 20
MOST_BYTES: Final = 16 << 30
PARTITIONS: Final = "1000,10000,100000,1000000"
TABLES: Final = "100,1000,10000,100000"

Question = Callable[[random.Random], bytes]
"""Makes a call that is another one each time."""


def name_of(partition: int) -> str:
    """As catalog.sql names it."""
    return f"ds={date(2000, 1, 1) + timedelta(days=partition // 24)}/hour={partition % 24}"


def of_partitions(partitions: int) -> dict[str, Question]:
    """About partitions of the one table that has so many."""

    def some(chance: random.Random, count: int) -> list[str]:
        return [name_of(one) for one in chance.sample(range(partitions), count)]

    def by_filter(chance: random.Random) -> bytes:
        day, hour = (part.partition("=")[2] for part in some(chance, 1)[0].split("/"))
        return encode_call("get_partitions_by_filter", DATABASE, "t_0000001", f"ds='{day}' and hour={hour}", -1)

    def by_names(chance: random.Random) -> bytes:
        request = struct("GetPartitionsByNamesRequest", db_name=DATABASE, tbl_name="t_0000001", names=some(chance, 100))
        return encode_call("get_partitions_by_names_req", request)

    def by_name(chance: random.Random) -> bytes:
        return encode_call("get_partition_by_name", DATABASE, "t_0000001", some(chance, 1)[0])

    def first_names(chance: random.Random) -> bytes:
        return encode_call("get_partition_names", DATABASE, "t_0000001", chance.randrange(50, 150))

    return {
        "get_partition_by_name": by_name,
        "get_partitions_by_names_req, 100": by_names,
        "get_partitions_by_filter, 1": by_filter,
        "get_partition_names, first 50 to 150": first_names,
    }


def of_tables(tables: int) -> dict[str, Question]:
    """About single tables."""

    def get_table(chance: random.Random) -> bytes:
        request = struct("GetTableRequest", dbName=DATABASE, tblName=f"t_{chance.randrange(tables) + 1:07}")
        return encode_call("get_table_req", request)

    def by_name(chance: random.Random) -> bytes:
        return encode_call("get_partition_by_name", DATABASE, f"t_{chance.randrange(tables) + 1:07}", name_of(0))

    def get_tables(chance: random.Random) -> bytes:
        return encode_call("get_tables", DATABASE, f"t_00000{chance.randrange(1, 10)}*")

    return {
        "get_table_req": get_table,
        "get_partition_by_name": by_name,
        "get_tables, a prefix of 10": get_tables,
    }


def call_us(dispatcher: CacheDispatcher, question: Question) -> float:
    """CPU time of a worker for a call, the median of many; none was made before."""
    chance, session, took = random.Random(CALLS), ClientSession(), []
    for _ in range(CALLS):
        message = question(chance)
        dispatcher.forget()
        began = time.thread_time_ns()
        header = parse_header(message)
        assert isinstance(header, Header)
        decision: Any = dispatcher.decide(ClientCall.of(session, header, message, time.monotonic_ns()))
        while isinstance(decision, Work):
            decision = decision.step()
        assert isinstance(decision, Serve) and decision.outcome == "hit", decision
        if not isinstance(decision.chunks, bytes):
            b"".join(decision.chunks)
        took.append((time.thread_time_ns() - began) / 1000)
    return median(took)


def cpu_ms(work: Callable[[], object], times: int, before: Callable[[], object] = dict) -> float:
    """CPU time of this process for it, the median of so many times; `before` is called each time, and not counted."""
    took = []
    for _ in range(times):
        before()
        began = time.process_time()
        work()
        took.append(1000 * (time.process_time() - began))
    return median(took)


def child(reader_url: str, writer_url: str, tables: int, partitions: int) -> None:
    """Fills a cache, and does everything with it; prints what it took."""
    collect_like_a_follower()
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory:
        found: dict[str, float] = {}
        with following(Path(directory), reader_url) as stepping:
            at_first, began, cpu = peak_bytes(), time.monotonic(), time.process_time()
            stepping.settle(most=10**6)
            found["prewarm by the clock, s"] = time.monotonic() - began
            found["prewarm, CPU s"] = time.process_time() - cpu
            found["prewarm: memory of the follower, more than before, MB"] = (peak_bytes() - at_first) / 1e6
            counts = stepping.writer.counts()
            assert (counts["tables"], counts["partitions"]) == (tables, tables * partitions), counts
            found["cache in use, MB"] = stepping.writer.cache_bytes / 1e6
        began_cpu = time.process_time()
        with following(Path(directory), reader_url) as stepping:
            stepping.step()
            found["restart until after the first step, CPU ms"] = 1000 * (time.process_time() - began_cpu)
            found["step that finds nothing, CPU ms"] = cpu_ms(stepping.step, STEPS)
            found |= steps(stepping, writer_url, tables)
            commit = commits.Changes(cursor=stepping.writer.meta.cursor)
            found["commit of nothing, CPU ms"] = cpu_ms(lambda: stepping.writer.commit(commit), COMMITS)
            found |= calls(stepping, of_partitions(partitions) if tables == 1 else of_tables(tables))
    print(json.dumps(found))


def following(directory: Path, url: str) -> Stepping:
    """The follower of a data directory, new or as it was left."""
    return Stepping(directory, open_sql_store(url), max_bytes=MOST_BYTES)


def steps(stepping: Stepping, url: str, tables: int) -> dict[str, float]:
    """Each kind of change, one in a step."""
    found, numbers = {}, count()
    with Changes(url) as changes:
        for kind in CHANGES:
            change = partial(_change, changes, kind, numbers, tables)
            found[f"step with {kind}, CPU ms"] = cpu_ms(stepping.step, STEPS, change)
            stepping.settle()
    return found


def _change(changes: Changes, kind: str, numbers: Iterator[int], tables: int) -> None:
    number = next(numbers)
    changes.make(kind, number, 1 + number % tables)


def calls(stepping: Stepping, questions: Mapping[str, Question]) -> dict[str, float]:
    """Each call, as a worker of a proxy answers it."""
    settings: dict[str, object] = {"upstream": "thrift://127.0.0.1:1", "max_unconfirmed_ms": LONG_MS}
    config = load(cli={"data_dir": "/nowhere", "list_order": "name", **settings})
    state = SharedState(stepping.page, stepping.reader, stepping.fences)
    dispatcher = CacheDispatcher(config, state, WorkerMetrics(), WorkerLinks(lambda: None))
    stepping.page[Slot.SERVE_MODE] = MODE_SERVE
    return {f"{name}, CPU us": call_us(dispatcher, question) for name, question in questions.items()}


def measure(database: MetastoreDatabase, tables: int, partitions: int) -> dict[str, float]:
    """One size, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.curves", "--child", database.reader_url, "--writer"]
    command += [database.store_url, "--tables", str(tables), "--partitions", str(partitions)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=4 * 3600)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def curve(bed: Bed, what: str, sizes: Sequence[int]) -> dict[str, Any]:
    """The table of one curve: a row for each measure, a column for each size."""
    columns = []
    for size in sizes:
        tables, partitions = (1, size) if what == "partitions" else (size, 1)
        database = bed.postgres.create_metastore_database(f"curve_{what}_{size}", Schema.HIVE42)
        fill(database, tables, partitions)
        columns.append(measure(database, tables, partitions))
        bed.postgres.drop_database(database.name)
        for name, value in columns[-1].items():
            print(f"{size:>12,} {what:10} {name:48} {value:12.4g}", flush=True)
    rows = [
        [name, *(column[name] for column in columns), columns[-1][name] / max(columns[0][name], 1e-9)]
        for name in columns[0]
    ]
    head = ["", *(f"{size:,} {what}" for size in sizes), "last / first"]
    return kept.table(TITLES[what], head, rows, text=1)


TITLES: Final = {
    "partitions": "One table with so many partitions:",
    "tables": "So many tables with one partition each:",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description=__doc__)
    parser.add_argument("--partitions", default=PARTITIONS)
    parser.add_argument("--tables", default=TABLES)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    kept.option(parser)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.writer, int(options.tables), int(options.partitions))
        return
    of = kept.origin()
    bed = Bed()
    try:
        tables = [
            curve(bed, what, [int(size) for size in getattr(options, what).split(",")])
            for what in TITLES
            if getattr(options, what)
        ]
    finally:
        bed.close()
    if options.keep:
        plotted(tables, DOCS / "curves.png", of.commit)
        kept.keep("single/curves", *tables, command=f"python -m benchmarks.curves {' '.join(sys.argv[1:])}", of=of)


if __name__ == "__main__":
    main()
