"""Questions about aggregate statistics. Random ones are asked by tests/methods/test_aggregates.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.methods.analyzed import NAMES
from tests.methods.questions.question import DB, HIT, NEW, Question
from tests.methods.questions.statistics import LIST, STAT, hive4
from tests.methods.structs import struct

ONE = [NAMES[0]]
PLAIN = [b"i", b"d", b"s", b"ch", b"bo", b"bi", b"da", b"ts"]
REFUSED = "statistics"


def of_partitions() -> Iterator[Question]:
    """What the metastore adds up, refuses, or extrapolates."""
    yield from hive4(_of_partitions())


def _of_partitions() -> Iterator[Question]:
    for database, table, reason in (
        (STAT, b"part", HIT),
        (STAT, b"part_never", HIT),
        (STAT, b"flat", HIT),
        (b" {PREFIX}Stat ", b" Part\n", HIT),
        (STAT, b"Absent ", HIT),
        (b"No_db", b"x", HIT),
        (DB, b"insert_only", "no_write_id"),
        (STAT, b"", "name"),
    ):
        releases = NEW if table == b"part_never" else ("3.1", "4.0", *NEW)
        yield _asked(reason, releases, dbName=database, tblName=table)
        yield _asked(reason, dbName=database, tblName=table, partNames=[])
        yield _asked(reason, dbName=database, tblName=table, colNames=[])
    for column in PLAIN:
        yield _asked(HIT, colNames=[column])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"colNames": [b"big"]}, REFUSED),  # its range is beyond 64 bits
        ({"colNames": [b"vc"]}, HIT),  # no distinct values, which matters to no string
        ({"colNames": [b"dec"]}, HIT),
        ({"colNames": PLAIN[::-1]}, HIT),
        ({"colNames": [b"I", b"dec", b"S"]}, HIT),
        ({"colNames": [b"nope"]}, HIT),
        ({"catName": b" HIVE"}, HIT),
        ({"catName": b"nocat"}, "not_loaded"),
        ({"dbName": b"@hive#" + STAT}, "name"),
        ({"validWriteIdList": LIST}, "arguments"),
        ({"partNames": [NAMES[4]], "colNames": [b"i"], "engine": b"impala"}, HIT),
        ({"partNames": [NAMES[1]], "colNames": [b"i"], "engine": b"spark"}, HIT),
        ({"engine": b"IMPALA"}, HIT),
        ({"engine": b""}, HIT),
        ({"partNames": [NAMES[0], NAMES[2]], "colNames": [b"i", b"d", b"small"]}, HIT),
        ({"partNames": [NAMES[0], NAMES[2], NAMES[4]], "colNames": [b"i"]}, HIT),
        ({"partNames": [NAMES[1]], "colNames": [b"i"]}, HIT),
    ]
    for fields, reason in cases:
        yield _asked(reason, **fields)
    for incomplete in (
        {"colNames": [b"i", b"i"]},
        {"colNames": [b"i", b"nope"]},
        {"partNames": [NAMES[0], NAMES[1]], "colNames": [b"i"]},
        {"partNames": [NAMES[0], NAMES[2]], "colNames": [b"i", b"s"]},
    ):
        yield _asked(REFUSED, NEW, **incomplete)  # which 4.2 fails to answer
        yield _asked(HIT, ("4.0",), **incomplete)
    for name in (b"dt=zz/h=1", b"DT=a/h=0", b"xx", b""):
        yield _asked(REFUSED, NEW, partNames=[*ONE, name], colNames=[b"i"])
        yield _asked(HIT, NEW, partNames=[name], colNames=[b"i"])
        yield _asked("arguments", ("4.0",), partNames=[*ONE, name], colNames=[b"i"])


def _asked(reason: str, releases: tuple[str, ...] = ("3.1", "4.0", *NEW), **fields: Any) -> Question:
    names = {"dbName": STAT, "tblName": b"part", "colNames": PLAIN, "partNames": ONE} | fields
    request = {"request": struct("PartitionsStatsRequest", **names)}
    return Question("get_aggr_stats_for", request, reason, releases)
