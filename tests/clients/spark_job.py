# ruff: noqa: E501  (one step is one line)
"""A Spark job over a metastore, each step read back at once: `python -m tests.clients.spark_job URI DIRECTORY
[OPTIONS]`, where OPTIONS are more of Spark's settings, as JSON.

Job: what a data team does in a day, with Spark's built-in Hive client: databases, partitioned Parquet tables, dynamic
partition inserts, ADD/DROP/RENAME PARTITION, MSCK, ANALYZE, partition-filtered selects, DESCRIBE, views, functions,
CTAS, renames, drops. Prints one JSON object: step -> "ok" or the first line of the failure, so that a run through the
proxy can be compared with a run straight on a metastore.
Must not know: hms_cache_proxy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pyspark.sql import SparkSession

Step = tuple[str, Callable[[SparkSession], Any], Any]
DATABASE = "spark_job"


def sql(text: str) -> Callable[[SparkSession], Any]:
    """The rows of a statement, as sorted lists."""
    return lambda spark: sorted([list(row) for row in spark.sql(text).collect()], key=repr)


def done(text: str) -> Callable[[SparkSession], Any]:
    """Run a statement; what it returns does not matter."""
    return lambda spark: (spark.sql(text).collect(), "done")[1]


def column(text: str, name: str) -> Callable[[SparkSession], Any]:
    return lambda spark: sorted(row[name] for row in spark.sql(text).collect())


def described(table: str, *keys: str) -> Callable[[SparkSession], Any]:
    """What DESCRIBE TABLE EXTENDED says of the given keys."""

    def read(spark: SparkSession) -> Any:
        rows = {row["col_name"]: row["data_type"] for row in spark.sql(f"describe table extended {table}").collect()}
        return [rows.get(key) for key in keys]

    return read


STEPS: list[Step] = [
    ("create database", done(f"create database {DATABASE} comment 'a comment' with dbproperties (k='v')"), "done"),
    ("show databases", lambda spark: DATABASE in [row[0] for row in spark.sql("show databases").collect()], True),
    ("describe database", lambda spark: "a comment" in str(spark.sql(f"describe database {DATABASE}").collect()), True),
    ("use", done(f"use {DATABASE}"), "done"),
    ("create table", done("create table events (id bigint, v string) using parquet partitioned by (dt string, hr int)"), "done"),
    ("table exists", lambda spark: spark.catalog.tableExists("events"), True),
    ("describe table", lambda spark: len(spark.sql("describe events").collect()) >= 4, True),
    ("insert static", done("insert into events partition (dt='2024-01-01', hr=1) values (1, 'a'), (2, 'b')"), "done"),
    ("read static", sql("select id, v, hr from events where dt = '2024-01-01'"), [[1, "a", 1], [2, "b", 1]]),
    (
        "insert dynamic",
        done("insert into events partition (dt, hr) select id, 'x', concat('2024-01-0', id % 3 + 2), cast(id % 2 as int) from range(12)"),
        "done",
    ),
    ("count dynamic", sql("select count(*) from events where dt >= '2024-01-02'"), [[12]]),
    ("filter one", sql("select count(*) from events where dt = '2024-01-03' and hr = 1"), [[2]]),
    ("filter in", sql("select count(*) from events where dt in ('2024-01-02', '2024-01-04') and hr < 1"), [[4]]),
    ("show partitions", lambda spark: len(spark.sql("show partitions events").collect()), 7),
    ("add partition", done("alter table events add partition (dt='2024-02-01', hr=5)"), "done"),
    ("see added", lambda spark: len(spark.sql("show partitions events partition (dt='2024-02-01')").collect()), 1),
    ("rename partition", done("alter table events partition (dt='2024-02-01', hr=5) rename to partition (dt='2024-02-02', hr=6)"), "done"),
    ("see renamed", column("show partitions events partition (dt='2024-02-02')", "partition"), ["dt=2024-02-02/hr=6"]),
    ("old name gone", lambda spark: len(spark.sql("show partitions events partition (dt='2024-02-01')").collect()), 0),
    ("drop partition", done("alter table events drop partition (dt='2024-02-02')"), "done"),
    ("see dropped", lambda spark: len(spark.sql("show partitions events").collect()), 7),
    ("insert overwrite", done("insert overwrite table events partition (dt='2024-01-01', hr=1) values (9, 'z')"), "done"),
    ("read overwritten", sql("select id, v from events where dt = '2024-01-01'"), [[9, "z"]]),
    ("msck", done("msck repair table events"), "done"),
    ("analyze table", done("analyze table events compute statistics"), "done"),
    ("see statistics", lambda spark: "13 rows" in str(described("events", "Statistics")(spark)), True),
    ("analyze columns", done("analyze table events compute statistics for columns id, v"), "done"),
    ("see column statistics", lambda spark: "distinct_count" in str(spark.sql("describe extended events id").collect()), True),
    ("analyze partition", done("analyze table events partition (dt='2024-01-01', hr=1) compute statistics"), "done"),
    ("set property", done("alter table events set tblproperties ('owner team'='data')"), "done"),
    ("read property", sql("show tblproperties events ('owner team')"), [["owner team", "data"]]),
    ("add column", done("alter table events add columns (extra int comment 'new')"), "done"),
    ("read new column", sql("select extra from events where dt = '2024-01-01'"), [[None]]),
    ("create view", done("create view recent as select id, v from events where dt >= '2024-01-02'"), "done"),
    ("read view", sql("select count(*) from recent"), [[12]]),
    ("alter view", done("alter view recent as select id from events where dt >= '2024-01-03'"), "done"),
    ("read altered view", sql("select count(*) from recent"), [[8]]),
    ("show views", column("show views", "viewName"), ["recent"]),
    ("create function", done(f"create function {DATABASE}.plus_one as 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFAbs'"), "done"),
    ("show functions", lambda spark: any("plus_one" in row[0] for row in spark.sql(f"show user functions in {DATABASE}").collect()), True),
    ("drop function", done(f"drop function {DATABASE}.plus_one"), "done"),
    ("ctas", done("create table copied using parquet as select * from events where dt = '2024-01-02'"), "done"),
    ("read ctas", sql("select count(*) from copied"), [[4]]),
    ("hive ctas", done("create table hived stored as orc as select id, v from events"), "done"),
    ("read hive ctas", sql("select count(*) from hived"), [[13]]),
    ("rename table", done("alter table copied rename to moved"), "done"),
    ("read renamed", sql("select count(*) from moved"), [[4]]),
    ("old table gone", lambda spark: spark.catalog.tableExists("copied"), False),
    ("truncate", done("truncate table moved"), "done"),
    ("read truncated", sql("select count(*) from moved"), [[0]]),
    ("show tables", column("show tables", "tableName"), ["events", "hived", "moved", "recent"]),
    ("drop view", done("drop view recent"), "done"),
    ("drop table", done("drop table moved"), "done"),
    ("dropped gone", lambda spark: spark.catalog.tableExists("moved"), False),
    ("recreate", done("create table moved (other string) using parquet"), "done"),
    ("recreated", lambda spark: [field.name for field in spark.table("moved").schema], ["other"]),
    ("alter database", done(f"alter database {DATABASE} set dbproperties (k='w')"), "done"),
    ("altered database", lambda spark: "(k,w)" in str(spark.sql(f"describe database extended {DATABASE}").collect()), True),
    ("drop database", done(f"drop database {DATABASE} cascade"), "done"),
    ("database gone", lambda spark: spark.catalog.databaseExists(DATABASE), False),
]  # fmt: skip


def session(uri: str, directory: str, options: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """A local Spark on the metastore at `uri`; `options` are added to its settings."""
    return (
        SparkSession.builder.master("local[2]")
        .appName("spark_job")
        .config("spark.hadoop.hive.metastore.uris", uri)
        .config("spark.sql.warehouse.dir", f"file:{directory}/warehouse")
        .config("spark.sql.catalogImplementation", "hive")
        .config("spark.hadoop.hive.exec.dynamic.partition.mode", "nonstrict")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config(map=dict(options))
        .getOrCreate()
    )


def run(spark: SparkSession, steps: Sequence[Step]) -> dict[str, str]:
    """Step -> ok, or the failure."""
    results: dict[str, str] = {}
    for name, action, expected in steps:
        try:
            found = action(spark)
        except Exception as failure:  # a failing step is a result, and the next steps still run
            said = " ".join(str(failure).strip().splitlines()[:2])  # Java's exceptions are in the second line
            results[name] = f"{type(failure).__name__}: {said[:400]}"
            continue
        results[name] = "ok" if found == expected else f"expected {expected!r}, found {found!r}"
    return results


def main() -> None:
    spark = session(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})
    try:
        print(json.dumps(run(spark, STEPS)))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
