"""Writer and reader threads over the metastore's port and the proxies' ports.

Every thread reconnects when its connection dies: a dead worker is part of the test. A write whose outcome is unknown is
looked up on the metastore before the register is written again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

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

from tests.history.checker import Checker, Write
from tests.history.registers import ABSENT, Register, TableParameter, Torn, Way
from tests.history.threads import LOST, Connections, Job, Threads
from tests.testbed.client import MetastoreClient

T = TypeVar("T")

UNREADABLE = (LookupError, ValueError, TypeError, AttributeError)
"""An answer in which no version can be found, though every state of the object has one: it is wrong."""
CARRIED_OUT_S = 1.0
"""After its connection was lost a request has been carried out, as a rule."""


class Workload(Threads):
    """Threads over `ports` (the first is the metastore's own)."""

    def __init__(
        self,
        registers: list[Register],
        checker: Checker,
        ports: list[int],
        *,
        pause_s: float = 0.005,
        ordered_log: bool = True,
    ) -> None:
        """`ordered_log`: a larger event id is of a later change, and every change has one."""
        super().__init__(pause_s=pause_s)
        self.registers, self.checker, self.ports = registers, checker, ports
        self.increments = 0
        self.ordered_log = ordered_log

    def start(self, *, writers: int = 3, readers: int = 6, counter: Register | None = None, lockers: int = 2) -> None:
        jobs: list[Job] = [self._read_log_once]
        jobs += [self._write_once] * writers + [self._read_once] * readers
        if counter is not None:
            jobs += [lambda connections: self._increment(connections, counter)] * lockers
        self.run(jobs)

    def pick(self, registers: Sequence[T]) -> tuple[T, int]:
        """One to read or write, and the port to write it through. Half of the time they are the same for everybody,
        others each second: what is written in one place is read at once, in all places.
        """
        if random.random() < 0.5:
            now = random.Random(int(time.monotonic()))
            return now.choice(registers), now.choice(self.ports)
        return random.choice(registers), random.choice(self.ports)

    # -- writing -------------------------------------------------------------------------------------------------
    def _write_once(self, connections: Connections) -> None:
        register, port = self.pick(self.registers)
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
            self.lost(connections, port, error, "write")
            if write is not None:
                register.version = self._settled(connections, register, version)
            return
        self.checker.end(write, time.monotonic_ns())
        register.version = version
        self.counts["writes"] += 1
        if self.ordered_log and random.random() < 0.3:
            direct = connections.get(self.ports[0])
            write.event_id = direct.get_current_notificationEventId().eventId

    def _settled(self, connections: Connections, register: Register, version: int) -> int:
        """The version after a write with unknown outcome, once nothing of it is under way any more."""
        time.sleep(1.0)
        direct = connections.get(self.ports[0])
        while True:
            try:
                found = register.read(direct)
                break
            except Torn:
                continue
        if found == ABSENT:
            return version if version % 2 else version - 1
        return found

    # -- reading -------------------------------------------------------------------------------------------------
    def _read_once(self, connections: Connections) -> None:
        """A few connections ask the same one after the other: what one was told must not harm the others."""
        port = random.choice(self.ports)
        try:
            clients = [connections.get(port, number) for number in range(random.randint(1, 3))]
        except LOST as error:
            return self.lost(connections, port, error, "connect")
        seen: list[dict[str, int]] = [{} for _ in clients]
        for _ in range(random.randint(1, 15)):
            if self._stop.is_set():
                break
            register, _ = self.pick(self.registers)
            for _ in range(random.randint(1, 4)):  # in a row: by different ways, of which some are cached
                way = random.choice(register.usable())
                for client, before in zip(clients, seen, strict=True):
                    if not self._read(client, register, way, port, before):
                        return connections.drop(port)
                clients.reverse()  # who was answered by the metastore must wait for the cache; who was not, need not
                seen.reverse()
        if random.random() < 0.5:
            connections.drop(port)
        return None

    def _read(self, client: MetastoreClient, register: Register, way: Way, port: int, seen: dict[str, int]) -> bool:
        required = self.checker.required(register.key, port, time.monotonic_ns())
        try:
            version = way(client)
        except Torn:
            self.count("torn reads, direct" if port == self.ports[0] else "torn reads, proxied")
            return True
        except UNREADABLE as error:
            self.checker.violated(register.key, port, way.__name__, f"no version can be read: {error!r}")
            return True
        except LOST as error:
            self.count(f"read failed: {type(error).__name__}")
            return False
        ended_ns = time.monotonic_ns()
        before = seen.get(register.key, 0)
        if version == ABSENT:
            version = max(required, before) | 1  # dropped at least so late: odd
        self.checker.read(
            register.key, port, version, required=required, seen=before, ended_ns=ended_ns, how=way.__name__
        )
        seen[register.key] = max(version, before)
        self.counts["reads"] += 1
        return True

    def _read_log_once(self, connections: Connections) -> None:
        port = random.choice(self.ports)
        try:
            event_id = connections.get(port).get_current_notificationEventId().eventId
        except LOST as error:
            return self.lost(connections, port, error, "read of the log")
        self.checker.hand_out(port, event_id)
        self._stop.wait(random.uniform(1, 6))  # seldom: it holds back every hit, and would hide what fences are for
        return None

    # -- locked increments: what Iceberg's commit does -----------------------------------------------------------
    def _increment(self, connections: Connections, counter: Register) -> None:
        assert isinstance(counter, TableParameter)
        port = random.choice(self.ports)
        try:
            lock_id = self._lock(connections, lambda: port, counter)
            if lock_id is None:
                return
            client = connections.get(port)
            version = counter.by_get_table_req(client)
            if version < self.increments:  # those that were acknowledged: no other thread has the lock
                self.checker.violations.append(f"{version} read under the lock after {self.increments} increments")
            counter.write(client, version + 1)
        except LOST as error:
            self.lost(connections, port, error, "increment")
            self._unlock_lost(connections, counter)
            return
        with self._count_lock:
            self.increments += 1
        try:
            connections.get(self.ports[0]).unlock(UnlockRequest(lockid=lock_id))
        except LOST as error:
            self.lost(connections, self.ports[0], error, "unlock")
            self._unlock_lost(connections, counter)

    def _lock(self, connections: Connections, port: Callable[[], int], counter: Register) -> int | None:
        """Its id; None if the end came first. `port`: where the next call goes."""
        answer = connections.get(port()).lock(self._lock_request(counter))
        looked_s = time.monotonic()
        while answer.state == LockState.WAITING:
            if self._stop.wait(0.01):
                self._unlock_own(connections, counter)
                return None
            if time.monotonic() > looked_s + CARRIED_OUT_S:
                self._unlock_own(connections, counter, but=answer.lockid)
                looked_s = time.monotonic()
            answer = connections.get(port()).check_lock(CheckLockRequest(lockid=answer.lockid))
        return int(answer.lockid)

    def _lock_request(self, counter: Register) -> LockRequest:
        part = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, counter.database, counter.name, isTransactional=True)
        return LockRequest(component=[part], user="history", hostname=threading.current_thread().name)

    def _unlock_lost(self, connections: Connections, counter: Register) -> None:
        """Also a lock whose id was lost with a connection: without heartbeats it would stand for minutes. One that is
        granted later yet is found while the thread waits for its next one."""
        time.sleep(CARRIED_OUT_S)
        self._unlock_own(connections, counter)

    def _unlock_own(self, connections: Connections, counter: Register, but: int | None = None) -> None:
        """All locks of this thread but one."""
        direct = connections.get(self.ports[0])
        shown = direct.show_locks(ShowLocksRequest(dbname=counter.database, tablename=counter.name))
        for lock in shown.locks or []:
            if lock.hostname == threading.current_thread().name and lock.lockid != but:
                direct.unlock(UnlockRequest(lockid=lock.lockid))
