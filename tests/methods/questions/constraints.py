"""Questions about constraints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.methods.questions.question import DB, HIT, OTHER_ID, Question
from tests.methods.world import struct

CONS = b"{prefix}cons"
SINGLE = (
    ("get_primary_keys", "PrimaryKeysRequest"),
    ("get_unique_constraints", "UniqueConstraintsRequest"),
    ("get_not_null_constraints", "NotNullConstraintsRequest"),
    ("get_default_constraints", "DefaultConstraintsRequest"),
    ("get_check_constraints", "CheckConstraintsRequest"),
)
ALL = "get_all_table_constraints"
LIST = b"{db}.full_flat:5:9223372036854775807::"


def _places() -> list[tuple[Any, Any, Any, str]]:
    """(catalog, database, table, reason)."""
    tables = (b"unconstrained", b"one_each", b"many", b"on_keys", b"altered", b"parent")
    return [
        *((b"hive", CONS, name, HIT) for name in tables),
        (b" HIVE\t", b" {PREFIX}Cons ", b" One_Each\n", HIT),
        (b"hive", CONS, b"Absent ", HIT),
        (b"hive", b"No_db", b"x", HIT),
        (b"hive", DB, b"a_view", HIT),
        (b"hive", DB, b"keyed", HIT),
        (b"hive", DB, b"insert_only", "no_write_id"),
        (b"hive", b"@hive#" + CONS, b"one_each", "name"),
        (b"hive", CONS, b"", "name"),
        (b"hive", b"", b"one_each", "name"),
        (b"", CONS, b"one_each", "name"),
        (b"nocat", CONS, b"one_each", "not_loaded"),
    ]


def constraints() -> Iterator[Question]:
    """Of one kind, and of all kinds; 3.1 does not log some."""
    for question in _constraints():
        unlogged = question.method in ("get_default_constraints", "get_check_constraints")
        yield question._replace(reason_31="unlogged") if unlogged else question


def _constraints() -> Iterator[Question]:
    for catalog, database, table, reason in _places():
        for method, request in SINGLE:
            fields = {"catName": catalog, "db_name": database, "tbl_name": table}
            yield Question(method, {"request": struct(request, **fields)}, reason)
        fields = {"catName": catalog, "dbName": database, "tblName": table}
        yield Question(ALL, {"request": struct("AllTableConstraintsRequest", **fields)}, reason)
    for method, request in SINGLE:
        fields = {"catName": b"hive", "db_name": CONS, "tbl_name": b"child_and_more"}
        yield Question(method, {"request": struct(request, **fields)})
    for method, request in SINGLE[1:]:
        yield Question(method, {"request": struct(request, db_name=CONS, tbl_name=b"many")}, "arguments")
    keys = struct("PrimaryKeysRequest", db_name=CONS, tbl_name=b"many")
    yield Question("get_primary_keys", {"request": keys})
    for table in (b"child", b"child_and_more"):
        named = struct("AllTableConstraintsRequest", catName=b"hive", dbName=CONS, tblName=table)
        yield Question(ALL, {"request": named})
    for more, reason in (
        ({"tableId": OTHER_ID}, "table_id"),
        ({"tableId": -1}, HIT),
        ({"validWriteIdList": b"{prefix}cons.one_each:5:9223372036854775807::"}, HIT),
    ):
        named = struct("AllTableConstraintsRequest", catName=b"hive", dbName=CONS, tblName=b"one_each", **more)
        yield Question(ALL, {"request": named}, reason)
    named = struct(
        "AllTableConstraintsRequest", catName=b"hive", dbName=DB, tblName=b"full_flat", validWriteIdList=LIST
    )
    yield Question(ALL, {"request": named}, "table_id")


def foreign_keys() -> Iterator[Question]:
    """By the table that has them, and by the other."""
    child = {"foreign_db_name": CONS, "foreign_tbl_name": b"child"}
    none = {"foreign_db_name": b" {PREFIX}cons", "foreign_tbl_name": b"MANY "}
    parent = {"parent_db_name": CONS, "parent_tbl_name": b"parent"}
    asked: list[tuple[dict[str, bytes], str]] = [
        (none, HIT),
        (none | parent, HIT),
        (none | {"parent_db_name": CONS}, HIT),
        (none | {"parent_db_name": b"", "parent_tbl_name": b"nonsense"}, HIT),
        ({"foreign_db_name": CONS, "foreign_tbl_name": b"absent"}, HIT),
        ({"foreign_db_name": CONS, "foreign_tbl_name": b"parent"}, HIT),
        (child, HIT),
        (child | parent, HIT),
        ({"foreign_db_name": CONS, "foreign_tbl_name": b"child_and_more"}, HIT),
        (child | {"parent_db_name": b" {PREFIX}Cons", "parent_tbl_name": b"PARENT "}, HIT),
        (child | {"parent_db_name": CONS}, HIT),
        (child | {"parent_tbl_name": b"parent"}, HIT),
        (child | {"parent_db_name": CONS, "parent_tbl_name": b"child"}, HIT),
        (child | {"parent_db_name": CONS, "parent_tbl_name": b""}, HIT),
        (child | {"parent_db_name": b"", "parent_tbl_name": b"parent"}, HIT),
        (child | {"parent_db_name": b"@hive#" + CONS, "parent_tbl_name": b"parent"}, HIT),
        (parent, "name"),
        ({"foreign_db_name": CONS}, "name"),
        ({"foreign_tbl_name": b"child"}, "name"),
        ({}, "name"),
    ]
    for fields, reason in asked:
        for catalog in (None, b"Hive"):
            yield Question(
                "get_foreign_keys", {"request": struct("ForeignKeysRequest", catName=catalog, **fields)}, reason
            )
