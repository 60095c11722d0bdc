"""Rows that no client can make through a metastore, but that exist: NULLs, old types, edited values.

Each edit is made in the database, and the metastore is asked what it makes of it. Not among them: rows on which 4.2.0
fails itself (NULL bucket columns, NULL skewed values and places, NULL write ids, times beyond 32 bits).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hms_cache_proxy.store.sql.store import SqlStore, open_sql_store
from tests.store.conftest import World, make_world
from tests.store.oracle import hms
from tests.store.stores import FILTER, LIST, SINGLE, whole_partition
from tests.testbed.bed import Bed
from tests.testbed.untyped import decode_struct

TABLE = (
    '"TBL_ID" = (SELECT "TBL_ID" FROM "TBLS" JOIN "DBS" USING ("DB_ID") WHERE "NAME" = %(db)s AND "TBL_NAME" = %(t)s)'
)
PARTITION = f'"PART_ID" = (SELECT "PART_ID" FROM "PARTITIONS" WHERE {TABLE} AND "PART_NAME" = %(p)s)'
TABLE_SD = f'"SD_ID" = (SELECT "SD_ID" FROM "TBLS" WHERE {TABLE})'
PARTITION_SD = f'"SD_ID" = (SELECT "SD_ID" FROM "PARTITIONS" WHERE {PARTITION})'


def of_sd(column: str, where: str) -> str:
    return f'"{column}" = (SELECT "{column}" FROM "SDS" WHERE {where})'


TABLE_EDITS = {
    "write id": ("external_plain", f'UPDATE "TBLS" SET "WRITE_ID" = 7 WHERE {TABLE}'),
    "no owner type": ("of_role", f'UPDATE "TBLS" SET "OWNER_TYPE" = NULL WHERE {TABLE}'),
    "empty owner type": ("of_group", f'UPDATE "TBLS" SET "OWNER_TYPE" = \'\' WHERE {TABLE}'),
    "no type, external": ("nobody", f'UPDATE "TBLS" SET "TBL_TYPE" = NULL WHERE {TABLE}'),
    "no type, managed": ("insert_only", f'UPDATE "TBLS" SET "TBL_TYPE" = NULL WHERE {TABLE}'),
    "no type, view": ("a_view", f'UPDATE "TBLS" SET "TBL_TYPE" = NULL WHERE {TABLE}'),
    "null parameter": ("managed_plain", f'UPDATE "TABLE_PARAMS" SET "PARAM_VALUE" = NULL WHERE {TABLE}'),
    "no formats, no location": (
        "odd_columns",
        f'UPDATE "SDS" SET "INPUT_FORMAT" = NULL, "OUTPUT_FORMAT" = NULL, "LOCATION" = NULL WHERE {TABLE_SD}',
    ),
    "null sd parameter": ("bucketed", f'UPDATE "SD_PARAMS" SET "PARAM_VALUE" = NULL WHERE {TABLE_SD}'),
    "no sort column's name": ("insert_only_full", f'UPDATE "SORT_COLS" SET "COLUMN_NAME" = NULL WHERE {TABLE_SD}'),
    "no serde library": ("wide", f'UPDATE "SERDES" SET "SLIB" = NULL WHERE {of_sd("SERDE_ID", TABLE_SD)}'),
    "serde type unknown": ("parts", f'UPDATE "SERDES" SET "SERDE_TYPE" = 9 WHERE {of_sd("SERDE_ID", TABLE_SD)}'),
    "empty serde texts": (
        "no_parts",
        'UPDATE "SERDES" SET "NAME" = \'\', "DESCRIPTION" = \'\', "SERIALIZER_CLASS" = \'\', "SERDE_TYPE" = 2'
        f" WHERE {of_sd('SERDE_ID', TABLE_SD)}",
    ),
    "null serde parameter": (
        "full_serde",
        f'UPDATE "SERDE_PARAMS" SET "PARAM_VALUE" = NULL WHERE {of_sd("SERDE_ID", TABLE_SD)}',
    ),
    "no serde": ("mixedcase", f'UPDATE "SDS" SET "SERDE_ID" = NULL WHERE {TABLE_SD}'),
    "no column list": ("huge_type", f'UPDATE "SDS" SET "CD_ID" = NULL WHERE {TABLE_SD}'),
    "no sd": ("no_columns", f'UPDATE "TBLS" SET "SD_ID" = NULL WHERE {TABLE}'),
}
PARTITION_EDITS = {
    "write id": ("plain", f'UPDATE "PARTITIONS" SET "WRITE_ID" = 5 WHERE {PARTITION}'),
    "negative write id": ("no_params", f'UPDATE "PARTITIONS" SET "WRITE_ID" = -7 WHERE {PARTITION}'),
    "times": (
        "null_params",
        f'UPDATE "PARTITIONS" SET "CREATE_TIME" = 2147483647, "LAST_ACCESS_TIME" = -1 WHERE {PARTITION}',
    ),
    "null parameter": ("odd_params", f'UPDATE "PARTITION_PARAMS" SET "PARAM_VALUE" = NULL WHERE {PARTITION}'),
    "null sd parameter": ("sd_params", f'UPDATE "SD_PARAMS" SET "PARAM_VALUE" = NULL WHERE {PARTITION_SD}'),
    "no formats, no location": (
        "located",
        f'UPDATE "SDS" SET "LOCATION" = NULL, "INPUT_FORMAT" = NULL, "OUTPUT_FORMAT" = NULL WHERE {PARTITION_SD}',
    ),
    "null serde parameter": (
        "serde_full",
        f'UPDATE "SERDE_PARAMS" SET "PARAM_VALUE" = NULL WHERE {of_sd("SERDE_ID", PARTITION_SD)}',
    ),
    "no column list": ("own_columns", f'UPDATE "SDS" SET "CD_ID" = NULL WHERE {PARTITION_SD}'),
    "no serde": ("own_serde", f'UPDATE "SDS" SET "SERDE_ID" = NULL WHERE {PARTITION_SD}'),
    "no sort column's name": ("bucketed", f'UPDATE "SORT_COLS" SET "COLUMN_NAME" = NULL WHERE {PARTITION_SD}'),
}
DATABASE_EDITS = {
    "owner type": '"OWNER_TYPE" = NULL',
    "owner": '"OWNER_NAME" = NULL',
    "type": "\"TYPE\" = ''",
    "no time": '"CREATE_TIME" = NULL',
    "time 0": '"CREATE_TIME" = 0',
    "empty managed location": "\"DB_MANAGED_LOCATION_URI\" = ''",
    "empty description": "\"DESC\" = ''",
    "connector on a native one": "\"DATACONNECTOR_NAME\" = 'c', \"REMOTE_DBNAME\" = 'r'",
    "remote without connector": '"TYPE" = \'REMOTE\', "DATACONNECTOR_NAME" = NULL, "REMOTE_DBNAME" = NULL',
}


@pytest.fixture(scope="module", params=["embedded", "embedded-postgresql", "hive42", "hive42-mariadb"])
def edited(request: pytest.FixtureRequest, bed: Bed) -> Iterator[World]:
    """Content of this module's own, to be edited."""
    world = make_world(bed.shared(request.param), "edited_")
    yield world
    world.oracle.close()


@pytest.fixture(scope="module")
def store(edited: World) -> Iterator[SqlStore]:
    assert edited.metastore.database is not None
    opened = open_sql_store(edited.metastore.database.reader_url)
    yield opened
    opened.close()


def edit(world: World, statement: str, **parameters: str) -> None:
    assert world.metastore.database is not None
    with world.metastore.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(statement, {"db": world.content.database} | parameters)
        assert cursor.rowcount > 0, "nothing to edit"


@pytest.mark.parametrize("what", TABLE_EDITS)
def test_table(edited: World, store: SqlStore, what: str) -> None:
    name, statement = TABLE_EDITS[what]
    edit(edited, statement, t=name)
    capable = hms.ClientCapabilities([hms.ClientCapability.INSERT_ONLY_TABLES])
    request = hms.GetTableRequest(dbName=edited.content.database, tblName=name, capabilities=capable)
    with store.snapshot() as snapshot:
        record = snapshot.tables(b"hive", edited.content.database.encode(), [name.encode()])[name.encode()]
        listed = {found[0]: found[1] for found in snapshot.table_names(b"hive", edited.content.database.encode())}
    answered = edited.oracle.get_table_req(request)[1][1]
    assert decode_struct(record.body) == answered
    assert record.table_type == listed[name.encode()] == answered[12][1]


@pytest.mark.parametrize("what", PARTITION_EDITS)
def test_partition(edited: World, store: SqlStore, what: str) -> None:
    value, statement = PARTITION_EDITS[what]
    name, database = f"p={value}", edited.content.database
    edit(edited, statement, t="shapes", p=name)
    oracle = edited.oracle
    with store.snapshot() as snapshot:
        table = snapshot.tables(b"hive", database.encode(), [b"shapes"])[b"shapes"]
        (record,) = snapshot.partitions(table, names=[name.encode()])
    assert [whole_partition(table, record, LIST)] == oracle.get_partitions_by_names(database, "shapes", [name])
    assert whole_partition(table, record, SINGLE) == oracle.get_partition_by_name(database, "shapes", name)
    by_filter = oracle.get_partitions_by_filter(database, "shapes", f'p = "{value}"', -1)
    assert [whole_partition(table, record, FILTER)] == by_filter


@pytest.mark.parametrize("what", DATABASE_EDITS)
def test_database(edited: World, store: SqlStore, what: str) -> None:
    name = f"{edited.content.prefix}full"
    edit(edited, f'UPDATE "DBS" SET {DATABASE_EDITS[what]} WHERE "NAME" = %(name)s', name=name)
    key = (b"hive", name.encode())
    with store.snapshot() as snapshot:
        record = snapshot.databases([key])[key]
    answered: dict[int, Any] = edited.oracle.get_database(name)
    assert decode_struct(record.body) == answered
    edit(edited, 'UPDATE "DBS" SET "TYPE" = \'NATIVE\' WHERE "NAME" = %(name)s', name=name)


def test_partition_of_a_view_without_sd(edited: World, store: SqlStore) -> None:
    edit(edited, f'UPDATE "PARTITIONS" SET "SD_ID" = NULL WHERE {PARTITION}', t="view_parts", p="p=1")
    database = edited.content.database
    with store.snapshot() as snapshot:
        table = snapshot.tables(b"hive", database.encode(), [b"view_parts"])[b"view_parts"]
        (record,) = snapshot.partitions(table)
    answered = edited.oracle.get_partitions(database, "view_parts", -1)
    assert [whole_partition(table, record, LIST)] == answered
    assert (record.sd_head, record.location) == (b"", None)
