"""The stated schema against the published ones: every column is there since the version that is said, not before."""

from __future__ import annotations

import pytest

from hms_cache_proxy.store.protocol import HiveLine
from hms_cache_proxy.store.sql.schema import Schema
from tests.testbed.postgres import MetastoreDatabase, Postgres
from tests.testbed.postgres import Schema as Published

TYPES = {
    "bigint": "BIGINT",
    "integer": "INTEGER",
    "smallint": "INTEGER",
    "boolean": "BOOLEAN",
    "text": "TEXT",
    "character varying": "TEXT",
    "character": "TEXT",
    "double precision": "DOUBLE",
}


NOT_READ = {(line, name) for line in ("2.3", "3.1") for name in ("TAB_COL_STATS", "PART_COL_STATS")} | {("2.3", "TXNS")}
"""Changes of statistics are not logged there, and 2.3's transactions have no write ids."""


def found_columns(database: MetastoreDatabase) -> dict[str, dict[str, str]]:
    columns: dict[str, dict[str, str]] = {}
    rows = database.rows(
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
    )
    for table, column, kind in rows:
        columns.setdefault(table, {})[column] = TYPES.get(kind, kind)
    return columns


def check(line: HiveLine, found: dict[str, dict[str, str]]) -> None:
    """Types too, but for SMALLINTs and the like, which a driver gives as the same Python type."""
    schema, newest = Schema.of(line), Schema.of("4.2")
    for name, table in newest.tables.items():
        if name not in schema.tables:
            assert (line, name) in NOT_READ or not {name, name.lower()} & found.keys(), f"{name} is there, not stated"
            continue
        stated = {column.name: str(column.type) for column in schema[name].columns}
        columns = found[schema[name].name]
        assert {column: columns.get(column) for column in stated} == stated, name
        later = {column.name for column in table.columns} - {column.key for column in schema[name].columns}
        assert not later & columns.keys(), f"{name} has {later & columns.keys()} earlier than stated"


@pytest.mark.parametrize(
    ("line", "published"),
    [("2.3", Published.HIVE23), ("3.1", Published.HIVE31), ("4.0", Published.HIVE40), ("4.2", Published.HIVE42)],
)
def test_as_published(postgres: Postgres, unique_name: str, line: HiveLine, published: Published) -> None:
    check(line, found_columns(postgres.create_metastore_database(unique_name, published)))


def test_names_as_a_script_without_quotes_makes_them() -> None:
    transactions = {"txns", "next_txn_id", "next_write_id", "txn_to_write_id"}
    assert transactions <= set(Schema.of("3.1").names) and not transactions & set(Schema.of("4.0").names)
    assert {name.upper() for name in transactions} <= set(Schema.of("3.1", folds=False).names)
