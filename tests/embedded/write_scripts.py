"""The calls that Hive and the embedded metastore are asked about partitions of a transactional table, under write ids.

Job: lists of (method, arguments): a partition is altered, renamed or truncated by one who sees the write before, who
does not, or who has no write at all; then everybody looks at it.
"""

from __future__ import annotations

from typing import Any

from tests.embedded.acid_scripts import ABLE, FORMATS, FULL
from tests.embedded.differential import MANAGED, Step, struct
from tests.embedded.scripts import descriptor, field, partition, table

KNOWN = {"numRows": "5", "numFiles": "1", "totalSize": "9", "numFilesErasureCoded": "0"}
ACCURATE = {**KNOWN, "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}'}
TASK = struct("EnvironmentContext", properties={"STATS_GENERATED": "TASK"})


def ids(db: str, high: int, opened: str = "", aborted: str = "") -> str:
    return f"{db}.p:{high}:9223372036854775807:{opened}:{aborted}"


def part(db: str, key: str, write_id: int | None = None, **parameters: str) -> Any:
    sd = descriptor(**FORMATS, location=f"{MANAGED}/{db}.db/p/k={key}")
    return partition(db, "p", [key], sd=sd, parameters=parameters, writeId=write_id)


def made(db: str, keys: str) -> list[Step]:
    """The table, and partitions whose statistics are accurate, as written by 1."""
    sd = descriptor(**FORMATS, location=f"{MANAGED}/{db}.db/p")
    given = {"tableType": "MANAGED_TABLE", "sd": sd, "parameters": FULL, "partitionKeys": [field("k")]}
    request = struct("CreateTableRequest", table=table(db, "p", **given), **ABLE)
    numbers = struct("LongColumnStatsData", lowValue=1, highValue=9, numNulls=1, numDVs=4)
    data = struct("ColumnStatisticsData", longStats=numbers)
    column = struct("ColumnStatisticsObj", colName="a", colType="int", statsData=data)
    where = {"isTblLevel": False, "dbName": db, "tableName": "p", "catName": "hive"}
    described = [struct("ColumnStatisticsDesc", partName=f"k={key}", **where) for key in keys]
    every = [struct("ColumnStatistics", statsDesc=one, statsObj=[column]) for one in described]
    under = {"writeId": 1, "validWriteIdList": ids(db, 1), "needMerge": False, "engine": "hive"}
    given_one = (struct("SetPartitionsStatsRequest", colStats=[one], **under) for one in every)
    return [
        ("create_table_req", {"request": request}),
        *(("add_partition", {"new_part": part(db, key)}) for key in keys),
        altered(db, [part(db, key, None, **ACCURATE) for key in keys], 1, ids(db, 1), environmentContext=TASK),
        *(("set_aggr_stats_for", {"request": one}) for one in given_one),
        *shown(db, keys[:2]),
    ]


def altered(db: str, parts: list[Any], write_id: int | None, seen: str | None, **fields: Any) -> Step:
    under = {"writeId": write_id, "validWriteIdList": seen, **fields}
    request = struct("AlterPartitionsRequest", dbName=db, tableName="p", partitions=parts, catName="hive", **under)
    return "alter_partitions_req", {"req": request}


def renamed(db: str, old: str, after: Any, seen: str | None = None, **fields: Any) -> Step:
    given = {"dbName": db, "tableName": "p", "partVals": [old], "newPart": after, "catName": "hive", **fields}
    return "rename_partition_req", {"req": struct("RenamePartitionRequest", validWriteIdList=seen, **given)}


def truncated(db: str, key: str, write_id: int | None, seen: str | None) -> Step:
    given = {"dbName": db, "tableName": "p", "partNames": [f"k={key}"], "writeId": write_id, "validWriteIdList": seen}
    return "truncate_table_req", {"req": struct("TruncateTableRequest", **given)}


def shown(db: str, keys: str) -> list[Step]:
    """All partitions, and for whom statistics of some are valid."""
    names = [f"k={key}" for key in keys]
    of = {"dbName": db, "tblName": "p", "colNames": ["a"], "partNames": names, "engine": "hive"}
    seen = (None, ids(db, 1), ids(db, 9), ids(db, 9, opened="1"), ids(db, 9, opened="2"))
    return [
        ("get_partitions", {"db_name": db, "tbl_name": "p", "max_parts": -1}),
        *(
            ("get_partitions_statistics_req", {"request": struct("PartitionsStatsRequest", **of, validWriteIdList=one)})
            for one in seen
        ),
    ]


def renames(db: str) -> list[Step]:
    """A client sends the parameters that it was given, or others."""
    return [
        *made(db, "12345678"),
        renamed(db, "1", part(db, "a", 2, **ACCURATE), ids(db, 2)),
        *shown(db, "a"),
        renamed(db, "2", part(db, "b", 2, **ACCURATE), ids(db, 2, opened="1")),
        *shown(db, "b"),
        renamed(db, "3", part(db, "c", 2, **ACCURATE)),
        renamed(db, "4", part(db, "d", None, **ACCURATE), ids(db, 2)),
        renamed(db, "5", part(db, "e", 2, **KNOWN), ids(db, 2)),
        renamed(db, "6", part(db, "f", 2, **ACCURATE), ids(db, 2, aborted="1")),
        ("rename_partition", {"db_name": db, "tbl_name": "p", "part_vals": ["7"], "new_part": part(db, "g", 2)}),
        renamed(db, "8", part(db, "h", 2, **{**ACCURATE, "numRows": "6"})),
        *shown(db, "abcdefgh"),
    ]


def changes(db: str) -> list[Step]:
    one = {"db_name": db, "tbl_name": "p"}
    return [
        *made(db, "12345678"),
        ("alter_partition", {**one, "new_part": part(db, "1", 2, **ACCURATE)}),
        *shown(db, "1"),
        altered(db, [part(db, "2", None, **ACCURATE)], 2, ids(db, 2, opened="1")),
        *shown(db, "2"),
        altered(db, [part(db, "3", None, **ACCURATE)], 2, None),
        altered(db, [part(db, "4", 2, **ACCURATE)], None, ids(db, 2)),
        altered(db, [part(db, "5", 2, **ACCURATE)], None, None),
        ("alter_partitions", {**one, "new_parts": [part(db, "6", 2, **ACCURATE)]}),
        altered(db, [part(db, "7", 3, **KNOWN)], 2, ids(db, 2)),
        altered(db, [part(db, "8", None, **KNOWN)], None, None),
        ("add_partition", {"new_part": part(db, "9")}),
        altered(db, [part(db, "9", None, **KNOWN)], None, None),
        altered(db, [part(db, "9", 2, **KNOWN)], None, None),
        altered(db, [part(db, "9", None, **KNOWN)], None, None),
        ("alter_partition", {**one, "new_part": part(db, "9", 3, **KNOWN)}),
        altered(db, [part(db, "9", None, **KNOWN)], None, None),
        ("add_partition", {"new_part": part(db, "0")}),
        truncated(db, "0", 2, None),
        ("alter_partition", {**one, "new_part": part(db, "0", 3, **KNOWN)}),
        truncated(db, "0", 3, None),
        *shown(db, "12345678"),
    ]


def truncates(db: str) -> list[Step]:
    return [
        *made(db, "123456"),
        truncated(db, "1", 2, ids(db, 2)),
        *shown(db, "1"),
        truncated(db, "2", 2, ids(db, 2, opened="1")),
        *shown(db, "2"),
        truncated(db, "3", 2, None),
        truncated(db, "4", None, ids(db, 2)),
        truncated(db, "5", None, None),
        ("truncate_table", {"dbName": db, "tableName": "p", "partNames": ["k=6"]}),
        *shown(db, "123456"),
    ]


WRITE_SCRIPTS = {"written_renames": renames, "written_changes": changes, "written_truncates": truncates}
