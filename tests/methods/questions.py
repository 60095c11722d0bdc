"""Questions to a metastore: (method, arguments) with odd names, limits, values and fields, and who must answer them.

Job: the one table that compares readers with metastores. `{db}` is the world's database (world.py). HIT: answered from
the cache. ASK: declined, with the reason. Must not know: readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.methods.world import DEFAULT_PARTITION, PARTITIONED, struct

HIT = ""


class Question(NamedTuple):
    """One call. `reason`: "" for a hit, else why the metastore is asked."""

    method: str
    arguments: dict[str, Any]
    reason: str = HIT
    releases: tuple[str, ...] = ("4.0", "4.2")
    """Which releases have the method."""


DB = b"{db}"
DEFAULT = DEFAULT_PARTITION
OLD = ("4.0",)
NEW = ("4.2",)


def databases() -> Iterator[Question]:
    """Databases and the lists of names."""
    for name in (b"{db}x", b"{DB} x", b"@hive#No"):
        yield Question("get_database", {"name": name})
    for name in (b"{db}", b" {DB}\t", b"@hive#{db}", b"@HIVE#{DB}", b"\x01{db}\x00", b"default"):
        yield Question("get_database", {"name": name}, "location")
    for name in (b"", b"  ", None, b"@hive", b"@hive#", b"@hive#!", "\u212a".encode(), b"{db}\xc2\xa0", b"@#{db}"):
        yield Question("get_database", {"name": name}, "name")
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
    for pattern in (None, b"@hive#", b"@hive"):
        yield Question("get_databases", {"pattern": pattern}, "name")
    for pattern in (b"|", b"{db}|", b"{prefix}\\_*", "ü*".encode()):
        yield Question("get_databases", {"pattern": pattern}, "pattern")


def listings() -> Iterator[Question]:
    """Lists of tables."""
    for name in (b"{db}", b" {DB}", b"@hive#{db}", b"no_such_db", b"{prefix}empty", b"{db}|{db}2", b"{prefix}*"):
        yield Question("get_all_tables", {"db_name": name})
        yield Question("get_tables", {"db_name": name, "pattern": b"*"})
    for name in (None, b"", b"@hive", b"@hive#", b"@hive#!"):
        yield Question("get_all_tables", {"db_name": name}, "name")
        yield Question("get_tables", {"db_name": name, "pattern": b"*"}, "name")
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
    yield Question("get_tables_by_type", {"db_name": DB, "pattern": b"*", "tableType": b"VIRTUAL_VIEW"}, "not_cached")


def tables() -> Iterator[Question]:
    """Tables, one and many."""
    old: list[tuple[Any, Any, str]] = [
        (DB, b"plain", HIT),
        (b" {DB}\t", b" PLAIN ", HIT),
        (b"@HIVE#{DB}", b"keyed", HIT),
        (DB, b"a_view", HIT),
        (DB, b"Absent ", HIT),
        (b"No_db", b"plain", HIT),
        (DB, b"insert_only", "transactional"),
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
        {"id": 77},
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
    for fields, reason in (
        ({"processorCapabilities": [b"EXTREAD"]}, "capabilities"),
        ({"processorIdentifier": b"x"}, "capabilities"),
        ({"getColumnStats": True, "engine": b"hive"}, "arguments"),
        ({"catName": b""}, "name"),
        ({"catName": b"nocat"}, "not_loaded"),
    ):
        yield Question("get_table_req", {"req": struct(request, dbName=DB, tblName=b"plain", **fields)}, reason)
    yield Question("get_table_req", {"req": struct(request, dbName=b"@hive#{db}", tblName=b"plain")}, "name")
    yield Question("get_table_req", {"req": struct(request, dbName=DB, tblName=b"insert_only")}, "transactional")
    yield Question("get_table_req", {"req": None}, "arguments")


def many_tables() -> Iterator[Question]:
    """Lists of tables by name."""
    lists: list[tuple[Any, Any, str]] = [
        (DB, [b"plain", b"PLAIN ", b"no", b"a_view", b"t1"], HIT),
        (b" {DB}", [b"t1", b"keyed", b"plain"], HIT),
        (DB, [], HIT),
        (b"no_such_db", [], HIT),
        (DB, [b"no"], HIT),
        (DB, [b""], HIT),
        (DB, [b"plain", b"insert_only"], "transactional"),
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
        (DB, b"insert_only", [b"1"], "transactional"),
        (DB, b"", [b"1"], "name"),
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
    yield Question("get_partitions", {"db_name": DB, "tbl_name": b"insert_only", "max_parts": -1}, "transactional")
    for fields, reason in (
        ({"skipColumnSchemaForPartition": True}, "arguments"),
        ({"includeParamKeyPattern": b"k%"}, "arguments"),
        ({"excludeParamKeyPattern": b"k%"}, "arguments"),
        ({"id": 5, "validWriteIdList": b"x", "skipColumnSchemaForPartition": False}, HIT),
    ):
        request = struct("PartitionsRequest", dbName=DB, tblName=b"keyed", **fields)
        yield Question("get_partitions_req", {"req": request}, reason)
    no_catalog = struct("PartitionsRequest", dbName=DB, tblName=b"keyed")
    yield Question("fetch_partition_names_req", {"partitionReq": no_catalog}, "arguments", NEW)


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
        (b"insert_only", [b"dt=1"], "transactional"),
    ]
    for table, names, reason in cases:
        arguments = {"db_name": DB, "tbl_name": table, "names": names}
        yield Question("get_partitions_by_names", arguments, reason)
        request = struct("GetPartitionsByNamesRequest", **arguments)
        yield Question("get_partitions_by_names_req", {"req": request}, reason)
    at_catalog = struct("GetPartitionsByNamesRequest", db_name=b"@Hive#{DB}", tbl_name=b"KEYED", names=[b"dt=a"])
    yield Question("get_partitions_by_names_req", {"req": at_catalog})
    for fields, reason in (
        ({"get_col_stats": False, "engine": b"hive", "id": 4, "getFileMetadata": False}, HIT),
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
        (b"insert_only", [b"x"], -1, "transactional"),
    ]
    for table, values, limit, reason in cases:
        arguments = {"db_name": DB, "tbl_name": table, "part_vals": values, "max_parts": limit}
        cut = limit is not None and limit > 0  # which names these are is the database's whim
        if not cut:
            yield Question("get_partition_names_ps", arguments, reason)
        yield Question("get_partitions_ps", arguments, reason)
        yield Question("get_partitions_ps_with_auth", {**arguments, "user_name": b"u"}, reason)
        fields = {"dbName": DB, "tblName": table, "maxParts": limit}
        names = struct("GetPartitionNamesPsRequest", partValues=values, **fields)
        if not cut:
            yield Question("get_partition_names_ps_req", {"req": names}, reason)
        request = struct("GetPartitionsPsWithAuthRequest", partVals=values, **fields)
        yield Question("get_partitions_ps_with_auth_req", {"req": request}, reason)
    for values in ([], None):
        arguments = {"db_name": DB, "tbl_name": b"keyed", "part_vals": values, "max_parts": 3}
        yield Question("get_partition_names_ps", arguments, "arguments" if values is None else HIT)
        yield Question("get_partitions_ps", arguments)
        yield Question("get_partitions_ps_with_auth", arguments)
    blank = {"db_name": DB, "tbl_name": b"keyed", "part_vals": [b"", b"", b"", b"", b""], "max_parts": 3}
    yield Question("get_partition_names_ps", blank, HIT)
    yield Question("get_partitions_ps", blank, "arguments")
    private = {"db_name": DB, "tbl_name": b"private", "part_vals": [b"1"], "max_parts": -1}
    yield Question("get_partitions_ps_with_auth", private, "privileges")
    by_name = struct("GetPartitionsPsWithAuthRequest", dbName=DB, tblName=b"keyed", partNames=[b"dt=a"])
    yield Question("get_partitions_ps_with_auth_req", {"req": by_name}, "arguments")


FILTERS: dict[bytes, dict[str, list[bytes]]] = {
    b"keyed": {
        HIT: [
            *(b'dt %b "a"' % op for op in (b"=", b"==", b"!=", b"<>", b"<", b"<=", b">", b">=")),
            *(b'dt %b "__HIVE_DEFAULT_PARTITION__"' % op for op in (b"=", b"!=", b"<", b"<=", b">", b">=")),
            b"dt = 'a'",
            b'"a" <= dt',
            b'DT="a" OR `dt` = "9" oR dt=\'10\'',
            b'((dt = "a") or (dt="9")) and dt < "a"',
            b'dt = "a" or dt = "9" and dt = "x"',
            b'dt between "1" and "9"',
            b'dt not between "1" and "9"',
            b'dt = "1_0"',
            b'dt = "1.0"',
            b'dt = "a_b"',
            b'dt = "a%b"',
            b'dt = "x/y=z:%"',
            'dt = "ü" or dt >= "日"'.encode(),
            b'dt = " lead"',
            b'dt = "no"',
            b'\tdt\n=\r"a"',
            b"",
        ],
        "filter_like": [b'dt like "a%"', b'dt = "a" and dt like "1"'],
        "filter_unsupported": [
            b" ",
            b"dt = 10",
            b"dt = 2024-01-01",
            b'dt = date "2024-01-01"',
            b'x = "a"',
            b'dt = "a" dt',
            b'dt = "a";',
            b'dt in ("a")',
            b"dt =",
            b'dt = ""',
            b'dt = "it\'s"',
            b'not dt = "a"',
            b'dt = "a\\"b"',
        ],
    },
    b"two_keys": {
        HIT: [
            *(b"hr %b 3" % op for op in (b"=", b"!=", b"<", b"<=", b">", b">=")),
            *(b"hr %b -3" % op for op in (b"=", b"!=", b"<", b"<=", b">", b">=")),
            b"hr = 7",
            b"hr != 7",
            b"7 >= hr",
            b"hr between 1 and 3",
            b"hr not between 1 and 3",
            b"hr between 3 and 1",
            b'hr = "__HIVE_DEFAULT_PARTITION__"',
            b'hr != "__HIVE_DEFAULT_PARTITION__"',
            b'dt = "2024-01-01"',
            b'dt = "2024-01-0/4"',
            b'dt != "2024-01-01" and hr > 1',
            b'dt = "2024-01-01" and (hr = 1 or hr >= 7)',
            b'dt = "2024-01-01" or hr = 1',
            b'hr = 1 or hr = 2 and dt = "2024-01-01"',
            b'dt >= "2024-01-01" and dt < "2024-01-02"',
            b'dt = "__HIVE_DEFAULT_PARTITION__" and hr = 1',
            b"hr >= 2147483648",
        ],
        "filter_unsupported": [
            b'hr = "1"',
            b"hr = 01",
            b"hr = 1.5",
            b"hr = 99999999999999999999",
            b'hr > "__HIVE_DEFAULT_PARTITION__"',
        ],
    },
    b"dated": {
        HIT: [
            *(b'd %b "2024-01-01"' % op for op in (b"=", b"!=", b"<", b"<=", b">", b">=")),
            *(b"d %b 2024-01-15" % op for op in (b"=", b"!=", b"<", b"<=", b">", b">=")),
            b"d between 2024-01-01 and 2024-01-31",
            b"d not between '2024-01-01' and '2024-01-31'",
            b'd = "__HIVE_DEFAULT_PARTITION__"',
            b'd != "__HIVE_DEFAULT_PARTITION__"',
        ],
        "filter_unsupported": [b'd = "2024-1-1"', b'd = "x"', b"d = 20240101", b"d = date '2024-01-01'"],
    },
    b"numbered": {
        HIT: [
            b"b = 22",
            b"b >= 9223372036854775807",
            b"b < -9223372036854775808",
            b"b > 0",
            b"b != 22",
            b"b < 0 and s = 'x'",
            b'b = 1 or s = "z"',
            b's = "__HIVE_DEFAULT_PARTITION__"',
            b's != "x"',
        ],
        "filter_unsupported": [b"b >= 9223372036854775808", b'b = "22"'],
    },
    b"small": {HIT: [b"n = 1", b"n != 1 and m > -300", b"m = 300 or n = 127", b"n > 200"]},
    b"of_varchar": {
        HIT: [b'v = "one"', b'v != "one"', b'v > "one"', b'c = "a"', b'c != "a"', b'c >= "b"', b'v = "no"']
    },
    b"plain": {HIT: [b""], "filter_unsupported": [b"x = 1"]},
    b"Absent ": {HIT: [b"", b"x = 1"], "filter_unsupported": [b"x ="]},
    b"insert_only": {"transactional": [b"", b'dt = "a"']},
    b"no_partitions_yet": {HIT: [b"", b'dt = "a"', b'dt > "a"']},
}


def by_filter() -> Iterator[Question]:
    """Partitions by filter."""
    for table, by_reason in FILTERS.items():
        for reason, filters in by_reason.items():
            for text in filters:
                for limit in (-1, 0, 2) if table == b"two_keys" else (-1,):
                    arguments = {"db_name": DB, "tbl_name": table, "filter": text, "max_parts": limit}
                    yield Question("get_partitions_by_filter", arguments, reason)
                fields = {"catName": b"hive", "dbName": DB, "tblName": table}
                request = struct("GetPartitionsByFilterRequest", filter=text, **fields)
                yield Question("get_partitions_by_filter_req", {"req": request}, reason)
    no_filter = {"db_name": DB, "tbl_name": b"keyed", "filter": None, "max_parts": 3}
    yield Question("get_partitions_by_filter", no_filter)
    no_catalog = struct("GetPartitionsByFilterRequest", dbName=DB, tblName=b"keyed", filter=b'dt = "a"')
    yield Question("get_partitions_by_filter_req", {"req": no_catalog}, "arguments")


def everything() -> list[Question]:
    """All questions."""
    makers = (databases, listings, tables, many_tables, one_partition, partition_by_name)
    more = (all_partitions, by_names, some_values, by_filter)
    return [question for make in (*makers, *more) for question in make()]
