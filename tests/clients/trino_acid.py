"""`python -m tests.clients.trino_acid [--figures]`: Trino's transactional tables on a stock Hive 4.2, through a proxy
that names capabilities for it (`bridge.capabilities`).

Job: create, fill, update, delete from, merge into, select from and drop transactional tables, plain and partitioned,
and compare each answer with the rows that are right: in a database whose managed location is its location, then with
`bridge.managed_locations = "metastore"`. Without the proxy, or without the setting, Hive refuses the first CREATE. The
exit status is 1 on a difference. --figures keeps what was found in docs/figures/trino-acid.json. Must not know: how the
proxy works.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from hms_cache_proxy.methods.readers.base import HIVESERVER2
from tests import figures
from tests.clients import calls
from tests.clients.trino_bed import TrinoBed
from tests.clients.trino_server import Result
from tests.testbed.client import MetastoreClient

COMMAND: Final = "python -m tests.clients.trino_acid --figures"
Rows = tuple[tuple[Any, ...], ...]
CAPABILITIES: Final = json.dumps({"": sorted(word.decode() for word in HIVESERVER2)})


@dataclass(frozen=True, slots=True)
class Step:
    """A statement, and the rows that it must return; None: it must succeed."""

    sql: str
    rows: Rows | None = None


PLAIN: Final = "select id, name from {s}.plain order by id"
PARTED: Final = "select id, name, dt from {s}.parted order by id"

STEPS: Final = (
    Step("create table {s}.plain (id bigint, name varchar) with (format = 'ORC', transactional = true)"),
    Step(PLAIN, ()),
    Step("insert into {s}.plain values (1, 'one'), (2, 'two'), (3, 'three')"),
    Step(PLAIN, ((1, "one"), (2, "two"), (3, "three"))),
    Step("update {s}.plain set name = 'zwei' where id = 2"),
    Step(PLAIN, ((1, "one"), (2, "zwei"), (3, "three"))),
    Step("delete from {s}.plain where id = 1"),
    Step(PLAIN, ((2, "zwei"), (3, "three"))),
    Step(
        "merge into {s}.plain t using (values (3, 'drei'), (4, 'vier')) s(id, name) on t.id = s.id"
        " when matched then update set name = s.name when not matched then insert values (s.id, s.name)"
    ),
    Step(PLAIN, ((2, "zwei"), (3, "drei"), (4, "vier"))),
    Step("analyze {s}.plain"),
    Step("select count(*) from {s}.plain", ((3,),)),
    Step(
        "create table {s}.parted (id bigint, name varchar, dt varchar)"
        " with (format = 'ORC', transactional = true, partitioned_by = array['dt'])"
    ),
    Step("insert into {s}.parted values (1, 'one', 'a'), (2, 'two', 'b')"),
    Step("insert into {s}.parted values (3, 'three', 'b'), (4, 'four', 'c')"),
    Step(PARTED, ((1, "one", "a"), (2, "two", "b"), (3, "three", "b"), (4, "four", "c"))),
    Step("update {s}.parted set name = 'zwei' where dt = 'b' and id = 2"),
    Step("delete from {s}.parted where dt = 'c'"),
    Step("select id, name from {s}.parted where dt = 'b' order by id", ((2, "zwei"), (3, "three"))),
    Step("select count(*) from {s}.parted where dt > 'a'", ((2,),)),
    Step('select dt from {s}."parted$partitions" order by dt', (("a",), ("b",), ("c",))),
    Step("drop table {s}.plain"),
    Step("drop table {s}.parted"),
    Step("show tables from {s}", ()),
)

FILLED: Final = (
    Step(
        "create table {s}.filled with (format = 'ORC', transactional = true)"
        " as select * from (values (1, 'one'), (2, 'two')) t(id, name)"
    ),
    Step("select id, name from {s}.filled order by id", ((1, "one"), (2, "two"))),
    Step("drop table {s}.filled"),
)
"""CREATE TABLE AS: its rows are written where Trino says that the table will be."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way to choose managed locations: what was wrong, and what the proxy was asked."""

    way: str
    steps: int
    wrong: list[str]
    seconds: float
    requests: calls.Requests

    def text(self) -> str:
        """For a terminal."""
        done = f"{self.way}: {self.steps} steps, {len(self.wrong)} wrong"
        return "\n".join([*self.wrong, calls.table(self.requests), calls.summary(self.requests), done])

    def figures(self) -> dict[str, Any]:
        """For docs/figures/."""
        counts = {"steps": self.steps, "wrong": len(self.wrong), "seconds": round(self.seconds, 1)}
        return {**counts, **calls.figures(self.requests)}


def run(stack: ExitStack) -> Iterator[Outcome]:
    """Start all and do the steps, each way."""
    bed = TrinoBed(stack)
    proxies = {
        way: bed.proxy(way, {"BRIDGE_CAPABILITIES": CAPABILITIES, "BRIDGE_MANAGED_LOCATIONS": way})
        for way in ("client", "metastore")
    }
    catalogs = {
        way: {"connector.name": "hive", "hive.metastore.uri": proxy.uri, "fs.hadoop.enabled": "true"}
        for way, proxy in proxies.items()
    }
    trino = bed.trino(catalogs)
    for way, proxy in proxies.items():
        schema, began = f"acid_{way}", time.monotonic()
        created = trino.ask(f"create schema {way}.{schema}")
        if way == "client":
            with MetastoreClient(*proxy.address) as client:
                database = client.get_database(schema)
                database.managedLocationUri = database.locationUri
                client.alter_database(schema, database)
        steps = (*STEPS, *FILLED) if way == "client" else STEPS
        wrong = [] if created.error is None else [str(created)]
        for step in steps:
            result = trino.ask(step.sql.replace("{s}", f"{way}.{schema}"))
            if not right(step, result):
                wrong.append(f"{step.sql}\n    {result}")
        yield Outcome(way, len(steps), wrong, time.monotonic() - began, proxy.requests())


def right(step: Step, result: Result) -> bool:
    """Whether the answer is the one that it must be."""
    return result.error is None and (step.rows is None or result.rows == step.rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.trino_acid", description=__doc__.splitlines()[0])
    parser.add_argument("--figures", action="store_true", help="keep the figures in docs/figures/trino-acid.json")
    given = parser.parse_args()
    of = figures.origin("hms_cache_proxy", "tests/clients")
    found, failed = {}, False
    with ExitStack() as stack:
        for outcome in run(stack):
            print(outcome.text(), flush=True)
            found[outcome.way] = outcome.figures()
            failed = failed or bool(outcome.wrong)
        if given.figures:
            figures.write("trino-acid", found, command=COMMAND, of=of)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
