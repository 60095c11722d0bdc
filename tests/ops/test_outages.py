"""Everything under the proxy's clients dies in turn, under load: kill -9 of a worker, of the follower, of the whole
proxy; a follower that hangs; the database's server and the metastore restart.

Each time the service returns by itself (the proxy that was killed is started again, as an init system does). Readers
check that nothing wrong is ever served: not older than the last write that was acknowledged when they asked, not older
than what their connection has seen, nothing that was never written. The cursor never goes back.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import urllib.error
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from hive_metastore.ttypes import MetaException, NoSuchObjectException
from thrift.Thrift import TException

from tests.lengths import by_tier
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import LocalPostgres
from tests.testbed.processes import wait_until

BACK_S = 90.0  # a metastore's start on a busy machine, its tries of a database call, and the follower's pauses
SETTLE_S = 1.5  # a write whose client was lost has been carried out by then, or never will be
QUIET = 7  # of a table that is not written, so that hits do not wait for the fence of a write that was lost
PAUSE_S = by_tier(test=0.01, all=0.002, every=0.002)
LOST = (TException, OSError, EOFError)


class Register:
    """A parameter of one table: written through the proxy by one thread, read through it by several."""

    def __init__(self, metastore: Metastore, proxy: Proxy) -> None:
        self.metastore, self.proxy = metastore, proxy
        self.acknowledged = self.attempted = 0
        self.outage = False  # of the database: then Hive itself says that what is there does not exist
        self.reads = 0
        self.cursor = 0
        self.wrong: list[str] = []
        self.stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(job,), daemon=True)
            for job in (self._write, self._watch, *[self._read] * 3)
        ]

    def __enter__(self) -> Register:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            self.wrong.append(f"{job.__name__} ended: {error!r}")
            raise

    def _client(self, address: tuple[str, int]) -> MetastoreClient | None:
        try:
            return MetastoreClient(*address, timeout_s=60)
        except LOST:
            self.stop.wait(0.05)
            return None

    def _write(self) -> None:
        while not self.stop.is_set():
            client = self._client(self.proxy.address)
            if client is None:
                continue
            with client, suppress(*LOST):
                table = objects.read_table(client, "d", "t")
                while not self.stop.wait(0.02):
                    self.attempted += 1
                    table.parameters["version"] = str(self.attempted)
                    client.alter_table("d", "t", table)
                    self.acknowledged = self.attempted
            if self.acknowledged != self.attempted:
                self._settle()

    def _settle(self) -> None:
        """Which of the two the table has, once nothing is under way any more."""
        while not self.stop.wait(SETTLE_S):
            direct = self._client(self.metastore.address)
            if direct is not None:
                with direct, suppress(*LOST):
                    self.acknowledged = version(objects.read_table(direct, "d", "t"))
                    return

    def _read(self) -> None:
        while not self.stop.is_set():
            client = self._client(self.proxy.address)
            if client is None:
                continue
            with client:
                self._read_on(client)
            self.stop.wait(0.05)

    def _read_on(self, client: MetastoreClient) -> None:
        seen = 0
        while not self.stop.wait(PAUSE_S):
            least = max(self.acknowledged, seen)
            outage = self.outage
            try:
                found = version(objects.read_table(client, "d", "t"))
                quiet = version(objects.read_table(client, "d", "quiet"))
            except (NoSuchObjectException, MetaException) as error:
                if not (outage or self.outage):
                    self.wrong.append(f"{error!r} while the database is there")
                return
            except LOST:
                return
            if not least <= found <= self.attempted:
                self.wrong.append(f"{found}, required {least} (of it seen {seen}), written {self.attempted}")
            if quiet != QUIET:
                self.wrong.append(f"{quiet} for what nobody writes")
            seen = found
            self.reads += 1

    def _watch(self) -> None:
        while not self.stop.wait(0.05):
            try:
                status = self.proxy.status()
            except (urllib.error.URLError, OSError):
                continue
            if status["mode_reason"] == "starting":
                continue  # a new follower has not opened the cache: nothing is served, and no cursor is known
            cursor = int(status["cursor_event_id"])
            if cursor < self.cursor:
                self.wrong.append(f"the cursor went back from {self.cursor} to {cursor}")
            self.cursor = cursor

    def served(self) -> None:
        """From now on a write is acknowledged, the cursor moves past it, and hits are counted."""
        acknowledged, cursor, hits = self.acknowledged, self.cursor, count(self.proxy, "hit")
        assert wait_until(lambda: self.acknowledged > acknowledged + 5 or bool(self.wrong), BACK_S), self.state()
        assert wait_until(lambda: self.cursor > cursor + 5 or bool(self.wrong), BACK_S), self.state()
        assert wait_until(lambda: told(self.proxy, "hit") > hits + 20 or bool(self.wrong), BACK_S), self.state()
        assert not self.wrong, self.state()

    def state(self) -> str:
        return f"{self.wrong[:5]}; {self.reads} reads; {self.proxy.peek()}\n{self.proxy.log_tail()}"


def version(table: Any) -> int:
    return int(table.parameters["version"])


def count(proxy: Proxy, outcome: str) -> float:
    """All that there were until now; in 1.5 s, so not for a condition that is waited for."""
    with suppress(urllib.error.URLError, OSError):
        return outcomes(proxy.requests(), outcome)
    return 0


def told(proxy: Proxy, outcome: str) -> float:
    """Those that workers have told of."""
    with suppress(urllib.error.URLError, OSError):
        return outcomes(proxy.told_requests(), outcome)
    return 0


def outcomes(requests: dict[tuple[str, str, str], float], outcome: str) -> float:
    return sum(number for (_, how, _), number in requests.items() if how == outcome)


def kill(proxy: Proxy, role: str, number: signal.Signals = signal.SIGKILL) -> list[int]:
    pids = proxy.children()[role]
    for pid in pids:
        os.kill(pid, number)
    return pids


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_service_returns_and_nothing_wrong_is_served(
    new_postgres: Callable[[], LocalPostgres],
    new_metastore: Callable[..., Metastore],
    new_proxy: Callable[..., Proxy],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "thrift")  # it logs every refused connection
    server = new_postgres()
    metastore = new_metastore(postgres=server, settings={"hikaricp.connectionTimeout": "5000"})
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, "d")
        objects.create_table(client, objects.table("d", "t", parameters={"version": "0"}))
        objects.create_table(client, objects.table("d", "quiet", parameters={"version": str(QUIET)}))
    proxy = new_proxy(metastore, settings={"WORKERS": "2", "FOLLOWER_HUNG_AFTER_S": "10"})
    with ExitStack() as stack:
        register = stack.enter_context(Register(metastore, proxy))
        register.served()

        kill(proxy, "worker")
        register.served()

        kill(proxy, "follower")
        register.served()

        hung = kill(proxy, "follower", signal.SIGSTOP)
        assert wait_until(lambda: proxy.children()["follower"] not in ([], hung), BACK_S), register.state()
        register.served()

        register.outage = True
        server.kill()
        time.sleep(2)
        server.start()
        register.served()
        register.outage = False

        metastore.kill()
        time.sleep(1)
        metastore.start()
        register.served()

        proxy.kill()
        proxy.start()
        register.served()
        assert wait_until(lambda: register.reads > 300 or bool(register.wrong), BACK_S), register.state()
    assert not register.wrong, register.state()
