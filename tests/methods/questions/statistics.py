"""Questions about column statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.methods.analyzed import NAMES, TYPES
from tests.methods.questions.question import DB, HIT, HIVE_4, NEW, OTHER_ID, Question
from tests.methods.structs import struct

STAT = b"{prefix}stat"
ALL = [name for name in TYPES if name != b"ar"]
LIST = b"{prefix}stat.flat:5:9223372036854775807::"


def _places(of_partitions: bool) -> list[tuple[bytes, bytes, str]]:
    """(database, table, reason)."""
    found: list[tuple[bytes, bytes, str]] = [
        *((STAT, name, HIT) for name in (b"flat", b"few", b"never", b"part", b"part_never", b"part_empty")),
        (b" {PREFIX}Stat ", b" Flat\n", HIT),
        (b" {PREFIX}Stat ", b" Part\n", HIT),
        (STAT, b"Absent ", HIT),
        (b"No_db", b"x", HIT),
        (DB, b"a_view", HIT),
        (DB, b"insert_only", "no_write_id"),
        (STAT, b"", "name"),
        (b"", b"flat", "name"),
    ]
    return found


def hive4(questions: Iterator[Question]) -> Iterator[Question]:
    """3.1 has no events of statistics."""
    for question in questions:
        unchanged = question.reason in ("name", "no_write_id", "table_id", "not_loaded")
        yield question if unchanged else question._replace(reason_31="unlogged")


def of_tables() -> Iterator[Question]:
    """One column, and columns by request."""
    yield from hive4(_of_tables())


def _of_tables() -> Iterator[Question]:
    for database, table, reason in _places(False):
        for name in (b"s", b"i"):
            place = {"db_name": database, "tbl_name": table}
            yield Question("get_table_column_statistics", place | {"col_name": name}, reason)
        yield _table(reason, dbName=database, tblName=table)
    for name in (*ALL, b"S", b"Dec", b" s", b"nope", b"", b"dt"):
        place = {"db_name": STAT, "tbl_name": b"flat", "col_name": name}
        yield Question("get_table_column_statistics", place)
    place = {"db_name": b"@hive#" + STAT, "tbl_name": b"flat", "col_name": b"i"}
    yield Question("get_table_column_statistics", place)
    yield Question("get_table_column_statistics", place | {"col_name": "ä".encode()}, "arguments")
    yield Question("get_table_column_statistics", place | {"col_name": None}, "arguments", HIVE_4)  # 3.1 closes
    absent = {"db_name": STAT, "tbl_name": b"absent", "col_name": None}
    yield Question("get_table_column_statistics", absent, "arguments", HIVE_4)
    yield _table("arguments", HIVE_4, tblName=b"absent", colNames=None)
    for name, reason in ((b"mixed", "not_cached"), (b"i", HIT)):  # a boolean's numbers are no answer for an int
        place = {"db_name": STAT, "tbl_name": b"unknown", "col_name": name}
        yield Question("get_table_column_statistics", place, reason)
    asked: list[tuple[dict[str, Any], str]] = [
        ({"colNames": [b"I", b" D ", b"nope", b"S"]}, HIT),
        ({"colNames": [b"i", b"i", b"I"]}, HIT),
        ({"colNames": []}, HIT),
        ({"colNames": [], "tblName": b"absent"}, HIT),
        ({"colNames": [b"nope"]}, HIT),
        ({"colNames": [b""]}, HIT),
        ({"catName": b" HIVE"}, HIT),
        ({"catName": b" HIVE", "tblName": b" aBsent"}, HIT),
        ({"catName": b"nocat"}, "not_loaded"),
        ({"dbName": b"@hive#" + STAT}, "name"),
        ({"tblName": b"unknown", "colNames": [b"i", b"big", b"s"]}, HIT),
        ({"tblName": b"unknown", "colNames": [b"mixed"]}, "not_cached"),
        ({"id": OTHER_ID}, "table_id"),
        ({"id": -1}, HIT),
        ({"validWriteIdList": LIST}, HIT),
    ]
    for fields, reason in asked:
        yield _table(reason, **fields)
    for engine in (b"impala", b"IMPALA", b"Odd Engine", b"odd engine", b"hive", b"", b"none"):
        yield _table(HIT, engine=engine)
    yield _table("arguments", engine=b"\xff")


def _table(reason: str, releases: tuple[str, ...] = ("3.1", "4.0", "4.2"), **fields: Any) -> Question:
    names = {"dbName": STAT, "tblName": b"flat", "colNames": ALL} | fields
    request = {"request": struct("TableStatsRequest", **names)}
    return Question("get_table_statistics_req", request, reason, releases)


def of_partitions() -> Iterator[Question]:
    """One column of one partition, and many of many by request."""
    yield from hive4(_of_partitions())


def _of_partitions() -> Iterator[Question]:
    for database, table, reason in _places(True):
        place = {"db_name": database, "tbl_name": table, "part_name": NAMES[0], "col_name": b"i"}
        empty = table == b"part_empty"
        yield Question("get_partition_column_statistics", place, reason, *((NEW,) if empty else ()))
        yield _partitions(reason, *((NEW,) if empty else ()), dbName=database, tblName=table)
    for name in NAMES:
        for column in (b"i", b"I", b" i", b"nope", b"dt", b"vc"):
            place = {"db_name": STAT, "tbl_name": b"part", "part_name": name, "col_name": column}
            yield Question("get_partition_column_statistics", place)
    for odd in ({"part_name": None}, {"col_name": None}):
        for table in (b"part", b"absent"):
            unnamed: dict[str, Any] = {
                "db_name": STAT,
                "tbl_name": table,
                "part_name": NAMES[0],
                "col_name": b"i",
                **odd,
            }
            yield Question("get_partition_column_statistics", unnamed, "arguments", HIVE_4)
    for unset in ({"colNames": None}, {"partNames": None}):
        yield _partitions("arguments", HIVE_4, tblName=b"absent", **unset)
    for name in (b"dt=zz/h=1", b"DT=a/h=0", b"h=0/dt=a", b"dt=a", b"xx", b"", b"dt=a/h=0/"):
        place = {"db_name": STAT, "tbl_name": b"part", "part_name": name, "col_name": b"i"}
        yield Question("get_partition_column_statistics", place, HIT, NEW)
        yield Question("get_partition_column_statistics", place, "arguments", ("4.0",))
        yield _partitions(HIT, NEW, partNames=[name, NAMES[0]])
        yield _partitions("arguments", ("4.0",), partNames=[name, NAMES[0]])
    asked: list[tuple[dict[str, Any], str]] = [
        ({"colNames": [b"I", b" D ", b"nope", b"S"]}, HIT),
        ({"colNames": [b"i", b"i", b"I"], "partNames": [NAMES[0], NAMES[0]]}, HIT),
        ({"colNames": []}, HIT),
        ({"partNames": []}, HIT),
        ({"partNames": [], "tblName": b"absent"}, HIT),
        ({"partNames": [], "dbName": b"no_db"}, HIT),
        ({"partNames": [], "colNames": [], "tblName": b"absent"}, HIT),
        ({"colNames": [], "tblName": b"absent"}, HIT),
        ({"partNames": [], "tblName": b"flat"}, HIT),
        ({"colNames": [b"nope"]}, HIT),
        ({"partNames": list(NAMES[::-1]), "colNames": ALL[::-1]}, HIT),
        ({"catName": b" HIVE"}, HIT),
        ({"catName": b"nocat"}, "not_loaded"),
        ({"dbName": b"@hive#" + STAT}, "name"),
        ({"validWriteIdList": LIST}, HIT),
    ]
    for fields, reason in asked:
        yield _partitions(reason, **fields)
    for engine in (b"impala", b"IMPALA", b"spark", b"hive", b"", b"none"):
        yield _partitions(HIT, engine=engine)


def _partitions(reason: str, releases: tuple[str, ...] = ("3.1", "4.0", "4.2"), **fields: Any) -> Question:
    names = {"dbName": STAT, "tblName": b"part", "colNames": ALL, "partNames": list(NAMES)} | fields
    request = {"request": struct("PartitionsStatsRequest", **names)}
    return Question("get_partitions_statistics_req", request, reason, releases)
