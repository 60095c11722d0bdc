"""Clients of a history under faults that may hold a write back for long: an object under a lost write is left alone.

Job: tests/history's threads, for objects that retire. A write whose outcome is not known may be carried out at any
later time (a connection was deaf, a server was stopped), so nobody writes its object again: readers go on checking that
it has the one version or the other, and a new object of its kind takes its place. A counter under a lock likewise.
Must not know: which faults there are.
Invariant: an object is read through proxies only when these have followed its creation.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from hive_metastore.ttypes import CheckLockRequest, LockState, UnlockRequest

from tests.history.checker import Checker, Write
from tests.history.registers import KINDS, DatabaseParameter, Register, TableParameter, TransactionParameter, Way
from tests.history.threads import LOST, Connections, Job
from tests.history.workload import Workload
from tests.testbed.client import MetastoreClient
from tests.torture.gate import Gate
from tests.torture.world import World

PAUSE_S = 1.0
"""Between two jobs of a thread, at most: clients leave two cores some time for what is tortured."""
RETIRED_READ = 12
"""So many of the retired are read on."""


class OwnChecker(Checker):
    """Passes over what Hive itself answers while it has no database: that what is there does not exist."""

    def __init__(self, world: World, *, bound_s: float) -> None:
        super().__init__(direct=world.metastore.port, bound_ns=int(bound_s * 1e9))
        self.world = world
        self.excused = 0
        self.began = threading.local()
        self._start_s = time.monotonic()

    def violated(self, register: str, port: int, how: str, problem: str) -> None:
        """Note an answer that must not be, with its time."""
        now_s = time.monotonic()
        if self.world.was_without_database(getattr(self.began, "at_s", now_s), now_s):
            self.excused += 1
            return
        super().violated(register, port, how, f"{problem} (at {now_s - self._start_s:.1f} s)")


@dataclass(eq=False)
class Counter:
    """A table parameter that is incremented under an exclusive lock until an increment is lost."""

    register: TableParameter
    increments: int = 0
    lost: int = 0  # they may have been carried out
    lock: threading.Lock = field(default_factory=threading.Lock)


class TortureWorkload(Workload):
    """Threads over the metastore's own port and the proxies' fronts."""

    def __init__(self, world: World, checker: OwnChecker, prefix: str, gate: Gate) -> None:
        super().__init__([], checker, world.ports, pause_s=PAUSE_S)
        self.world, self.own, self.gate = world, checker, gate
        self.database = f"{prefix}_db"
        self.live: list[Register] = []
        self.retired: deque[Register] = deque(maxlen=RETIRED_READ)
        self.retirements = 0
        self.counter: Counter | None = None
        self.counters: list[Counter] = []
        self._wanted: deque[type[Register]] = deque()
        self._numbers = itertools.count()

    def create(self, copies: int) -> None:
        """The first objects of every kind, and a counter. A commit of a transaction writes to anything: few do it."""
        with MetastoreClient(*self.world.truth) as client:
            DatabaseParameter("", self.database).create(client)
            few: list[type[Register]] = [kind for kind in KINDS if kind is not TransactionParameter]
            self._wanted.extend([DatabaseParameter, *few] * copies)
            self._wanted.append(TransactionParameter)
            while self._wanted or self.counter is None:
                self._replace(client)

    def begin(self, *, writers: int, readers: int, lockers: int) -> None:
        """Start all threads."""
        jobs: list[Job] = [self._read_log_once, self._replace_once]
        jobs += [self._write_once] * writers + [self._read_once] * readers + [self._increment_once] * lockers
        self.run([self._gated(job) for job in jobs])

    def _gated(self, job: Job) -> Job:
        def inside(connections: Connections) -> None:
            with self.gate.inside():
                job(connections)

        return inside

    def begin_again(self) -> list[Register]:
        """All objects are as they were some time ago, or gone: others take their places. Those that were.

        While the gate is closed: nobody uses what is changed here."""
        old = [*self.live, *self.retired]
        self._wanted.extend(type(register) for register in self.live)
        self.live.clear()
        self.retired.clear()
        self.counter = None
        self.counters.clear()
        self.own.handed_out.clear()
        self._tell_readers()
        return old

    # -- objects that come and go ---------------------------------------------------------------------------------
    def _replace_once(self, connections: Connections) -> None:
        if not self._wanted and self.counter is not None:
            self._stop.wait(0.1)
            return
        try:
            self._replace(connections.get(self.ports[0]))
        except LOST as error:
            self.lost(connections, self.ports[0], error, "replacement")

    def _replace(self, client: MetastoreClient) -> None:
        """Make one object and wait until the proxies have followed it; what fails is tried again under another name."""
        number = next(self._numbers)
        if self._wanted:
            kind = self._wanted[0]
            name = f"{kind.__name__.lower()}{number}"
            made = kind("", f"{self.database}{number}") if kind is DatabaseParameter else kind(self.database, name)
            made.create(client)
            self._followed(client)
            self._wanted.popleft()
            self.live.append(made)
            self._tell_readers()
        else:
            counted = TableParameter(self.database, f"counter{number}")
            counted.create(client)
            self._followed(client)
            self.counter = Counter(counted)
            self.counters.append(self.counter)

    def _followed(self, client: MetastoreClient) -> None:
        event_id = client.get_current_notificationEventId().eventId
        behind = list(self.world.sides)
        while behind and not self._stop.is_set() and not self.gate.closing:
            behind = [side for side in behind if (cursor := side.cursor()) is None or cursor < event_id]
            self._stop.wait(0.05)

    def _retire(self, register: Register) -> None:
        with self._count_lock:
            self.live.remove(register)
            self.retired.append(register)
            self.retirements += 1
        self._wanted.append(type(register))
        self._tell_readers()

    def _tell_readers(self) -> None:
        with self._count_lock:
            self.registers = [*self.live, *self.retired]

    # -- writing and reading --------------------------------------------------------------------------------------
    def _write_once(self, connections: Connections) -> None:
        live = list(self.live)
        if not live:
            return
        register, port = self.pick(live)
        if register.lock.acquire(blocking=False):
            try:
                if register in self.live:
                    self._write(connections, register, port)
            finally:
                register.lock.release()

    def _read_once(self, connections: Connections) -> None:
        if self.registers:
            super()._read_once(connections)
        else:
            self._stop.wait(0.1)  # all objects are made again

    def _write(self, connections: Connections, register: Register, port: int) -> None:
        version = register.version + 1
        write: Write | None = None
        try:
            client = self._greeted(connections, port)
            write = self.checker.begin(register.key, version, port, time.monotonic_ns())
            register.write(client, version)
            self.checker.end(write, time.monotonic_ns())
            register.version = version
            self.count("writes")
            if version % 4 == 0:
                write.event_id = connections.get(self.ports[0]).get_current_notificationEventId().eventId
        except LOST as error:
            self.lost(connections, port, error, "write")
            if write is not None and write.ended_ns is None:
                self._retire(register)

    @staticmethod
    def _greeted(connections: Connections, port: int) -> MetastoreClient:
        """A connection that was answered on: else each try while a server is away would be a write that was lost."""
        new = (port, 0) not in connections.open
        client = connections.get(port)
        if new:
            client.getStatus()
        return client

    def _read(self, client: MetastoreClient, register: Register, way: Way, port: int, seen: dict[str, int]) -> bool:
        self.own.began.at_s = time.monotonic()
        return super()._read(client, register, way, port, seen)

    # -- increments under a lock ----------------------------------------------------------------------------------
    def _increment_once(self, connections: Connections) -> None:
        counter = self.counter
        if counter is None:
            self._stop.wait(0.1)
            return
        port = self.pick([counter])[1]
        writing = False
        try:
            client = self._greeted(connections, port)
            answer = client.lock(self._lock_request(counter.register))
            while answer.state == LockState.WAITING:
                time.sleep(0.02)
                if counter is not self.counter or self._stop.is_set() or self.gate.closing:
                    return  # whoever has the lock was lost with it
                answer = client.check_lock(CheckLockRequest(lockid=answer.lockid))
            version = counter.register.by_get_table_req(client)
            if version < counter.increments:
                text = f"{version} read under the lock after {counter.increments} increments"
                self.checker.violated(counter.register.key, port, "by_get_table_req", text)
            writing = True
            counter.register.write(client, version + 1)
            with counter.lock:
                counter.increments += 1
            self.count("increments")
            writing = False
            connections.get(self.ports[0]).unlock(UnlockRequest(lockid=answer.lockid))
        except LOST as error:
            self.lost(connections, port, error, "increment")
            with counter.lock:
                counter.lost += writing
            if self.counter is counter:
                self.counter = None
