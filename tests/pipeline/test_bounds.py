"""Smallest and largest values of columns in exported rows."""

from __future__ import annotations

from hms_cache_proxy.pipeline import decoded
from hms_cache_proxy.store.protocol import ColumnStatistics, StatisticsHead
from hms_cache_proxy.wire import spec
from tests.embedded.differential import struct


def test_decimals_of_38_digits_are_exact() -> None:
    digits = 12345678901234567890123456789012345678
    low, high = (struct("Decimal", unscaled=n.to_bytes(16, "big", signed=True), scale=10) for n in (-digits, digits))
    numbers = struct("DecimalColumnStatsData", lowValue=low, highValue=high, numNulls=0, numDVs=2)
    data = struct("ColumnStatisticsData", decimalStats=numbers)
    element = spec.encode(struct("ColumnStatisticsObj", colName="d", colType="decimal(38,10)", statsData=data))
    found = ColumnStatistics(StatisticsHead(b"hive", b"d", element[:1]), 1, element[1:])
    (row,) = decoded._statistics((found,))
    assert row[6:8] == ("-1234567890123456789012345678.9012345678", "1234567890123456789012345678.9012345678")
