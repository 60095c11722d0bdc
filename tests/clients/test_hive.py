# ruff: noqa: E501  (one statement is one line)
"""Hive's own Driver, its statements alternately through two proxies of one metastore.

A proxy knows nothing of what goes through the other one but from the metastore's log, a little later; for what is read
with a ValidWriteIdList that must make no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.clients.hive_driver import HiveDriver
from tests.clients.hive_job import drive
from tests.clients.hive_statements import JOB, READS
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

FULL: Final = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY: Final = "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"

Expected = list[str] | str | None
"""Rows in any order, one blank between columns; or a part of the error; or None: no rows."""

STEPS: Final[list[tuple[str, Expected]]] = [
    ("create database d", None),
    (f"create table d.src (a int, b string, p string) {FULL}", None),
    (f"create table d.acid (a int, b string) partitioned by (p string) {FULL}", None),
    ("select * from d.src", []),
    ("insert into d.src values (1, 'one', 'x'), (2, 'two', 'x'), (3, 'three', 'y'), (4, 'four', 'y')", None),
    ("select * from d.src", ["1 one x", "2 two x", "3 three y", "4 four y"]),
    ("insert into d.acid partition (p) select a, b, p from d.src", None),
    ("show partitions d.acid", ["p=x", "p=y"]),
    ("select * from d.acid where p = 'y'", ["3 three y", "4 four y"]),
    ("select count(*), max(a) from d.acid", ["4 4"]),
    ("update d.acid set b = 'TWO' where a = 2", None),
    ("select b from d.acid where p = 'x'", ["one", "TWO"]),
    ("delete from d.acid where a = 4", None),
    ("select * from d.acid", ["1 one x", "2 TWO x", "3 three y"]),
    ("select count(*) from d.acid", ["3"]),
    (
        "merge into d.acid t using (select a + 2 as a, b, 'y' as p from d.src) s on t.a = s.a and t.p = s.p"
        " when matched and s.b = 'one' then update set b = 'merged'"
        " when not matched then insert values (s.a, s.b, s.p)",
        None,
    ),
    ("select * from d.acid", ["1 one x", "2 TWO x", "3 merged y", "4 two y", "5 three y", "6 four y"]),
    ("alter table d.acid add columns (c int)", None),
    ("describe d.acid", ["", "# Partition Information", "# col_name data_type comment", "a int", "b string", "c int", "p string", "p string"]),
    ("select * from d.acid where p = 'x'", ["1 one NULL x", "2 TWO NULL x"]),
    ("insert into d.acid partition (p = 'z') values (9, 'nine', 90)", None),
    ("select a, c from d.acid where p > 'x'", ["3 NULL", "4 NULL", "5 NULL", "6 NULL", "9 90"]),
    ("analyze table d.acid partition (p) compute statistics", None),
    ("analyze table d.acid partition (p) compute statistics for columns", None),
    ("select count(*), min(a), max(c) from d.acid", ["7 1 90"]),
    ("alter table d.acid add partition (p = 'w')", None),
    ("show partitions d.acid", ["p=w", "p=x", "p=y", "p=z"]),
    ("alter table d.acid partition (p = 'w') rename to partition (p = 'v')", None),
    ("show partitions d.acid", ["p=v", "p=x", "p=y", "p=z"]),
    ("alter table d.acid drop partition (p = 'x')", None),
    ("select a from d.acid", ["3", "4", "5", "6", "9"]),
    ("alter table d.acid set tblproperties ('team' = 'red')", None),
    ("show tblproperties d.acid('team')", ["team red"]),
    ("alter table d.acid rename to d.moved", None),
    ("select * from d.acid", "Table not found 'acid'"),
    ("select a from d.moved", ["3", "4", "5", "6", "9"]),
    (f"create table d.acid (k string) {FULL}", None),  # another table of this name, whose write ids start over
    ("insert into d.acid values ('new')", None),
    ("select * from d.acid", ["new"]),
    ("truncate table d.moved partition (p = 'y')", None),
    ("select a from d.moved", ["9"]),
    ("truncate table d.moved", None),
    ("select count(*) from d.moved", ["0"]),
    (f"create table d.plus (a int, b string) partitioned by (p int) {INSERT_ONLY}", None),
    ("insert into d.plus partition (p = 1) values (1, 'a')", None),
    ("select * from d.plus", ["1 a 1"]),
    ("insert into d.plus partition (p) select a, b, 2 from d.src", None),
    ("select count(*) from d.plus", ["5"]),
    ("insert overwrite table d.plus partition (p = 2) values (7, 'over')", None),
    ("select * from d.plus", ["1 a 1", "7 over 2"]),
    ("update d.plus set b = 'no'", "insert-only transactional"),
    ("alter table d.plus drop partition (p = 1)", None),
    ("select * from d.plus", ["7 over 2"]),
    (f"create table d.taken {FULL} as select a, upper(b) as b from d.src where a < 3", None),
    ("select * from d.taken", ["1 ONE", "2 TWO"]),
    ("create view d.v as select a from d.src where a > 2", None),
    ("select * from d.v", ["3", "4"]),
    (f"create materialized view d.mv {FULL} as select p, count(*) as n from d.src group by p", None),
    ("select * from d.mv", ["x 2", "y 2"]),
    ("select s.a, t.b from d.src s join d.taken t on s.a = t.a", ["1 ONE", "2 TWO"]),
    ("drop materialized view d.mv", None),
    ("drop view d.v", None),
    ("drop table d.src", None),
    ("select * from d.src", "Table not found 'src'"),
    ("show tables in d", ["acid", "moved", "plus", "taken"]),
    ("drop database d cascade", None),
    ("show databases", ["default"]),
]  # fmt: skip

NAMES: Final = ("create", "drop", "alter table d.acid rename")
"""How statements begin that make or end a name: of names the other proxy learns from the log, as no list vouches for
them."""

READ_TIMES: Final = 2  # the metastore's own replies are kept, too


def table_of(proxy: Proxy) -> str:
    """What was asked of a proxy: calls by method, outcome and reason, the most frequent methods first."""
    counts = {key: int(count) for key, count in proxy.requests().items() if count}
    total: dict[str, int] = {}
    for (method, _, _), count in counts.items():
        total[method] = total.get(method, 0) + count
    rows = sorted(counts.items(), key=lambda row: (-total[row[0][0]], row[0][0], -row[1]))
    return "\n".join(f"{count:6} {method:36} {outcome:6} {reason}" for (method, outcome, reason), count in rows)


def check(found: list[str], error: str | None, expected: Expected) -> None:
    if isinstance(expected, str):
        assert error is not None and expected in error, (error, found)
    else:
        assert error is None, error
        assert sorted(found) == sorted(expected or [])


@pytest.mark.real
@pytest.mark.covers("Hive's Driver: 67 statements on transactional tables through two proxies", "hive42", cache="SQL")
def test_statements_through_two_proxies(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """Each write through the next proxy; reads through the other one first, which did not see the write before."""
    metastore = new_metastore("hive42")
    proxies = [new_proxy(metastore), new_proxy(metastore)]
    with (
        HiveDriver(tmp_path / "hive", metastore, [proxy.uri for proxy in proxies]) as hive,
        MetastoreClient(*metastore.address) as log,
    ):
        writer = 0
        for sql, expected in STEPS:
            if expected is None:
                writer = 1 - writer
            for session in [writer] if expected is None else [1 - writer, writer] * READ_TIMES:
                answer = hive.run(session, sql)
                try:
                    check(answer.rows, answer.error, expected)
                except AssertionError as wrong:
                    raise AssertionError(f"{sql!r} through proxy {session}: {wrong}\n{hive.log_tail()}") from wrong
            if expected is None and sql.startswith(NAMES):
                newest = log.get_current_notificationEventId().eventId
                for proxy in proxies:
                    proxy.wait_event(newest)

    for number, proxy in enumerate(proxies):
        print(f"\nproxy {number}:\n{table_of(proxy)}")
        requests = proxy.requests()
        hits = {(method, reason): count for (method, outcome, reason), count in requests.items() if outcome == "hit"}
        assert hits.get(("get_partitions_by_names_req", "write_id"), 0) > 5, hits
        assert not hits.get(("get_partitions_by_names_req", "")), hits  # every table here is transactional
        assert all(reason for (_, outcome, reason), count in requests.items() if outcome == "miss" and count)


SHARE_OF_HITS: Final = 0.9


@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.covers("Hive's Driver: 152 statements on a shop's tables", "hive42", cache="SQL")
def test_the_job_of_a_shop(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """Every result is the metastore's own, and nearly all that the planner reads comes from the cache."""
    assert len(JOB) == 152 and sum(sql.startswith(READS) for sql in JOB) > 100
    metastore = new_metastore("hive42")
    proxies = [new_proxy(metastore) for _ in range(2)]
    outcome = drive(tmp_path / "hive", metastore, proxies)
    print(outcome.text())
    assert not outcome.failures
    assert outcome.share >= SHARE_OF_HITS, outcome.text()
