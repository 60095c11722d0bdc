"""Questions about tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.methods.questions.question import DB, HIT, HIVE_4, OLD, OTHER_ID, Question
from tests.methods.world import struct


def tables() -> Iterator[Question]:
    """Tables, one and many."""
    old: list[tuple[Any, Any, str]] = [
        (DB, b"plain", HIT),
        (b" {DB}\t", b" PLAIN ", HIT),
        (b"@HIVE#{DB}", b"keyed", HIT),
        (DB, b"a_view", HIT),
        (DB, b"Absent ", HIT),
        (b"No_db", b"plain", HIT),
        (DB, b"insert_only", "no_write_id"),
        (DB, b"", "name"),
        (DB, None, "name"),
        (None, b"plain", "name"),
        (b"@hive", b"plain", "name"),
    ]
    for database, table, reason in old:
        yield Question("get_table", {"dbname": database, "tbl_name": table}, reason, OLD)
    request = "GetTableRequest"
    for fields in (
        {},
        {"catName": b"HIVE "},
        {"id": -1},
        {"id": 0},
        {"engine": b"hive"},
        {"getColumnStats": False},
        {"validWriteIdList": b"{db}.plain:5:9223372036854775807::"},
        {"capabilities": struct("ClientCapabilities", values=[2])},
        {"capabilities": struct("ClientCapabilities", values=[])},
    ):
        yield Question("get_table_req", {"req": struct(request, dbName=b"{DB} ", tblName=b"PLAIN", **fields)})
    for name in (b"a_view", b"keyed", b"two_keys", b"No ", b"of_varchar", b"private"):
        yield Question("get_table_req", {"req": struct(request, dbName=DB, tblName=name)})
    yield Question("get_table_req", {"req": struct(request, dbName=b"No_db", tblName=b"x")})
    odd: tuple[tuple[dict[str, Any], str], ...] = (
        ({"processorCapabilities": [b"EXTREAD"]}, "capabilities"),
        ({"processorIdentifier": b"x"}, "capabilities"),
        ({"getColumnStats": True, "engine": b"hive"}, "arguments"),
        ({"id": OTHER_ID}, "table_id"),
        ({"catName": b""}, "name"),
        ({"catName": b"nocat"}, "not_loaded"),
    )
    for more, reason in odd:
        yield Question("get_table_req", {"req": struct(request, dbName=DB, tblName=b"plain", **more)}, reason)
    yield Question("get_table_req", {"req": struct(request, dbName=b"@hive#{db}", tblName=b"plain")}, "name")
    yield Question("get_table_req", {"req": struct(request, dbName=DB, tblName=b"insert_only")}, "no_write_id")
    yield Question("get_table_req", {"req": None}, "arguments", HIVE_4)  # 3.1 closes the connection
    unset = struct("ClientCapabilities")
    one = struct(request, dbName=DB, tblName=b"plain", capabilities=unset)
    yield Question("get_table_req", {"req": one}, "arguments", HIVE_4)
    many = struct("GetTablesRequest", dbName=DB, tblNames=[b"plain"], capabilities=unset)
    yield Question("get_table_objects_by_name_req", {"req": many}, "arguments", HIVE_4)


def many_tables() -> Iterator[Question]:
    """Lists of tables by name."""
    lists: list[tuple[Any, Any, str]] = [
        (DB, [b"plain", b"PLAIN ", b"no", b"a_view", b"t1"], HIT),
        (b" {DB}", [b"t1", b"keyed", b"plain"], HIT),
        (DB, [], HIT),
        (b"no_such_db", [], HIT),
        (DB, [b"no"], HIT),
        (DB, [b""], HIT),
        (DB, [b"plain", b"insert_only"], "no_write_id"),
        (DB, None, "arguments"),
        (b"no_such_db", [b"x"], "arguments"),
        (b"", [b"x"], "name"),
        (DB, [b"plain", "ü".encode()], "name"),
    ]
    for database, names, reason in lists:
        yield Question("get_table_objects_by_name", {"dbname": database, "tbl_names": names}, reason, OLD)
        request = struct("GetTablesRequest", dbName=database, tblNames=names)
        yield Question("get_table_objects_by_name_req", {"req": request}, reason)
    for fields, reason in (
        ({"catName": b"Hive "}, HIT),
        ({"capabilities": struct("ClientCapabilities", values=[2])}, HIT),
        ({"tablesPattern": b"t*"}, "arguments"),
        ({"projectionSpec": struct("GetProjectionsSpec", fieldList=[b"tableName"])}, "arguments"),
        ({"processorCapabilities": [b"EXTREAD"]}, "capabilities"),
        ({"processorIdentifier": b"x"}, "capabilities"),
    ):
        request = struct("GetTablesRequest", dbName=DB, tblNames=[b"t1", b"plain"], **fields)
        yield Question("get_table_objects_by_name_req", {"req": request}, reason)
