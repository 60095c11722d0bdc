"""`python -m benchmarks.write_ids`: transactional tables, read with ValidWriteIdLists while transactions commit.

100 full-ACID tables, one commit a second on a random one, queries that read a table with the list of now. What the
proxy answered from its cache, beside what a cache with a time to live would have made of the same reads: its hits, and
how many of those were wrong, as somebody had committed since it loaded. Must not know: how the proxy decides.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import kept
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.write_ids.transactions import Transactions

DATABASE, TABLES = "acid", 100
READS_PER_QUERY = 3
READERS = 4
QUERY_PAUSE_S = 0.02
TTLS_S = (1.0, 10.0, 60.0)


@dataclass
class Trace:
    """When which table was read and committed to (time.monotonic, s); the latency of reads."""

    reads: list[tuple[float, str]] = field(default_factory=list)
    commits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Shares of all reads."""

    hits: float
    wrong: float


def with_ttl(trace: Trace, ttl_s: float) -> Ratio:
    """A cache that loads what it lacks and keeps it so long."""
    loaded: dict[str, float] = {}
    hits = wrong = 0
    for at, table in sorted(trace.reads):
        began = loaded.get(table)
        if began is None or at - began > ttl_s:
            loaded[table] = at
            continue
        hits += 1
        commits = trace.commits[table]
        next_commit = bisect_left(commits, began)
        wrong += next_commit < len(commits) and commits[next_commit] < at
    return Ratio(hits / len(trace.reads), wrong / len(trace.reads))


def commit_steadily(port: int, ids: dict[str, int], trace: Trace, stop: threading.Event) -> None:
    """One transaction a second, which adds a partition."""
    rng = random.Random(1)
    number = 0
    with Transactions("127.0.0.1", port) as writer:
        while not stop.wait(1.0):
            table, number = rng.choice(list(ids)), number + 1
            transaction = writer.open()
            write_id = writer.allocate(transaction, DATABASE, table)
            writer.add_partition(DATABASE, table, str(number), write_id)
            writer.commit(transaction)
            insort(trace.commits[table], time.monotonic())


def query(metastore: int, proxy: Proxy, ids: dict[str, int], trace: Trace, stop: threading.Event, seed: int) -> None:
    """Plans queries: the list of now from the metastore, then reads through the proxy."""
    rng = random.Random(seed)
    with Transactions("127.0.0.1", metastore) as direct, Transactions(*proxy.address) as reader:
        while not stop.wait(QUERY_PAUSE_S):
            table = rng.choice(list(ids))
            valid = direct.valid(DATABASE, table)
            for _ in range(READS_PER_QUERY):
                began = time.monotonic()
                reader.table(DATABASE, table, valid, ids[table])
                trace.reads.append((began, table))
                trace.seconds.append(time.monotonic() - began)


def measure(directory: Path, seconds: float) -> tuple[Trace, dict[tuple[str, str], float]]:
    """The trace, and the proxy's counts of the reads by (outcome, reason)."""
    bed = Bed()
    try:
        metastore = bed.private_metastore("hive42")
        assert metastore.database is not None
        with Transactions(*metastore.address) as direct:
            direct.create_database(DATABASE)
            ids = {f"t{n:03d}": direct.create(DATABASE, f"t{n:03d}", partitioned=True) for n in range(TABLES)}
        proxy = Proxy(directory / "proxy", metastore.uri, metastore.database.reader_url).start(prewarmed=True)
        try:
            trace, stop = Trace(), threading.Event()
            threads = [
                threading.Thread(target=query, args=(metastore.port, proxy, ids, trace, stop, seed))
                for seed in range(READERS)
            ]
            threads.append(threading.Thread(target=commit_steadily, args=(metastore.port, ids, trace, stop)))
            for thread in threads:
                thread.start()
            time.sleep(seconds)
            stop.set()
            for thread in threads:
                thread.join()
            counts = proxy.requests().items()
            return trace, {(how, why): n for (method, how, why), n in counts if method == "get_table_req"}
        finally:
            proxy.close()
    finally:
        bed.close()


def table(trace: Trace, counts: dict[tuple[str, str], float]) -> dict[str, Any]:
    """What was answered from which cache."""
    total = sum(counts.values())
    commits = sum(map(len, trace.commits.values()))
    median_ms = 1000 * sorted(trace.seconds)[len(trace.seconds) // 2]
    misses = ", ".join(f"{why} {n / total:.2%}" for (how, why), n in sorted(counts.items()) if how == "miss")
    title = (
        f"{total:,.0f} reads of {TABLES} tables, {commits} commits, median {median_ms:.2f} ms a read; misses of"
        f" the proxy: {misses or 'none'}."
    )
    rows = [["proxy, by write ids", f"{counts.get(('hit', 'write_id'), 0) / total:.1%}", "not counted here"]]
    for ttl_s in TTLS_S:
        ratio = with_ttl(trace, ttl_s)
        rows.append([f"time to live {ttl_s:.0f} s", f"{ratio.hits:.1%}", f"{ratio.wrong:.2%}"])
    head = ["cache", "answered from it", "of all reads: older than what the reader may see"]
    return kept.table(title, head, rows, text=1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.write_ids", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory:
        found = table(*measure(Path(directory), options.seconds))
    print(found["title"], *map(" | ".join, found["rows"]), sep="\n")
    if options.keep:
        kept.keep("single/write_ids", found, command="python -m benchmarks.write_ids --keep", of=of)


if __name__ == "__main__":
    main()
