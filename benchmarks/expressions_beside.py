"""One of 100,000 partitions by an expression of Hive's planner: a proxy, Hive 4.2 and its CachedStore, in one run.

Job: start the three on one database with one table, ask each for another partition each time over one connection, and
count the CPU time of a call: the server's and that of its database. Must not know: how a proxy answers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from benchmarks import contents
from benchmarks.measure import build_load_generator, counting, measure_batch
from benchmarks.servers import HIT, Stage, called, server_of, stage
from tests.testbed.client import MetastoreClient
from tests.testbed.objects import create_database

HUGE: Final = 100_000
CALLS: Final = {"Hive 4.2": 100, "CachedStore": 10, HIT: 1000}
"""Of each server as many as take it some seconds."""
WARM: Final = 5


def beside() -> list[tuple[str, int, float, float]]:
    """Who answered, how many calls, CPU time of a call in microseconds, and the median of their times in ms."""
    with tempfile.TemporaryDirectory(prefix="hms-beside-") as directory, stage(Path(directory)) as of:
        return _measured(of)


def _measured(of: Stage) -> list[tuple[str, int, float, float]]:
    database = of.metastore.database
    assert database is not None
    with MetastoreClient(*of.metastore.address) as client:
        create_database(client, contents.DATABASE)
        contents.fill_by_sql(client, database, "huge", HUGE)
    proxy = of.proxy("hit")
    proxy.start(prewarmed=True)
    generator, found = build_load_generator(), []
    for server in (server_of(HIT, proxy), of.hive(), of.cached_store()):
        calls = CALLS[server.label]
        measure_batch(generator, server, [contents.expression_huge(at) for at in range(WARM)])
        with counting(server) as counted:
            messages = [contents.expression_huge(97 * at) for at in range(WARM, WARM + calls)]
            result = measure_batch(generator, server, messages)
        found.append((called(server.label, counted), calls, result.cpu_us, result.p50_ms))
        print(f"{found[-1][0]:<20}{calls:>8}{result.cpu_us:>12.0f} us{result.p50_ms:>10.2f} ms", flush=True)
    return found
