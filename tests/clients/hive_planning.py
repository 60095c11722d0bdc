"""`python -m tests.clients.hive_planning [--figures]`: how long Hive's Driver plans, directly and through a proxy.

Job: two tables of 10,000 partitions, an external and a transactional one, on Hive 4.2 with PostgreSQL; SELECTs with
conditions on their keys; EXPLAIN of each, directly and through the proxy in turn. A statement's time is the least of
its rounds: what else runs on the machine only adds to it. The exit status is 1 if a plan is another one. --figures
keeps what was found in docs/figures/hive-planning.json.
Must not know: how the proxy works.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests import figures
from tests.clients import calls
from tests.clients.hive_driver import HiveDriver
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import (
    ORC,
    create_database,
    create_table,
    create_transactional_table,
    in_transaction,
    partition,
    table,
)

COMMAND: Final = "python -m tests.clients.hive_planning --figures"
FLAVOUR: Final = "hive42"
COLUMNS: Final = (("item", "int"), ("customer", "int"), ("quantity", "int"), ("price", "decimal(7,2)"))
KEYS: Final = (("ds", "string"), ("store", "int"))
STORES: Final = 4
LAST: Final = date(2024, 12, 31)
MANY: Final = 10_000
AT_ONCE: Final = 200
"""Partitions in a call: few enough for its timeout on a machine that has no time."""
ROUNDS: Final = 2
STATISTICS: Final = {"numFiles": "1", "numRows": "100", "rawDataSize": "4000", "totalSize": "1000"}
"""Without these Hive looks at the files of each partition."""
TABLES: Final = ("outside", "acid")
CONDITIONS: Final = (
    "ds = '2024-01-01' and store = 1",
    "ds = '2024-01-01'",
    "ds >= '2024-01-01' and ds < '2024-02-01'",
    "ds between '2024-01-01' and '2024-03-31' and store in (0, 2)",
    "(ds, store) in (('2024-01-01', 1), ('2024-02-29', 2))",
    "ds like '2024-01-%'",
    "ds >= date_sub('2024-12-31', 7)",
    "cast(ds as date) >= date '2024-12-01'",
    "substr(ds, 1, 7) = '2024-02'",
    "store = 1",
)


def values(count: int) -> Iterator[tuple[str, str]]:
    """So many partitions, by day and store, until a last day."""
    for at in range(count):
        yield (LAST - timedelta(at // STORES)).isoformat(), str(at % STORES)


def create(metastore: Metastore, count: int) -> None:
    """Both tables, with so many partitions each."""
    with MetastoreClient(*metastore.address) as client:
        create_database(client, "planned")
        outside = create_table(client, table("planned", "outside", COLUMNS, KEYS, formats=ORC))
        acid = create_transactional_table(client, "planned", "acid", COLUMNS, KEYS)
        rows = list(values(count))
        for begin in range(0, count, AT_ONCE):
            some = rows[begin : begin + AT_ONCE]
            client.add_partitions([partition(outside, row, STATISTICS) for row in some])
            in_transaction(client, acid, partial(_add, client, acid, some))


def _add(client: MetastoreClient, acid: Any, rows: Sequence[tuple[str, str]], _: int, write_id: int) -> None:
    found = [partition(acid, row, STATISTICS) for row in rows]
    for each in found:
        each.writeId = write_id
    client.add_partitions(found)


def selects(name: str) -> list[str]:
    """The statements to plan."""
    return [f"select item, price from planned.{name} where {condition}" for condition in CONDITIONS]


def planned(hive: HiveDriver, statements: Sequence[str], rounds: int) -> tuple[dict[str, list[float]], list[str]]:
    """The least seconds of each statement through the proxy and directly; those whose plans differ."""
    took = {sql: [float("inf")] * 2 for sql in statements}
    different = []
    for at in range(rounds):
        for sql in statements:
            plans = {}
            for session in (0, 1) if at % 2 else (1, 0):
                began = time.perf_counter()
                plans[session] = hive.run(session, f"explain {sql}")
                took[sql][session] = min(took[sql][session], time.perf_counter() - began)
            if plans[0] != plans[1] or plans[0].error is not None:
                different.append(f"{sql}\n  {plans[0]}\n  {plans[1]}")
    return took, different


def run(stack: ExitStack, count: int, rounds: int) -> tuple[dict[str, Any], list[str]]:
    """Start all, and plan."""
    bed = Bed()
    stack.callback(bed.close)
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hms-planning-")))
    metastore = bed.private_metastore(FLAVOUR)
    assert metastore.database is not None
    create(metastore, count)
    proxy = Proxy(directory / "proxy", metastore.uri, metastore.database.reader_url)
    stack.callback(proxy.close)
    proxy.start(prewarmed=True)
    hive = stack.enter_context(HiveDriver(directory / "hive", metastore, [proxy.uri, metastore.uri]))
    found: dict[str, Any] = {"partitions": count, "rounds": rounds}
    failures = []
    for name in TABLES:
        statements = selects(name)
        planned(hive, statements[:1], 1)  # classes are loaded, connections opened
        before = proxy.requests()
        took, different = planned(hive, statements, rounds)
        requests = calls.since(before, proxy.requests())
        failures += different
        through, direct = (sum(each[session] for each in took.values()) for session in (0, 1))
        by_expression = [
            int(sum(count for (method, how, _), count in requests.items() if "by_expr" in method and how in hows))
            for hows in (("hit",), calls.READS)
        ]
        found[name] = {
            "statements": [[sql, round(direct, 3), round(through, 3)] for sql, (through, direct) in took.items()],
            "direct_s": round(direct, 3),
            "through_s": round(through, 3),
            "by_expression": by_expression,
            **calls.figures(requests),
        }
        print(text(name, found[name]), flush=True)
    return found, failures


def text(name: str, found: dict[str, Any]) -> str:
    """For a terminal."""
    rows = [f"{direct:8.3f}{through:8.3f}  {sql}" for sql, direct, through in found["statements"]]
    direct, through = found["direct_s"], found["through_s"]
    hits, asked = found["by_expression"]
    whole = f"{name}: {direct:.2f} s directly, {through:.2f} s through the proxy ({through / direct:.2f} of it)"
    return "\n".join(
        [f"{'directly':>8}{'through':>8}", *rows, whole, f"{hits} of {asked} calls by expression were hits"]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.hive_planning", description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=MANY)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--figures", action="store_true", help="keep the figures in docs/figures/hive-planning.json")
    given = parser.parse_args()
    of = figures.origin("hms_cache_proxy", "tests/clients")
    with ExitStack() as stack:
        found, failures = run(stack, given.partitions, given.rounds)
    print(*failures, sep="\n")
    if given.figures:
        figures.write("hive-planning", found, command=COMMAND, of=of)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
