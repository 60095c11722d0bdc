"""The calls about tables with transactions that Hive and the embedded metastore are asked.

Job: lists of (method, arguments): who may have transactions, and who may lose them.
"""

from __future__ import annotations

from typing import Any

from tests.embedded.differential import MANAGED, Step, struct
from tests.embedded.scripts import descriptor, field, request, table

FORMATS: dict[str, Any] = {
    f"{side}Format": f"org.apache.hadoop.hive.ql.io.orc.Orc{side.capitalize()}Format" for side in ("input", "output")
}
ABLE = {"processorCapabilities": ["HIVEFULLACIDWRITE", "HIVEMANAGEDINSERTWRITE"], "processorIdentifier": "test"}
FULL = {"transactional": "true", "transactional_properties": "default"}
INSERTS = {"transactional": "true", "transactional_properties": "insert_only"}


def acid(db: str) -> list[Step]:
    """Tables made and altered."""
    orc = {"sd": descriptor(**FORMATS)}
    is_sorted = [struct("Order", col="a", order=1)]
    external = {"tableType": "EXTERNAL_TABLE"}
    only_true = {"parameters": {"transactional": "true"}}
    cases: dict[str, dict[str, Any]] = {
        "full": orc,
        "names": {**orc, "parameters": {"TRANSACTIONAL": "TRUE"}},
        "text": {},
        "maybe": {**orc, "parameters": {"transactional": "maybe"}},
        "unknown": {**orc, "parameters": {**FULL, "transactional_properties": "unknown"}},
        "off": {**orc, "parameters": {"transactional": "false"}},
        "inserts": {"parameters": {**INSERTS, "transactional_properties": "INSERT_ONLY"}},
        "sorted": {"sd": descriptor(**FORMATS, sortCols=is_sorted)},
        "sorted_inserts": {"sd": descriptor(sortCols=is_sorted), "parameters": INSERTS},
        "outside": {**orc, **external, "parameters": {"transactional": "true", "EXTERNAL": "TRUE"}},
        "called_outside": {**orc, **external},
        "plain": {**external, "parameters": {"EXTERNAL": "TRUE"}},
        "plain_orc": {**orc, **external, "parameters": {"EXTERNAL": "TRUE"}},
        "view": {"tableType": "VIRTUAL_VIEW", "viewOriginalText": "x", "viewExpandedText": "y"},
    }

    def wanted(name: str, fields: dict[str, Any]) -> Any:
        return table(db, name, **{"tableType": "MANAGED_TABLE", **only_true, **fields})

    def make(name: str, fields: dict[str, Any]) -> Step:
        return "create_table_req", {"request": struct("CreateTableRequest", table=wanted(name, fields), **ABLE)}

    def get(name: str) -> Step:
        return "get_table_req", request("GetTableRequest", db, name, **ABLE)

    def alter(name: str, **fields: Any) -> Step:
        values = {"dbName": db, "tableName": name, "table": wanted(name, fields)}
        return "alter_table_req", {"req": struct("AlterTableRequest", **values, **ABLE)}

    made = [step for name, fields in cases.items() for step in (make(name, fields), get(name))]
    return [
        *made,
        make("full", {**orc, "parameters": {"transactional": "maybe"}}),
        ("create_table", {"tbl": wanted("unable", orc)}),
        *(
            alter("full", **orc, parameters=parameters)
            for parameters in ({}, {"a": "b"}, {"transactional": "false"}, INSERTS)
        ),
        alter("full", **orc, **external, parameters=FULL),
        alter("full", **cases["sorted"], parameters=FULL),
        alter("plain", **external, **only_true),
        alter("plain", **external, parameters={"transactional": "maybe"}),
        alter("plain_orc", **orc, **external, **only_true),
        alter("plain_orc", **orc, **only_true),
        get("full"),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


def written(db: str) -> list[Step]:
    """Statistics of transactional tables, set under a write id and read by those who see the write, or do not."""
    keyed = {"partitionKeys": [field("k")]}
    numbers = struct("LongColumnStatsData", lowValue=1, highValue=9, numNulls=1, numDVs=4)
    data = struct("ColumnStatisticsData", longStats=numbers)
    column = struct("ColumnStatisticsObj", colName="a", colType="int", statsData=data)

    def wanted(name: str, **fields: Any) -> Any:
        sd = descriptor(**FORMATS, location=f"{MANAGED}/{db}.db/{name}")
        given = {"tableType": "MANAGED_TABLE", "sd": sd, "parameters": FULL, **fields}
        return table(db, name, **given)

    def make(name: str, **fields: Any) -> Step:
        return "create_table_req", {"request": struct("CreateTableRequest", table=wanted(name, **fields), **ABLE)}

    def ids(high: int, opened: str = "", aborted: str = "") -> str:
        return f"{db}.t:{high}:9223372036854775807:{opened}:{aborted}"

    def basic(write_id: int, seen: str) -> Step:
        accurate = {**FULL, "numRows": "5", "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}'}
        context = struct("EnvironmentContext", properties={"STATS_GENERATED": "TASK"})
        values = {"dbName": db, "tableName": "t", "table": wanted("t", parameters=accurate, writeId=write_id)}
        under = {"writeId": write_id, "validWriteIdList": seen, "environmentContext": context}
        return "alter_table_req", {"req": struct("AlterTableRequest", **values, **under, **ABLE)}

    def of_columns(part: str | None, write_id: int, seen: str | None, merge: bool = False) -> Step:
        place = {"isTblLevel": part is None, "dbName": db, "tableName": "t" if part is None else "p", "partName": part}
        given = struct(
            "ColumnStatistics", statsDesc=struct("ColumnStatisticsDesc", catName="hive", **place), statsObj=[column]
        )
        under = {} if seen is None else {"writeId": write_id, "validWriteIdList": seen}
        asked = struct("SetPartitionsStatsRequest", colStats=[given], needMerge=merge, engine="hive", **under)
        return "set_aggr_stats_for", {"request": asked}

    def get(seen: str | None) -> list[Step]:
        of_t = {"dbName": db, "tblName": "t", "validWriteIdList": seen}
        columns = {"colNames": ["a"], "engine": "hive"}
        of_p = struct("PartitionsStatsRequest", **{**of_t, "tblName": "p"}, **columns, partNames=["k=1"])
        return [
            ("get_table_req", {"req": struct("GetTableRequest", **of_t, **ABLE)}),
            ("get_table_req", {"req": struct("GetTableRequest", **of_t, getColumnStats=True, engine="hive", **ABLE)}),
            ("get_table_statistics_req", {"request": struct("TableStatsRequest", **of_t, **columns)}),
            ("get_partitions_statistics_req", {"request": of_p}),
            ("get_aggr_stats_for", {"request": of_p}),
        ]

    some = [None, ids(1), ids(0), ids(2, opened="1"), ids(2, aborted="1"), ""]
    return [
        make("t"),
        make("p", **keyed),
        ("append_partition_by_name", {"db_name": db, "tbl_name": "p", "part_name": "k=1"}),
        basic(1, ids(1)),
        of_columns(None, 0, None),
        of_columns(None, 1, ids(1)),
        of_columns("k=1", 1, ids(1)),
        *(step for seen in some for step in get(seen)),
        of_columns(None, 3, ids(3, aborted="1"), True),
        of_columns("k=1", 2, ids(2), True),
        *get(None),
        of_columns(None, 4, ids(4, opened="3"), True),
        of_columns("k=1", 4, ids(4, opened="2"), True),
        *get(None),
        basic(5, ids(5)),
        basic(6, ids(6, opened="5")),
        *get(None),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


ACID_SCRIPTS = {"acid": acid, "written": written}
