# ruff: noqa: E501  (one step is one line)
"""Delta Lake on Spark over a metastore: `python -m tests.clients.delta_job URI DIRECTORY JARS`.

Job: what is done with Delta tables that are registered in a metastore, each step read back at once: appends, row-level
changes, versions, changes of the schema, a read of the past, a restore, tables made of tables, renames, drops. The
metastore holds the name, the location and a copy of the schema. Prints one JSON object: step -> "ok" or the failure.
Must not know: hms_cache_proxy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from tests.clients.spark_job import Step, column, done, run, session, sql


def beside(text: str) -> Callable[[SparkSession], Any]:
    """Make a table at a place that is named: of others, which Hive 4 makes external too, a rename leaves the files."""

    def make(spark: SparkSession) -> str:
        spark.sql(f"{text} location '{spark.conf.get('spark.sql.warehouse.dir')}/beside'").collect()
        return "done"

    return make


STEPS: list[Step] = [
    ("create database", done("create database delta_job"), "done"),
    ("use", done("use delta_job"), "done"),
    ("create table", done("create table events (id bigint, v string, day date) using delta partitioned by (day)"), "done"),
    ("table exists", lambda spark: spark.catalog.tableExists("events"), True),
    ("append", done("insert into events values (1, 'a', date '2024-01-01'), (2, 'b', date '2024-01-02')"), "done"),
    ("read", sql("select id, v from events"), [[1, "a"], [2, "b"]]),
    ("append again", done("insert into events values (3, 'c', date '2024-01-02')"), "done"),
    ("filter", sql("select id from events where day = date '2024-01-02'"), [[2], [3]]),
    ("history", column("describe history events", "version"), [0, 1, 2]),
    ("delete rows", done("delete from events where id = 2"), "done"),
    ("read deleted", sql("select id from events"), [[1], [3]]),
    ("update rows", done("update events set v = 'z' where id = 3"), "done"),
    ("read updated", sql("select id, v from events"), [[1, "a"], [3, "z"]]),
    ("merge", done("merge into events t using (select 3L as id, 'm' as v) s on t.id = s.id when matched then update set v = s.v"), "done"),
    ("read merged", sql("select id, v from events"), [[1, "a"], [3, "m"]]),
    ("read the past", sql("select count(*) from events version as of 2"), [[3]]),
    ("add column", done("alter table events add column extra int"), "done"),
    ("read new column", sql("select id, extra from events"), [[1, None], [3, None]]),
    ("append to it", done("insert into events values (4, 'd', date '2024-01-03', 7)"), "done"),
    ("count", sql("select count(*) from events"), [[3]]),
    ("set property", done("alter table events set tblproperties ('team'='red')"), "done"),
    ("read property", sql("show tblproperties events ('team')"), [["team", "red"]]),
    ("restore", done("restore table events to version as of 2"), "done"),
    ("read restored", sql("select id from events"), [[1], [2], [3]]),
    ("optimize", done("optimize events"), "done"),
    ("read optimized", sql("select id from events"), [[1], [2], [3]]),
    ("ctas", done("create table copied using delta as select id, v from events where id < 3"), "done"),
    ("read ctas", sql("select * from copied"), [[1, "a"], [2, "b"]]),
    ("replace", done("create or replace table copied using delta as select id from events where id > 2"), "done"),
    ("read replaced", sql("select * from copied"), [[3]]),
    ("clone", beside("create table cloned shallow clone events"), "done"),
    ("read clone", sql("select count(*) from cloned"), [[3]]),
    ("parquet", done("create table files (id bigint, day date) using parquet partitioned by (day)"), "done"),
    ("write parquet", done("insert into files partition (day = date '2024-01-01') values (8)"), "done"),
    ("convert", done("convert to delta files"), "done"),
    ("read converted", sql("select id from files"), [[8]]),
    ("append to converted", done("insert into files values (9, date '2024-01-02')"), "done"),
    ("read both", sql("select id from files"), [[8], [9]]),
    ("rename", done("alter table cloned rename to moved"), "done"),
    ("read renamed", sql("select count(*) from moved"), [[3]]),
    ("old name gone", lambda spark: spark.catalog.tableExists("cloned"), False),
    ("show tables", column("show tables", "tableName"), ["copied", "events", "files", "moved"]),
    ("drop table", done("drop table moved"), "done"),
    ("dropped gone", lambda spark: spark.catalog.tableExists("moved"), False),
    ("recreate", done("create table moved (other string) using delta"), "done"),
    ("recreated", lambda spark: [field.name for field in spark.table("moved").schema], ["other"]),
    ("drop database", done("drop database delta_job cascade"), "done"),
    ("database gone", lambda spark: spark.catalog.databaseExists("delta_job"), False),
]  # fmt: skip


def main() -> None:
    uri, directory, jars = sys.argv[1:]
    options = {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    spark = session(uri, directory, options)
    try:
        print(json.dumps(run(spark, STEPS)))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
