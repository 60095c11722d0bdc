"""Contents and requests of the benchmark.

One database with 20 tables of 20 columns, of which `wide` has 10,000 partitions, written over Thrift; `huge` (100,000)
and `vast` (900,000) are written by SQL, as adding them over Thrift takes hours. Another database has 5,000
tables.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from hive_metastore.ttypes import GetPartitionsByNamesRequest, GetTableRequest, PartitionsByExprRequest

from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.postgres import MetastoreDatabase
from tests.testbed.raw import encode_call

DATABASE, MANY_DATABASE = "bench", "many"
TABLES = 20
PARTITIONS = 10_000
MANY = 5_000  # tables that are asked for in turn; CachedStore reads them all before it answers
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


def fill_tables(client: MetastoreClient, database: MetastoreDatabase, name: str, count: int) -> None:
    """A database with `count` tables of 20 columns: `t` by Thrift, t_000001 and on copied from it by SQL."""
    objects.create_database(client, name)
    made = objects.create_table(client, objects.table(name, "t", objects.wide_columns(20)))
    copy = Path(__file__).with_name("tables.sql").read_text()
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # the rows are right: no look-up of foreign keys
        cursor.execute(copy, {"count": count, "table": made.id})
        cursor.execute("VACUUM ANALYZE")


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the tables for each server: requests that are sent in turn, and over how many connections.

    `warm`: how many of these very calls every server has answered before it is measured. `first`: that pass is a row of
    its own, as each of its requests is asked for the first time.
    """

    key: str
    label: str
    messages: tuple[bytes, ...]
    warm: int
    connections: int = 16
    hot: bool = False  # a small reply: every server in turn, several times
    first: bool = False


def filter_huge(number: int) -> bytes:
    """One partition of a hundred thousand; another one for each number."""
    text = f'day = "d{number % 10_000:05d}" and n = {number // 10_000 % 10}'
    return encode_call("get_partitions_by_filter", DATABASE, "huge", text, -1)


CONDITION = base64.b64decode(
    "AQBvcmcuYXBhY2hlLmhhZG9vcC5oaXZlLnFsLnBsYW4uRXhwck5vZGVHZW5lcmljRnVuY0Rlc+MBAQFqYXZhLnV0aWwuQXJyYXlMaXP0AYMBAAAB"
    "AQEBAwECb3JnLmFwYWNoZS5oYWRvb3AuaGl2ZS5xbC5wbGFuLkV4cHJOb2RlQ29sdW1uRGVz4wEBZGH5AQABgnQBA29yZy5hcGFjaGUuaGFkb29w"
    "LmhpdmUuc2VyZGUyLnR5cGVpbmZvLlByaW1pdGl2ZVR5cGVJbmbvAQFzdHJpbucBBG9yZy5hcGFjaGUuaGFkb29wLmhpdmUucWwucGxhbi5FeHBy"
    "Tm9kZUNvbnN0YW50RGVz4wEBAwkDAWQwMDAwsAEFb3JnLmFwYWNoZS5oYWRvb3AuaGl2ZS5xbC51ZGYuZ2VuZXJpYy5HZW5lcmljVURGT1BFcXVh"
    "7AEAAAGCPQFFUVVBzAEGb3JnLmFwYWNoZS5oYWRvb3AuaW8uQm9vbGVhbldyaXRhYmzlAQAAAQMBAWJvb2xlYe4BAQEBAwECAQGCbgEACAEDAQFp"
    "bvQBBAEBAxcCAAEFAQAADg8BBgEAAAEDEQEHb3JnLmFwYWNoZS5oYWRvb3AuaGl2ZS5xbC51ZGYuZ2VuZXJpYy5HZW5lcmljVURGT1BBbuQBAQYB"
    "AAABAxE="
)
"""`day = 'd00000' and n = 0`, as the classes of Hive 4.0.1 write it."""


def expression(number: int) -> bytes:
    """The condition of `filter_huge` as HiveServer2 sends it."""
    day, n = b"%05d" % (number % 10_000), number // 10_000 % 10
    last = bytes((day[-1] | 0x80,))  # how the end of a string is marked
    written = CONDITION.replace(b"d0000\xb0", b"d" + day[:-1] + last)
    return written.replace(b"\x17\x02\x00", bytes((0x17, 0x02, 2 * n)))  # zig-zag


def expression_huge(number: int) -> bytes:
    """One partition of a hundred thousand by expression; another one for each number."""
    request = PartitionsByExprRequest(DATABASE, "huge", expression(number), DEFAULT_PARTITION.decode(), -1)
    return encode_call("get_partitions_by_expr", request)


def by_names(start: int) -> bytes:
    """1,000 partitions of 10,000, every seventh from `start`."""
    return named([name((start + number * 7) % PARTITIONS) for number in range(NAMES)])


def named(names: list[str]) -> bytes:
    """Partitions of these names."""
    request = GetPartitionsByNamesRequest(DATABASE, "wide", names=names)
    return encode_call("get_partitions_by_names_req", request)


def get_table(table: str, database: str = DATABASE, catalog: str | None = None) -> bytes:
    return encode_call("get_table_req", GetTableRequest(dbName=database, tblName=table, catName=catalog))


def get_partitions(table: str, most: int = -1) -> bytes:
    """All of them, or the first."""
    return encode_call("get_partitions", DATABASE, table, most)


WARM_CALLS, WARM_LARGE = 5000, 100

CASES = [
    Case("get_database", "get_database, the same", (encode_call("get_database", DATABASE),), WARM_CALLS, hot=True),
    Case("get_table", "get_table_req, the same", (get_table("t00"),), WARM_CALLS, hot=True),
    Case(
        "get_partition_by_name",
        "get_partition_by_name, the same",
        (encode_call("get_partition_by_name", DATABASE, "wide", name(77)),),
        WARM_CALLS,
        hot=True,
    ),
    Case(
        "many_tables",
        f"get_table_req, {MANY:,} tables in turn",
        tuple(get_table(f"t_{at:06d}" if at else "t", MANY_DATABASE) for at in range(MANY)),
        MANY,
        first=True,
    ),
    Case(
        "by_names_1000",
        "get_partitions_by_names_req (1,000 of 10,000), the same",
        (by_names(0),),
        WARM_LARGE,
        connections=4,
    ),
    Case(
        "names_10000",
        "get_partition_names (10,000), the same",
        (encode_call("get_partition_names", DATABASE, "wide", -1),),
        WARM_LARGE,
        connections=4,
    ),
    Case("partitions_10000", "get_partitions (10,000), the same", (get_partitions("wide"),), 20, connections=2),
    Case(
        "filter_huge",
        "get_partitions_by_filter (1 of 100,000), the same",
        (filter_huge(70_007),),
        WARM_CALLS // 5,
        connections=4,
    ),
    Case(
        "expression_huge",
        "get_partitions_by_expr (1 of 100,000), the same",
        (expression_huge(70_007),),
        WARM_CALLS // 5,
        connections=4,
    ),
]
