"""Contents and requests of the benchmark.

One database with 20 tables of 20 columns, of which `wide` has 10,000 partitions; as many more as asked for in
`huge`, written by SQL (adding 100,000 over Thrift takes ten minutes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_metastore.ttypes import GetPartitionsByNamesRequest, GetTableRequest

from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.postgres import MetastoreDatabase
from tests.testbed.raw import encode_call

DATABASE = "bench"
TABLES = 20
PARTITIONS = 10_000


def value(number: int) -> list[str]:
    return [f"2024-{1 + number // 1000:02d}-{1 + number % 28:02d}", str(number % 24), f"r{number:05d}"]


def name(number: int) -> str:
    day, hour, region = value(number)
    return f"dt={day}/hr={hour}/region={region}"


def fill(client: MetastoreClient) -> None:
    """20 tables; 10,000 partitions of 20 columns (about a minute)."""
    objects.create_database(client, DATABASE)
    columns = objects.wide_columns(20)
    keys = (("dt", "string"), ("hr", "int"), ("region", "string"))
    for number in range(TABLES - 1):
        objects.create_table(
            client, objects.table(DATABASE, f"t{number:02d}", columns, parameters={"owner team": "data"})
        )
    wide = objects.create_table(client, objects.table(DATABASE, "wide", columns, keys))
    objects.add_partitions(client, wide, (value(number) for number in range(PARTITIONS)))


def fill_huge(client: MetastoreClient, database: MetastoreDatabase, count: int) -> None:
    """A table with `count` partitions: one by Thrift, the others copied from it by SQL."""
    columns = objects.wide_columns(20)
    huge = objects.create_table(client, objects.table(DATABASE, "huge", columns, (("day", "string"), ("n", "int"))))
    objects.add_partitions(client, huge, [["d00000", "0"]])
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(Path(__file__).with_name("huge.sql").read_text(), {"count": count, "table": huge.id})


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table: a request, how long it is measured, with how many connections."""

    key: str
    label: str
    message: Callable[[str], bytes]
    connections: int = 16
    goal: str = ""


def _call(method: str, **arguments: Any) -> Callable[[str], bytes]:
    return lambda upstream: encode_call(method, seqid=1, **arguments)


def _by_names(count: int) -> Callable[[str], bytes]:
    names = [name(number * 7 % PARTITIONS) for number in range(count)]
    return _call("get_partitions_by_names_req", req=GetPartitionsByNamesRequest(DATABASE, "wide", names=names))


_WIDE = {"db_name": DATABASE, "tbl_name": "wide"}
CASES = [
    Case("get_database", "get_database", _call("get_database", name=DATABASE), goal=">= 75 % of bare"),
    Case(
        "get_table",
        "get_table_req",
        _call("get_table_req", req=GetTableRequest(dbName=DATABASE, tblName="t00")),
        goal=">= 75 % of bare; >= 5x CachedStore, >= 100x Hive per CPU-second",
    ),
    Case("get_all_tables", "get_all_tables (20)", _call("get_all_tables", db_name=DATABASE)),
    Case(
        "get_partition_by_name",
        "get_partition_by_name",
        _call("get_partition_by_name", part_name=name(77), **_WIDE),
        goal=">= 75 % of bare",
    ),
    Case("by_names_100", "get_partitions_by_names (100 of 10,000)", _by_names(100), connections=8),
    Case(
        "by_names_1000",
        "get_partitions_by_names (1,000 of 10,000)",
        _by_names(1000),
        connections=4,
        goal="<= 1 ms; >= 40x",
    ),
    Case(
        "filter_24",
        "get_partitions_by_filter (selective, of 10,000)",
        _call("get_partitions_by_filter", filter=f'dt = "{value(5)[0]}" and hr = 5', max_parts=-1, **_WIDE),
        connections=8,
    ),
    Case(
        "names_10000",
        "get_partition_names (10,000)",
        _call("get_partition_names", max_parts=-1, **_WIDE),
        connections=4,
        goal=">= 20x",
    ),
    Case(
        "partitions_10000",
        "get_partitions (10,000)",
        _call("get_partitions", max_parts=-1, **_WIDE),
        connections=2,
        goal=">= 10x",
    ),
]
HUGE_FILTER = Case(
    "filter_huge",
    "get_partitions_by_filter (selective, of 100,000)",
    _call(
        "get_partitions_by_filter", db_name=DATABASE, tbl_name="huge", filter='day = "d00007" and n = 7', max_parts=-1
    ),
    connections=4,
    goal="<= 1 ms",
)
