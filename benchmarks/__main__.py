"""`python -m benchmarks [--seconds S] [--only CASE,...] [--huge N] [--no-report]`: measure everything in one run."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.contents import CASES, HUGE_FILTER, Case, fill, fill_huge
from benchmarks.freshness import freshness
from benchmarks.measure import Server, build_load_generator, measure
from benchmarks.report import Run, write
from benchmarks.servers import Stage, stage
from tests.testbed.client import MetastoreClient
from tests.testbed.raw import RawConnection

SERVERS = ["Hive 4.2", "CachedStore", "proxy miss", "proxy hit", "bare uvloop"]
BARE_CASES = {"get_database", "get_table", "get_partition_by_name"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each figure")
    parser.add_argument("--only", default="", help="keys of cases, comma-separated")
    parser.add_argument("--huge", type=int, default=100_000, help="partitions of the huge table; 0: none")
    parser.add_argument("--no-report", action="store_true", help="print only")
    options = parser.parse_args()
    wanted = [case for case in CASES if not options.only or case.key in options.only.split(",")]
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory, stage(Path(directory)) as bench:
        run = _measure_all(bench, wanted, options.seconds, options.huge)
    if not options.no_report:
        write(run)


def _measure_all(bench: Stage, cases: list[Case], seconds: float, huge: int) -> Run:
    generator = build_load_generator()
    database = bench.metastore.database
    assert database is not None
    with MetastoreClient(*bench.metastore.address) as client:
        _timed("fill", lambda: fill(client))
        cached = bench.cached_store()  # before the huge table: it answers nobody until all is in its cache
        if huge:
            _timed(f"fill {huge} partitions by SQL", lambda: fill_huge(client, database, huge))
            cases = [*cases, HUGE_FILTER]
    run = Run(cases, SERVERS)
    began = time.monotonic()
    hit, proxy = bench.proxy("proxy hit", store=True)
    status = proxy.status()
    partitions = status["objects"]["partitions"]
    run.notes["prewarm"] = (
        f"{partitions:,} partitions ready {time.monotonic() - began:.1f} s after the start of the process"
    )
    run.notes["size"] = (
        f"{status['cache_bytes'] / max(1, partitions):.0f} bytes of cache per partition, tables included"
    )
    miss, _ = bench.proxy("proxy miss", store=False)
    servers = [bench.hive(), cached, miss, hit]
    for case in cases:
        run.results[case.key] = {}
        message = case.message("hive42")
        for server in servers:
            if case is HUGE_FILTER and server.label == "CachedStore":
                continue
            _one(run, generator, case, server, message, seconds)
        if case.key in BARE_CASES:
            with RawConnection(*proxy.address) as client:
                bare = bench.bare(client.call(message))
            _one(run, generator, case, bare, message, seconds)
    hit_rate = run.results.get("get_table", {}).get("proxy hit")
    if hit_rate is not None:
        half = next(case for case in cases if case.key == "get_table")
        result = measure(generator, hit, half.message("hive42"), connections=16, seconds=seconds, rate=hit_rate.rps / 2)
        run.notes["get_table_req at half load"] = (
            f"median {result.p50_ms:.2f} ms, 99th percentile {result.p99_ms:.2f} ms"
        )
    run.freshness["idle"] = freshness(bench.metastore.address, proxy, samples=60)
    run.freshness["100 changes a second"] = freshness(bench.metastore.address, proxy, samples=100, load_per_s=100)
    for load, fresh in run.freshness.items():
        print(load, fresh, flush=True)
    return run


def _timed(what: str, work: object) -> None:
    began = time.monotonic()
    assert callable(work)
    work()
    print(f"{what}: {time.monotonic() - began:.1f} s", flush=True)


def _one(run: Run, generator: Path, case: Case, server: Server, message: bytes, seconds: float) -> None:
    try:
        result = measure(generator, server, message, connections=case.connections, seconds=seconds)
    except subprocess.CalledProcessError as error:
        run.notes[f"{case.label}, {server.label}"] = f"no figure: {error.stderr.strip()[:200]}"
        print(f"{case.key:24} {server.label:12} failed: {error.stderr.strip()[:200]}", flush=True)
        return
    except AssertionError as error:
        run.notes[f"{case.label}, {server.label}"] = "no figure: it answers with an exception"
        print(f"{case.key:24} {server.label:12} {error}", flush=True)
        return
    run.results[case.key][server.label] = result
    cpu = "" if result.cpu_us is None else f"{result.cpu_us:10.1f} us CPU"
    print(f"{case.key:24} {server.label:12} {result.rps:10.0f}/s  p50 {result.p50_ms:8.3f} ms {cpu}", flush=True)


if __name__ == "__main__":
    main()
