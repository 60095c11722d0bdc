"""Questions about one partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.methods.questions.question import DB, DEFAULT, HIT, Question
from tests.methods.world import PARTITIONED, struct


def one_partition() -> Iterator[Question]:
    """A partition by its values and by its name."""
    cases: list[tuple[Any, Any, Any, str]] = [
        *((DB, table, values, HIT) for table, (_, rows) in PARTITIONED.items() for values in rows if all(values)),
        (b"@hive#{DB}", b"KEYED ", [b"a"], HIT),
        (DB, b"keyed", [b"no"], HIT),
        (DB, b"keyed", [b"2024-01-01 "], HIT),
        (DB, b"keyed", [b"dt=a"], HIT),
        (DB, b"two_keys", [b"2024-01-01", b"01"], HIT),
        (DB, b"two_keys", [b"2024-01-01"], HIT),
        (DB, b"keyed", [b"a", b"b"], HIT),
        (DB, b"keyed", [], HIT),
        (DB, b"plain", [], HIT),
        (DB, b"plain", [b"1"], HIT),
        (DB, b"a_view", [b"1"], HIT),
        (DB, b"Absent ", [b"1"], HIT),
        (b"No_db", b"x", [b"1", b"2"], HIT),
        (DB, b"numbered", [b"0", b""], "arguments"),
        (DB, b"numbered", [b"0", DEFAULT], "arguments"),
        (DB, b"keyed", None, "arguments"),
        (DB, b"keyed", [b""], "arguments"),
        (DB, b"keyed", [b"\x00a"], "arguments"),
        (DB, b"keyed", [b"\xff"], "arguments"),
        (DB, b"insert_only", [b"1"], "no_write_id"),
        (DB, b"", [b"1"], "name"),
        (b"@hive#{db}#", b"keyed", [b"a"], "name"),
        (b"{db}#", b"keyed", [b"a"], "name"),
        (b"{db}!", b"keyed", [b"a"], "name"),
        (b"@hive#{db}!", b"keyed", [b"a"], "name"),
    ]
    for database, table, values, reason in cases:
        arguments = {"db_name": database, "tbl_name": table, "part_vals": values}
        yield Question("get_partition", arguments, reason)
        yield Question("get_partition_with_auth", {**arguments, "user_name": b"u", "group_names": []}, reason)
        reason = "name" if database.startswith(b"@") else reason
        request = struct("GetPartitionRequest", dbName=database, tblName=table, partVals=values)
        yield Question("get_partition_req", {"req": request}, reason)
    with_catalog = struct("GetPartitionRequest", catName=b"HIVE ", dbName=DB, tblName=b"P1x", partVals=[b"x"])
    yield Question("get_partition_req", {"req": with_catalog})
    private = {"db_name": DB, "tbl_name": b"private", "part_vals": [b"1"]}
    yield Question("get_partition_with_auth", {**private, "user_name": b"u", "group_names": []}, "privileges")


def partition_by_name() -> Iterator[Question]:
    """A partition by its name."""
    cases: list[tuple[bytes, Any, str]] = [
        (b"keyed", b"dt=2024-01-01", HIT),
        (b"keyed", b"DT=2024-01-01", HIT),
        (b"keyed", b"dt=a b", HIT),
        (b"keyed", b"dt=x%2Fy%3Dz%3A%25", HIT),
        (b"keyed", b"dt=x%2fy%3dz%3a%25", HIT),
        (b"keyed", b"dt=%61", HIT),
        (b"keyed", b"x=1", HIT),
        (b"keyed", b"dt=no", HIT),
        (b"keyed", "dt=ü".encode(), HIT),
        (b"keyed", "dt=😀".encode(), HIT),
        (b"keyed", b"dt= lead", HIT),
        (b"keyed", b" dt=a", HIT),
        (b"two_keys", b"dt=2024-01-01/hr=1", HIT),
        (b"two_keys", b"hr=1/dt=2024-01-01", HIT),
        (b"two_keys", b"dt=2024-01-01/hr=1/z=1", HIT),
        (b"two_keys", b"dt=2024-01-01", HIT),
        (b"two_keys", b"dt=2024-01-01/hr=01", HIT),
        (b"two_keys", b"dt=2024-01-0%2F4/hr=5", HIT),
        (b"two_keys", b"dt=2024-01-02/hr=" + DEFAULT, HIT),
        (b"plain", b"dt=1", HIT),
        (b"a_view", b"dt=1", HIT),
        (b"Absent ", b"dt=1", HIT),
        (b"keyed", b"dt", "arguments"),
        (b"keyed", b"dt=", "arguments"),
        (b"keyed", b"", "arguments"),
        (b"keyed", None, "arguments"),
        (b"keyed", b"dt=%C3%BC", "arguments"),
        (b"keyed", b"dt=a/", "arguments"),
        (b"keyed", b"dt=x/y=z=1", "arguments"),
        (b"keyed", b"dt=10:30", "arguments"),
        (b"two_keys", b"/dt=2024-01-01/hr=1", "arguments"),
    ]
    for table, name, reason in cases:
        yield Question("get_partition_by_name", {"db_name": DB, "tbl_name": table, "part_name": name}, reason)
    yield Question("get_partition_by_name", {"db_name": b"@Hive#No_db", "tbl_name": b"X ", "part_name": b"dt=a"})
