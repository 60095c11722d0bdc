"""Questions about databases and lists of tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.methods.questions.question import DB, HIT, HIVE_4, NEW, OLD, Question
from tests.methods.world import struct


def databases() -> Iterator[Question]:
    """Databases and the lists of names."""
    for name in (b"{db}x", b"{DB} x", b"@hive#No"):
        yield Question("get_database", {"name": name})
    for name in (b"{db}", b" {DB}\t", b"@hive#{db}", b"@HIVE#{DB}", b"\x01{db}\x00", b"default"):
        yield Question("get_database", {"name": name}, "location", reason_31=HIT)
    for odd in (b"", b"  ", None, b"@hive", b"@hive#", b"@hive#!", "\u212a".encode(), b"{db}\xc2\xa0", b"@#{db}"):
        yield Question("get_database", {"name": odd}, "name")
    yield Question("get_database", {"name": b"@nocat#{db}"}, "not_loaded")
    yield Question("get_database", {"name": b" @hive#{db}"})
    request = "GetDatabaseRequest"
    yield Question("get_database_req", {"request": struct(request, name=DB, catalogName=b"hive")}, "location")
    yield Question("get_database_req", {"request": struct(request, name=b" {DB}", catalogName=b"HIVE")}, "location")
    yield Question("get_database_req", {"request": struct(request, name=b"No ", catalogName=b"Hive")})
    yield Question("get_database_req", {"request": struct(request, name=DB, catalogName=b"hive ")}, "name")
    yield Question("get_database_req", {"request": struct(request, name=DB)}, "arguments")
    yield Question("get_database_req", {"request": struct(request, name=b"@hive#{db}", catalogName=b"hive")}, "name")
    capable = struct(request, name=DB, catalogName=b"hive", processorCapabilities=[b"EXTREAD"])
    yield Question("get_database_req", {"request": capable}, "capabilities")
    yield Question("get_all_databases", {})
    for pattern in (b"{prefix}*", b"{DB}", b"{db}|{prefix}other", b" {db}* ", b"{prefix}m.in", b"{prefix}main.*"):
        yield Question("get_databases", {"pattern": pattern})
    for pattern in (
        b"",
        b"{prefix}[mo]*",
        b"{prefix}%",
        b"{prefix}mai?",
        b"{db} | {db}2",
        b"@hive#{prefix}*",
        b"{prefix}'*",
    ):
        yield Question("get_databases", {"pattern": pattern})
    for pattern in (b"@hive#", b"@HIVE#", b"@hive#!"):
        yield Question("get_databases", {"pattern": pattern})
    yield Question("get_databases", {"pattern": b"@nocat#"}, "not_loaded")
    for odd in (None, b"@hive", b"@#", b"@HIVE #{prefix}*"):
        yield Question("get_databases", {"pattern": odd}, "name")
    yield Question("get_databases", {"pattern": b"|"}, "pattern", HIVE_4)  # 3.1 tries for 20 s
    for pattern in (b"{db}|", b"{prefix}\\_*", "ü*".encode()):
        yield Question("get_databases", {"pattern": pattern}, "pattern")


def listings() -> Iterator[Question]:
    """Lists of tables."""
    for name in (b"{db}", b" {DB}", b"@hive#{db}", b"no_such_db", b"{prefix}empty", b"{db}|{db}2", b"{prefix}*"):
        yield Question("get_all_tables", {"db_name": name})
        yield Question("get_tables", {"db_name": name, "pattern": b"*"})
    for odd in (None, b"", b"@hive", b"@hive#", b"@hive#!"):
        yield Question("get_all_tables", {"db_name": odd}, "name")
        yield Question("get_tables", {"db_name": odd, "pattern": b"*"}, "name")
    for pattern in (
        None,
        b"",
        b"plain",
        b"PLAIN*",
        b"plain|t1",
        b"tab?x",
        b"tab.x",
        b"tab_x*",
        b" t1 ",
        b"p%",
        b".*",
        b"[a-z]*",
    ):
        yield Question("get_tables", {"db_name": DB, "pattern": pattern})
    yield Question("get_tables", {"db_name": DB, "pattern": b"t\\d"}, "pattern")
    for pattern in (b"*", b".*", None, b"t*|PLAIN", b"", b"no_table"):
        for kind in (b"VIRTUAL_VIEW", b"EXTERNAL_TABLE", b"MANAGED_TABLE", b"MATERIALIZED_VIEW"):
            arguments: dict[str, Any] = {"db_name": DB, "pattern": pattern, "tableType": kind}
            yield Question("get_tables_by_type", arguments, releases=NEW)
            yield Question("get_tables_by_type", arguments, "not_cached", OLD)
    for name in (b" {DB}", b"@hive#{db}", b"no_db", b"{prefix}empty"):
        yield Question(
            "get_tables_by_type", {"db_name": name, "pattern": b"*", "tableType": b"EXTERNAL_TABLE"}, HIT, NEW
        )
    for pattern, kind, reason in ((b"t\\d", b"VIRTUAL_VIEW", "pattern"), (b"*", b"external_table", "arguments")):
        yield Question("get_tables_by_type", {"db_name": DB, "pattern": pattern, "tableType": kind}, reason, NEW)
    for databases, reason in (
        *((name, HIT) for name in (DB, b" {DB}", b"@hive#{db}", b"{db}2", b"{prefix}empty", b"no_db")),
        *((name, "pattern") for name in (b"{prefix}*", b"{db}|{db}2", b"{prefix}mai.")),
        *((b"@HIVE#{db}", "arguments"), (b"", "name"), (None, "name")),
    ):
        for pattern, types in (
            *((b"*", []), (b"t*|PLAIN", [b"EXTERNAL_TABLE"]), (None, None), (b"", [b"nonsense"]), (b" * ", None)),
            *(
                (b".*", [b"VIRTUAL_VIEW", b"MANAGED_TABLE", b"VIRTUAL_VIEW"]),
                (b"tab_x", [b"external_table"]),
                (b"%", []),
            ),
        ):
            arguments = {"db_patterns": databases, "tbl_patterns": pattern, "tbl_types": types}
            yield Question("get_table_meta", arguments, reason, NEW)
        arguments = {"db_patterns": databases, "tbl_patterns": b"t*|PLAIN", "tbl_types": [b"EXTERNAL_TABLE"]}
        yield Question("get_table_meta", arguments, "not_cached", OLD)
    yield Question("get_table_meta", {"db_patterns": DB, "tbl_patterns": b"t\\d", "tbl_types": []}, "pattern", NEW)
    no_text = {"db_patterns": DB, "tbl_patterns": b"*", "tbl_types": [b"\xff"]}
    yield Question("get_table_meta", no_text, "arguments", NEW)
    request = "GetDatabaseObjectsRequest"
    for fields in ({}, {"pattern": b"{prefix}*"}, {"catalogName": b"HIVE", "pattern": DB}, {"catalogName": b"nocat"}):
        yield Question("get_databases_req", {"request": struct(request, **fields)}, "not_cached", NEW)
    for numbers in ({"requestedFields": 3}, {"requestedFields": 1, "limit": 2}):
        extended = struct("GetTablesExtRequest", catalog=b"hive", database=DB, tableNamePattern=b"t*", **numbers)
        yield Question("get_tables_ext", {"req": extended}, "not_cached")
