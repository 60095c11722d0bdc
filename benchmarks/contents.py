"""Contents and requests of the benchmark.

One database with 20 tables of 20 columns, of which `wide` has 10,000 partitions, written over Thrift; `huge` (100,000)
and `vast` (900,000) are written by SQL, as adding them over Thrift takes hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hive_metastore.ttypes import GetPartitionsByNamesRequest, GetTableRequest

from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.postgres import MetastoreDatabase
from tests.testbed.raw import encode_call

DATABASE = "bench"
TABLES = 20
PARTITIONS = 10_000
NAMES = 1000  # partitions that are asked for by name


def value(number: int) -> list[str]:
    return [f"2024-{1 + number // 1000:02d}-{1 + number % 28:02d}", str(number % 24), f"r{number:05d}"]


def name(number: int) -> str:
    day, hour, region = value(number)
    return f"dt={day}/hr={hour}/region={region}"


def fill(client: MetastoreClient) -> None:
    """20 tables; 10,000 partitions of 20 columns (half a minute)."""
    objects.create_database(client, DATABASE)
    columns = objects.wide_columns(20)
    keys = (("dt", "string"), ("hr", "int"), ("region", "string"))
    for number in range(TABLES - 1):
        objects.create_table(
            client, objects.table(DATABASE, f"t{number:02d}", columns, parameters={"owner team": "data"})
        )
    wide = objects.create_table(client, objects.table(DATABASE, "wide", columns, keys))
    objects.add_partitions(client, wide, (value(number) for number in range(PARTITIONS)))


def fill_by_sql(client: MetastoreClient, database: MetastoreDatabase, table: str, count: int) -> None:
    """A table with `count` partitions: one by Thrift, the others copied from it by SQL."""
    columns = objects.wide_columns(20)
    made = objects.create_table(client, objects.table(DATABASE, table, columns, (("day", "string"), ("n", "int"))))
    objects.add_partitions(client, made, [["d00000", "0"]])
    copy = Path(__file__).with_name("huge.sql").read_text()
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # the rows are right: no look-up of foreign keys
        cursor.execute(copy, {"count": count, "table": made.id})
        cursor.execute("VACUUM ANALYZE")  # now, and not when the server finds it time to


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the tables: a request and with how many connections it is sent."""

    key: str
    label: str
    message: bytes
    connections: int = 16
    hot: bool = False  # a small reply: every server in turn, several times


def filter_huge(number: int) -> bytes:
    """One partition of a hundred thousand; another one for each number."""
    text = f'day = "d{number % 10_000:05d}" and n = {number // 10_000 % 10}'
    return encode_call("get_partitions_by_filter", DATABASE, "huge", text, -1)


def by_names(start: int) -> bytes:
    """1,000 partitions of 10,000, every seventh from `start`."""
    names = [name((start + number * 7) % PARTITIONS) for number in range(NAMES)]
    request = GetPartitionsByNamesRequest(DATABASE, "wide", names=names)
    return encode_call("get_partitions_by_names_req", request)


def get_table(table: str) -> bytes:
    return encode_call("get_table_req", GetTableRequest(dbName=DATABASE, tblName=table))


def get_partitions(table: str) -> bytes:
    """All of them."""
    return encode_call("get_partitions", DATABASE, table, -1)


CASES = [
    Case("get_database", "get_database", encode_call("get_database", DATABASE), hot=True),
    Case("get_table", "get_table_req", get_table("t00"), hot=True),
    Case(
        "get_partition_by_name",
        "get_partition_by_name",
        encode_call("get_partition_by_name", DATABASE, "wide", name(77)),
        hot=True,
    ),
    Case("by_names_1000", "get_partitions_by_names_req (1,000 of 10,000)", by_names(0), connections=4),
    Case(
        "names_10000",
        "get_partition_names (10,000)",
        encode_call("get_partition_names", DATABASE, "wide", -1),
        connections=4,
    ),
    Case("partitions_10000", "get_partitions (10,000)", get_partitions("wide"), connections=2),
    Case("filter_huge", "get_partitions_by_filter (1 of 100,000)", filter_huge(70_007), connections=4),
]
