"""One history: build the registers, run the workload for a while, check convergence, report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.history.chaos import Chaos
from tests.history.checker import Checker
from tests.history.registers import ABSENT, Register, TableParameter, build
from tests.history.threads import LOST
from tests.history.workload import Workload
from tests.lengths import lasting
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient

SETTINGS = {"WORKERS": "2", "MAX_UNCONFIRMED_MS": "2000"}
BOUND_S = 3.0
"""max_unconfirmed_ms of the proxies, and some slack."""


@dataclass
class Outcome:
    violations: list[str]
    errors: list[str]
    reads: int
    counts: dict[str, int]
    chaos: dict[str, int]

    def summary(self) -> str:
        first = "\n  ".join(["", *self.violations[:8], *self.errors[:4]])
        return f"{self.reads} reads, {len(self.violations)} violations, {self.counts}, chaos {self.chaos}{first}"


def _chaos(proxies: list[Proxy], every_s: float, kill: bool) -> Chaos:
    return Chaos(proxies, every_s=every_s, kill=kill)


@dataclass(frozen=True)
class HistoryKind:
    """What a history is made of. `chaos`: of these proxies, so often, and whether it may kill."""

    checker: type[Checker] = Checker
    workload: type[Workload] = Workload
    chaos: Callable[[list[Proxy], float, bool], Chaos] = _chaos


def run_history(
    metastore: tuple[str, int],
    proxies: list[Proxy],
    *,
    prefix: str,
    seconds: float,
    bound_s: float,
    chaos: bool = True,
    kill: bool = True,
    settle_s: float = 15.0,
    until_violation: bool = False,
    version: str = "4.2.0",
    enough: Callable[[int], bool] = lambda _reads: True,
    kind: HistoryKind = HistoryKind(),
) -> Outcome:
    """`bound_s`: the proxies' max_unconfirmed_ms, and some slack, in seconds; `version`: of Hive; `enough` is asked
    with the number of reads after `seconds`: the history goes on until it says so."""
    with MetastoreClient(*metastore) as client:
        registers = build(client, prefix, version=version)
        counter = TableParameter(f"{prefix}_db", "counter")
        counter.create(client)
        followed(client, proxies)
    ports = [metastore[1], *(proxy.port for proxy in proxies)]
    checker = kind.checker(direct=metastore[1], bound_ns=int(bound_s * 1e9))
    workload = kind.workload(registers, checker, ports, ordered_log=not version.startswith("2."))
    disturb = kind.chaos(proxies, min(3.0, seconds / 4), kill)
    workload.start(counter=counter)
    if chaos:
        disturb.start()
    going_on = lasting(seconds, lambda: enough(checker.reads) and (disturb.done.total() > 0 or not chaos))
    while going_on() and not (until_violation and checker.violations):
        time.sleep(0.2)
    if chaos:
        disturb.stop()
    workload.stop()
    converged(registers, ports, checker, settle_s)
    check_counter(counter, metastore, workload, checker)
    return Outcome(
        checker.violations, workload.errors + disturb.errors, checker.reads, dict(workload.counts), dict(disturb.done)
    )


def followed(client: MetastoreClient, proxies: list[Proxy]) -> None:
    """Until every proxy has come to what was made up to now: before, it may say that there is no such object."""
    event_id = client.get_current_notificationEventId().eventId
    for proxy in proxies:
        proxy.wait_event(event_id)


def converged(registers: list[Register], ports: list[int], checker: Checker, settle_s: float) -> None:
    """When writes have ended, every way to read every object gives the metastore's answer through every proxy."""
    deadline = time.monotonic() + settle_s
    different = ["not compared"]
    while different and time.monotonic() < deadline:
        time.sleep(0.5)
        different = []
        for register in registers:
            truth = ways(register, ports[0])
            for port in ports[1:]:
                try:
                    answers: object = ways(register, port)
                except LOST as error:
                    answers = error  # a worker that was just killed
                if answers != truth:
                    different.append(f"{register.key} on port {port}: {answers}, the metastore: {truth}")
    checker.violations += [f"not converged after {settle_s} s: {one}" for one in different]


def ways(register: Register, port: int) -> dict[str, int]:
    with MetastoreClient("127.0.0.1", port) as client:
        return {way.__name__: way(client) for way in register.usable()}


def check_counter(counter: TableParameter, metastore: tuple[str, int], workload: Workload, checker: Checker) -> None:
    """Locked increments: none lost. An increment that failed may or may not have been made."""
    with MetastoreClient(*metastore) as client:
        found = counter.by_get_table_req(client)
    unsure = sum(count for what, count in workload.counts.items() if what.startswith("increment failed"))
    workload.counts["increments"] = workload.increments
    if not workload.increments <= found <= workload.increments + unsure:
        checker.violations.append(f"{workload.increments} locked increments left the counter at {found}")


__all__ = ["ABSENT", "HistoryKind", "Outcome", "run_history"]
