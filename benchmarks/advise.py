"""`python -m benchmarks.advise [LINES ...] [--cores N,...] [--keep]`: how long `hms-cache-proxy advise` takes on
so many cores, in a small heap.

Lines about 10,000 tables, read as often as their rank says (Zipf), by 200 clients, over a day. Must not know: how it
is done.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from benchmarks import kept
from benchmarks.watched import watched

TABLES, CLIENTS, FILES = 10_000, 200, 4
MINUTES = 24 * 60
AT_ONCE = 10_000
HEAP = "1g"
LINE = (
    '{{"time":"2026-11-22T{hour:02}:{minute:02}:{second:02}.000Z","method":"{method}","object":"hive.db{db:02}.t{table}",'
    '"outcome":"{outcome}","reason":"{reason}","bytes":{size},"us":{us},"client":"10.0.{net}.{host}:{port}","user":"u{user}"}}\n'
)
KINDS = [
    ("get_table", "hit", "", 3000, 15),
    ("get_partitions_by_names", "hit", "", 150_000, 300),
    ("get_partition_names", "hit", "", 30_000, 40),
    ("get_table", "miss", "not_loaded", 3000, 4000),
    ("get_partitions_by_filter", "miss", "filter_unsupported", 90_000, 9000),
    ("alter_table", "write", "", 20, 30_000),
]
WEIGHTS = [60, 15, 10, 8, 5, 2]


def write(directory: Path, lines: int) -> int:
    """The log; its size in bytes."""
    chance = random.Random(1)
    ranks = list(accumulate(1 / (rank + 1) for rank in range(TABLES)))
    size = 0
    for number in range(FILES):
        with (directory / f"access-{number}.jsonl").open("w") as file:
            for begin in range(0, lines // FILES, AT_ONCE):
                minute = begin * MINUTES // (lines // FILES)
                tables = chance.choices(range(TABLES), cum_weights=ranks, k=AT_ONCE)
                kinds = chance.choices(KINDS, WEIGHTS, k=AT_ONCE)
                for second, (table, kind) in enumerate(zip(tables, kinds, strict=True)):
                    method, outcome, reason, reply, us = kind
                    client = chance.randrange(CLIENTS)
                    size += file.write(
                        LINE.format(
                            **{"hour": minute // 60, "minute": minute % 60, "second": second % 60, "method": method},
                            **{"db": table % 40, "table": table, "outcome": outcome, "reason": reason, "us": us},
                            **{"size": reply + table, "net": client % 4, "host": client, "port": 40000 + client},
                            **{"user": client % 20},
                        )
                    )
    return size


def timed(directory: Path, cores: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU time, Spark's JVM included. Its compiler and collector have no other core either."""
    here = sorted(os.sched_getaffinity(0))
    if len(here) < cores:
        raise SystemExit(f"this machine has {len(here)} cores")
    options = ["--master", f"local[{cores}]", "--conf", f"spark.driver.memory={HEAP}"]
    command = [sys.executable, "-m", "hms_cache_proxy", "advise", *options, "--out", f"{directory}/advice"]
    began_s = time.monotonic()
    os.sched_setaffinity(0, here[:cores])
    process = subprocess.Popen([*command, f"{directory}/access-*"], stdout=subprocess.DEVNULL)
    os.sched_setaffinity(0, here)
    with watched(lambda: process.pid) as used:
        if process.wait():
            raise SystemExit("advise failed")
    return time.monotonic() - began_s, used.cpu_s


def runs(lines: int, cores: list[int]) -> Iterator[list[float]]:
    """One log, by the number of cores: lines, megabytes, cores, seconds, seconds of CPU time."""
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as name:
        size = write(Path(name), lines)
        for number in cores:
            seconds, cpu_s = timed(Path(name), number)
            print(
                f"{lines:,} lines, {size / 1e6:,.0f} MB, {number} cores: {seconds:.1f} s, {cpu_s:.1f} s of CPU",
                flush=True,
            )
            yield [lines, round(size / 1e6), number, round(seconds, 1), round(cpu_s, 1)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.advise", description=__doc__)
    parser.add_argument("lines", nargs="*", type=int, default=[200_000, 2_000_000])
    parser.add_argument("--cores", metavar="N,...", default="1,2")
    kept.option(parser)
    arguments = parser.parse_args()
    of = kept.origin()
    cores = [int(number) for number in arguments.cores.split(",")]
    rows = [row for lines in arguments.lines for row in runs(lines, cores)]
    if arguments.keep:
        head = ["lines", "MB", "cores", "seconds", "seconds of CPU time"]
        title = f"Heap of {HEAP}:"
        command = "python -m benchmarks.advise --keep"
        kept.keep("single/advise", kept.table(title, head, rows, text=0), command=command, of=of)


if __name__ == "__main__":
    main()
