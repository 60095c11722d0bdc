"""One history of transactional tables: build them, run the workload for a while, see that all agree, report."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.history.chaos import Chaos
from tests.history.registers import PartitionParameter, PartitionSet, Register, TableParameter
from tests.history.run import Outcome, followed
from tests.history.threads import LOST
from tests.lengths import lasting
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.objects import create_database
from tests.write_ids import history_hive as hive
from tests.write_ids.history_checker import WriteIdChecker
from tests.write_ids.history_hive import Scope
from tests.write_ids.history_names import Recreated, Renamed
from tests.write_ids.history_partitions import PartitionAltered, PartitionsAdded
from tests.write_ids.history_tables import Altered, Committed, Statistics, Written
from tests.write_ids.history_workload import Transacting

KINDS: list[type[Written]] = [
    Altered,
    Committed,
    Statistics,
    PartitionAltered,
    PartitionsAdded,
    Renamed,
    Recreated,
]


def build(client: MetastoreClient, database: str) -> list[Written]:
    """Of every kind a full-ACID table and an insert-only one."""
    create_database(client, database)
    tables = []
    for kind in KINDS:
        for insert_only in (False, True):
            name = f"{kind.__name__.lower()}{int(insert_only)}"
            tables.append(kind(database, name, insert_only=insert_only))
            tables[-1].create(client)
    return tables


def run_history(
    metastore: tuple[str, int],
    proxies: list[Proxy],
    *,
    prefix: str,
    seconds: float,
    bound_s: float,
    kill: bool = True,
    settle_s: float = 20.0,
    until_violation: bool = False,
    strict: bool = False,
    enough: Callable[[int], bool] = lambda _reads: True,
) -> Outcome:
    """`bound_s`: the proxies' max_unconfirmed_ms, and some slack, in seconds; `enough` is asked with the number of
    reads after `seconds`: the history goes on until it says so; `strict`: the proxies' transactional_reads."""
    with MetastoreClient(*metastore) as client:
        tables = build(client, f"{prefix}_db")
        external: list[Register] = [
            kind(f"{prefix}_db", kind.__name__.lower()) for kind in (TableParameter, PartitionParameter, PartitionSet)
        ]
        for register in external:
            register.create(client)
        followed(client, proxies)
    ports = [metastore[1], *(proxy.port for proxy in proxies)]
    checker = WriteIdChecker(direct=metastore[1], bound_ns=int(bound_s * 1e9))
    workload = Transacting(tables, external, checker, ports, strict=strict)
    disturb = Chaos(proxies, kill=kill, every_s=1.5)
    workload.begin()
    if proxies:
        disturb.start()
    going_on = lasting(seconds, lambda: enough(checker.reads) and (disturb.done.total() > 0 or not proxies))
    while going_on() and not (until_violation and checker.violations):
        time.sleep(0.2)
    if proxies:
        disturb.stop()
    workload.stop()
    agree(tables, ports, checker, settle_s)
    if not checker.violations:
        served(tables, proxies, checker, settle_s)
    return Outcome(checker.violations, workload.errors, checker.reads, dict(workload.counts), dict(disturb.done))


def scopes(table: Written, client: MetastoreClient) -> list[Scope]:
    """The table's, and those of readers that know older ids."""
    now = table.scope(client, hive.valid_transactions(client))
    return [now, *(Scope(now.name, old, now.valid) for old in sorted(table.born)[-4:-1])]


def agree(tables: list[Written], ports: list[int], checker: WriteIdChecker, settle_s: float) -> None:
    """When writes have ended, the answers to every question are the metastore's own through every proxy, field by
    field."""
    deadline = time.monotonic() + settle_s
    different = ["not compared"]
    while different and time.monotonic() < deadline:
        time.sleep(0.5)
        different = []
        for table in tables:
            with MetastoreClient("127.0.0.1", ports[0]) as direct:
                asked = [(way, scope) for scope in scopes(table, direct) for way in table.ways()]
                truth = [way.ask(direct, scope) for way, scope in asked]
            for port in ports[1:]:
                for (way, scope), answer, expected in zip(asked, answers(port, asked), truth, strict=True):
                    if answer != expected:
                        what = f"{table.key} by {way.name} with {scope} on port {port}"
                        different.append(f"{what}: {answer}, the metastore: {expected}")
    checker.violations += [f"not agreed after {settle_s} s: {one}" for one in different]


def answers(port: int, asked: list[tuple[Any, Scope]]) -> list[Any]:
    try:
        with MetastoreClient("127.0.0.1", port) as client:
            return [way.ask(client, scope) for way, scope in asked]
    except LOST as error:  # a worker that was just killed
        return [error] * len(asked)


def served(tables: list[Written], proxies: list[Proxy], checker: WriteIdChecker, settle_s: float) -> None:
    """Then no table is kept from readers with lists any more: what was being written has ended."""
    there = [table for table in tables if not (isinstance(table, Recreated) and table.version % 2)]
    deadline = time.monotonic() + settle_s
    missed: dict[Any, float] = {(): 1.0}
    while missed and time.monotonic() < deadline:
        before = Proxy.requests_of(proxies)
        for table in there:
            for proxy in proxies:
                with MetastoreClient(*proxy.address) as client:
                    scope = table.scope(client, hive.valid_transactions(client))
                    for way in table.ways():
                        way.ask(client, scope)
        missed = {
            key: count - earlier.get(key, 0)
            for requests, earlier in zip(Proxy.requests_of(proxies), before, strict=True)
            for key, count in requests.items()
            if key[1:] in (("miss", "write_id"), ("miss", "table_id")) and count > earlier.get(key, 0)
        }
    checker.violations += [f"not served after {settle_s} s: {key}, {count} times" for key, count in missed.items()]
