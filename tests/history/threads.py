"""Threads that call servers over connections of their own until they are told to stop.

Every thread reconnects when its connection dies: a dead worker is part of the test. Must not know: what is called.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from thrift.Thrift import TException

from tests.testbed.client import MetastoreClient

LOST = (TException, OSError, EOFError)

logging.getLogger("thrift").setLevel(logging.CRITICAL)  # it logs every refused connection, and workers are killed here


@dataclass
class Connections:
    """One thread's connections, some per port, opened at need."""

    open: dict[tuple[int, int], MetastoreClient] = field(default_factory=dict)

    def get(self, port: int, number: int = 0) -> MetastoreClient:
        if (port, number) not in self.open:
            self.open[port, number] = MetastoreClient("127.0.0.1", port, timeout_s=60)
        return self.open[port, number]

    def drop(self, port: int) -> None:
        for key in [key for key in self.open if key[0] == port]:
            self.open.pop(key).close()

    def close(self) -> None:
        for port, _ in list(self.open):
            self.drop(port)


Job = Callable[[Connections], None]


class Threads:
    """Each runs one job again and again; `errors` are bugs of the jobs themselves."""

    def __init__(self, *, pause_s: float) -> None:
        self.pause_s = pause_s
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._count_lock = threading.Lock()

    def run(self, jobs: list[Job]) -> None:
        for number, job in enumerate(jobs):
            thread = threading.Thread(target=self._loop, args=(job,), name=f"history-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            if thread.is_alive():
                self.errors.append(f"{thread.name} hangs")

    def count(self, what: str) -> None:
        with self._count_lock:
            self.counts[what] += 1

    def lost(self, connections: Connections, port: int, error: BaseException, what: str) -> None:
        connections.drop(port)
        self.count(f"{what} failed: {type(error).__name__} {getattr(error, 'message', '')!s:.60}")
        time.sleep(0.05)

    def _loop(self, job: Job) -> None:
        connections = Connections()
        try:
            while not self._stop.is_set():
                job(connections)
                time.sleep(random.random() * self.pause_s)
        except Exception as error:  # a bug of the test itself must not pass as a quiet thread
            self.errors.append(f"{threading.current_thread().name}: {type(error).__name__}: {error}")
            raise
        finally:
            connections.close()
