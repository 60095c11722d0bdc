"""Writer and reader threads over the metastore's port and the proxies' ports.

Every thread reconnects when its connection dies: a dead worker is part of the test. A write whose outcome is unknown is
looked up on the metastore before the register is written again.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hive_metastore.ttypes import (
    CheckLockRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    ShowLocksRequest,
    UnlockRequest,
)
from thrift.Thrift import TException

from tests.history.checker import Checker, Write
from tests.history.registers import ABSENT, Register, TableParameter, Torn
from tests.testbed.client import MetastoreClient

LOST = (TException, OSError, EOFError)

logging.getLogger("thrift").setLevel(logging.CRITICAL)  # it logs every refused connection, and workers are killed here


@dataclass
class Connections:
    """One thread's connections, one per port, opened at need."""

    open: dict[int, MetastoreClient] = field(default_factory=dict)

    def get(self, port: int) -> MetastoreClient:
        if port not in self.open:
            self.open[port] = MetastoreClient("127.0.0.1", port, timeout_s=60)
        return self.open[port]

    def drop(self, port: int) -> None:
        client = self.open.pop(port, None)
        if client is not None:
            client.close()

    def close(self) -> None:
        for port in list(self.open):
            self.drop(port)


class Workload:
    """Threads over `ports` (the first is the metastore's own)."""

    def __init__(
        self, registers: list[Register], checker: Checker, ports: list[int], *, pause_s: float = 0.005
    ) -> None:
        self.registers, self.checker, self.ports, self.pause_s = registers, checker, ports, pause_s
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self.increments = 0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._count_lock = threading.Lock()

    # -- running -------------------------------------------------------------------------------------------------
    def start(self, *, writers: int = 3, readers: int = 6, counter: Register | None = None, lockers: int = 2) -> None:
        jobs: list[Callable[[Connections], None]] = [self._write_once] * writers + [self._read_once] * readers
        jobs.append(self._read_log_once)
        if counter is not None:
            jobs += [lambda connections: self._increment(connections, counter)] * lockers
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

    def _loop(self, job: Callable[[Connections], None]) -> None:
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

    def _lost(self, connections: Connections, port: int, error: BaseException, what: str) -> None:
        connections.drop(port)
        with self._count_lock:
            self.counts[f"{what} failed: {type(error).__name__} {getattr(error, 'message', '')!s:.60}"] += 1
        time.sleep(0.05)

    # -- writing -------------------------------------------------------------------------------------------------
    def _write_once(self, connections: Connections) -> None:
        register, port = random.choice(self.registers), random.choice(self.ports)
        if not register.lock.acquire(blocking=False):
            return
        try:
            self._write(connections, register, port)
        finally:
            register.lock.release()

    def _write(self, connections: Connections, register: Register, port: int) -> None:
        version = register.version + 1
        write: Write | None = None
        try:
            client = connections.get(port)
            write = self.checker.begin(register.key, version, port, time.monotonic_ns())
            register.write(client, version)
        except LOST as error:
            self._lost(connections, port, error, "write")
            if write is not None:
                register.version = self._settled(connections, register, version)
            return
        self.checker.end(write, time.monotonic_ns())
        register.version = version
        self.counts["writes"] += 1
        if random.random() < 0.3:
            direct = connections.get(self.ports[0])
            write.event_id = direct.get_current_notificationEventId().eventId

    def _settled(self, connections: Connections, register: Register, version: int) -> int:
        """The version after a write with unknown outcome, once nothing of it is under way any more."""
        time.sleep(1.0)
        found, _ = register.read(connections.get(self.ports[0]))
        if found == ABSENT:
            return version if version % 2 else version - 1
        return found

    # -- reading -------------------------------------------------------------------------------------------------
    def _read_once(self, connections: Connections) -> None:
        port = random.choice(self.ports)
        try:
            client = connections.get(port)
        except LOST as error:
            return self._lost(connections, port, error, "connect")
        seen: dict[str, int] = {}
        for register in random.choices(self.registers, k=random.randint(1, 30)):
            if self._stop.is_set():
                break
            for _ in range(random.randint(1, 4)):  # in a row: by different ways, of which some are cached
                if not self._read(client, register, port, seen):
                    return connections.drop(port)
        if random.random() < 0.5:
            connections.drop(port)
        return None

    def _read(self, client: MetastoreClient, register: Register, port: int, seen: dict[str, int]) -> bool:
        owed = self.checker.owed(register.key, port, time.monotonic_ns())
        try:
            version, how = register.read(client)
        except Torn:
            with self._count_lock:
                self.counts["torn reads, direct" if port == self.ports[0] else "torn reads, proxied"] += 1
            return True
        except LOST as error:
            with self._count_lock:
                self.counts[f"read failed: {type(error).__name__}"] += 1
            return False
        ended_ns = time.monotonic_ns()
        if version == ABSENT:
            newest = self.checker.newest(register.key, ended_ns)
            version = newest if newest % 2 else newest - 1
        self.checker.read(
            register.key, port, version, owed=owed, seen=seen.get(register.key, 0), ended_ns=ended_ns, how=how
        )
        seen[register.key] = max(version, seen.get(register.key, 0))
        self.counts["reads"] += 1
        return True

    def _read_log_once(self, connections: Connections) -> None:
        port = random.choice(self.ports)
        try:
            event_id = connections.get(port).get_current_notificationEventId().eventId
        except LOST as error:
            return self._lost(connections, port, error, "read of the log")
        self.checker.hand_out(port, event_id)
        self._stop.wait(random.uniform(1, 6))  # seldom: it holds back every hit, and would hide what fences are for
        return None

    # -- locked increments: what Iceberg's commit does -----------------------------------------------------------
    def _increment(self, connections: Connections, counter: Register) -> None:
        assert isinstance(counter, TableParameter)
        port = random.choice(self.ports)
        try:
            client = connections.get(port)
            lock_id = self._lock(client, counter)
            version = counter.by_get_table_req(client)
            counter.write(client, version + 1)
        except LOST as error:
            self._lost(connections, port, error, "increment")
            self._unlock_own(connections, counter)
            return
        with self._count_lock:
            self.increments += 1
        try:
            connections.get(self.ports[0]).unlock(UnlockRequest(lockid=lock_id))
        except LOST as error:
            self._lost(connections, self.ports[0], error, "unlock")
            self._unlock_own(connections, counter)

    def _lock(self, client: MetastoreClient, counter: Register) -> int:
        part = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, counter.database, counter.name, isTransactional=True)
        owner = threading.current_thread().name
        answer = client.lock(LockRequest(component=[part], user="history", hostname=owner))
        while answer.state == LockState.WAITING:
            time.sleep(0.01)
            answer = client.check_lock(CheckLockRequest(lockid=answer.lockid))
        return int(answer.lockid)

    def _unlock_own(self, connections: Connections, counter: Register) -> None:
        """Also a lock whose id was lost with a connection: without heartbeats it would stand for minutes."""
        time.sleep(1.0)  # the request that was under way has been carried out
        direct = connections.get(self.ports[0])
        shown = direct.show_locks(ShowLocksRequest(dbname=counter.database, tablename=counter.name))
        for lock in shown.locks or []:
            if lock.hostname == threading.current_thread().name:
                direct.unlock(UnlockRequest(lockid=lock.lockid))
