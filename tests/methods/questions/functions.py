"""Questions about functions and catalogs: the metastore's own replies are kept."""

from __future__ import annotations

from collections.abc import Iterator

from tests.methods.questions.question import DB, HIVE_4, Question
from tests.methods.world import struct

LEARNED = "not_cached"


def functions() -> Iterator[Question]:
    """Functions, one and many, of databases that are there or not."""
    for database in (DB, b" {DB}\t", b"@hive#{db}", b"no_such_db", b"", b"@hive", b"@nocat#{db}", None):
        for name in (b"a_function", b"A_FUNCTION", b"absent", b"", None):
            yield Question("get_function", {"dbName": database, "funcName": name}, LEARNED)
        for pattern in (b"*", b"a_*", b"A*|x", b"", None):
            yield Question("get_functions", {"dbName": database, "pattern": pattern}, LEARNED)
    for fields in ({}, {"pattern": b"*"}, {"catalogName": b"hive"}, {"returnNames": False}, {"catalogName": b"nocat"}):
        request = struct("GetFunctionsRequest", dbName=DB, **fields)
        yield Question("get_functions_req", {"request": request}, LEARNED, ("4.2",))
    yield Question("get_all_functions", {}, LEARNED)


def catalogs() -> Iterator[Question]:
    """Catalogs, one and many."""
    yield Question("get_catalogs", {}, LEARNED)
    for name in (b"hive", b"HIVE", b"nocat", b"", None):
        releases = ("3.1", *HIVE_4) if name is not None else HIVE_4  # 3.1 closes the connection
        yield Question("get_catalog", {"catName": struct("GetCatalogRequest", name=name)}, LEARNED, releases)
    yield Question("get_catalog", {"catName": None}, LEARNED, HIVE_4)
