"""How long after a change's commit the proxy serves it: changes at the metastore, polled through the proxy.

The clock runs from the metastore's reply to the change until the first answer of the proxy that shows it. Must not
know: how the follower works.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hive_metastore.ttypes import GetTablesRequest

from benchmarks.contents import DATABASE, get_table
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.raw import RawConnection, encode_call

CHANGED = "t18"
UNRELATED = [f"t{number:02d}" for number in range(4, 14)]
POLL_METHOD, READ_METHOD = "get_table_objects_by_name_req", "get_table_req"  # told apart in the metrics
POLL_PAUSE_S = 0.001
READ_PAUSE_S = 0.005


@dataclass(frozen=True, slots=True)
class Freshness:
    """`delays_ms` in order of size; `changes_per_s`: of others, at the metastore meanwhile; `hit_share`: of reads of
    unrelated tables; `poll_hit_share`: of the polls that saw the change.
    """

    delays_ms: list[float]
    median_ms: float
    p95_ms: float
    worst_ms: float
    changes_per_s: float
    hit_share: float
    poll_hit_share: float


@dataclass(frozen=True, slots=True)
class Burst:
    """DDL as fast as the metastore takes it; then the time until the cache has followed all of it."""

    changes: int
    seconds: float
    caught_up_ms: float


@dataclass
class Changes:
    """What a `benchmarks.ddl` process did, once it has ended."""

    made: int = 0
    seconds: float = 1.0


@dataclass
class _Reader:
    """Steady reads of unrelated tables through the proxy."""

    proxy: Proxy
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        messages = [get_table(table) for table in UNRELATED]
        with RawConnection(*self.proxy.address) as client:
            while not self.stop.is_set():
                client.call(random.choice(messages))
                time.sleep(READ_PAUSE_S)


@contextmanager
def ddl(port: int, per_s: float) -> Iterator[Changes]:
    """DDL in the background; 0: as fast as it goes."""
    command = [sys.executable, "-m", "benchmarks.ddl", "--port", str(port), "--rate", str(per_s)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    changes = Changes()
    try:
        yield changes
    finally:
        told, _ = process.communicate(timeout=60)
    if process.returncode:
        raise AssertionError("the load failed; its traceback stands above")
    found = json.loads(told)
    changes.made, changes.seconds = found["made"], found["seconds"]


def freshness(
    metastore: tuple[str, int], proxy: Proxy, *, samples: int, load_per_s: float = 0, pause_s: tuple[float, float]
) -> Freshness:
    """Time `samples` changes of one table, a random pause within `pause_s` between them."""
    reader = _Reader(proxy)
    thread = threading.Thread(target=reader.run)
    before = proxy.requests()
    thread.start()
    try:
        if load_per_s:
            with ddl(metastore[1], load_per_s) as changes:
                time.sleep(2)  # its tables exist, its connections are open
                delays = sorted(_delays(metastore, proxy, samples, pause_s))
        else:
            changes = Changes()
            delays = sorted(_delays(metastore, proxy, samples, pause_s))
    finally:
        reader.stop.set()
        thread.join()
    after = proxy.requests()
    return Freshness(
        delays_ms=delays,
        median_ms=statistics.median(delays),
        p95_ms=delays[int(len(delays) * 0.95)],
        worst_ms=delays[-1],
        changes_per_s=changes.made / changes.seconds,
        hit_share=_hit_share(READ_METHOD, before, after),
        poll_hit_share=_hit_share(POLL_METHOD, before, after),
    )


def _delays(metastore: tuple[str, int], proxy: Proxy, samples: int, pause_s: tuple[float, float]) -> Iterator[float]:
    """Milliseconds, one for each change."""
    poll = encode_call(POLL_METHOD, GetTablesRequest(dbName=DATABASE, tblNames=[CHANGED]))
    with MetastoreClient(*metastore) as direct, RawConnection(*proxy.address) as client:
        table = objects.read_table(direct, DATABASE, CHANGED)
        for number in range(samples):
            time.sleep(random.uniform(*pause_s))
            version = f"version {time.monotonic_ns()} {number}"
            table.parameters["bench_version"] = version
            direct.alter_table(DATABASE, CHANGED, table)
            committed = time.monotonic()
            while version.encode() not in client.call(poll):
                time.sleep(POLL_PAUSE_S)
            yield 1000 * (time.monotonic() - committed)


def burst(metastore: tuple[str, int], proxy: Proxy, *, seconds: float) -> Burst:
    with ddl(metastore[1], 0) as changes:
        time.sleep(seconds)
    ended = time.monotonic()
    with MetastoreClient(*metastore) as direct:
        newest = direct.get_current_notificationEventId().eventId
    proxy.wait_event(newest)
    return Burst(changes.made, changes.seconds, 1000 * (time.monotonic() - ended))


def _hit_share(
    method: str, before: dict[tuple[str, str, str], float], after: dict[tuple[str, str, str], float]
) -> float:
    grown = {key: count - before.get(key, 0) for key, count in after.items() if key[0] == method}
    hits = sum(count for (_, outcome, _), count in grown.items() if outcome == "hit")
    return hits / max(1.0, sum(grown.values()))
