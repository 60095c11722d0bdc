"""Statistics that a client adds to those of the rows before (`needMerge`), and decimals of 38 digits, kept exactly.

Hive 4.2 gets the same calls in test_like_hive.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from hms_cache_proxy.wire.decimals import exact
from tests.embedded.differential import struct
from tests.embedded.scripts import descriptor, field, partition, table
from tests.embedded.within import Within

TYPES = {
    "a": "bigint",
    "b": "string",
    "c": "double",
    "d": "decimal(38,10)",
    "e": "date",
    "f": "timestamp",
    "g": "boolean",
    "h": "binary",
}
"""The columns of all tables here, one of each kind of statistics."""


@pytest.fixture
def metastore(within: Within) -> Iterator[Within]:
    """With a table `t`, and `p` with two partitions, whose columns are those of TYPES."""
    sd = descriptor([field(name, kind) for name, kind in TYPES.items()])
    within.do("create_table", tbl=table("default", "t", sd=sd))
    within.do("create_table", tbl=table("default", "p", sd=sd, partitionKeys=[field("k")]))
    for value in ("1", "2"):
        within.do("add_partition", new_part=partition("default", "p", [value], sd=sd))
    yield within
    for name in ("t", "p"):
        within.do("drop_table", dbname="default", name=name, deleteData=True)


def decimal(text: str) -> Any:
    """A Decimal as Java makes it of BigDecimal(text)."""
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return struct("Decimal", unscaled=unscaled.to_bytes(size, "big", signed=True), scale=-exponent)


def day(number: int) -> Any:
    return struct("Date", daysSinceEpoch=number)


def second(number: int) -> Any:
    return struct("Timestamp", secondsSinceEpoch=number)


def longs(low: int | None, high: int | None, nulls: int, distinct: int) -> Any:
    return of("long", lowValue=low, highValue=high, numNulls=nulls, numDVs=distinct)


def of(kind: str, **fields: Any) -> Any:
    """The union with this kind of statistics."""
    data = struct(f"{kind.capitalize()}ColumnStatsData", **fields)
    return struct("ColumnStatisticsData", **{f"{kind}Stats": data})


def about(part: str | None, **columns: Any) -> Any:
    """ColumnStatistics of table `t`, or of a partition of `p`."""
    name = "t" if part is None else "p"
    place = {"isTblLevel": part is None, "dbName": "default", "tableName": name, "partName": part, "catName": "hive"}
    objects = [
        struct("ColumnStatisticsObj", colName=column, colType=TYPES[column], statsData=data)
        for column, data in columns.items()
    ]
    return struct("ColumnStatistics", statsDesc=struct("ColumnStatisticsDesc", **place), statsObj=objects)


def put(metastore: Within, *each: Any, merged: bool) -> Any:
    """What set_aggr_stats_for returns."""
    request = struct("SetPartitionsStatsRequest", colStats=list(each), needMerge=merged, engine="hive")
    return metastore.do("set_aggr_stats_for", request=request)


def of_table(metastore: Within, *columns: str) -> dict[str, Any]:
    """The union of each column of `t` that has statistics."""
    asked = struct("TableStatsRequest", dbName="default", tblName="t", colNames=list(columns or TYPES), engine="hive")
    found = metastore.do("get_table_statistics_req", request=asked).tableStats
    return {each.colName.decode(): each.statsData for each in found}


def of_part(metastore: Within, part: str) -> dict[str, Any]:
    asked = {"dbName": "default", "tblName": "p", "colNames": list(TYPES), "partNames": [part], "engine": "hive"}
    found = metastore.do("get_partitions_statistics_req", request=struct("PartitionsStatsRequest", **asked)).partStats
    return {each.colName.decode(): each.statsData for each in found.get(part.encode(), [])}


def last_event(metastore: Within) -> int:
    found: int = metastore.do("get_current_notificationEventId").eventId
    return found


BEFORE = {
    "a": longs(5, 9, 1, 4),
    "b": of("string", maxColLen=9, avgColLen=2.5, numNulls=1, numDVs=4),
    "c": of("double", lowValue=1.5, highValue=9.25, numNulls=0, numDVs=3),
    "d": of("decimal", lowValue=decimal("-1.5"), highValue=decimal("12.25"), numNulls=2, numDVs=3),
    "e": of("date", lowValue=day(5), highValue=day(7), numNulls=0, numDVs=2),
    "f": of("timestamp", lowValue=second(5), highValue=second(7), numNulls=0, numDVs=2),
    "g": of("boolean", numTrues=1, numFalses=2, numNulls=3),
    "h": of("binary", maxColLen=3, avgColLen=1.0, numNulls=2),
}
ADDED = {
    "a": longs(-3, 7, 2, 6),
    "b": of("string", maxColLen=3, avgColLen=2.75, numNulls=1, numDVs=3),
    "c": of("double", lowValue=2.5, highValue=10.5, numNulls=1, numDVs=2),
    "d": of("decimal", lowValue=decimal("-1.25"), highValue=decimal("1E+2"), numNulls=0, numDVs=9),
    "e": of("date", lowValue=day(4), highValue=day(6), numNulls=1, numDVs=2),
    "f": of("timestamp", lowValue=second(6), highValue=second(70), numNulls=1, numDVs=3),
    "g": of("boolean", numTrues=10, numFalses=20, numNulls=30),
    "h": of("binary", maxColLen=2, avgColLen=1.5, numNulls=2),
}
BOTH = {
    "a": longs(-3, 9, 3, 6),
    "b": of("string", maxColLen=9, avgColLen=2.75, numNulls=2, numDVs=4),
    "c": of("double", lowValue=1.5, highValue=10.5, numNulls=1, numDVs=3),
    "d": of("decimal", lowValue=decimal("-1.5"), highValue=decimal("1E+2"), numNulls=2, numDVs=9),
    "e": of("date", lowValue=day(4), highValue=day(7), numNulls=1, numDVs=2),
    "f": of("timestamp", lowValue=second(5), highValue=second(70), numNulls=1, numDVs=3),
    "g": of("boolean", numTrues=11, numFalses=22, numNulls=33),
    "h": of("binary", maxColLen=3, avgColLen=1.5, numNulls=4),
}


def test_a_table(metastore: Within) -> None:
    assert put(metastore, about(None, **BEFORE), merged=False) is True
    assert of_table(metastore) == BEFORE
    assert put(metastore, about(None, **ADDED), merged=True) is True
    assert of_table(metastore) == BOTH
    assert put(metastore, about(None, **ADDED), merged=False) is True
    assert of_table(metastore) == ADDED


def test_a_partition(metastore: Within) -> None:
    assert put(metastore, about("k=1", **BEFORE), about("k=2", **ADDED), merged=False) is True
    assert put(metastore, about("k=1", **ADDED), about("k=2", **BEFORE), merged=True) is False
    assert of_part(metastore, "k=1") == of_part(metastore, "k=2") == BOTH


def test_bounds_that_one_of_them_lacks(metastore: Within) -> None:
    put(metastore, about(None, a=longs(None, None, 4, 0)), merged=False)
    put(metastore, about(None, a=longs(2, 3, 0, 2)), merged=True)
    assert of_table(metastore) == {"a": longs(2, 3, 4, 2)}
    put(metastore, about(None, a=longs(None, None, 1, 0)), merged=True)
    assert of_table(metastore) == {"a": longs(2, 3, 5, 2)}


def test_only_columns_with_accurate_statistics(metastore: Within) -> None:
    """Rows of before are not in new statistics: without accurate ones of them, nothing is known of all rows."""
    before = last_event(metastore)
    assert put(metastore, about(None, a=BEFORE["a"]), merged=True) is True
    assert put(metastore, about("k=1", a=BEFORE["a"]), merged=True) is False
    assert of_table(metastore) == of_part(metastore, "k=1") == {}
    assert last_event(metastore) == before
    put(metastore, about(None, a=BEFORE["a"]), merged=False)
    put(metastore, about(None, a=ADDED["a"], b=ADDED["b"]), merged=True)
    assert of_table(metastore) == {"a": BOTH["a"]}
    assert last_event(metastore) == before + 2


def test_a_partition_that_is_named_twice(metastore: Within) -> None:
    """Both count, even where nothing is merged with what is stored."""
    put(metastore, about("k=1", a=longs(100, 100, 0, 1)), merged=False)
    assert put(metastore, about("k=1", a=BEFORE["a"]), about("k=1", a=ADDED["a"]), merged=False) is True
    assert of_part(metastore, "k=1") == {"a": BOTH["a"]}


def test_statistics_of_another_kind(metastore: Within) -> None:
    put(metastore, about(None, a=BEFORE["a"]), merged=False)
    request = struct("SetPartitionsStatsRequest", colStats=[about(None, a=BEFORE["b"])], needMerge=True, engine="hive")
    assert "Internal error" in str(metastore.ask("set_aggr_stats_for", request=request).value)
    assert of_table(metastore) == {"a": BEFORE["a"]}


@pytest.mark.parametrize("method", ["update_table_column_statistics_req", "update_partition_column_statistics_req"])
def test_a_request_for_one(metastore: Within, method: str) -> None:
    part = None if "table" in method else "k=1"
    given = about(part, a=BEFORE["a"])
    two = struct("SetPartitionsStatsRequest", colStats=[given, given], engine="hive")
    assert metastore.ask(method, req=two).value.o4.message == b"Only one stats object expected"
    merged = struct("SetPartitionsStatsRequest", colStats=[given], needMerge=True, engine="hive")
    assert metastore.ask(method, req=merged).value.o4.message == b"Merge is not supported for non-aggregate stats"
    one = struct("SetPartitionsStatsRequest", colStats=[given], engine="hive")
    assert metastore.do(method, req=one).result is True


def test_a_table_and_more(metastore: Within) -> None:
    given = about(None, a=BEFORE["a"])
    request = struct("SetPartitionsStatsRequest", colStats=[given, given], engine="hive")
    answer = metastore.ask("set_aggr_stats_for", request=request).value
    assert answer.o3.message == b"Expecting only 1 ColumnStatistics for table's column stats, but find 2"
    assert put(metastore, merged=False) is True


LONGEST = "12345678901234567890123456789012345678"
"""38 digits, the most that a decimal of Hive has."""
DECIMALS = [LONGEST, f"-{LONGEST}", f"{LONGEST[:28]}.{LONGEST[28:]}", f"-0.{LONGEST}", "1E+20", "0E-10", "-1.50"]


@pytest.mark.parametrize("text", DECIMALS)
def test_decimals_are_exact(metastore: Within, text: str) -> None:
    given = of("decimal", lowValue=decimal(text), highValue=decimal(text), numNulls=0, numDVs=1)
    put(metastore, about(None, d=given), merged=False)
    assert of_table(metastore) == {"d": given}
    assert str(exact(given.decimalStats.lowValue)) == text
