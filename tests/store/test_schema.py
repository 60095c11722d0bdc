"""The stated schema against the published ones: every column is there since the version that is said, not before."""

from __future__ import annotations

import pytest

from hms_cache_proxy.store.protocol import HiveLine
from hms_cache_proxy.store.schema import READ_TABLES, Schema
from tests.testbed.artifacts import schema_script
from tests.testbed.postgres import Collation, MetastoreDatabase, Postgres
from tests.testbed.postgres import Schema as Published

TYPES = {
    "bigint": "BIGINT",
    "integer": "INTEGER",
    "boolean": "BOOLEAN",
    "text": "TEXT",
    "character varying": "TEXT",
    "character": "TEXT",
}


def found_columns(database: MetastoreDatabase) -> dict[str, dict[str, str]]:
    columns: dict[str, dict[str, str]] = {}
    rows = database.rows(
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
    )
    for table, column, kind in rows:
        columns.setdefault(table, {})[column] = TYPES.get(kind, kind)
    return columns


def check(line: HiveLine, found: dict[str, dict[str, str]], *, unquoted: bool = False) -> None:
    """Types too, but for SMALLINTs and the like, which a driver gives as the same Python type."""
    schema, newest = Schema.of(line), Schema.of("4.2")
    for name in READ_TABLES:
        columns = found.get(name) or (
            {c.upper(): t for c, t in found.get(name.lower(), {}).items()} if unquoted else {}
        )
        stated = {column.name: str(column.type) for column in schema[name].columns}
        assert {column: columns.get(column) for column in stated} == stated, name
        later = {column.name for column in newest[name].columns} - stated.keys()
        assert not later & columns.keys(), f"{name} has {later & columns.keys()} earlier than stated"


@pytest.mark.parametrize(("line", "published"), [("4.0", Published.HIVE40), ("4.2", Published.HIVE42)])
def test_hive_4(postgres: Postgres, unique_name: str, line: HiveLine, published: Published) -> None:
    check(line, found_columns(postgres.create_metastore_database(unique_name, published)))


def test_hive_3(postgres: Postgres, unique_name: str) -> None:
    """Not read yet, but stated: it must be right when it is."""
    script = schema_script("postgres").with_name("hive-schema-3.1.0.postgres.sql").read_text()
    postgres.execute(f'CREATE DATABASE "{unique_name}" TEMPLATE template0')
    postgres.execute(script, unique_name)
    database = MetastoreDatabase(postgres.host, postgres.port, unique_name, Published.HIVE40, Collation.C)
    check("3.1", found_columns(database))
