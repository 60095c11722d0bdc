"""How long after a change's commit the proxy serves it: changes at the metastore, polled through the proxy."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass

from hive_metastore.ttypes import GetTableRequest

from benchmarks.contents import DATABASE
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient


@dataclass(frozen=True, slots=True)
class Freshness:
    """Milliseconds from the metastore's reply to a change until the proxy's answer shows it."""

    samples: int
    median_ms: float
    p95_ms: float
    worst_ms: float
    changes_per_s: float
    hit_share: float


def _version(client: MetastoreClient, table: str) -> str:
    found = client.get_table_req(GetTableRequest(dbName=DATABASE, tblName=table)).table.parameters
    return str(found.get("bench_version", ""))


def _change(client: MetastoreClient, table: str, version: str) -> None:
    found = client.get_table_req(GetTableRequest(dbName=DATABASE, tblName=table)).table
    found.parameters["bench_version"] = version
    client.alter_table(DATABASE, table, found)


class Load:
    """Steady changes of other tables at the metastore, and steady reads of an untouched one through the proxy."""

    def __init__(self, metastore: tuple[str, int], proxy: Proxy, per_s: float) -> None:
        self.changes = 0
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._alter, args=(metastore, per_s / 4, f"t{number:02d}")) for number in range(4)
        ]
        self._threads.append(threading.Thread(target=self._read, args=(proxy,)))

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _alter(self, metastore: tuple[str, int], per_s: float, table: str) -> None:
        with MetastoreClient(*metastore) as client:
            found = client.get_table_req(GetTableRequest(dbName=DATABASE, tblName=table)).table
            due = time.monotonic()
            while not self._stop.is_set():
                found.parameters["load"] = str(self.changes)
                client.alter_table(DATABASE, table, found)
                self.changes += 1
                due = max(due + 1 / per_s, time.monotonic() - 1)
                time.sleep(max(0.0, due - time.monotonic()))

    def _read(self, proxy: Proxy) -> None:
        with MetastoreClient(*proxy.address) as client:
            while not self._stop.is_set():
                client.get_table_req(GetTableRequest(dbName=DATABASE, tblName="t10"))
                time.sleep(0.002)


def freshness(metastore: tuple[str, int], proxy: Proxy, *, samples: int, load_per_s: float = 0) -> Freshness:
    """Time `samples` changes of one table; with load_per_s, under so many changes of others."""
    delays: list[float] = []
    before = proxy.requests()
    began = time.monotonic()
    load = Load(metastore, proxy, load_per_s) if load_per_s else None
    if load is not None:
        load.__enter__()
    try:
        with MetastoreClient(*metastore) as direct, MetastoreClient(*proxy.address) as client:
            for number in range(samples):
                version = f"{began}-{number}"
                _change(direct, "t18", version)
                committed = time.monotonic()
                while _version(client, "t18") != version:
                    time.sleep(0.0005)
                delays.append(1000 * (time.monotonic() - committed))
                time.sleep(0.05)
    finally:
        if load is not None:
            load.__exit__()
    seconds = time.monotonic() - began
    delays.sort()
    return Freshness(
        samples=samples,
        median_ms=statistics.median(delays),
        p95_ms=delays[int(len(delays) * 0.95)],
        worst_ms=delays[-1],
        changes_per_s=((load.changes if load else 0) + samples) / seconds,
        hit_share=_hit_share(before, proxy.requests()),
    )


def _hit_share(before: dict[tuple[str, str, str], float], after: dict[tuple[str, str, str], float]) -> float:
    grown = {key: count - before.get(key, 0) for key, count in after.items() if key[0] == "get_table_req"}
    hits = sum(count for (_, outcome, _), count in grown.items() if outcome == "hit")
    return hits / max(1.0, sum(grown.values()))
