"""Reads that these tests ask, and the tables that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.methods.structs import descriptor, struct


def table(database: bytes, name: bytes, columns: Sequence[Any], keys: Sequence[Any], location: bytes) -> Any:
    """An external table."""
    return struct(
        "Table",
        dbName=database,
        tableName=name,
        owner=b"o",
        tableType=b"EXTERNAL_TABLE",
        parameters={b"EXTERNAL": b"TRUE"},
        partitionKeys=list(keys),
        sd=descriptor(cols=list(columns), location=location),
    )


def arguments(method: str, what: str, part: bytes) -> dict[str, Any]:
    """Of a read of the table `what`, or of its partition or database."""
    database, name = what.encode().split(b".")
    known: dict[str, dict[str, Any]] = {
        "get_table": {"dbname": database, "tbl_name": name},
        "get_table_req": {"req": struct("GetTableRequest", dbName=database, tblName=name)},
        "get_fields": {"db_name": database, "table_name": name},
        "get_database": {"name": database},
        "get_table_objects_by_name_req": {"req": struct("GetTablesRequest", dbName=database, tblNames=[name])},
        "get_partition_by_name": {"db_name": database, "tbl_name": name, "part_name": b"dt=" + part},
        "get_all_tables": {"db_name": database},
    }
    return known[method]
