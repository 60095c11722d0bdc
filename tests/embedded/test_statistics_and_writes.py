"""Statistics of transactional tables: they belong to a write, and are valid only for those who see it.

Else a query is answered from statistics with rows that it must not see, or without rows that it must see.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.embedded.stats_accurate import ACCURATE
from tests.embedded.acid_scripts import ABLE, FORMATS, FULL
from tests.embedded.differential import struct
from tests.embedded.scripts import descriptor, field, table
from tests.embedded.within import Within

BASIC = b'{"BASIC_STATS":"true"}'
PART = "k=1"


def seen(high: int, opened: str = "", aborted: str = "") -> str:
    """A list of write ids."""
    return f"default.t:{high}:9223372036854775807:{opened}:{aborted}"


NOT_YET, OPEN, ABORTED, COMMITTED = seen(0), seen(2, opened="1"), seen(2, aborted="1"), seen(1)
"""Lists of those to whom write 1 is yet to come, open, failed, or visible."""


@pytest.fixture
def metastore(within: Within) -> Iterator[Within]:
    """With a transactional table `t`, and `p` with one partition."""
    for name, keys in (("t", []), ("p", [field("k")])):
        fields = {"tableType": "MANAGED_TABLE", "parameters": FULL, "partitionKeys": keys}
        wanted = table("default", name, sd=descriptor(**FORMATS), **fields)
        within.do("create_table_req", request=struct("CreateTableRequest", table=wanted, **ABLE))
    within.do("append_partition_by_name", db_name="default", tbl_name="p", part_name=PART)
    yield within
    for name in ("t", "p"):
        within.do("drop_table", dbname="default", name=name, deleteData=True)


def shown(metastore: Within, ids: str | None = None) -> Any:
    request = struct("GetTableRequest", dbName="default", tblName="t", validWriteIdList=ids, **ABLE)
    return metastore.do("get_table_req", req=request).table


def accurate(owner: Any) -> bytes | None:
    found: bytes | None = owner.parameters.get(ACCURATE.encode())
    return found


def alter(metastore: Within, write_id: int, ids: str) -> None:
    """A writer's basic statistics."""
    changed = shown(metastore)
    changed.parameters |= {b"numRows": b"%d" % write_id, ACCURATE.encode(): BASIC}
    changed.writeId = write_id
    context = struct("EnvironmentContext", properties={"STATS_GENERATED": "TASK"})
    values = {"dbName": "default", "tableName": "t", "table": changed, "environmentContext": context}
    under = {"writeId": write_id, "validWriteIdList": ids}
    metastore.do("alter_table_req", req=struct("AlterTableRequest", **values, **under, **ABLE))


def of_columns(part: str | None, write: tuple[int, str] | None, *, merged: bool = False) -> Any:
    """A request with a writer's statistics of column `a`."""
    place = {"isTblLevel": part is None, "dbName": "default", "tableName": "t" if part is None else "p"}
    numbers = struct("LongColumnStatsData", lowValue=1, highValue=9, numNulls=1, numDVs=4)
    data = struct("ColumnStatisticsData", longStats=numbers)
    one = struct("ColumnStatisticsObj", colName="a", colType="int", statsData=data)
    described = struct("ColumnStatisticsDesc", partName=part, catName="hive", **place)
    given = struct("ColumnStatistics", statsDesc=described, statsObj=[one])
    under = {} if write is None else {"writeId": write[0], "validWriteIdList": write[1]}
    return struct("SetPartitionsStatsRequest", colStats=[given], needMerge=merged, engine="hive", **under)


def put(metastore: Within, part: str | None, write: tuple[int, str] | None, *, merged: bool = False) -> Any:
    return metastore.ask("set_aggr_stats_for", request=of_columns(part, write, merged=merged)).value


def told(metastore: Within, ids: str | None) -> int:
    """How many columns of `t` have statistics, for one with this list."""
    fields = {"dbName": "default", "tblName": "t", "colNames": ["a"], "engine": "hive", "validWriteIdList": ids}
    return len(metastore.do("get_table_statistics_req", request=struct("TableStatsRequest", **fields)).tableStats)


def of_parts(ids: str | None) -> Any:
    fields = {"dbName": "default", "tblName": "p", "colNames": ["a"], "engine": "hive", "validWriteIdList": ids}
    return struct("PartitionsStatsRequest", partNames=[PART], **fields)


def test_a_table_is_shown_to_those_who_see_its_write(metastore: Within) -> None:
    alter(metastore, 1, COMMITTED)
    assert put(metastore, None, (1, COMMITTED)).success is True
    assert shown(metastore).writeId == 1
    for ids, valid in ((COMMITTED, True), (NOT_YET, False), (OPEN, False), (ABORTED, False), ("", True)):
        found = shown(metastore, ids)
        assert (found.isStatsCompliant, accurate(found) is not None) == (valid, valid), ids
        assert told(metastore, ids) == valid
    assert told(metastore, None) == 1 and shown(metastore).isStatsCompliant is None
    assert accurate(shown(metastore)) == b'{"BASIC_STATS":"true","COLUMN_STATS":{"a":"true"}}'


def test_partitions_are_shown_to_those_who_see_their_writes(metastore: Within) -> None:
    assert put(metastore, PART, (1, COMMITTED)).success is True
    for ids, valid in ((COMMITTED, True), (NOT_YET, False), (ABORTED, False), (None, True)):
        found = metastore.do("get_partitions_statistics_req", request=of_parts(ids)).partStats
        assert (found.keys() == {PART.encode()}) is valid, ids
        added = metastore.do("get_aggr_stats_for", request=of_parts(ids))
        assert (added is not None and added.partsFound == 1) is valid, ids


def test_a_writer_that_does_not_see_the_write_before(metastore: Within) -> None:
    """Its statistics lack the other's rows."""
    alter(metastore, 1, COMMITTED)
    alter(metastore, 2, OPEN)
    assert accurate(shown(metastore)) is None and shown(metastore).writeId == 2
    alter(metastore, 3, seen(3))
    assert accurate(shown(metastore)) is not None
    assert put(metastore, None, (4, seen(4, opened="3"))).success is True
    assert accurate(shown(metastore)) is None and shown(metastore).writeId == 4


def test_a_writer_after_one_that_failed(metastore: Within) -> None:
    """Its rows count for nobody."""
    alter(metastore, 1, COMMITTED)
    alter(metastore, 2, ABORTED)
    assert accurate(shown(metastore)) is not None and shown(metastore).writeId == 2


def test_nothing_is_merged_with_statistics_that_the_writer_does_not_see(metastore: Within) -> None:
    alter(metastore, 1, COMMITTED)
    assert put(metastore, None, (1, COMMITTED)).success is True
    assert put(metastore, None, (2, OPEN), merged=True).success is False
    assert accurate(shown(metastore)) is None and shown(metastore).writeId == 2
    assert put(metastore, PART, (1, COMMITTED)).success is True
    assert put(metastore, PART, (2, OPEN), merged=True).success is False
    part = metastore.do("get_partition", db_name="default", tbl_name="p", part_vals=["1"])
    assert accurate(part) is None and part.writeId == 2


def test_statistics_without_a_write(metastore: Within) -> None:
    alter(metastore, 1, COMMITTED)
    answer = put(metastore, None, None)
    assert answer.o3.message.startswith(b"Cannot change stats state for a transactional table default.t without")
    assert told(metastore, COMMITTED) == 0


def test_a_table_that_was_emptied_by_one_who_does_not_see_the_write_before(metastore: Within) -> None:
    alter(metastore, 1, COMMITTED)
    emptied = struct("TruncateTableRequest", dbName="default", tableName="t", writeId=2, validWriteIdList=OPEN)
    metastore.do("truncate_table_req", req=emptied)
    assert accurate(shown(metastore)) is None and shown(metastore).writeId == 2


def test_a_table_that_becomes_transactional(metastore: Within, tmp_path: Path) -> None:
    """Its statistics belong to no write."""
    sd = descriptor(**FORMATS, location=tmp_path.as_uri())
    plain = {"EXTERNAL": "TRUE", ACCURATE: BASIC}
    metastore.do("create_table", tbl=table("default", "c", sd=sd, parameters=plain))
    altered = table("default", "c", sd=sd, tableType="MANAGED_TABLE", parameters={**FULL, ACCURATE: BASIC})
    context = struct("EnvironmentContext", properties={"STATS_GENERATED": "TASK"})
    values = {"dbName": "default", "tableName": "c", "table": altered, "environmentContext": context}
    metastore.do("alter_table_req", req=struct("AlterTableRequest", **values, **ABLE))
    request = struct("GetTableRequest", dbName="default", tblName="c", **ABLE)
    found = metastore.do("get_table_req", req=request).table
    assert found.parameters[b"transactional"] == b"true" and accurate(found) is None
