"""Histories of a fleet: proxies with `peers`, and every operation through any of them, on a new connection.

The promise is of all proxies together (docs/consistency.md): a read sees each write through any proxy that ended before
it began, and no less than an earlier read has shown of such a write. A few writes are made at the metastore itself,
past all proxies: they must be seen within the bound, or once a proxy has handed out their event ids. Between each two
proxies there is a TCP proxy (`between`), so that the fleet can be parted.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from typing import TypeVar

from hive_metastore.ttypes import UnlockRequest

from tests.history.chaos import Chaos
from tests.history.checker import Checker
from tests.history.fleet_chaos import FleetChaos, Restarts, delay
from tests.history.registers import Register, TableParameter
from tests.history.run import HistoryKind
from tests.history.threads import LOST, Connections, Job
from tests.history.workload import Workload
from tests.proxy import Proxy
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.processes import free_port

T = TypeVar("T")

PAST_ALL = 0.1
"""The share of writes that are made at the metastore itself."""

LEASES_S = 120.0
"""Until every proxy has its leases, on a busy machine."""


@dataclass
class FleetChecker(Checker):
    """What the fleet promises. `shown`: the newest version of a write through a proxy that a read has shown."""

    shown: dict[str, int] = field(default_factory=dict)

    def required(self, register: str, port: int, began_ns: int, *, strict: bool = False) -> int:
        handed_out = max(self.handed_out.values(), default=0)
        shown = self.shown.get(register, 0)
        for write in reversed(self.writes.get(register, ())):
            if write.ended_ns is None:
                continue
            at_once = write.port != self.direct or port == self.direct
            known = write.event_id is not None and write.event_id <= handed_out
            if known or write.ended_ns < (began_ns if at_once else began_ns - self.bound_ns):
                return max(write.version, shown)
        return shown

    def hand_out(self, port: int, event_id: int) -> None:
        if port != self.direct:
            super().hand_out(port, event_id)

    def read(
        self, register: str, port: int, version: int, *, required: int, seen: int, ended_ns: int, how: str
    ) -> None:
        super().read(register, port, version, required=required, seen=seen, ended_ns=ended_ns, how=how)
        through = [one.version for one in self.writes.get(register, ()) if one.port != self.direct]
        shown = max((one for one in through if one <= version), default=0)
        with self._lock:
            self.shown[register] = max(self.shown.get(register, 0), shown)


class FleetWorkload(Workload):
    """Every operation through any proxy, on a new connection."""

    def run(self, jobs: list[Job]) -> None:
        super().run([partial(self._apart, job) for job in jobs])

    @staticmethod
    def _apart(job: Job, connections: Connections) -> None:
        try:
            job(connections)
        finally:
            connections.close()

    def pick(self, registers: Sequence[T]) -> tuple[T, int]:
        register, _ = super().pick(registers)
        return register, self._any()

    def _any(self) -> int:
        return random.choice(self.ports[1:])

    def _write(self, connections: Connections, register: Register, port: int) -> None:
        """... and what was written is read at once, through others."""
        past_all = self.ordered_log and random.random() < PAST_ALL
        super()._write(connections, register, self.ports[0] if past_all else port)
        for other in random.sample(self.ports[1:], len(self.ports) - 1):
            self._read_apart(connections, register, other)

    def _read_once(self, connections: Connections) -> None:
        for _ in range(random.randint(2, 12)):
            if self._stop.is_set():
                return
            self._read_apart(connections, *self.pick(self.registers))

    def _read_apart(self, connections: Connections, register: Register, port: int) -> None:
        connections.drop(port)
        try:
            client = connections.get(port)
        except LOST as error:
            self.lost(connections, port, error, "connect")
            return
        self._read(client, register, random.choice(register.usable()), port, {})
        connections.drop(port)

    def _increment(self, connections: Connections, counter: Register) -> None:
        """As Iceberg's commit, each call through another proxy."""
        assert isinstance(counter, TableParameter)
        try:
            lock_id = self._lock(connections, self._any, counter)
            if lock_id is None:
                return
            version = counter.by_get_table_req(connections.get(self._any()))
            if version < self.increments:
                self.checker.violations.append(f"{version} read under the lock after {self.increments} increments")
            counter.write(connections.get(self._any()), version + 1)
        except LOST as error:
            self.lost(connections, self.ports[0], error, "increment")
            connections.close()
            self._unlock_lost(connections, counter)
            return
        with self._count_lock:
            self.increments += 1
        connections.get(self.ports[0]).unlock(UnlockRequest(lockid=lock_id))


@dataclass
class Fleet:
    """The settings of each proxy, and the ways between them. `starter`: a thread in which they are started again;
    `spare`: the last one leaves and joins."""

    ports: list[int]
    ways: Mapping[tuple[int, int], FaultProxy]
    starter: Executor
    spare: bool = False
    earlier_hits: float = 0
    """Of processes that have ended."""

    @property
    def settings(self) -> list[dict[str, str]]:
        return [
            {"PEERS": self.peers_of(own), "PEER_LISTEN": f"127.0.0.1:{port}", "PEER_SECRET": "history"}
            for own, port in enumerate(self.ports)
        ]

    @property
    def between(self) -> list[FaultProxy]:
        return list(self.ways.values())

    def peers_of(self, own: int, with_spare: bool = True) -> str:
        """A proxy's list: it reaches each other one through the way between them."""
        others = range(len(self.ports) if with_spare else len(self.ports) - 1)
        listed = [self.ports[own], *(self.ways[own, other].port for other in others if other != own)]
        return ",".join(f"127.0.0.1:{port}" for port in listed)

    @property
    def kind(self) -> HistoryKind:
        """What a history of it is made of."""

        def chaos(proxies: list[Proxy], every_s: float, kill: bool) -> Chaos:
            restarts = Restarts(self._start, self._ending, self.peers_of if self.spare else None)
            return FleetChaos(proxies, self.ways, restarts, every_s=every_s, kill=kill)

        return HistoryKind(FleetChecker, FleetWorkload, chaos)

    def _start(self, proxy: Proxy) -> None:
        self.starter.submit(proxy.start).result()

    def _ending(self, proxy: Proxy) -> None:
        self.earlier_hits += _hits(proxy)

    def hits(self, proxies: list[Proxy]) -> float:
        """All that workers have told of. One that is being restarted tells of none."""
        return self.earlier_hits + sum(map(_hits, proxies))


def _hits(proxy: Proxy) -> float:
    try:
        requests = proxy.told_requests()
    except OSError:
        return 0
    return sum(count for (_, how, _), count in requests.items() if how == "hit")


def fleet(stack: ExitStack, number: int, *, spare: bool = False) -> Fleet:
    """So many proxies, and a spare one."""
    ports = [free_port() for _ in range(number + spare)]
    pairs = permutations(range(len(ports)), 2)
    ways = {pair: stack.enter_context(FaultProxy("127.0.0.1", ports[pair[1]])) for pair in pairs}
    for way in ways.values():
        delay(way)
    return Fleet(ports, ways, stack.enter_context(ThreadPoolExecutor(1)), spare)


def leased(proxies: list[Proxy]) -> None:
    """Until every proxy has a lease of all others."""

    def all_leases(proxy: Proxy) -> bool:
        peers = proxy.status()["peers"]
        return len(peers) >= len(proxies) - 1 and all(one["lease_ms"] > 0 for one in peers)

    for proxy in proxies:
        proxy.wait(partial(all_leases, proxy), "leased", LEASES_S)
