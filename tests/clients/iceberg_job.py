# ruff: noqa: E501  (one step is one line)
"""Iceberg on Spark over a metastore: `python -m tests.clients.iceberg_job URI DIRECTORY JAR`.

Job: what is done with Iceberg tables, each step read back at once: appends, row-level changes, snapshots, changes of
schema and partitioning, a read of the past, a roll back, renames, drops. Each commit is a lock, a change of one
parameter of the table in the metastore, and an unlock. Prints one JSON object: step -> "ok" or the failure.
Must not know: hms_cache_proxy.
"""

from __future__ import annotations

import json
import sys

from tests.clients.spark_job import Step, column, done, run, session, sql

STEPS: list[Step] = [
    ("create database", done("create namespace ice.lake"), "done"),
    ("create table", done("create table ice.lake.events (id bigint, v string, day date) using iceberg partitioned by (day) tblproperties ('format-version'='2')"), "done"),
    ("append", done("insert into ice.lake.events values (1, 'a', date '2024-01-01'), (2, 'b', date '2024-01-02')"), "done"),
    ("read", sql("select id, v from ice.lake.events"), [[1, "a"], [2, "b"]]),
    ("append again", done("insert into ice.lake.events values (3, 'c', date '2024-01-02')"), "done"),
    ("filter", sql("select id from ice.lake.events where day = date '2024-01-02'"), [[2], [3]]),
    ("snapshots", sql("select count(*) from ice.lake.events.snapshots"), [[2]]),
    ("delete rows", done("delete from ice.lake.events where id = 2"), "done"),
    ("read deleted", sql("select id from ice.lake.events"), [[1], [3]]),
    ("update rows", done("update ice.lake.events set v = 'z' where id = 3"), "done"),
    ("read updated", sql("select id, v from ice.lake.events"), [[1, "a"], [3, "z"]]),
    ("merge", done("merge into ice.lake.events t using (select 3L as id, 'm' as v) s on t.id = s.id when matched then update set v = s.v"), "done"),
    ("read merged", sql("select id, v from ice.lake.events"), [[1, "a"], [3, "m"]]),
    ("tag", done("alter table ice.lake.events create tag merged"), "done"),
    ("add column", done("alter table ice.lake.events add column extra int"), "done"),
    ("read new column", sql("select id, extra from ice.lake.events"), [[1, None], [3, None]]),
    ("add partition field", done("alter table ice.lake.events add partition field bucket(4, id)"), "done"),
    ("append to it", done("insert into ice.lake.events values (4, 'd', date '2024-01-03', 7)"), "done"),
    ("count", sql("select count(*) from ice.lake.events"), [[3]]),
    ("read the tag", sql("select count(*) from ice.lake.events version as of 'merged'"), [[2]]),
    ("set property", done("alter table ice.lake.events set tblproperties ('team'='red')"), "done"),
    ("read property", sql("show tblproperties ice.lake.events ('team')"), [["team", "red"]]),
    ("overwrite", done("insert overwrite ice.lake.events select * from ice.lake.events where id < 4"), "done"),
    ("read overwritten", sql("select id from ice.lake.events"), [[1], [3]]),
    ("rename", done("alter table ice.lake.events rename to ice.lake.moved"), "done"),
    ("read renamed", sql("select count(*) from ice.lake.moved"), [[2]]),
    ("old name gone", lambda spark: spark.catalog.tableExists("ice.lake.events"), False),
    ("show tables", column("show tables in ice.lake", "tableName"), ["moved"]),
    ("drop table", done("drop table ice.lake.moved purge"), "done"),
    ("dropped gone", lambda spark: spark.catalog.tableExists("ice.lake.moved"), False),
    ("drop database", done("drop namespace ice.lake"), "done"),
    ("database gone", lambda spark: [row[0] for row in spark.sql("show namespaces in ice").collect()], ["default"]),
]  # fmt: skip


def main() -> None:
    uri, directory, jar = sys.argv[1:]
    catalog = "spark.sql.catalog.ice"
    options = {
        "spark.jars": jar,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hive",
        f"{catalog}.uri": uri,
        f"{catalog}.warehouse": f"file:{directory}/warehouse",
        f"{catalog}.cache-enabled": "false",
    }
    spark = session(uri, directory, options)
    try:
        print(json.dumps(run(spark, STEPS)))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
