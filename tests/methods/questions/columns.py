"""Questions about a table's columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.methods.questions.question import DB, HIT, HIVE_4, OTHER_ID, Question
from tests.methods.world import struct


def columns() -> Iterator[Question]:
    """Of every kind of table, in each of the six ways."""
    cases: list[tuple[Any, Any, str]] = [
        *((DB, table, HIT) for table in (b"two_keys", b"plain", b"a_view", b" KEYED ", b"of_nothing", b"bucketed")),
        (b" {DB}\t", b"plain", HIT),
        (b"@Hive#{DB}", b"small", HIT),
        (DB, b"Absent ", HIT),
        (b"No_db", b"plain", HIT),
        (b"@no_catalog#{db}", b"plain", "not_loaded"),
        (DB, b"of_json", "serde"),
        (DB, b"two_keys.x", "name"),
        (b"{db}!", b"plain", "name"),
        (b"!", b"plain", "name"),
        (b"{db}#", b"plain", "name"),
        (DB, b"", "name"),
        (DB, None, "name"),
        (DB, b"insert_only", "no_write_id"),
    ]
    for method, request in (("get_fields", "GetFieldsRequest"), ("get_schema", "GetSchemaRequest")):
        with_context = f"{method}_with_environment_context"
        for database, table, reason in cases:
            arguments = {"db_name": database, "table_name": table}
            releases = HIVE_4 if table is None else ("3.1", *HIVE_4)  # 3.1 closes the connection
            yield Question(method, arguments, reason, releases)
            yield Question(with_context, arguments, reason, releases)
            if not database.startswith(b"@"):
                named = struct(request, dbName=database, tblName=table)
                yield Question(f"{method}_req", {"req": named}, reason)
        csv = {"db_name": DB, "table_name": b"of_csv"}
        yield Question(method, csv, HIT, reason_31="serde")
        plain = {"db_name": DB, "table_name": b"plain"}
        for properties, reason in (({}, HIT), ({b"hive.added.jars.path": b"/x.jar"}, "arguments")):
            context = struct("EnvironmentContext", properties=properties)
            yield Question(with_context, {**plain, "environment_context": context}, reason)
            named = struct(request, dbName=DB, tblName=b"plain", envContext=context)
            yield Question(f"{method}_req", {"req": named}, reason)
        for fields, reason in (
            ({"catName": b"HIVE "}, HIT),
            ({"catName": b"no_catalog"}, "not_loaded"),
            ({"dbName": b"@hive#{db}"}, "name"),
            ({"id": -1}, HIT),
            ({"id": OTHER_ID}, "table_id"),
            ({"validWriteIdList": b"{db}.plain:5:9223372036854775807::"}, HIT),
        ):
            named = struct(request, **({"dbName": DB, "tblName": b"plain"} | fields))
            yield Question(f"{method}_req", {"req": named}, reason)
