# ruff: noqa: E501  (one statement is one line)
"""Flink with its Hive catalog, whose client is Hive 3.1.3's, on a metastore of Hive 4 through the proxy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.clients.statements import Statements, compile_java
from tests.clients.test_hive import Expected, check
from tests.proxy import Proxy
from tests.testbed import artifacts, ledger
from tests.testbed.artifacts import MissingPrerequisite
from tests.testbed.hive import OPENED_PACKAGES, QUICK_START, write_site
from tests.testbed.metastore import Metastore

SOURCE = Path(__file__).with_name("FlinkStatements.java")
CLIENT: Final = "3.1.3"
ORC: Final = "with ('connector'='hive', 'hive.storage.file-format'='orc', 'team'='red')"

STEPS: Final[list[tuple[str, Expected]]] = [
    ("create database fl", ["+I[OK]"]),
    ("show databases", ["+I[default]", "+I[fl]"]),
    ("use fl", ["+I[OK]"]),
    (f"create table events (id int, name string, dt string) partitioned by (dt) {ORC}", ["+I[OK]"]),
    ("show tables", ["+I[events]"]),
    ("describe events", ["+I[id, INT, true, null, null, null]", "+I[name, STRING, true, null, null, null]", "+I[dt, STRING, true, null, null, null]"]),
    ("insert into events select * from (values (1, 'one', '2024-01-01'), (2, 'two', '2024-01-02')) as t(a, b, c)", None),
    ("show partitions events", ["+I[dt=2024-01-01]", "+I[dt=2024-01-02]"]),
    ("select * from events where dt = '2024-01-02'", ["+I[2, two, 2024-01-02]"]),
    ("alter table events add partition (dt='2024-03-01')", ["+I[OK]"]),
    ("show partitions events partition (dt='2024-03-01')", ["+I[dt=2024-03-01]"]),
    ("alter table events drop partition (dt='2024-03-01')", ["+I[OK]"]),
    ("show partitions events", ["+I[dt=2024-01-01]", "+I[dt=2024-01-02]"]),
    ("create function up as 'org.apache.hadoop.hive.ql.udf.UDFSpace'", ["+I[OK]"]),
    ("show user functions", ["+I[up]"]),
    ("drop function up", ["+I[OK]"]),
    ("show user functions", []),
    ("create view v as select id from events", ["+I[OK]"]),
    ("show views", ["+I[v]"]),
    ("drop view v", ["+I[OK]"]),
    (f"create table plain (a int) {ORC}", ["+I[OK]"]),
    ("alter table plain rename to moved", ["+I[OK]"]),
    ("describe moved", ["+I[a, INT, true, null, null, null]"]),
    ("describe plain", "doesn't exist"),
    ("drop table moved", ["+I[OK]"]),
    ("show tables", ["+I[events]"]),
]  # fmt: skip

QUERY: Final = "explain select max(name) from events where dt = '2024-01-01'"
"""Planned again, everything that Flink asks to plan it is a hit."""
TRIES: Final = 4  # a reply is not kept if the follower could not tell in time that nothing changed


class Flink(Statements):
    """One table environment, and its cluster, in one JVM of the Java that is installed (Flink knows 17, not 21)."""

    kind = ledger.FLINK

    def __init__(self, directory: Path, uri: str) -> None:
        jars = f"{artifacts.install(artifacts.FLINK)}/*"
        java = shutil.which("java")
        if java is None:
            raise MissingPrerequisite("java is not installed: apt-get install openjdk-17-jdk-headless")
        conf, classes = directory / "conf", directory / "classes"
        for place in (conf, classes):
            place.mkdir(parents=True)
        compile_java(classes, jars, [SOURCE])
        settings = {"hive.metastore.uris": uri, "hive.exec.dynamic.partition.mode": "nonstrict"}
        write_site(conf, "hive-site.xml", settings)
        opened = [word for name in OPENED_PACKAGES for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        path = os.pathsep.join([str(classes), jars])
        command = [java, *QUICK_START, *opened, "-cp", path, "FlinkStatements", str(conf), CLIENT]
        super().__init__(command, directory, directory / "flink.log")


@pytest.mark.real
@pytest.mark.covers("Flink 1.20 with its Hive catalog: 26 statements", "hive42", cache="SQL")
def test_statements(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    proxy = new_proxy(new_metastore("hive42"))
    with Flink(tmp_path / "flink", proxy.uri) as flink:

        def run(sql: str, expected: Expected) -> None:
            answer = flink.ask(sql=sql)
            try:
                check(answer.rows, answer.error, expected)
            except AssertionError as wrong:
                raise AssertionError(f"{sql!r}: {wrong}\n{flink.log_tail()}") from wrong

        for sql, expected in STEPS:
            run(sql, expected)
        plan = flink.ask(sql=QUERY)
        assert plan.error is None and "partitions=[{dt=2024-01-01}]" in plan.rows[0], plan
        for _ in range(TRIES):
            before = proxy.requests()
            assert flink.ask(sql=QUERY) == plan
            run("show databases", ["+I[default]", "+I[fl]"])
            asked = {key: count - before.get(key, 0) for key, count in proxy.requests().items()}
            reads = {(key[0], key[1]) for key, count in asked.items() if count and key[0].startswith("get_")}
            if {outcome for _, outcome in reads} == {"hit"}:
                break
        run("use `default`", ["+I[OK]"])
        run("drop database fl cascade", ["+I[OK]"])

    methods = ("get_part_specs_by_filter", "get_databases", "get_table_req", "get_partitions_by_names")
    assert {outcome for _, outcome in reads} == {"hit"} and {(name, "hit") for name in methods} <= reads, reads
