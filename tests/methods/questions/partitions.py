"""Questions about many partitions: all, by names, by some of their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.methods.questions.question import DB, DEFAULT, HIT, HIVE_4, NEW, OTHER_ID, Question
from tests.methods.world import PARTITIONED, struct


def all_partitions() -> Iterator[Question]:
    """Partitions of a table, and their names, with limits."""
    for table in (*PARTITIONED, b"plain", b"a_view", b"Absent", b" KEYED "):
        for limit in (-1, 0, 1, 3, 32767, -2, -32768, None):
            arguments = {"db_name": DB, "tbl_name": table, "max_parts": limit}
            yield Question("get_partition_names", arguments)
            yield Question("get_partitions", arguments)
            fields = {"dbName": DB, "tblName": table, "maxParts": limit}
            yield Question("get_partitions_req", {"req": struct("PartitionsRequest", **fields)})
            request = struct("PartitionsRequest", catName=b"hive", **fields)
            yield Question("fetch_partition_names_req", {"partitionReq": request}, HIT, NEW)
    yield Question("get_partition_names", {"db_name": b"no_such_db", "tbl_name": b"x", "max_parts": -1})
    yield Question("get_partitions", {"db_name": b"@hive#no_such_db", "tbl_name": b"x", "max_parts": -1})
    yield Question("get_partitions", {"db_name": DB, "tbl_name": b"insert_only", "max_parts": -1}, "no_write_id")
    odd: tuple[tuple[dict[str, Any], str], ...] = (
        ({"skipColumnSchemaForPartition": True}, "arguments"),
        ({"includeParamKeyPattern": b"k%"}, "arguments"),
        ({"excludeParamKeyPattern": b"k%"}, "arguments"),
        ({"id": -1, "validWriteIdList": b"x", "skipColumnSchemaForPartition": False}, HIT),
        ({"id": OTHER_ID, "validWriteIdList": b"x"}, "table_id"),
    )
    for more, reason in odd:
        request = struct("PartitionsRequest", dbName=DB, tblName=b"keyed", **more)
        yield Question("get_partitions_req", {"req": request}, reason)
    no_catalog = struct("PartitionsRequest", dbName=DB, tblName=b"keyed")
    yield Question("fetch_partition_names_req", {"partitionReq": no_catalog}, "arguments", NEW)


def names_by_expression() -> Iterator[Question]:
    """Names of partitions as SHOW PARTITIONS of Hive 4 asks for them: this byte is no expression."""

    def asked(reason: str, **fields: Any) -> Question:
        request = struct("PartitionsByExprRequest", **({"dbName": DB, "expr": b"\xff"} | fields))
        return Question("get_partition_names_req", {"req": request}, reason)

    for table in (*PARTITIONED, b"plain", b"a_view", b"Absent ", b" KEYED "):
        for limit in (-1, 0, 1, 3, 32767, -2, None):
            yield asked(HIT, tblName=table, maxParts=limit)
    for fields in (
        {"catName": b"Hive"},
        {"order": b""},
        {"defaultPartitionName": b"x"},
        {"skipColumnSchemaForPartition": True, "includeParamKeyPattern": b"k%"},
        {"id": -1},
        {"dbName": b"no_such_db"},
        {"dbName": b" {DB} "},
    ):
        yield asked(HIT, tblName=b"two_keys", **fields)
    for expression in (b"", b"\xff\xff", b"x"):
        yield asked("filter_unsupported", tblName=b"two_keys", expr=expression)
    for order in (b"0:-", b"1:+", b"1,0:+-", b"x", b"+:dt"):
        yield asked("order", tblName=b"two_keys", order=order)
    yield asked("not_loaded", tblName=b"two_keys", catName=b"no_catalog")
    yield asked("name", tblName=b"two_keys", dbName=b"@hive#{db}")
    yield asked("table_id", tblName=b"two_keys", id=OTHER_ID)
    yield asked("no_write_id", tblName=b"insert_only")


def by_names() -> Iterator[Question]:
    """Partitions by their names."""
    cases: list[tuple[bytes, Any, str]] = [
        (b"keyed", [b"dt=a", b"dt=10", b"dt=no"], HIT),
        (b"keyed", [b"dt=a", b"dt=a"], HIT),
        (b"keyed", [], HIT),
        (b"keyed", [b"DT=a"], HIT),
        (b"keyed", [b"dt=x%2fy%3dz%3a%25", b"dt=x%2Fy%3Dz%3A%25", "dt=ü".encode(), "dt=日本語".encode()], HIT),
        (b"keyed", [b"", b"a", b"dt=%61"], HIT),
        (b"two_keys", [b"dt=2024-01-01/hr=2", b"hr=1/dt=2024-01-01", b"dt=2024-01-01/hr=1", b"dt=2024-01-01"], HIT),
        (b"plain", [b"x=1"], HIT),
        (b"plain", [], HIT),
        (b"a_view", [b"x=1"], HIT),
        (b"Absent ", [b"x=1"], HIT),
        (b"Absent ", [], HIT),
        (b"keyed", None, "arguments"),
        (b"keyed", [b"dt=\xff"], "arguments"),
        (b"insert_only", [b"dt=1"], "no_write_id"),
    ]
    for table, names, reason in cases:
        arguments = {"db_name": DB, "tbl_name": table, "names": names}
        yield Question("get_partitions_by_names", arguments, reason)
        request = struct("GetPartitionsByNamesRequest", **arguments)
        yield Question("get_partitions_by_names_req", {"req": request}, reason)
    at_catalog = struct("GetPartitionsByNamesRequest", db_name=b"@Hive#{DB}", tbl_name=b"KEYED", names=[b"dt=a"])
    yield Question("get_partitions_by_names_req", {"req": at_catalog})
    for fields, reason in (
        ({"get_col_stats": False, "engine": b"hive", "id": 0, "getFileMetadata": False}, HIT),
        ({"id": OTHER_ID}, "table_id"),
        ({"includeParamKeyPattern": b""}, HIT),
        ({"get_col_stats": True}, "arguments"),
        ({"skipColumnSchemaForPartition": True}, "arguments"),
        ({"includeParamKeyPattern": b"k%"}, "arguments"),
        ({"processorCapabilities": []}, "capabilities"),
        ({"processorIdentifier": b"x"}, "capabilities"),
    ):
        request = struct("GetPartitionsByNamesRequest", db_name=DB, tbl_name=b"keyed", names=[b"dt=a"], **fields)
        yield Question("get_partitions_by_names_req", {"req": request}, reason)


def some_values() -> Iterator[Question]:
    """Partitions by some of their values. What reads `.` or `_` as a wildcard differs: then the metastore is asked."""
    day = b"2024-01-01"
    cases: list[tuple[bytes, Any, Any, str]] = [
        (b"two_keys", [day], -1, HIT),
        (b"two_keys", [day], 0, HIT),
        (b"two_keys", [day], 1, HIT),
        (b"two_keys", [day], -2, HIT),
        (b"two_keys", [day], None, HIT),
        (b"two_keys", [day, b""], -1, HIT),
        (b"two_keys", [b"", b"1"], -1, HIT),
        (b"two_keys", [b"", b"1"], 1, HIT),
        (b"two_keys", [b"", b""], -1, HIT),
        (b"two_keys", [day, b"1"], -1, HIT),
        (b"two_keys", [day, b"01"], -1, HIT),
        (b"two_keys", [b"2024"], -1, HIT),
        (b"two_keys", [b"2024-01-0/4"], -1, HIT),
        (b"two_keys", [b"no"], -1, HIT),
        (b"two_keys", [b"0.5"], 2, HIT),
        (b"two_keys", [b"0.5", b""], 1, HIT),
        (b"two_keys", [day, b"1", b"x"], -1, HIT),
        (b"two_keys", [b"", DEFAULT], -1, HIT),
        (b"two_keys", [DEFAULT], -1, HIT),
        (b"keyed", [b"a"], -1, HIT),
        (b"keyed", [b"A"], -1, HIT),
        (b"keyed", [b"a b"], -1, HIT),
        (b"keyed", [b""], 2, HIT),
        (b"keyed", ["ü".encode()], -1, HIT),
        (b"keyed", [b"x/y=z:%"], -1, HIT),
        (b"keyed", [b"a_b"], -1, "pattern"),
        (b"keyed", [b"1_0"], -1, "pattern"),
        (b"keyed", [b"1."], -1, "pattern"),
        (b"keyed", [b"2024.01-01"], -1, "pattern"),
        (b"keyed", [b"zz.zz"], -1, HIT),
        (b"keyed", [b"*"], -1, HIT),
        (b"keyed", [b"10\\"], -1, HIT),
        (b"plain", [b"x"], -1, HIT),
        (b"a_view", [b"x"], -1, HIT),
        (b"Absent ", [b"x"], -1, HIT),
        (b"insert_only", [b"x"], -1, "no_write_id"),
    ]
    for table, values, limit, reason in cases:
        arguments = {"db_name": DB, "tbl_name": table, "part_vals": values, "max_parts": limit}
        cut = limit is not None and limit > 0  # which names these are is the database's whim
        if not cut:
            yield Question("get_partition_names_ps", arguments, reason)
        releases = HIVE_4 if cut else ("3.1", *HIVE_4)  # 3.1 does not always give these in order
        yield Question("get_partitions_ps", arguments, reason, releases)
        yield Question("get_partitions_ps_with_auth", {**arguments, "user_name": b"u"}, reason, releases)
        fields = {"dbName": DB, "tblName": table, "maxParts": limit}
        names = struct("GetPartitionNamesPsRequest", partValues=values, **fields)
        if not cut:
            yield Question("get_partition_names_ps_req", {"req": names}, reason)
        request = struct("GetPartitionsPsWithAuthRequest", partVals=values, **fields)
        yield Question("get_partitions_ps_with_auth_req", {"req": request}, reason)
    for values in ([], None):
        arguments = {"db_name": DB, "tbl_name": b"keyed", "part_vals": values, "max_parts": 3}
        yield Question("get_partition_names_ps", arguments, "arguments" if values is None else HIT)
        reason_31 = "arguments" if values is None else HIT
        yield Question("get_partitions_ps", arguments, reason_31=reason_31)
        yield Question("get_partitions_ps_with_auth", arguments, reason_31=reason_31)
    blank = {"db_name": DB, "tbl_name": b"keyed", "part_vals": [b"", b"", b"", b"", b""], "max_parts": 3}
    yield Question("get_partition_names_ps", blank, HIT)
    yield Question("get_partitions_ps", blank, "arguments")
    private = {"db_name": DB, "tbl_name": b"private", "part_vals": [b"1"], "max_parts": -1}
    yield Question("get_partitions_ps_with_auth", private, "privileges")
    by_name = struct("GetPartitionsPsWithAuthRequest", dbName=DB, tblName=b"keyed", partNames=[b"dt=a"])
    yield Question("get_partitions_ps_with_auth_req", {"req": by_name}, "arguments")
