"""A cache of a million partitions: how fast it is filled from the database, in how much memory, what clients get
meanwhile, and how soon a proxy that is started again serves from it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

from benchmarks.contents import get_table
from benchmarks.measure import cpu_seconds, private_bytes
from hms_cache_proxy.metrics import FLUSH_INTERVAL_S
from tests.proxy import Proxy
from tests.testbed.raw import RawConnection

PROBE_PAUSE_S = 0.005
SAMPLE_PAUSE_S = 0.05
PROBED = "t00"


@dataclass(frozen=True, slots=True)
class Prewarm:
    """Seconds and bytes of one prewarm. `memory`: (partitions done, the follower's own bytes) as it went; `calls`:
    get_table by a client meanwhile, `hits` of them from the cache, `call_p99_ms`, `call_worst_ms`.
    """

    partitions: int
    seconds: float
    follower_cpu_s: float
    database_cpu_s: float
    cache_bytes: int
    memory: list[tuple[int, int]]
    calls: int
    hits: int
    call_p99_ms: float
    call_worst_ms: float

    @property
    def growth_bytes(self) -> int:
        """The most that the follower held, over what it held after a tenth of the partitions."""
        early = [held for done, held in self.memory if done <= self.partitions / 10]
        return max(held for _, held in self.memory) - max(early)


@dataclass(frozen=True, slots=True)
class Restart:
    """From the start of the process: until the first answer, and until the first one from the cache."""

    partitions: int
    first_reply_ms: float
    first_hit_ms: float


@dataclass
class _Client:
    """Makes one call again and again; `times` holds (when it was answered, how long it took), seconds."""

    port: int
    message: bytes
    times: list[tuple[float, float]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until told to stop; from the moment on at which somebody listens."""
        with self._connected() as connection:
            while not self.stop.is_set():
                began = time.monotonic()
                connection.call(self.message)
                now = time.monotonic()
                self.times.append((now, now - began))
                time.sleep(PROBE_PAUSE_S)

    def _connected(self) -> RawConnection:
        while True:
            try:
                return RawConnection("127.0.0.1", self.port)
            except ConnectionRefusedError:
                time.sleep(PROBE_PAUSE_S)


@contextmanager
def asking(proxy: Proxy, message: bytes) -> Iterator[_Client]:
    """A client that asks meanwhile, from the moment on at which somebody listens."""
    client = _Client(proxy.port, message)
    thread = threading.Thread(target=client.run)
    thread.start()
    try:
        yield client
    finally:
        client.stop.set()
        thread.join()


def prewarm(proxy: Proxy, postgres: int, *, timeout_s: float) -> Prewarm:
    """Start it on an empty data directory, and watch until everything is loaded."""
    proxy.start()
    (follower,) = proxy.children()["follower"]
    memory: list[tuple[int, int]] = []
    database_before = cpu_seconds((postgres,))
    deadline = time.monotonic() + timeout_s
    with asking(proxy, get_table(PROBED)) as client:
        while not (status := proxy.status())["prewarm"]["done"]:
            if time.monotonic() > deadline:
                raise AssertionError(f"not prewarmed after {timeout_s} s: {status}")
            memory.append((status["prewarm"]["partitions_done"], private_bytes(follower)))
            time.sleep(SAMPLE_PAUSE_S)
    database_cpu_s = cpu_seconds((postgres,)) - database_before
    time.sleep(1.5 * FLUSH_INTERVAL_S)
    status = proxy.status()
    memory.append((status["objects"]["partitions"], private_bytes(follower)))
    took = sorted(1000 * seconds for _, seconds in client.times)
    return Prewarm(
        partitions=status["objects"]["partitions"],
        seconds=_metric(proxy, "hms_proxy_prewarm_seconds"),
        follower_cpu_s=cpu_seconds((follower,)),
        database_cpu_s=database_cpu_s,
        cache_bytes=status["cache_bytes"],
        memory=memory,
        calls=len(took),
        hits=hits(proxy),
        call_p99_ms=took[int(len(took) * 0.99)],
        call_worst_ms=took[-1],
    )


def restart(proxy: Proxy) -> Restart:
    """Stop it and start it again on the data that it has; a client tries from the beginning.

    Once a connection is served from the cache it goes on so: with h hits of n calls in turn, the first one is the one
    before the last h - 1.
    """
    proxy.stop()
    began = time.monotonic()
    with asking(proxy, get_table(PROBED)) as client:
        proxy.start()
        time.sleep(3)
    found = hits(proxy)
    if not found:
        raise AssertionError(f"no hit within 3 s of a warm start: {proxy.requests()}")
    return Restart(
        partitions=proxy.status()["objects"]["partitions"],
        first_reply_ms=1000 * (client.times[0][0] - began),
        first_hit_ms=1000 * (client.times[-found][0] - began),
    )


def hits(proxy: Proxy) -> int:
    """Of get_table_req, so far."""
    counts = proxy.requests().items()
    return int(sum(count for (method, outcome, _), count in counts if (method, outcome) == ("get_table_req", "hit")))


def _metric(proxy: Proxy, name: str) -> float:
    lines = (line.split() for line in proxy.get("/metrics")[1].splitlines())
    (value,) = chain.from_iterable(rest for first, *rest in lines if first == name)
    return float(value)
