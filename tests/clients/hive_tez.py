"""`python -m tests.clients.hive_tez`: Hive's Driver with Tez in its JVM, through two proxies and directly.

Job: joins whose partitions are pruned while they run, over external and transactional tables that are written in
between; each read through a proxy and directly, with the same rows (hive_job.py). The exit status is 1 on a difference,
or if a plan has no dynamic pruning. Must not know: how the proxy works.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.clients.hive_driver import HiveDriver
from tests.clients.hive_job import drive, proxied
from tests.testbed import artifacts

PRUNES: Final = "Dynamic Partitioning Event Operator"
"""What EXPLAIN says of a table whose partitions another one chooses."""

JOIN: Final = "select sum(f.price) from tez.{fact} f join tez.stores s on f.store = s.id where s.name = '{name}'"
BY_DAY: Final = (
    "select s.name, f.ds, count(*) from tez.{fact} f join tez.stores s on f.store = s.id group by s.name, f.ds"
)
STATEMENTS: Final = (
    "create database tez",
    "create external table tez.stores (id int, name string) stored as orc",
    "insert into tez.stores values (1, 'north'), (2, 'south'), (3, 'north')",
    "create external table tez.outside (item int, price int) partitioned by (ds string, store int) stored as orc",
    "create table tez.acid (item int, price int) partitioned by (ds string, store int) stored as orc"
    " tblproperties ('transactional'='true')",
    *(
        f"insert into tez.{fact} partition (ds, store) values (1, 10, '2024-01-01', 1), (2, 20, '2024-01-01', 2),"
        " (3, 30, '2024-01-02', 3), (4, 40, '2024-01-02', 1)"
        for fact in ("outside", "acid")
    ),
    *(JOIN.format(fact=fact, name=name) for fact in ("outside", "acid") for name in ("north", "south", "nowhere")),
    "insert into tez.outside partition (ds='2024-01-03', store=2) values (5, 50)",
    JOIN.format(fact="outside", name="south"),
    "update tez.acid set price = 21 where item = 2",
    JOIN.format(fact="acid", name="south"),
    "delete from tez.acid where item = 1",
    "merge into tez.acid t using (select 6 item, 60 price, '2024-01-03' ds, 3 store) n on t.item = n.item"
    " when matched then update set price = n.price"
    " when not matched then insert values (n.item, n.price, n.ds, n.store)",
    JOIN.format(fact="acid", name="north"),
    "analyze table tez.acid compute statistics for columns",
    "alter table tez.outside drop partition (ds='2024-01-01')",
    *(BY_DAY.format(fact=fact) for fact in ("outside", "acid")),
    *(JOIN.format(fact=fact, name="north") for fact in ("outside", "acid")),
)


def settings(directory: Path) -> dict[str, str]:
    """Of Hive with Tez, all in one JVM, without a cluster and its network."""
    return {
        "hive.execution.engine": "tez",
        "hive.tez.dynamic.partition.pruning": "true",
        "hive.tez.container.size": "128",
        "hive.tez.exec.inplace.progress": "false",
        "hive.jar.directory": (directory / "jars").as_uri(),
        "hive.user.install.directory": (directory / "user").as_uri(),
        "tez.local.mode": "true",
        "tez.local.mode.without.network": "true",
        "tez.ignore.lib.uris": "true",
        "tez.runtime.optimize.local.fetch": "true",
        "tez.runtime.io.sort.mb": "8",
        "tez.am.resource.memory.mb": "128",
        "tez.task.resource.memory.mb": "128",
        "tez.staging-dir": str(directory / "staging"),
        "tez.history.logging.service.class": "org.apache.tez.dag.history.logging.impl.SimpleHistoryLoggingService",
        "tez.simple.history.logging.dir": str(directory / "history"),
    }


def main() -> int:
    with ExitStack() as stack:
        directory, metastore, proxies = proxied(stack, {"TRANSACTIONAL_READS": "strict"})
        options, jars = settings(directory / "tez"), artifacts.install(artifacts.HIVE40_TEZ)
        outcome = drive(directory / "hive", metastore, proxies, STATEMENTS, options, jars)
        print(outcome.text(), flush=True)
        with HiveDriver(directory / "plans", metastore, [proxies[0].uri], options, jars) as hive:
            plans = {
                fact: hive.run(0, "explain " + JOIN.format(fact=fact, name="north")) for fact in ("outside", "acid")
            }
        wrong = [f"{fact}: {plan}" for fact, plan in plans.items() if not any(PRUNES in row for row in plan.rows)]
        print(*wrong, f"dynamic pruning: {len(wrong)} of {len(plans)} plans without", sep="\n")
    return int(bool(outcome.failures or wrong))


if __name__ == "__main__":
    sys.exit(main())
