"""More than a follower expects: a hundred thousand events, tables of a million partitions that go and come again.

Invariant: a table that is made by SQL is complete in the transaction that logs it, as a metastore's would be.
"""

from __future__ import annotations

import random
from contextlib import suppress

from hive_metastore.ttypes import GetTableRequest, MetaException, NoSuchObjectException
from thrift.Thrift import TException

from tests.follower.rows import pack, table
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.torture.faults.kinds import kind
from tests.torture.world import World

DATABASE = "floods"
EVENTS = 100_000
PARTITIONS, AN_EVENT = 1_000_000, 10_000
THROUGH_PROXY, A_CALL = 20_000, 200
BASE = 2_000_000_000
"""Ids from here on are given by no metastore of a test."""

_NEXT = 'SELECT "NEXT_EVENT_ID" FROM "NOTIFICATION_SEQUENCE" FOR UPDATE'
_LOGGED = """
INSERT INTO "NOTIFICATION_LOG" ("NL_ID", "EVENT_ID", "EVENT_TIME", "EVENT_TYPE", "CAT_NAME", "DB_NAME", "TBL_NAME",
  "MESSAGE", "MESSAGE_FORMAT")
SELECT {base} + {first} + n, {first} + n, extract(epoch FROM now())::int, %s, 'hive', %s, %s, %s, 'gzip(json-2.0)'
FROM generate_series(0, {count} - 1) n;
UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = {first} + {count}
"""
_ROWS = """
CREATE TEMP TABLE made ON COMMIT DROP AS
  SELECT {base} + i AS id, i::text AS value FROM generate_series(0, {count} - 1) i;
INSERT INTO "SDS" ("SD_ID", "INPUT_FORMAT", "IS_COMPRESSED", "LOCATION", "NUM_BUCKETS", "OUTPUT_FORMAT", "SERDE_ID",
  "CD_ID", "IS_STOREDASSUBDIRECTORIES")
  SELECT id, s."INPUT_FORMAT", false, s."LOCATION" || '/p=' || value, -1, s."OUTPUT_FORMAT", s."SERDE_ID",
    s."CD_ID", false
  FROM made, "SDS" s WHERE s."SD_ID" = {sd};
INSERT INTO "PARTITIONS" ("PART_ID", "CREATE_TIME", "LAST_ACCESS_TIME", "PART_NAME", "SD_ID", "TBL_ID", "WRITE_ID")
  SELECT id, 1600000000, 0, 'p=' || value, id, {table}, 0 FROM made;
INSERT INTO "PARTITION_KEY_VALS" SELECT id, value, 0 FROM made;
INSERT INTO "PARTITION_PARAMS" SELECT id, 'numRows', value FROM made
"""
_GONE = """
DELETE FROM "PARTITION_PARAMS" WHERE "PART_ID" >= {base};
DELETE FROM "PARTITION_KEY_VALS" WHERE "PART_ID" >= {base};
DELETE FROM "PARTITIONS" WHERE "PART_ID" >= {base};
DELETE FROM "SDS" WHERE "SD_ID" >= {base}
"""


def prepared(address: tuple[str, int]) -> None:
    """The tables that are flooded."""
    with MetastoreClient(*address) as client:
        objects.create_database(client, DATABASE)
        for name in ("noisy", "wide", "through"):
            objects.create_table(client, objects.table(DATABASE, name, partition_keys=[("p", "string")]))


@kind(10, grace_s=20)
def flood_of_events(world: World, chance: random.Random) -> None:
    """Of one table, in one transaction. Recovers later: each of them is looked at."""
    message = {"tableObjBeforeJson": table("noisy", DATABASE), "tableObjAfterJson": table("noisy", DATABASE)}
    _in_transaction(world, [("ALTER_TABLE", "noisy", pack(message), int(EVENTS * world.scale))], "")


@kind(20, grace_s=60)
def drop_and_create_wide(world: World, chance: random.Random) -> None:
    """A table with a hundred thousand partitions, every third time, from the second on, with a million. Recovers later:
    a follower that loads them has less time for others."""
    count = int(PARTITIONS * world.scale) // (1 if world.widened % 3 == 1 else 10)
    world.widened += 1
    ((table_id, sd),) = world.sql('SELECT "TBL_ID", "SD_ID" FROM "TBLS" WHERE "TBL_NAME" = %s', "wide")
    made = {"tableObjJson": table("wide", DATABASE, id=int(str(table_id)))}
    names = [
        pack({**made, "partitions": [{"p": str(n)} for n in range(first, min(count, first + AN_EVENT))]})
        for first in range(0, count, AN_EVENT)
    ]
    events = [
        ("DROP_TABLE", "wide", pack(made), 1),
        ("CREATE_TABLE", "wide", pack(made), 1),
        *(("ADD_PARTITION", "wide", message, 1) for message in names),
    ]
    _in_transaction(world, events, _GONE + ";" + _ROWS.format(base=BASE, count=count, sd=sd, table=table_id))


def _in_transaction(world: World, events: list[tuple[str, str, str, int]], statements: str) -> None:
    """Rows of the log and statements: (type, table, message, how often)."""
    assert world.metastore.database is not None
    database = world.metastore.database.behind(world.server.host, world.server.port)
    with database.connect() as connection, connection.cursor() as cursor:
        connection.autocommit = False
        cursor.execute("SET LOCAL session_replication_role = replica")  # foreign keys are not asked
        if statements:
            cursor.execute(statements.replace("{base}", str(BASE)))
        cursor.execute(_NEXT)
        first = cursor.fetchone()[0]
        for type, name, message, count in events:
            logged = _LOGGED.format(base=BASE, first=first, count=count)
            cursor.execute(logged, (type, DATABASE, name, message))
            first += count
        connection.commit()


@kind(15, grace_s=20)
def many_partitions_through_proxy(world: World, chance: random.Random) -> None:
    """A table gets a third of its partitions; one that has all of them is dropped first, and made again."""
    port = chance.choice(world.sides).front.port
    most = int(THROUGH_PROXY * world.scale)
    with MetastoreClient("127.0.0.1", port) as client, suppress(TException):
        # A busy metastore may not answer in time: then this is all, and whatever it has is compared at the end.
        there = _partitions(port, "through")
        if there is None or len(there) >= most:
            with suppress(NoSuchObjectException):
                client.drop_table(DATABASE, "through", False)
            objects.create_table(client, objects.table(DATABASE, "through", partition_keys=[("p", "string")]))
            there = set()
        made = client.get_table_req(GetTableRequest(dbName=DATABASE, tblName="through")).table
        numbers = range(len(there), min(most, len(there) + most // 3 + 1))
        for first in numbers[::A_CALL]:
            of_call = range(first, min(numbers.stop, first + A_CALL))
            objects.add_partitions(client, made, ([f"{number}-{chance.random()}"] for number in of_call))


def differing(world: World) -> list[str]:
    """Flooded tables of which a proxy lists other partitions than the metastore, by then."""
    found = []
    for name in ("wide", "through"):
        told = [_partitions(port, name) for port in world.ports]
        found += [
            f"{len(others or ())} partitions of {name} on port {port}, {len(told[0] or ())} in the metastore"
            for port, others in zip(world.ports[1:], told[1:], strict=True)
            if others != told[0]
        ]
    return found


def _partitions(port: int, name: str) -> set[str] | None:
    """None: there is no such table."""
    with MetastoreClient("127.0.0.1", port) as client:
        try:
            return set(client.get_partition_names(DATABASE, name, -1))
        except (NoSuchObjectException, MetaException):
            return None
