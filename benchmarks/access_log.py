"""`python -m benchmarks.access_log [--load]`: what the access log costs a worker.

In this process: the short way's answers without it and with it, making lines of them, and the longest slice that this
holds the loop. With --load: CPU time of a worker for a call, off, a hundredth of the calls, all of them, in turn, under
the load generator. Must not know: what a line says.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks import contents, kept
from benchmarks.measure import Load, Result, build_load_generator, measure, middle
from benchmarks.servers import server_of, stage
from hms_cache_proxy.methods.hot import Told
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.server.access_log import AccessLog
from hms_cache_proxy.server.log_file import LogFile
from tests.methods.warm import Bench, Listening, opened, request
from tests.testbed import objects
from tests.testbed.client import MetastoreClient

CALLS = 50_000
ROUNDS = 7
LOADS = {"off": None, "sample = 0.01": 0.01, "sample = 1": 1.0}


def answers(bench: Bench, calls: int = CALLS) -> float:
    """CPU us of one answer of the short way."""
    hot, session, message, now = bench.dispatcher.hot, bench.session, request(), time.monotonic_ns
    began = time.process_time()
    for _ in range(calls):
        hot(session, message, now())
    return (time.process_time() - began) / calls * 1e6


def flush(log: AccessLog, calls: int = CALLS) -> tuple[float, float]:
    """CPU us to make and write one line; the most CPU ms of the loop's thread between two turns of others."""
    longest = 0.0

    async def flushing() -> None:
        nonlocal longest
        task = asyncio.create_task(log.flush())
        before = time.thread_time()
        while not task.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest = max(longest, now - before)
            before = now

    began = time.process_time()
    asyncio.run(flushing())
    return (time.process_time() - began) / calls * 1e6, longest * 1e3


@contextmanager
def warm(directory: Path, *told: Told) -> Iterator[Bench]:
    directory.mkdir()
    with opened(directory, Listening(told=told), max_unconfirmed_ms=3_600_000) as bench:
        bench.decide()
        gc.collect()
        gc.freeze()  # as a worker does
        yield bench


def in_process(directory: Path) -> list[list[object]]:
    """Rows: what, and how long it takes."""
    off: list[float] = []
    on: list[float] = []
    lines: list[tuple[float, float]] = []
    log = AccessLog(LogFile(directory / "access.jsonl", max_bytes=1 << 30, files=1), 1.0, WorkerMetrics())
    with warm(directory / "off") as without, warm(directory / "on", log.hit) as with_log:
        for _ in range(ROUNDS):
            off.append(answers(without))
            on.append(answers(with_log))
            lines.append(flush(log))
    return [
        ["an answer of the short way, us of CPU", median(off)],
        ["the same, told to the access log", median(on)],
        ["its line, made and written, us of CPU", median(one for one, _ in lines)],
        ["longest slice of the loop, ms", median(slice_ms for _, slice_ms in lines)],
    ]


def under_load(directory: Path) -> list[list[object]]:
    """Rows: setting, calls a second, CPU us of the worker for each, 99th percentile."""
    generator = build_load_generator()
    messages = next(case.messages for case in contents.CASES if case.key == "get_table")
    found: dict[str, list[Result]] = {name: [] for name in LOADS}
    with stage(directory) as bench:
        with MetastoreClient(*bench.metastore.address) as client:
            objects.create_database(client, contents.DATABASE)
            for number in range(3):
                made = objects.table(contents.DATABASE, f"t{number:02d}", objects.wide_columns(20))
                objects.create_table(client, made)
        for _ in range(3):
            for name, sample in LOADS.items():
                proxy = bench.proxy(f"{name}{len(found[name])}")
                if sample is not None:
                    where = {"ACCESS_LOG_DIRECTORY": str(directory / "log"), "ACCESS_LOG_SAMPLE": str(sample)}
                    proxy.settings = {**proxy.settings, **where}
                proxy.start(prewarmed=True)
                found[name].append(measure(generator, server_of(name, proxy), messages, Load(16, 3)))
                proxy.stop()
    rows: list[list[object]] = []
    for name, results in found.items():
        one = middle(results)
        rows.append([f"`{name}`", one.rps, one.cpu_us, one.p99_ms])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.access_log", description=__doc__)
    parser.add_argument("--load", action="store_true", help="a proxy under load, too (a minute)")
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory:
        tables = [kept.table("In one process:", ["", "measured"], in_process(Path(directory)), text=1)]
        if options.load:
            head = ["access log", "calls/s", "CPU us per call", "99 % ms"]
            tables.append(kept.table("A worker under load:", head, under_load(Path(directory)), text=1))
    for table in tables:
        for row in table["rows"]:
            print(*row, sep="\t")
    if options.keep:
        command = "python -m benchmarks.access_log" + " --load" * options.load + " --keep"
        kept.keep("single/access_log", *tables, command=command, of=of)


if __name__ == "__main__":
    main()
